//===- FP8Dialect.cpp - the fp8 dialect ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registration, the dialect-wide attribute verifiers, and the helpers of FP8.h.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8;

#include "fp8/Dialect/FP8/IR/FP8Dialect.cpp.inc"
#include "fp8/Dialect/FP8/IR/FP8Enums.cpp.inc"

void FP8Dialect::initialize() {
  registerAttributes();
  registerTypes();
  registerOps();
}

Operation *FP8Dialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

LogicalResult FP8Dialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) { return success(); }

LogicalResult FP8Dialect::verifyRegionArgAttribute(Operation *op, unsigned region, unsigned arg,
                                                   NamedAttribute attribute) {
  return success();
}

LogicalResult FP8Dialect::verifyRegionResultAttribute(Operation *op, unsigned region, unsigned result,
                                                      NamedAttribute attribute) {
  return success();
}

SmallVector<int64_t> mlir::fp8::getScaleShape(ArrayRef<int64_t> shape, ArrayRef<int64_t> group) {
  SmallVector<int64_t> result;
  for (auto [dim, size] : llvm::zip_equal(shape, group))
    result.push_back(size == 0 ? 1 : llvm::divideCeil(dim, size));
  return result;
}

TensorEncodingAttr mlir::fp8::getEncoding(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<TensorEncodingAttr>(tensor.getEncoding()) : TensorEncodingAttr();
}

int64_t mlir::fp8::getByteSize(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return 0;
  TensorEncodingAttr encoding = getEncoding(type);
  int64_t elements = 1;
  for (auto [index, dim] : llvm::enumerate(tensor.getShape())) {
    int64_t cap = encoding && index < encoding.getBounds().size() ? encoding.getBounds()[index] : -1;
    elements *= cap > 0 ? cap : dim;
  }
  return elements * llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
}

bool mlir::fp8::isView(Operation *op) {
  return isa<PermuteOp, SliceOp, ReshapeOp, BitcastOp, WaitOp, RematBarrierOp>(op);
}

Value mlir::fp8::getRoot(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isView(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}
