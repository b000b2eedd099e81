//===- FP8CollectiveOps.cpp -------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ops of FP8CollectiveOps.td: what they have in common, their verification
// and their adjoints.
//
//===----------------------------------------------------------------------===//

#include "VerifyUtils.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::checks;

using Kind = Collective::Kind;

//===----------------------------------------------------------------------===//
// The grid
//===----------------------------------------------------------------------===//

SmallVector<std::pair<StringRef, int64_t>> mlir::fp8::getGrid(Operation *op) {
  SmallVector<std::pair<StringRef, int64_t>> axes;
  for (Operation *module = op; module; module = module->getParentOp())
    if (auto grid = module->getAttrOfType<DictionaryAttr>(kGridAttr)) {
      for (NamedAttribute axis : grid)
        if (auto size = dyn_cast<IntegerAttr>(axis.getValue());
            size && size.getType().isSignlessInteger(64))
          axes.push_back({axis.getName().getValue(), size.getInt()});
      break;
    }
  return axes;
}

int64_t mlir::fp8::getNumRanks(Operation *op) {
  int64_t ranks = 1;
  for (auto [axis, size] : getGrid(op))
    if (llvm::MulOverflow(ranks, size, ranks))
      return std::numeric_limits<int64_t>::max();
  return ranks;
}

/// The size of `axis` in the grid around `op`; nothing where there is none.
static std::optional<int64_t> getAxisSize(Operation *op, StringRef axis) {
  for (auto [name, size] : getGrid(op))
    if (name == axis)
      return size;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// What they have in common
//===----------------------------------------------------------------------===//

int64_t Collective::getSize() const {
  return getAxisSize(result.getDefiningOp(), axis).value_or(1);
}

template <typename OpT>
static Collective describeGather(OpT op) {
  Collective collective{Kind::AllGather, op.getX(), op.getResult(),
                        op.getAxis()};
  collective.concat = op.getDim();
  return collective;
}

template <typename OpT>
static Collective describeScatter(OpT op) {
  Collective collective{Kind::ReduceScatter, op.getX(), op.getResult(),
                        op.getAxis()};
  collective.split = op.getDim();
  collective.reduce = op.getKind();
  collective.acc = op.getAcc().value_or(Type());
  return collective;
}

template <typename OpT>
static Collective describeReduce(OpT op) {
  Collective collective{Kind::AllReduce, op.getX(), op.getResult(),
                        op.getAxis()};
  collective.reduce = op.getKind();
  collective.acc = op.getAcc().value_or(Type());
  return collective;
}

template <typename OpT>
static Collective describeExchange(OpT op) {
  Collective collective{Kind::AllToAll, op.getX(), op.getResult(),
                        op.getAxis()};
  collective.split = op.getSplit();
  collective.concat = op.getConcat();
  return collective;
}

std::optional<Collective> mlir::fp8::getCollective(Operation *op) {
  if (auto gather = dyn_cast<AllGatherOp>(op))
    return describeGather(gather);
  if (auto gather = dyn_cast<AllGatherStartOp>(op))
    return describeGather(gather);
  if (auto scatter = dyn_cast<ReduceScatterOp>(op))
    return describeScatter(scatter);
  if (auto scatter = dyn_cast<ReduceScatterStartOp>(op))
    return describeScatter(scatter);
  if (auto reduce = dyn_cast<AllReduceOp>(op))
    return describeReduce(reduce);
  if (auto reduce = dyn_cast<AllReduceStartOp>(op))
    return describeReduce(reduce);
  if (auto exchange = dyn_cast<AllToAllOp>(op))
    return describeExchange(exchange);
  if (auto exchange = dyn_cast<AllToAllStartOp>(op))
    return describeExchange(exchange);
  return std::nullopt;
}

bool mlir::fp8::isCollectiveStart(Operation *op) {
  return isa<AllGatherStartOp, ReduceScatterStartOp, AllReduceStartOp,
             AllToAllStartOp>(op);
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// The size of the axis of `collective`, or nothing after an error.
static std::optional<int64_t> verifyAxis(Operation *op,
                                         const Collective &collective) {
  std::optional<int64_t> size = getAxisSize(op, collective.axis);
  if (!size)
    op->emitOpError() << "expected axis '" << collective.axis << "' in the '"
                      << kGridAttr << "' of the module, but got none there";
  return size;
}

static LogicalResult verifyDim(Operation *op, StringRef name, int64_t dim,
                               ArrayRef<int64_t> shape) {
  if (dim >= 0 && dim < int64_t(shape.size()))
    return success();
  return op->emitOpError() << "expected '" << name << "' between 0 and "
                           << int64_t(shape.size()) - 1 << ", but got " << dim;
}

/// One element type and encoding, and of a scaled dimension `dim` whole groups
/// in a part of `part` elements.
static LogicalResult verifyEncoding(Operation *op, const Collective &collective,
                                    ArrayRef<std::pair<int64_t, int64_t>> parts,
                                    StringRef part) {
  Type from = collective.x.getType(), to = collective.result.getType();
  TensorEncodingAttr encoding = getEncoding(from);
  if (getElementType(collective.x) != getElementType(collective.result) ||
      encoding != getEncoding(to))
    return op->emitOpError()
           << "expected one element type and encoding, but got " << from
           << " and " << to;
  if (!encoding || !encoding.isScaled())
    return success();
  for (auto [dim, size] : parts) {
    int64_t group = encoding.getGroup()[dim];
    if (group != 0 && size % group != 0)
      return op->emitOpError()
             << "expected a scale group in dim " << dim << " that divides the "
             << part << "'s " << size << ", but got " << group;
  }
  if (encoding.getLayout() == ScaleLayout::GemmReady)
    return op->emitOpError() << "expected compact scales, but got " << from;
  return success();
}

static LogicalResult verifyAcc(Operation *op, const Collective &collective) {
  Type acc = collective.acc;
  if (!acc ||
      (collective.reduce == ReduceKind::Sum && (acc.isF32() || acc.isBF16())))
    return success();
  return op->emitOpError() << "expected 'acc' of f32 or bf16 and only for a "
                              "sum, but got "
                           << acc << " for a "
                           << stringifyReduceKind(*collective.reduce);
}

/// `shape` times `size` along `dim`, or nothing after an error.
static std::optional<SmallVector<int64_t>>
multiplyDim(Operation *op, ArrayRef<int64_t> shape, int64_t dim, int64_t size,
            StringRef what) {
  SmallVector<int64_t> whole(shape);
  if (!llvm::MulOverflow(shape[dim], size, whole[dim]))
    return whole;
  op->emitOpError() << "expected a " << what
                    << " dimension that fits 64 bits, but got " << shape[dim]
                    << " times " << size;
  return std::nullopt;
}

static LogicalResult verifyCollective(Operation *op) {
  Collective collective = *getCollective(op);
  std::optional<int64_t> size = verifyAxis(op, collective); // (C1)
  if (!size)
    return failure();
  ArrayRef<int64_t> from = getShape(collective.x),
                    to = getShape(collective.result);
  switch (collective.kind) {
  case Kind::AllGather: {
    int64_t dim = collective.concat;
    if (failed(verifyDim(op, "dim", dim, from))) // (C2)
      return failure();
    auto whole = multiplyDim(op, from, dim, *size, "gathered");
    if (!whole || failed(verifyShape(op, "result", collective.result, *whole)))
      return failure();
    return verifyEncoding(op, collective, {{dim, from[dim]}}, // (C3), (C4)
                          "shard");
  }
  case Kind::ReduceScatter: {
    int64_t dim = collective.split;
    if (failed(verifyDim(op, "dim", dim, from))) // (C2)
      return failure();
    if (dim >= int64_t(to.size()))
      return verifyShape(op, "result", collective.result, from);
    auto whole = multiplyDim(op, to, dim, *size, "scattered");
    if (!whole || failed(verifyShape(op, "x", collective.x, *whole)) ||
        failed(verifyEncoding(op, collective, {}, ""))) // (C3)
      return failure();
    return verifyAcc(op, collective); // (C4)
  }
  case Kind::AllReduce:
    if (collective.x.getType() != collective.result.getType()) // (C2)
      return op->emitOpError() << "expected operand and result of one type, "
                                  "but got "
                               << collective.x.getType() << " and "
                               << collective.result.getType();
    return verifyAcc(op, collective); // (C3)
  case Kind::AllToAll: {
    int64_t split = collective.split, concat = collective.concat;
    if (failed(verifyDim(op, "split", split, from)) || // (C2)
        failed(verifyDim(op, "concat", concat, from)))
      return failure();
    if (from[split] % *size != 0)
      return op->emitOpError()
             << "expected dim " << split << " of the operand to be a multiple "
             << "of the " << *size << " ranks, but got " << from[split];
    SmallVector<int64_t> piece(from);
    piece[split] /= *size;
    auto whole = multiplyDim(op, piece, concat, *size, "concatenated");
    if (!whole || failed(verifyShape(op, "result", collective.result, *whole)))
      return failure();
    return verifyEncoding(op, collective, // (C3), (C4)
                          {{split, piece[split]}, {concat, piece[concat]}},
                          "piece");
  }
  }
  return success();
}

/// The start halves.
static LogicalResult verifyStart(Operation *op) {
  return failure(failed(verifyCollective(op)) || failed(verifyToken(op)));
}

LogicalResult AllGatherOp::verify() { return verifyCollective(*this); }
LogicalResult ReduceScatterOp::verify() { return verifyCollective(*this); }
LogicalResult AllReduceOp::verify() { return verifyCollective(*this); }
LogicalResult AllToAllOp::verify() { return verifyCollective(*this); }
LogicalResult AllGatherStartOp::verify() { return verifyStart(*this); }
LogicalResult ReduceScatterStartOp::verify() { return verifyStart(*this); }
LogicalResult AllReduceStartOp::verify() { return verifyStart(*this); }
LogicalResult AllToAllStartOp::verify() { return verifyStart(*this); }

LogicalResult WaitOp::verify() {
  // (C1); arguments of a region stand for what is not visible here
  Operation *data = getX().getDefiningOp(), *token = getToken().getDefiningOp();
  auto isStart = [](Operation *op) {
    return isCollectiveStart(op) || isHostCopy(op) || isa<KernelOp>(op);
  };
  if ((data && !isStart(data)) || (token && !isStart(token)) ||
      (data && token && data != token) || (bool(data) != bool(token)))
    return emitOpError()
           << "expected operand and token from one start op, but got "
           << (data ? "a result of '" + data->getName().getStringRef().str() +
                          "'"
                    : "an argument")
           << " and "
           << (token ? "a token of '" + token->getName().getStringRef().str() +
                           "'"
                     : "an argument as token");
  // (C2) is the trait AllTypesMatch.
  return success();
}

//===----------------------------------------------------------------------===//
// Adjoints
//===----------------------------------------------------------------------===//

/// The gradient of the operand of `op` from that of its result, a whole
/// collective whichever half `op` is.
static LogicalResult buildCollectiveAdjoint(Operation *op, OpBuilder &builder,
                                            ArrayRef<Value> resultGrads,
                                            MutableArrayRef<Value> grads) {
  Collective collective = *getCollective(op);
  Value dy = resultGrads[0];
  Location loc = op->getLoc();
  auto type = RankedTensorType::get(
      getShape(collective.x),
      cast<RankedTensorType>(dy.getType()).getElementType());
  if (collective.reduce && *collective.reduce != ReduceKind::Sum)
    return op->emitOpError()
           << "expected a sum where a gradient passes through, but got a "
           << stringifyReduceKind(*collective.reduce)
           << "; mark the arguments it depends on 'fp8.frozen'";
  TypeAttr acc = collective.acc ? TypeAttr::get(collective.acc) : TypeAttr();
  switch (collective.kind) {
  case Kind::AllGather:
    grads[0] =
        ReduceScatterOp::create(builder, loc, type, ReduceKind::Sum, dy,
                                collective.axis, collective.concat, TypeAttr());
    break;
  case Kind::ReduceScatter:
    grads[0] = AllGatherOp::create(builder, loc, type, dy, collective.axis,
                                   collective.split);
    break;
  case Kind::AllReduce:
    grads[0] = AllReduceOp::create(builder, loc, type, ReduceKind::Sum, dy,
                                   collective.axis, acc);
    break;
  case Kind::AllToAll:
    grads[0] = AllToAllOp::create(builder, loc, type, dy, collective.axis,
                                  collective.concat, collective.split);
    break;
  }
  return success();
}

#define FP8_COLLECTIVE_ADJOINT(OP)                                             \
  LogicalResult OP::buildAdjoint(                                              \
      OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,  \
      MutableArrayRef<Value> operandGrads) {                                   \
    return buildCollectiveAdjoint(*this, builder, resultGrads, operandGrads);  \
  }
FP8_COLLECTIVE_ADJOINT(AllGatherOp)
FP8_COLLECTIVE_ADJOINT(ReduceScatterOp)
FP8_COLLECTIVE_ADJOINT(AllReduceOp)
FP8_COLLECTIVE_ADJOINT(AllToAllOp)
FP8_COLLECTIVE_ADJOINT(AllGatherStartOp)
FP8_COLLECTIVE_ADJOINT(ReduceScatterStartOp)
FP8_COLLECTIVE_ADJOINT(AllReduceStartOp)
FP8_COLLECTIVE_ADJOINT(AllToAllStartOp)
#undef FP8_COLLECTIVE_ADJOINT

LogicalResult WaitOp::buildAdjoint(OpBuilder &builder,
                                   ArrayRef<Value> resultGrads,
                                   ArrayRef<bool> needed,
                                   MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = resultGrads[0];
  return success();
}
