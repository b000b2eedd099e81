//===- FP8GroupedOps.cpp - products of groups of rows -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verification and adjoints of the ops of FP8GroupedOps.td.
//
//===----------------------------------------------------------------------===//

#include "VerifyUtils.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::checks;

static LogicalResult verifyRank(Operation *op, StringRef name, Value value,
                                size_t rank) {
  if (getShape(value).size() == rank)
    return success();
  return op->emitOpError() << "expected '" << name << "' of rank " << rank
                           << ", but got " << value.getType();
}

/// Checks that `offsets` are those of `groups` groups, or of any number where
/// `groups` is 0.
static LogicalResult verifyOffsets(Operation *op, Value offsets,
                                   int64_t groups) {
  ArrayRef<int64_t> shape = getShape(offsets);
  if (shape.size() == 1 && shape[0] >= 2 && (!groups || shape[0] == groups + 1))
    return success();
  InFlightDiagnostic diagnostic =
      op->emitOpError()
      << "expected 'offsets' of rank 1 with the beginnings of ";
  if (groups)
    diagnostic << groups << " groups";
  else
    diagnostic << "all groups";
  return diagnostic << " and the end of the last one, but got "
                    << offsets.getType();
}

static LogicalResult verifyDims(Operation *op, StringRef firstName,
                                int64_t firstDim, int64_t first,
                                StringRef secondName, int64_t secondDim,
                                int64_t second) {
  if (first == second)
    return success();
  return op->emitOpError() << "expected dim " << firstDim << " of '"
                           << firstName << "' and dim " << secondDim << " of '"
                           << secondName << "' to be equal, but got " << first
                           << " and " << second;
}

static LogicalResult verifyBalanced(Operation *op,
                                    std::optional<int64_t> balanced,
                                    int64_t capacity) {
  if (!balanced || (*balanced >= 1 && *balanced <= capacity))
    return success();
  return op->emitOpError() << "expected 'balanced' between 1 and the capacity "
                              "of "
                           << capacity << " rows, but got " << *balanced;
}

//===----------------------------------------------------------------------===//
// grouped_matmul
//===----------------------------------------------------------------------===//

bool GroupedMatmulOp::isSumGrouped() { return getShape(getB()).size() == 2; }

int64_t GroupedMatmulOp::getNumGroups() {
  return getShape(getOffsets())[0] - 1;
}

int64_t GroupedMatmulOp::getCapacity() {
  return getShape(getA())[isSumGrouped() ? 1 : 0];
}

LogicalResult GroupedMatmulOp::verify() {
  // (C1)
  if (failed(verifyRank(*this, "a", getA(), 2)))
    return failure();
  ArrayRef<int64_t> a = getShape(getA()), b = getShape(getB());
  if (b.size() != 2 && b.size() != 3)
    return emitOpError() << "expected 'b' of rank 3 or 2, but got "
                         << getB().getType();
  if (failed(verifyOffsets(*this, getOffsets(), b.size() == 3 ? b[0] : 0)))
    return failure();
  int64_t kDim = b.size() - 2;
  if (failed(verifyDims(*this, "a", 1, a[1], "b", kDim, b[kDim])))
    return failure();
  SmallVector<int64_t> shape = {a[0], b.back()};
  if (isSumGrouped())
    shape.insert(shape.begin(), getNumGroups());
  if (failed(verifyShape(*this, "result", getResult(), shape)))
    return failure();
  // (C2) to (C4)
  if (failed(verifyScales(*this, getA(), getScaleA(), getB(), getScaleB())))
    return failure();
  int64_t align = getAlign();
  if (getScaleA()) {
    ArrayRef<int64_t> groupA = getEncoding(getA().getType()).getGroup(),
                      groupB = getEncoding(getB().getType()).getGroup();
    if (!isSumGrouped() && groupB[0] != 1 &&
        llvm::any_of(groupB, [](int64_t size) { return size != 0; }))
      return emitOpError() << "expected scales of one matrix of 'b' each, or "
                              "one for all, but got "
                           << getEncoding(getB().getType());
    // Of the capacity's rows.
    int64_t rows = isSumGrouped() ? std::max(groupA[1], groupB[0]) : groupA[0];
    if (rows > 1 && align % rows != 0)
      return emitOpError() << "expected 'align' to be a multiple of " << rows
                           << ", the rows that share a scale, but got "
                           << align;
  }
  // (C5)
  if (align < 1)
    return emitOpError() << "expected 'align' of at least 1, but got " << align;
  if (failed(verifyBalanced(*this, getBalanced(), getCapacity())))
    return failure();
  // (C6)
  return verifySameScales(*this, getA(), getScaleA(), getB(), getScaleB());
}

/// `value` with the last two dimensions exchanged, as a view.
static Value transposed(OpBuilder &builder, Location loc, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> perm =
      llvm::to_vector(llvm::seq<int64_t>(type.getRank()));
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  return PermuteOp::create(builder, loc, exchangeDimensions(type), value, perm);
}

/// Rows grouped: da = dy * b[g]^T, db[g] = a^T * dy over the rows of g. The sum
/// grouped: da^T = b * dy[g]^T, db = a^T * dy[g].
LogicalResult
GroupedMatmulOp::buildAdjoint(OpBuilder &builder, ArrayRef<Value> resultGrads,
                              ArrayRef<bool> needed,
                              MutableArrayRef<Value> operandGrads) {
  if (!needed[0] && !needed[1])
    return success();
  Location loc = getLoc();
  auto aType = cast<RankedTensorType>(getA().getType()),
       bType = cast<RankedTensorType>(getB().getType());
  Type element = aType.getElementType();
  if (!element.isF32() && !element.isBF16())
    return emitOpError()
           << "expected bf16 or f32 operands where a gradient passes through, "
              "but got "
           << element
           << "; write the product as 'fp8.grouped_linear' with a recipe";
  Value dy = resultGrads[0];
  auto dyType = cast<RankedTensorType>(dy.getType());
  if (dyType.getElementType() != element) {
    Type type = dyType.clone(element);
    dy = element.isF32()
             ? arith::ExtFOp::create(builder, loc, type, dy).getResult()
             : arith::TruncFOp::create(builder, loc, type, dy).getResult();
  }
  auto product = [&](RankedTensorType type, Value a, Value b) -> Value {
    return GroupedMatmulOp::create(builder, loc, type, a, b, getOffsets(),
                                   Value(), Value(), getAlignAttr(),
                                   getBalancedAttr());
  };
  auto t = [&](Value value) { return transposed(builder, loc, value); };
  if (needed[0])
    operandGrads[0] = isSumGrouped()
                          ? t(product(exchangeDimensions(aType), getB(), t(dy)))
                          : product(aType, dy, t(getB()));
  if (needed[1])
    operandGrads[1] = product(bType, t(getA()), dy);
  return success();
}

//===----------------------------------------------------------------------===//
// Linears
//===----------------------------------------------------------------------===//

/// Checks the recipe and `balanced` of a linear of groups or of one of its
/// gradients.
template <typename OpT>
static LogicalResult verifyLinear(OpT op, int64_t capacity) {
  // (C3)
  if (op.getRecipe().getKind() == RecipeKind::Delayed)
    return op.emitOpError()
           << "expected a recipe that is not 'delayed', which groups have no "
              "histories for, but got "
           << op.getRecipe();
  // (C4)
  return verifyBalanced(op, op.getBalanced(), capacity);
}

LogicalResult GroupedLinearOp::verify() {
  // (C1)
  if (failed(verifyRank(*this, "x", getX(), 2)) ||
      failed(verifyRank(*this, "w", getW(), 3)))
    return failure();
  ArrayRef<int64_t> x = getShape(getX()), w = getShape(getW());
  // (C2)
  if (failed(verifyOffsets(*this, getOffsets(), w[0])) ||
      failed(verifyDims(*this, "x", 1, x[1], "w", 2, w[2])) ||
      failed(verifyShape(*this, "result", getResult(), {x[0], w[1]})))
    return failure();
  return verifyLinear(*this, x[0]);
}

LogicalResult GroupedLinearDgradOp::verify() {
  // (C1)
  if (failed(verifyRank(*this, "dy", getDy(), 2)) ||
      failed(verifyRank(*this, "w", getW(), 3)))
    return failure();
  ArrayRef<int64_t> dy = getShape(getDy()), w = getShape(getW());
  // (C2)
  if (failed(verifyOffsets(*this, getOffsets(), w[0])) ||
      failed(verifyDims(*this, "dy", 1, dy[1], "w", 1, w[1])) ||
      failed(verifyShape(*this, "result", getResult(), {dy[0], w[2]})))
    return failure();
  return verifyLinear(*this, dy[0]);
}

LogicalResult GroupedLinearWgradOp::verify() {
  // (C1)
  if (failed(verifyRank(*this, "dy", getDy(), 2)) ||
      failed(verifyRank(*this, "x", getX(), 2)) ||
      failed(verifyOffsets(*this, getOffsets(), 0)))
    return failure();
  ArrayRef<int64_t> dy = getShape(getDy()), x = getShape(getX());
  int64_t groups = getShape(getOffsets())[0] - 1;
  // (C2)
  if (failed(verifyDims(*this, "dy", 0, dy[0], "x", 0, x[0])) ||
      failed(verifyShape(*this, "result", getResult(), {groups, dy[1], x[1]})))
    return failure();
  return verifyLinear(*this, dy[0]);
}

LogicalResult
GroupedLinearOp::buildAdjoint(OpBuilder &builder, ArrayRef<Value> resultGrads,
                              ArrayRef<bool> needed,
                              MutableArrayRef<Value> operandGrads) {
  Value dy = resultGrads[0];
  if (needed[0])
    operandGrads[0] = GroupedLinearDgradOp::create(
        builder, getLoc(), getX().getType(), dy, getW(), getOffsets(),
        getRecipe(), getBalancedAttr());
  if (needed[1])
    operandGrads[1] = GroupedLinearWgradOp::create(
        builder, getLoc(), getW().getType(), dy, getX(), getOffsets(),
        getRecipe(), getBalancedAttr());
  return success();
}
