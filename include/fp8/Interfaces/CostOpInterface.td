//===- CostOpInterface.td - what an op costs ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flops, bytes and the legality of computing it again.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_INTERFACES_COSTOPINTERFACE_TD
#define FP8_INTERFACES_COSTOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::mlir::fp8";
  let description = [{
    The work of an op by itself, unfused: a pure function of its types and attributes. Hardware numbers live in the
    target (`fp8/Target/Target.h`). Attached to fp8, `arith` and `math` ops as an external model
    (`fp8/Interfaces/CostExternalModels.h`, which says what is counted).
  }];
  let methods = [
    InterfaceMethod<"Flops by type, bytes read, written and sent, scratch bytes, and whether it may be recomputed.",
      "::mlir::fp8::OpCost", "getCost", (ins)>
  ];
}

#endif // FP8_INTERFACES_COSTOPINTERFACE_TD
