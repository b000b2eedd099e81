//===- FP8Dialect.td - the fp8 dialect ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dialect and the base classes of its ops, attributes and types.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8DIALECT_TD
#define FP8_DIALECT_FP8_IR_FP8DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def FP8_Dialect : Dialect {
  let name = "fp8";
  let cppNamespace = "::mlir::fp8";
  let summary = "FP8 training steps: casts with scales, matmuls, and the memory plan around them";
  let description = [{
    Ops of this dialect work on builtin ranked tensors with static shapes. Data and scale are separate values, since
    their lifetimes differ; how a tensor was scaled travels with it in its encoding (`#fp8.tensor`).

    Discardable attributes on function arguments: `fp8.parameter`, `fp8.tangent`, `fp8.state`, `fp8.donated`,
    `fp8.frozen` (unit). On function results: `fp8.placement` (`"arena"` or `"caller"`) and `fp8.name` (what
    artifacts call it). On any op:
    `fp8.checkpoint` (unit; `recompute-all` keeps its results) and `fp8.policy` (`"save"`, `"recompute"`, or an array
    of them, one per result; overrides every policy of `fp8-select-saved`). On a module: `fp8.grid` (a dictionary of
    axis name to size).
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
    void registerOps();
  }];
}

class FP8_Op<string mnemonic, list<Trait> traits = []>
    : Op<FP8_Dialect, mnemonic, traits>;
class FP8_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<FP8_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}
class FP8_Type<string name, string typeMnemonic> : TypeDef<FP8_Dialect, name> {
  let mnemonic = typeMnemonic;
}

#endif // FP8_DIALECT_FP8_IR_FP8DIALECT_TD
