//===- SaveAlternativesInterface.td - the forms a residual may take ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The forms in which a value can be kept for backward.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_INTERFACES_SAVEALTERNATIVESINTERFACE_TD
#define FP8_INTERFACES_SAVEALTERNATIVESINTERFACE_TD

include "mlir/IR/OpBase.td"

def SaveAlternativesInterface : OpInterface<"SaveAlternativesInterface"> {
  let cppNamespace = "::mlir::fp8";
  let description = [{
    The forms in which a result could be kept for backward (itself, another layout, FP8 and its scale, the maximum
    only), each with its bytes, whether deriving the result from it is exact, and what deriving costs. An op without
    the interface has one form, the result as it is.
  }];
  let methods = [
    InterfaceMethod<"Appends the forms of result number `result`, first the result as it is.",
      "void", "getSaveForms", (ins "unsigned":$result, "::llvm::SmallVectorImpl<::mlir::fp8::SaveForm> &":$forms)>
  ];
}

#endif // FP8_INTERFACES_SAVEALTERNATIVESINTERFACE_TD
