//===- FP8ComputeOps.cpp ----------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verification, folding and effects of the ops of FP8ComputeOps.td.
//
//===----------------------------------------------------------------------===//

#include "VerifyUtils.h"

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::checks;

//===----------------------------------------------------------------------===//
// matmul
//===----------------------------------------------------------------------===//

LogicalResult MatmulOp::verify() {
  // (C1)
  ArrayRef<int64_t> a = getShape(getA()), b = getShape(getB());
  for (auto [name, value] : {std::pair("a", getA()), std::pair("b", getB())})
    if (getShape(value).size() != 2)
      return emitOpError() << "expected '" << name << "' of rank 2, but got "
                           << value.getType();
  if (a[1] != b[0])
    return emitOpError()
           << "expected dim 1 of 'a' and dim 0 of 'b' to be equal, but got "
           << a[1] << " and " << b[0];
  if (failed(verifyShape(*this, "result", getResult(), {a[0], b[1]})))
    return failure();
  // (C2) to (C4)
  if (failed(verifyScales(*this, getA(), getScaleA(), getB(), getScaleB())))
    return failure();
  // (C5)
  if (getAcc() &&
      failed(verifyShape(*this, "acc", getAcc(), getShape(getResult()))))
    return failure();
  // (C6)
  if (failed(verifySameScales(*this, getA(), getScaleA(), getB(), getScaleB())))
    return failure();
  // (C7)
  if (getFastAccum() && getScaleA() &&
      getEncoding(getA().getType()).getGroup()[1] == 128)
    return emitOpError()
           << "expected no 'fast_accum' with block scales, but got it";
  return success();
}

//===----------------------------------------------------------------------===//
// reduce and broadcast
//===----------------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  // (C1)
  ArrayRef<int64_t> axes = getAxes();
  SmallVector<int64_t> shape(getShape(getX()));
  int64_t rank = shape.size(), last = -1;
  bool good = !axes.empty();
  for (int64_t axis : axes) {
    good = good && axis > last && axis < rank;
    last = axis;
  }
  if (!good)
    return emitOpError() << "expected 'axes' in ascending order, at least one, "
                            "each between 0 and "
                         << rank - 1 << ", but got " << formatList(axes);
  // (C2); (C3) is the type of the result.
  for (int64_t axis : axes)
    shape[axis] = 1;
  return verifyShape(*this, "result", getResult(), shape);
}

LogicalResult BroadcastOp::verify() {
  // (C1)
  ArrayRef<int64_t> from = getShape(getX()), to = getShape(getResult());
  if (from.size() != to.size() ||
      getElementType(getX()) != getElementType(getResult()))
    return emitOpError() << "expected one rank and element type, but got "
                         << getX().getType() << " and "
                         << getResult().getType();
  // (C2)
  for (auto [dim, sizes] : llvm::enumerate(llvm::zip_equal(from, to)))
    if (auto [before, after] = sizes; before != 1 && before != after)
      return emitOpError() << "expected dimension " << dim
                           << " of 'x' to be 1 or " << after << ", but got "
                           << before;
  return success();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getResult().getType())
    return getX();
  auto before = getX().getDefiningOp<BroadcastOp>();
  if (!before)
    return {};
  getXMutable().assign(before.getX());
  return getResult();
}

//===----------------------------------------------------------------------===//
// random
//===----------------------------------------------------------------------===//

SmallVector<int64_t> RandomOp::getShardedDims() {
  SmallVector<int64_t> dims;
  if (ArrayAttr shard = getShardAttr())
    for (auto [dim, axis] : llvm::enumerate(shard.getAsRange<StringAttr>()))
      if (!axis.empty())
        dims.push_back(dim);
  return dims;
}

SmallVector<int64_t> RandomOp::getWholeStrides() {
  SmallVector<int64_t> whole(getShape(getResult()));
  auto grid = getGrid(*this);
  for (int64_t dim : getShardedDims())
    for (auto [axis, size] : grid)
      if (axis == cast<StringAttr>(getShardAttr()[dim]))
        whole[dim] *= size;
  SmallVector<int64_t> strides(whole.size(), 1);
  for (size_t dim = whole.size(); dim > 1; --dim)
    strides[dim - 2] = strides[dim - 1] * whole[dim - 1];
  return strides;
}

LogicalResult RandomOp::verify() {
  // (C1)
  SmallVector<int64_t> ones(getShape(getResult()).size(), 1);
  for (auto [number, value] : llvm::enumerate(getOperands()))
    if (getShape(value) != ArrayRef(ones))
      return emitOpError() << "expected operand " << number
                           << " to have one element and " << ones.size()
                           << " dimensions, but got " << value.getType();
  // (C2)
  SmallVector<StringAttr> axes;
  if (ArrayAttr shard = getShardAttr()) {
    if (shard.size() != ones.size())
      return emitOpError() << "expected one axis or \"\" for each of "
                           << ones.size() << " dimensions, but got " << shard;
    auto grid = getGrid(*this);
    for (Attribute entry : shard) {
      auto axis = dyn_cast<StringAttr>(entry);
      if (axis && axis.empty())
        continue;
      auto known = [&](auto &size) { return size.first == axis; };
      if (!axis || llvm::none_of(grid, known))
        return emitOpError()
               << "expected the axes of 'shard' in the '" << kGridAttr
               << "' of the module, but got " << entry;
      if (llvm::is_contained(axes, axis))
        return emitOpError()
               << "expected each axis once in 'shard', but got " << shard;
      axes.push_back(axis);
    }
  }
  // (C3)
  if (getCoordinates().size() != axes.size())
    return emitOpError() << "expected a coordinate for each of " << axes.size()
                         << " axes of 'shard', but got "
                         << getCoordinates().size();
  for (auto [value, axis] : llvm::zip_equal(getCoordinates(), axes)) {
    auto argument = dyn_cast<BlockArgument>(getRoot(value));
    auto function =
        argument
            ? dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp())
            : FunctionOpInterface();
    if (function &&
        function.getArgAttr(argument.getArgNumber(), kCoordinateAttr) != axis)
      return emitOpError() << "expected the coordinate along " << axis
                           << " to be marked '" << kCoordinateAttr
                           << "' = " << axis << ", but argument "
                           << argument.getArgNumber() << " is not";
  }
  // (C4)
  if (int64_t stream = getStream(); stream < 0 || stream > UINT32_MAX)
    return emitOpError() << "expected 'stream' to be an unsigned number of 32 "
                            "bits, but got "
                         << stream;
  return success();
}

//===----------------------------------------------------------------------===//
// opaque
//===----------------------------------------------------------------------===//

/// The value of an integer attribute that lies in [0, end); nothing for any
/// other attribute.
static std::optional<int64_t> getIndex(Attribute attribute, int64_t end) {
  auto integer = dyn_cast_or_null<IntegerAttr>(attribute);
  if (!integer || integer.getValue().getSignificantBits() > 64)
    return std::nullopt;
  int64_t value = integer.getValue().getSExtValue();
  return value >= 0 && value < end ? std::optional(value) : std::nullopt;
}

static LogicalResult verifyAliases(OpaqueOp op) {
  ArrayAttr aliases = op.getAliasesAttr();
  if (!aliases)
    return success();
  for (Attribute entry : aliases) {
    auto pair = dyn_cast<ArrayAttr>(entry);
    std::optional<int64_t> result, operand;
    if (pair && pair.size() == 2) {
      result = getIndex(pair[0], op.getNumResults());
      operand = getIndex(pair[1], op.getInputs().size());
    }
    if (!result || !operand)
      return op.emitOpError() << "expected 'aliases' to hold pairs [result, "
                                 "operand] of indices below "
                              << op.getNumResults() << " and "
                              << op.getInputs().size() << ", but got " << entry;
    Type to = op.getResult(*result).getType(),
         from = op.getInputs()[*operand].getType();
    if (getByteSize(to) != getByteSize(from))
      return op.emitOpError() << "expected aliases of equal size, but got "
                              << to << " and " << from;
  }
  return success();
}

static LogicalResult verifyAdjoint(OpaqueOp op) {
  DictionaryAttr adjoint = op.getAdjointAttr();
  if (!adjoint)
    return success();
  auto name = adjoint.getAs<StringAttr>("name");
  if (!name || name.empty())
    return op.emitOpError()
           << "expected 'adjoint' with a non-empty 'name', but got " << adjoint;
  for (NamedAttribute entry : adjoint) {
    StringRef key = entry.getName().getValue();
    if (key == "name")
      continue;
    if (key == "operands" || key == "results") {
      int64_t end =
          key == "operands" ? op.getInputs().size() : op.getNumResults();
      auto indices = dyn_cast<ArrayAttr>(entry.getValue());
      if (!indices || !llvm::all_of(indices, [&](Attribute index) {
            return getIndex(index, end).has_value();
          }))
        return op.emitOpError()
               << "expected '" << key << "' of 'adjoint' to be indices below "
               << end << ", but got " << entry.getValue();
      continue;
    }
    if (key != "scratch_bytes" && key != "flops" && key != "bytes")
      return op.emitOpError() << "expected 'name', 'operands', 'results', "
                                 "'scratch_bytes', 'flops' or 'bytes' in "
                                 "'adjoint', but got '"
                              << key << "'";
    if (!getIndex(entry.getValue(), std::numeric_limits<int64_t>::max()))
      return op.emitOpError() << "expected '" << key
                              << "' of 'adjoint' not to be negative, but got "
                              << entry.getValue();
  }
  return success();
}

LogicalResult OpaqueOp::verify() {
  // (C1)
  if (getName().empty())
    return emitOpError() << "expected a name that is not empty, but got \"\"";
  for (auto [name, value] :
       {std::pair("scratch_bytes", getScratchBytes()),
        std::pair("flops", getFlops()), std::pair("bytes", getBytes())})
    if (static_cast<int64_t>(value) < 0)
      return emitOpError() << "expected '" << name
                           << "' not to be negative, but got "
                           << static_cast<int64_t>(value);
  // (C2)
  if (failed(verifyAliases(*this)))
    return failure();
  // (C3)
  if (failed(verifyAdjoint(*this)))
    return failure();
  // (C4)
  StringRef recompute = getRecompute();
  if (recompute != "yes" && recompute != "never")
    return emitOpError()
           << "expected 'recompute' to be \"yes\" or \"never\", but got \""
           << recompute << "\"";
  if (getStateful() && recompute != "never")
    return emitOpError() << "expected 'recompute' to be \"never\" beside "
                            "'stateful', but got \""
                         << recompute << "\"";
  return success();
}

void OpaqueOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (!getStateful())
    return;
  // What it touches is not known, so it keeps its place among everything that
  // reads or writes.
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
}
