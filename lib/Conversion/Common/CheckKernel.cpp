//===- CheckKernel.cpp - what the lowerings accept --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything is checked before code is emitted, so that emission cannot fail
// on an op it does not know.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/KernelFunction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::fp8;

static bool isFloat(Type element) {
  return element.isBF16() || element.isF32();
}

static bool isF8(Type element) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(element);
}

/// Element types that may lie in memory.
static bool isStored(Type element) {
  return isFloat(element) || isF8(element) || isa<E5M6Type>(element) ||
         element.isInteger(1) || element.isInteger(8) ||
         element.isInteger(16) || element.isInteger(32);
}

/// The element type of a static tensor, or null.
static Type elementOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() ? tensor.getElementType() : Type();
}

static LogicalResult checkStored(Operation *at, Type type, StringRef what,
                                 StringRef target) {
  Type element = elementOf(type);
  if (element && isStored(element))
    return success();
  return at->emitError() << "expected " << what
                         << " to be a static tensor of bf16, f32, an f8 type, "
                            "!fp8.e5m6, i1, i8, i16 or i32 on the "
                         << target << ", but got " << type;
}

/// Operands and results must be bf16 or f32, but for the condition of a select
/// and the result of a comparison, which are i1.
static LogicalResult checkElementwise(Operation *op, StringRef target) {
  for (auto [index, type] : llvm::enumerate(op->getOperandTypes())) {
    Type element = elementOf(type);
    bool condition = isa<arith::SelectOp>(op) && index == 0;
    if (!element || (condition ? !element.isInteger(1) : !isFloat(element)))
      return op->emitError()
             << "expected operand " << index << " of '" << op->getName()
             << "' to be a tensor of " << (condition ? "i1" : "bf16 or f32")
             << " on the " << target << ", but got " << type;
  }
  Type result = elementOf(op->getResult(0).getType());
  bool comparison = isa<arith::CmpFOp>(op);
  if (!result || (comparison ? !result.isInteger(1) : !isFloat(result)))
    return op->emitError() << "expected the result of '" << op->getName()
                           << "' to be a tensor of "
                           << (comparison ? "i1" : "bf16 or f32") << " on the "
                           << target << ", but got "
                           << op->getResult(0).getType();
  return success();
}

static LogicalResult checkLoopOp(Operation *op, StringRef target) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    Type element = elementOf(constant.getType());
    if (isa<SplatElementsAttr>(constant.getValue()) && element &&
        (isFloat(element) || isa<IntegerType>(element)))
      return success();
    return op->emitError() << "expected a constant in a kernel to be a tensor "
                              "of one repeated bf16, f32 or integer value, "
                              "but got "
                           << constant.getType();
  }
  if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
          arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp, arith::CmpFOp,
          arith::SelectOp, arith::ExtFOp, arith::TruncFOp, math::AbsFOp,
          math::ExpOp, math::LogOp, math::SqrtOp, math::RsqrtOp, math::TanhOp,
          math::ErfOp>(op))
    return checkElementwise(op, target);
  if (isa<AmaxOp, ScaleOp, CastOp, DequantizeOp, ReduceOp, BroadcastOp,
          PermuteOp, TransposeOp, SliceOp, ReshapeOp, BitcastOp, PadOp,
          UpdateSliceOp, RandomOp>(op)) {
    for (Type type : op->getOperandTypes())
      if (failed(checkStored(op, type, "an operand", target)))
        return failure();
    if (auto encoding = getEncoding(op->getResult(0).getType()))
      if (isa<CastOp>(op) && !encoding.isScaled())
        return op->emitError() << "expected a cast to a scaled type, but got "
                               << op->getResult(0).getType();
    return success();
  }
  return op->emitError() << "'" << op->getName()
                         << "' cannot be lowered to the " << target
                         << " in a loop kernel";
}

static LogicalResult checkStateOp(Operation *op) {
  if (isa<PermuteOp, ReshapeOp, BitcastOp>(op))
    return success();
  if (!isa<PushAmaxOp, UpdateScaleOp>(op))
    return op->emitError()
           << "expected 'fp8.push_amax', 'fp8.update_scale' or a view in a "
              "state kernel, but got '"
           << op->getName() << "'";
  for (Value operand : op->getOperands())
    if (!isa<BlockArgument>(getRoot(operand)))
      return op->emitError()
             << "expected an operand in a state kernel to be an operand of the "
                "kernel, or a view of one";
  return success();
}

LogicalResult mlir::fp8::checkKernel(KernelOp kernel, StringRef target) {
  for (Type type : kernel->getOperandTypes())
    if (failed(checkStored(kernel, type, "a kernel's operand", target)))
      return failure();
  for (Type type : kernel->getResultTypes())
    if (failed(checkStored(kernel, type, "a kernel's result", target)))
      return failure();
  bool state = kernel.getKind() == KernelKind::State;
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (failed(state ? checkStateOp(&op) : checkLoopOp(&op, target)))
      return failure();
  return success();
}
