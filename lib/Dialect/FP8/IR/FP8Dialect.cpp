//===- FP8Dialect.cpp - the fp8 dialect -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registration, and the helpers of FP8.h. The verifiers of discardable
// attributes stand in FP8DialectAttrs.cpp.
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

Operation *FP8Dialect::materializeConstant(OpBuilder &builder, Attribute value,
                                           Type type, Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

SmallVector<int64_t> mlir::fp8::getScaleShape(ArrayRef<int64_t> shape,
                                              ArrayRef<int64_t> group) {
  SmallVector<int64_t> result;
  for (auto [dim, size] : llvm::zip_equal(shape, group))
    result.push_back(size == 0 ? 1 : llvm::divideCeil(dim, size));
  return result;
}

TensorEncodingAttr mlir::fp8::getEncoding(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<TensorEncodingAttr>(tensor.getEncoding())
                : TensorEncodingAttr();
}

int64_t mlir::fp8::getElementBits(Type type) {
  if (isa<E5M6Type>(type))
    return 12;
  if (type.isIntOrFloat())
    return type.getIntOrFloatBitWidth();
  if (auto complexType = dyn_cast<ComplexType>(type))
    return 2 * getElementBits(complexType.getElementType());
  return type.isIndex() ? IndexType::kInternalStorageBitWidth : 0;
}

int64_t mlir::fp8::getByteSize(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return 0;
  TensorEncodingAttr encoding = getEncoding(type);
  ArrayRef<int64_t> bounds =
      encoding ? encoding.getBounds() : ArrayRef<int64_t>();
  SmallVector<int64_t> dims;
  for (auto [index, dim] : llvm::enumerate(tensor.getShape())) {
    int64_t cap =
        index < bounds.size() && bounds[index] > 0 ? bounds[index] : dim;
    if (cap <= 0)
      return 0;
    dims.push_back(cap);
  }
  int64_t bits = getElementBits(tensor.getElementType());
  bool isPacked = isa<E5M6Type>(tensor.getElementType());
  // Of what is packed the last dimension is even: two elements at a time.
  int64_t bytes = llvm::divideCeil(isPacked ? 2 * bits : bits, 8);
  if (isPacked && !dims.empty())
    dims.back() = llvm::divideCeil(dims.back(), 2);
  for (int64_t dim : dims) {
    if (bytes > kMaxTensorBytes / dim)
      return kMaxTensorBytes + 1;
    bytes *= dim;
  }
  return bytes;
}

LogicalResult
mlir::fp8::verifyTensorType(Type type,
                            function_ref<InFlightDiagnostic()> emitError) {
  if (!isa<TensorType>(type))
    return success();
  auto tensor = dyn_cast<RankedTensorType>(type);
  // (C1)
  if (!tensor || !tensor.hasStaticShape())
    return emitError() << "expected a tensor of static shape, but got " << type;
  if (llvm::is_contained(tensor.getShape(), 0))
    return emitError() << "expected dimensions of at least 1, but got " << type;
  // (C2)
  if (getByteSize(type) > kMaxTensorBytes)
    return emitError() << "expected a tensor of at most " << kMaxTensorBytes
                       << " bytes, but got " << type;
  // (C3)
  if (!tensor.getEncoding())
    return success();
  auto encoding = dyn_cast<TensorEncodingAttr>(tensor.getEncoding());
  if (!encoding)
    return emitError()
           << "expected '#fp8.tensor' as the encoding of a tensor, but got "
           << tensor.getEncoding();
  // Again, since the bytecode reader builds types without asking.
  return encoding.verifyEncoding(tensor.getShape(), tensor.getElementType(),
                                 emitError);
}

LogicalResult mlir::fp8::verifyTensorsFit(Operation *op) {
  auto verifyType = [&](Type type) {
    return verifyTensorType(type, [&] { return op->emitOpError(); });
  };
  for (Type type : op->getOperandTypes())
    if (failed(verifyType(type)))
      return failure();
  for (Type type : op->getResultTypes())
    if (failed(verifyType(type)))
      return failure();
  return success();
}

bool mlir::fp8::isView(Operation *op) {
  return isa<PermuteOp, SliceOp, ReshapeOp, BitcastOp, WaitOp, RematBarrierOp>(
      op);
}

RankedTensorType mlir::fp8::exchangeDimensions(RankedTensorType type) {
  auto exchanged = [](ArrayRef<int64_t> entries) {
    SmallVector<int64_t> result(entries);
    if (size_t rank = result.size())
      std::swap(result[rank - 2], result[rank - 1]);
    return result;
  };
  Attribute encoding;
  if (TensorEncodingAttr old = getEncoding(type))
    encoding = TensorEncodingAttr::get(
        type.getContext(), exchanged(old.getGroup()), old.getPow2(),
        old.getLayout(), exchanged(old.getBounds()));
  return RankedTensorType::get(exchanged(type.getShape()),
                               type.getElementType(), encoding);
}

Value mlir::fp8::getAliasedOperand(OpResult result) {
  Operation *op = result.getOwner();
  if (isView(op))
    return op->getOperand(0);
  if (auto update = dyn_cast<UpdateSliceOp>(op))
    return update.getDest();
  if (auto opaque = dyn_cast<OpaqueOp>(op)) {
    ArrayAttr pairs = opaque.getAliasesAttr();
    for (Attribute pair : pairs ? pairs.getValue() : ArrayRef<Attribute>()) {
      auto indices = cast<ArrayAttr>(pair);
      if (cast<IntegerAttr>(indices[0]).getInt() == result.getResultNumber())
        return opaque.getInputs()[cast<IntegerAttr>(indices[1]).getInt()];
    }
  }
  if (auto kernel = dyn_cast<KernelOp>(op)) {
    // A kernel writes its results, but what a wait or an opaque op in it hands
    // through stays where it is, and so does what gets a piece.
    Value value = cast<YieldOp>(kernel.getBody().front().getTerminator())
                      .getValues()[result.getResultNumber()];
    bool handsThrough = false;
    while (auto inner = dyn_cast<OpResult>(value)) {
      handsThrough |= isa<WaitOp, OpaqueOp, UpdateSliceOp>(inner.getOwner());
      value = getAliasedOperand(inner);
      if (!value)
        return Value();
    }
    if (handsThrough)
      return kernel.getInputs()[cast<BlockArgument>(value).getArgNumber()];
  }
  return Value();
}

Value mlir::fp8::getStored(Value yielded) {
  auto update = yielded.getDefiningOp<UpdateSliceOp>();
  return update ? Value(update.getPiece()) : yielded;
}

bool mlir::fp8::isUpdated(OpOperand &use) {
  auto update = dyn_cast<UpdateSliceOp>(use.getOwner());
  return update && use.getOperandNumber() != 0;
}

Value mlir::fp8::getRoot(Value value) {
  while (auto result = dyn_cast<OpResult>(value)) {
    Value operand = getAliasedOperand(result);
    if (!operand)
      break;
    value = operand;
  }
  return value;
}
