//===- GenericVectors.cpp - where a generic thread takes vectors *- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A mirror of Evaluator: whether it computes kLanes neighbours of a value at
// once, from memory where they are neighbours too, at aligned places.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Evaluator.h"
#include "fp8/Conversion/FP8ToCUDA/Emit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fp8;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

bool VectorReads::find(Value value, int64_t dim) {
  if (shapeOf(value)[dim] == 1)
    return true; // all lanes read the same element
  auto [it, isNew] =
      known.try_emplace({value.getAsOpaquePointer(), dim}, false);
  if (isNew) {
    bool found = compute(value, dim);
    known[{value.getAsOpaquePointer(), dim}] = found;
    return found;
  }
  return it->second;
}

/// Whether the scales of a cast are the same for a vector, or follow each
/// other.
bool VectorReads::findScale(Value scale, ArrayRef<int64_t> group, int64_t dim) {
  if (group[dim] == 1)
    return find(scale, dim);
  return group[dim] % kLanes == 0;
}

bool VectorReads::compute(Value value, int64_t dim) {
  ArrayRef<int64_t> shape = shapeOf(value);
  bool isNext = dim == lastDimension(shape) && shape[dim] % kLanes == 0;
  Operation *op = value.getDefiningOp();
  if (!op || stored(value))
    return isNext &&
           !isa<E5M6Type>(
               cast<RankedTensorType>(value.getType()).getElementType());
  if (isa<arith::ConstantOp>(op))
    return true;
  if (auto cast = dyn_cast<CastOp>(op))
    return find(cast.getX(), dim) &&
           findScale(cast.getScale(), getEncoding(cast.getType()).getGroup(),
                     dim);
  if (auto dequantize = dyn_cast<DequantizeOp>(op))
    return find(dequantize.getQ(), dim) &&
           findScale(dequantize.getScale(),
                     getEncoding(dequantize.getQ().getType()).getGroup(), dim);
  if (auto permute = dyn_cast<PermuteOp>(op))
    return find(permute.getX(), permute.getPerm()[dim]);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return find(transpose.getX(), transpose.getPerm()[dim]);
  if (auto slice = dyn_cast<SliceOp>(op))
    return slice.getOffsets()[dim] % kLanes == 0 && find(slice.getX(), dim);
  if (auto pad = dyn_cast<PadOp>(op)) {
    int64_t size = shapeOf(pad.getX())[dim];
    bool whole = size == shape[dim] ||
                 (size % kLanes == 0 && pad.getOffsets()[dim] % kLanes == 0);
    return whole && find(pad.getX(), dim);
  }
  if (isa<ReshapeOp>(op)) {
    Value x = op->getOperand(0);
    int64_t last = lastDimension(shapeOf(x));
    return isNext && shapeOf(x)[last] % kLanes == 0 && find(x, last);
  }
  if (isa<RandomOp>(op) || (isReduction(op) && !isSmallReduction(op)))
    return false;
  return llvm::all_of(op->getOperands(),
                      [&](Value operand) { return find(operand, dim); });
}
