//===- FP8ComputeOps.td - matmul, reductions, broadcasts ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that compute and that upstream has no tensor form of.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8COMPUTEOPS_TD
#define FP8_DIALECT_FP8_IR_FP8COMPUTEOPS_TD

include "fp8/Dialect/FP8/IR/FP8OpBase.td"

def FP8_MatmulOp : FP8_Op<"matmul", [Pure, AttrSizedOperandSegments, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "scaled matrix product, accumulated in f32";
  let description = [{
    `a` [M, K] times `b` [K, N], with the exact order of `docs/architecture.md`, "Numbers". An FP8 operand comes with
    the multiplier it was cast with. `acc` is added in f32 before the one rounding to the result type. Differentiable
    where both operands are bf16 or f32.

    * (C1) `a` and `b` have rank 2, dim 1 of `a` equals dim 0 of `b`, the result is [M, N] in bf16 or f32;
    * (C2) an FP8 operand has a scaled encoding and a scale of shape ceil(dim / group); an operand of another type has none;
    * (C3) the element types are one of: both FP8 but not both f8E5M2; both bf16; both f32;
    * (C4) along the contraction a group is `all` or 128; outside it 1, 128 or `all`;
      the pair is per tensor with per tensor, rows with columns (`[1, all]`, `[all, 1]`), 1x128 with 128x1,
      1x128 with 128x128, or 128x128 with 128x1;
    * (C5) `acc` has the result's shape and is bf16 or f32;
    * (C6) where both are visible, each scale is the one its operand was cast with (traced through views, transposes
      and gathers);
    * (C7) `fast_accum` is not set with block scales.

    Example:
    ```mlir
    %y = fp8.matmul %a, %b scales(%sa, %sb : tensor<64x1xf32>, tensor<1x48xf32>)
      : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<64x48xbf16>
    ```
  }];
  let arguments = (ins FP8_MatmulOperand:$a, FP8_MatmulOperand:$b, Optional<FP8_F32Tensor>:$scale_a,
    Optional<FP8_F32Tensor>:$scale_b, Optional<FP8_HighTensor>:$acc, DefaultValuedAttr<BoolAttr, "false">:$fast_accum);
  let results = (outs FP8_HighTensor:$result);
  let assemblyFormat = [{
    $a `,` $b (`scales` `(` $scale_a^ `,` $scale_b `:` type($scale_a) `,` type($scale_b) `)`)?
    (`acc` `(` $acc^ `:` type($acc) `)`)? attr-dict `:` type($a) `,` type($b) `->` type($result)
  }];
  let hasVerifier = 1;
}

def FP8_ReduceOp : FP8_Op<"reduce", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "sum or maximum over axes; the rank is kept";
  let description = [{
    Reduced dimensions become 1. A sum has one order, fixed by shape and axes (`docs/architecture.md`, "Numbers"), and
    is rounded once to the result type. The gradient of a maximum goes to every element that equals it.

    * (C1) `axes` is not empty, sorted, without repetition, each below the rank;
    * (C2) the result's shape is the operand's with 1 for each axis;
    * (C3) the result is bf16 or f32; a bf16 operand may give either, an f32 operand too.

    Example:
    ```mlir
    %s = fp8.reduce sum %x [1] : tensor<64x32xf32> -> tensor<64x1xf32>
    ```
  }];
  let arguments = (ins FP8_ReduceKindAttr:$kind, FP8_HighTensor:$x, DenseI64ArrayAttr:$axes);
  let results = (outs FP8_HighTensor:$result);
  let assemblyFormat = "$kind $x $axes attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

def FP8_BroadcastOp : FP8_Op<"broadcast", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "dimensions of size 1 repeated";
  let description = [{
    * (C1) operand and result have the same rank and element type;
    * (C2) each operand dimension is 1 or equals the result's.

    Example:
    ```mlir
    %b = fp8.broadcast %s : tensor<64x1xf32> -> tensor<64x32xf32>
    ```
  }];
  let arguments = (ins FP8_HighTensor:$x);
  let results = (outs FP8_HighTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def FP8_RandomOp : FP8_Op<"random", [Pure, AllTypesMatch<["seed", "offset"]>]> {
  let summary = "uniform numbers that depend on a seed, an offset and a position";
  let description = [{
    Multiples of 2^-24 in [0, 1), each a pure function of `seed`, `offset`, `stream` and its place in the tensor of all
    ranks (`docs/numerics.md`, "Random numbers"): computed again, in another kernel or order or on another number of
    ranks, it has the same bits. `seed` is the same for a whole run; `offset` another one for each step and microbatch;
    `stream` another one for each place of a program that draws.

    `shard` names, as `fp8.shard` does, for each dimension the grid axis along which the ranks hold parts of the
    result, and `coordinates` says where this rank is along each axis named, in order: arguments marked
    `fp8.coordinate`. Ranks that hold parts of one tensor draw different numbers, those that one rank draws for all of
    it; without `shard` all ranks draw equal ones.

    * (C1) `seed`, `offset` and `coordinates` have one element each and as many dimensions as the result;
    * (C2) `shard` has one string a dimension, each empty or an axis of the module's `fp8.grid`, no axis twice;
    * (C3) there are as many coordinates as axes in `shard`; one that is a function argument is marked
      `fp8.coordinate` with its axis;
    * (C4) `stream` is an unsigned number of 32 bits.

    Example:
    ```mlir
    %u = fp8.random %seed, %offset coordinates(%rank : tensor<1x1xi32>) shard = ["tp", ""] {stream = 3 : i64}
      : tensor<1x1xi32> -> tensor<64x32xf32>
    ```
  }];
  let arguments = (ins FP8_I32Tensor:$seed, FP8_I32Tensor:$offset, Variadic<FP8_I32Tensor>:$coordinates,
    OptionalAttr<ArrayAttr>:$shard, DefaultValuedAttr<I64Attr, "0">:$stream);
  let results = (outs FP8_F32Tensor:$result);
  let assemblyFormat = [{
    $seed `,` $offset (`coordinates` `(` $coordinates^ `:` type($coordinates) `)`)? (`shard` `=` $shard^)? attr-dict
    `:` type($seed) `->` type($result)
  }];
  let extraClassDeclaration = [{
    /// The dimensions that ranks hold parts of, one for each coordinate.
    ::llvm::SmallVector<int64_t> getShardedDims();
    /// Row-major strides of the tensor of all ranks, of which the result is a part.
    ::llvm::SmallVector<int64_t> getWholeStrides();
  }];
  let hasVerifier = 1;
}

def FP8_OpaqueOp : FP8_Op<"opaque", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "an operation known only by its shapes, bytes and cost";
  let description = [{
    Lets a graph with an unknown operation be planned, though not lowered. `adjoint`, where given, declares the
    operation that `fp8-build-backward` emits for it: another opaque, whose operands are the listed operands and
    results of this one, then the gradients of this one's results, and whose results are the gradients of this one's
    bf16 and f32 operands. Keys of `adjoint`: `name` (string), `operands`, `results` (arrays of indices), and
    optionally `scratch_bytes`, `flops`, `bytes`. `aliases` names results that have the storage of an operand, as views
    of it: others that read the operand see no change.

    * (C1) `name` is not empty; `scratch_bytes`, `flops` and `bytes` are not negative;
    * (C2) `aliases` is an array of `[result, operand]` pairs of indices in range, each pair of equal byte size;
    * (C3) `adjoint` has a non-empty `name`, indices in range, and no unknown key;
    * (C4) `recompute` is `yes` or `never`, and `never` where `stateful` is set.

    Example:
    ```mlir
    %o = fp8.opaque "attention"(%q, %k, %v) {flops = 1000000 : i64, scratch_bytes = 4096 : i64,
        adjoint = {name = "attention_backward", operands = [0, 1, 2], results = [0]}}
      : (tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
    ```
  }];
  let arguments = (ins StrAttr:$name, Variadic<FP8_AnyTensor>:$inputs,
    DefaultValuedAttr<I64Attr, "0">:$scratch_bytes, DefaultValuedAttr<I64Attr, "0">:$flops,
    DefaultValuedAttr<I64Attr, "0">:$bytes, DefaultValuedAttr<StrAttr, "\"yes\"">:$recompute,
    UnitAttr:$stateful, OptionalAttr<ArrayAttr>:$aliases, OptionalAttr<DictionaryAttr>:$adjoint);
  let results = (outs Variadic<FP8_AnyTensor>:$outputs);
  let assemblyFormat = "$name `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
  let hasVerifier = 1;
}

#endif // FP8_DIALECT_FP8_IR_FP8COMPUTEOPS_TD
