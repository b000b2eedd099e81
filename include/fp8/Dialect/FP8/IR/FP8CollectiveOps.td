//===- FP8CollectiveOps.td - collectives over a named grid axis ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers, reductions over ranks and exchanges, whole and in start and wait
// halves.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8COLLECTIVEOPS_TD
#define FP8_DIALECT_FP8_IR_FP8COLLECTIVEOPS_TD

include "fp8/Dialect/FP8/IR/FP8OpBase.td"

class FP8_CollectiveOp<string mnemonic, list<Trait> traits = []>
    : FP8_Op<mnemonic, !listconcat([MemoryEffects<[MemRead<FP8_CommunicatorResource>, MemWrite<FP8_CommunicatorResource>]>,
                                    DeclareOpInterfaceMethods<DifferentiableOpInterface>], traits)> {
  let hasVerifier = 1;
}

def FP8_AllGatherOp : FP8_CollectiveOp<"all_gather"> {
  let summary = "concatenates the shards of all ranks along a dimension";
  let description = [{
    The shards of the ranks along grid axis `axis`, in rank order, along dimension `dim`. Never pure: effects on the
    communicator keep the order of collectives. Recomputing one is legal (every rank runs the same plan) and priced at
    link speed. Scales of block-scaled tensors travel in a gather of their own, compact. The gradient is a
    `reduce_scatter` of the sum.

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
}

def FP8_ReduceScatterOp : FP8_CollectiveOp<"reduce_scatter"> {
  let summary = "reduces over all ranks and leaves each its part along a dimension";
  let description = [{
    The tensors of the ranks along grid axis `axis`, added up (or their maximum) element by element, of which a rank
    keeps the part with its number along dimension `dim`. A sum is taken in rank order from rank 0 of the axis on, in
    `acc` (f32 unless said), and rounded to the result; the operand's element type is what travels
    (`docs/architecture.md`, "Numbers"). The gradient of a sum is an `all_gather`; that of a maximum is not defined.

    * (C1) the module has an `fp8.grid` dictionary that holds `axis`;
    * (C2) `dim` is below the rank; the operand's dim is the result's times the axis' size, other dims are equal;
    * (C3) the element type is the same;
    * (C4) `acc`, where present, is f32 or bf16 and the kind is `sum`.

    Example:
    ```mlir
    %g = fp8.reduce_scatter sum %x axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>
    ```
  }];
  let arguments = (ins FP8_ReduceKindAttr:$kind, FP8_HighTensor:$x, StrAttr:$axis, I64Attr:$dim, OptionalAttr<TypeAttr>:$acc);
  let results = (outs FP8_HighTensor:$result);
  let assemblyFormat = "$kind $x `axis` `=` $axis `dim` `=` $dim (`acc` `=` $acc^)? attr-dict `:` type($x) `->` type($result)";
}

def FP8_ReduceScatterStartOp : FP8_CollectiveOp<"reduce_scatter_start"> {
  let summary = "starts a reduce-scatter";
  let description = [{
    As `fp8.reduce_scatter`, but returns at once. Operand and result are in use from here to the `fp8.wait`; the result
    may be read only through the wait.

    * (C1) the module has an `fp8.grid` dictionary that holds `axis`;
    * (C2) `dim` is below the rank; the operand's dim is the result's times the axis' size, other dims are equal;
    * (C3) the element type is the same;
    * (C4) `acc`, where present, is f32 or bf16 and the kind is `sum`;
    * (C5) the token has exactly one use: an `fp8.wait` together with the result, or the `fp8.yield` of its kernel.

    Example:
    ```mlir
    %g, %t = fp8.reduce_scatter_start sum %x axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>, !fp8.token
    ```
  }];
  let arguments = (ins FP8_ReduceKindAttr:$kind, FP8_HighTensor:$x, StrAttr:$axis, I64Attr:$dim, OptionalAttr<TypeAttr>:$acc);
  let results = (outs FP8_HighTensor:$result, FP8_TokenType:$token);
  let assemblyFormat = "$kind $x `axis` `=` $axis `dim` `=` $dim (`acc` `=` $acc^)? attr-dict `:` type($x) `->` type($result) `,` type($token)";
}

def FP8_AllReduceOp : FP8_CollectiveOp<"all_reduce"> {
  let summary = "reduces over all ranks";
  let description = [{
    The tensors of the ranks along grid axis `axis`, added up (or their maximum) element by element, the same on all of
    them. A sum is taken in rank order from rank 0 of the axis on, in `acc` (f32 unless said), and rounded to the
    result; the operand's element type is what travels (`docs/architecture.md`, "Numbers"). Gradients are those of the
    sum of all ranks' results, so that of a sum is an `all_reduce`; that of a maximum is not defined.

    * (C1) the module has an `fp8.grid` dictionary that holds `axis`;
    * (C2) operand and result have one type;
    * (C3) `acc`, where present, is f32 or bf16 and the kind is `sum`.

    Example:
    ```mlir
    %g = fp8.all_reduce max %x axis = "tp" : tensor<1x1xf32> -> tensor<1x1xf32>
    ```
  }];
  let arguments = (ins FP8_ReduceKindAttr:$kind, FP8_HighTensor:$x, StrAttr:$axis, OptionalAttr<TypeAttr>:$acc);
  let results = (outs FP8_HighTensor:$result);
  let assemblyFormat = "$kind $x `axis` `=` $axis (`acc` `=` $acc^)? attr-dict `:` type($x) `->` type($result)";
}

def FP8_AllReduceStartOp : FP8_CollectiveOp<"all_reduce_start"> {
  let summary = "starts an all-reduce";
  let description = [{
    As `fp8.all_reduce`, but returns at once. Operand and result are in use from here to the `fp8.wait`; the result
    may be read only through the wait.

    * (C1) the module has an `fp8.grid` dictionary that holds `axis`;
    * (C2) operand and result have one type;
    * (C3) `acc`, where present, is f32 or bf16 and the kind is `sum`;
    * (C4) the token has exactly one use: an `fp8.wait` together with the result, or the `fp8.yield` of its kernel.

    Example:
    ```mlir
    %g, %t = fp8.all_reduce_start max %x axis = "tp" : tensor<1x1xf32> -> tensor<1x1xf32>, !fp8.token
    ```
  }];
  let arguments = (ins FP8_ReduceKindAttr:$kind, FP8_HighTensor:$x, StrAttr:$axis, OptionalAttr<TypeAttr>:$acc);
  let results = (outs FP8_HighTensor:$result, FP8_TokenType:$token);
  let assemblyFormat = "$kind $x `axis` `=` $axis (`acc` `=` $acc^)? attr-dict `:` type($x) `->` type($result) `,` type($token)";
}

def FP8_AllToAllOp : FP8_CollectiveOp<"all_to_all"> {
  let summary = "hands piece j to rank j and concatenates what comes";
  let description = [{
    The operand is cut along dimension `split` into as many pieces as the grid axis `axis` has ranks; rank j gets the
    pieces numbered j of all ranks, in rank order, along dimension `concat`. The gradient is the exchange with `split`
    and `concat` swapped.

    * (C1) the module has an `fp8.grid` dictionary that holds `axis`;
    * (C2) `split` and `concat` are below the rank; the operand's `split` dimension divided by the axis' size, then the
      `concat` dimension times that size, is the result's shape;
    * (C3) the element type is the same; the encoding too, and a scaled dimension that is split or concatenated has a
      group of 1, or a group that divides a piece's dimension, or is `all` (one scale for all ranks);
    * (C4) a `gemm_ready` layout is not exchanged.

    Example:
    ```mlir
    %g = fp8.all_to_all %x axis = "tp" split = 0 concat = 1 : tensor<64x32xbf16> -> tensor<16x128xbf16>
    ```
  }];
  let arguments = (ins FP8_AnyTensor:$x, StrAttr:$axis, I64Attr:$split, I64Attr:$concat);
  let results = (outs FP8_AnyTensor:$result);
  let assemblyFormat = "$x `axis` `=` $axis `split` `=` $split `concat` `=` $concat attr-dict `:` type($x) `->` type($result)";
}

def FP8_AllToAllStartOp : FP8_CollectiveOp<"all_to_all_start"> {
  let summary = "starts an all-to-all";
  let description = [{
    As `fp8.all_to_all`, but returns at once. Operand and result are in use from here to the `fp8.wait`; the result
    may be read only through the wait.

    * (C1) the module has an `fp8.grid` dictionary that holds `axis`;
    * (C2) `split` and `concat` are below the rank; the operand's `split` dimension divided by the axis' size, then the
      `concat` dimension times that size, is the result's shape;
    * (C3) the element type is the same; the encoding too, and a scaled dimension that is split or concatenated has a
      group of 1, or a group that divides a piece's dimension, or is `all` (one scale for all ranks);
    * (C4) a `gemm_ready` layout is not exchanged;
    * (C5) the token has exactly one use: an `fp8.wait` together with the result, or the `fp8.yield` of its kernel.

    Example:
    ```mlir
    %g, %t = fp8.all_to_all_start %x axis = "tp" split = 0 concat = 1 : tensor<64x32xbf16> -> tensor<16x128xbf16>, !fp8.token
    ```
  }];
  let arguments = (ins FP8_AnyTensor:$x, StrAttr:$axis, I64Attr:$split, I64Attr:$concat);
  let results = (outs FP8_AnyTensor:$result, FP8_TokenType:$token);
  let assemblyFormat = "$x `axis` `=` $axis `split` `=` $split `concat` `=` $concat attr-dict `:` type($x) `->` type($result) `,` type($token)";
}

def FP8_WaitOp : FP8_CollectiveOp<"wait", [AllTypesMatch<["x", "result"]>]> {
  let summary = "waits for a collective or a copy and gives its result (an alias)";
  let description = [{
    * (C1) the operand and the token come from the same start op, or from the same kernel around one;
    * (C2) the result has the operand's type.

    Example:
    ```mlir
    %r = fp8.wait %g, %t : tensor<256x32xbf16>
    ```
  }];
  let arguments = (ins AnyTypeOf<[FP8_StoredTensor, FP8_HostType]>:$x, FP8_TokenType:$token);
  let results = (outs AnyTypeOf<[FP8_StoredTensor, FP8_HostType]>:$result);
  let assemblyFormat = "$x `,` $token attr-dict `:` type($x)";
}

#endif // FP8_DIALECT_FP8_IR_FP8COLLECTIVEOPS_TD
