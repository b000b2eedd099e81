//===- FP8CollectiveOps.td - collectives over a named grid axis ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers, whole and in start and wait halves.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8COLLECTIVEOPS_TD
#define FP8_DIALECT_FP8_IR_FP8COLLECTIVEOPS_TD

include "fp8/Dialect/FP8/IR/FP8OpBase.td"

class FP8_CollectiveOp<string mnemonic, list<Trait> traits = []>
    : FP8_Op<mnemonic, !listconcat([MemoryEffects<[MemRead<FP8_CommunicatorResource>, MemWrite<FP8_CommunicatorResource>]>], traits)>;

def FP8_AllGatherOp : FP8_CollectiveOp<"all_gather"> {
  let summary = "concatenates the shards of all ranks along a dimension";
  let description = [{
    The shards of the ranks along grid axis `axis`, in rank order, along dimension `dim`. Never pure: effects on the
    communicator keep the order of collectives. Recomputing one is legal (every rank runs the same plan) and priced at
    link speed. Scales of block-scaled tensors travel in a gather of their own, compact.

    * (C1) the module has an `fp8.grid` dictionary that holds `axis`;
    * (C2) `dim` is below the rank; the result's dim is the operand's times the axis' size, other dims are equal;
    * (C3) the element type is the same; the encoding too, and a scaled dimension that is gathered has a group of 1,
      or a group that divides the shard's dimension, or is `all` (one scale for all ranks);
    * (C4) a `gemm_ready` layout is not gathered.

    Example:
    ```mlir
    %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>
    ```
  }];
  let arguments = (ins FP8_AnyTensor:$x, StrAttr:$axis, I64Attr:$dim);
  let results = (outs FP8_AnyTensor:$result);
  let assemblyFormat = "$x `axis` `=` $axis `dim` `=` $dim attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

def FP8_AllGatherStartOp : FP8_CollectiveOp<"all_gather_start"> {
  let summary = "starts an all-gather";
  let description = [{
    As `fp8.all_gather`, but returns at once. Operand and result are in use from here to the `fp8.wait`; the result
    may be read only through the wait.

    * (C1) the module has an `fp8.grid` dictionary that holds `axis`;
    * (C2) `dim` is below the rank; the result's dim is the operand's times the axis' size, other dims are equal;
    * (C3) the element type is the same; the encoding too, and a scaled dimension that is gathered has a group of 1,
      or a group that divides the shard's dimension, or is `all` (one scale for all ranks);
    * (C4) a `gemm_ready` layout is not gathered;
    * (C5) the token has exactly one use: an `fp8.wait` together with the result, or the `fp8.yield` of its kernel.

    Example:
    ```mlir
    %g, %t = fp8.all_gather_start %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
    ```
  }];
  let arguments = (ins FP8_AnyTensor:$x, StrAttr:$axis, I64Attr:$dim);
  let results = (outs FP8_AnyTensor:$result, FP8_TokenType:$token);
  let assemblyFormat = "$x `axis` `=` $axis `dim` `=` $dim attr-dict `:` type($x) `->` type($result) `,` type($token)";
  let hasVerifier = 1;
}

def FP8_WaitOp : FP8_CollectiveOp<"wait", [AllTypesMatch<["x", "result"]>]> {
  let summary = "waits for a collective and gives its result (an alias)";
  let description = [{
    * (C1) the operand and the token come from the same start op, or from the same kernel around one;
    * (C2) the result has the operand's type.

    Example:
    ```mlir
    %r = fp8.wait %g, %t : tensor<256x32xbf16>
    ```
  }];
  let arguments = (ins FP8_AnyTensor:$x, FP8_TokenType:$token);
  let results = (outs FP8_AnyTensor:$result);
  let assemblyFormat = "$x `,` $token attr-dict `:` type($x)";
  let hasVerifier = 1;
}

#endif // FP8_DIALECT_FP8_IR_FP8COLLECTIVEOPS_TD
