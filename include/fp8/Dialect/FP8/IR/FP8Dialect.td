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

    Constraints on every tensor that is an operand or a result of an op of this dialect:

    * (C1) each dimension is static and at least 1;
    * (C2) it takes at most 2^48 bytes;
    * (C3) its encoding, where it has one, is a `#fp8.tensor`.

    Discardable attributes, each refused anywhere else, and every other name that starts with `fp8.` too:

    | attribute | on | value | meaning |
    |---|---|---|---|
    | `fp8.parameter` | function argument | unit | resident: keeping it for backward costs nothing |
    | `fp8.tangent` | function argument | unit | a gradient passed in, resident |
    | `fp8.state` | function argument, an f32 tensor | unit | updated in place by `fp8.push_amax` and `fp8.update_scale` |
    | `fp8.donated` | function argument | unit | its storage may be overwritten |
    | `fp8.frozen` | function argument | unit | gets no gradient |
    | `fp8.shard` | function argument or result | array of strings, one a dimension | the grid axis along which the ranks hold parts of that dimension, `""` for none; the type is that of one part |
    | `fp8.coordinate` | function argument, an i32 tensor of one element | string | holds the coordinate of the rank along this axis of the grid |
    | `fp8.rows_per_group` | function argument, an i32 tensor of rank 1 | an i64, not negative | in test runs the offsets of `fp8.grouped_matmul` that it holds are its multiples |
    | `fp8.placement` | function result | `"arena"` or `"caller"` | whose buffer holds it |
    | `fp8.name` | function result | string, not empty | what artifacts call it |
    | `fp8.counter` | function result, an f32 tensor of one element | string, not empty | counts the elements of this value whose new layout is not exact, by `fp8-keep-lossy`; `fp8-run` reports it |
    | `fp8.segment` | function argument or result | `"saved"` or `"deferred"` | what crosses between the parts of a step, set by `fp8-split` |
    | `fp8.part_of` | a function | string, not empty | the function whose step it is a part of, set by `fp8-split` |
    | `fp8.checkpoint` | an op with results | unit | `recompute-all` keeps its results |
    | `fp8.policy` | an op with results | `"save"`, `"recompute"` or `"offload"`, or an array of them, one per result | overrides every policy of `fp8-select-saved` |
    | `fp8.pieces` | `fp8.matmul`, `fp8.all_gather` | an i64, at least 1 | `fp8-split-rows` makes its result, and what is computed from it a row at a time, in so many pieces; of a gather, with the products that read it |
    | `fp8.offload` | an op with results | array of numbers of results | `fp8-offload` has these results wait in host memory, by `fp8-select-saved` |
    | `fp8.lossy` | `fp8.dequantize` | dictionary of the strings `value` and `form`, the i64 `bytes` and `exact_bytes`, and perhaps the f64 `grad_rel_error` and the string `counter` | the inexact form that backward reads a value in, by `fp8-keep-lossy` |
    | `fp8.grid` | a module | dictionary of axis name to i64 size of at least 1 | the ranks |
    | `fp8.target` | a module | string, not empty | what costs are taken from, set by `fp8-set-target` |
    | `fp8.arena_bytes` | a function | i64, not negative | set by `fp8-place` |
    | `fp8.host_bytes` | a function | i64, not negative | host memory that its step needs, set by `fp8-place`; absent where none |
    | `fp8.decisions` | a function | dictionary | the record of `fp8-select-saved`, for plans and reports |
    | `fp8.index`, `fp8.live`, `fp8.bytes` | any op | integer, arrays of integers | written by `fp8-annotate-liveness` |
    | `fp8.cost` | any op | dictionary | written by `fp8-annotate-cost` |
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

// Holds the constraints on tensors that the dialect's description numbers.
def FP8_TensorsFit : NativeOpTrait<"TensorsFit"> {
  let cppNamespace = "::mlir::fp8";
}

class FP8_Op<string mnemonic, list<Trait> traits = []>
    : Op<FP8_Dialect, mnemonic, !listconcat([FP8_TensorsFit], traits)>;
class FP8_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<FP8_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}
class FP8_Type<string name, string typeMnemonic> : TypeDef<FP8_Dialect, name> {
  let mnemonic = typeMnemonic;
}

#endif // FP8_DIALECT_FP8_IR_FP8DIALECT_TD
