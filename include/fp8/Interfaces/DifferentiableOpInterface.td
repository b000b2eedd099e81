//===- DifferentiableOpInterface.td - the adjoint of an op ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How fp8-build-backward differentiates an op.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
#define FP8_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mlir::fp8";
  let description = [{
    Builds the reverse-mode adjoint of an op from the gradients of its results. Attached to `arith` and `math` ops as
    an external model.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds, at the builder's insertion point, the gradients of the operands. `resultGrads` holds one value a
      result, null where the result has no gradient. `operandGrads` arrives with one null entry an operand; an entry
      left null has no gradient. `needed` tells which operands want one. Fails with a diagnostic at the op.
    }],
      "::llvm::LogicalResult", "buildAdjoint",
      (ins "::mlir::OpBuilder &":$builder, "::llvm::ArrayRef<::mlir::Value>":$resultGrads,
           "::llvm::ArrayRef<bool>":$needed, "::llvm::MutableArrayRef<::mlir::Value>":$operandGrads)>
  ];
}

#endif // FP8_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
