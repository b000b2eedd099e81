//===- FP8ViewOps.td - views and layout changes ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that name the same bytes differently, and the one that moves them.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8VIEWOPS_TD
#define FP8_DIALECT_FP8_IR_FP8VIEWOPS_TD

include "fp8/Dialect/FP8/IR/FP8OpBase.td"

def FP8_PermuteOp : FP8_Op<"permute", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "dimensions in another order, as a view (0 bytes)";
  let description = [{
    Result dimension i is operand dimension `perm[i]`. No byte moves: the result shares the storage of its operand.
    The group and bounds of an encoding are permuted along.

    * (C1) `perm` is a permutation of the operand's dimensions;
    * (C2) the result's shape and encoding are those of the operand, permuted; the element type is the same.

    Example:
    ```mlir
    %t = fp8.permute %w [1, 0] : tensor<48x32xbf16> -> tensor<32x48xbf16>
    ```
  }];
  let arguments = (ins FP8_AnyTensor:$x, DenseI64ArrayAttr:$perm);
  let results = (outs FP8_AnyTensor:$result);
  let assemblyFormat = "$x $perm attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def FP8_TransposeOp : FP8_Op<"transpose", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<SaveAlternativesInterface>]> {
  let summary = "dimensions in another order, bytes moved";
  let description = [{
    As `fp8.permute`, but the result is a tensor of its own in row-major order. Exact on every element type. On a
    scaled tensor its scale, permuted alike, belongs to the result.

    * (C1) `perm` is a permutation of the operand's dimensions;
    * (C2) the result's shape and encoding are those of the operand, permuted; the element type is the same.

    Example:
    ```mlir
    %t = fp8.transpose %q [1, 0] : tensor<48x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    ```
  }];
  let arguments = (ins FP8_AnyTensor:$x, DenseI64ArrayAttr:$perm);
  let results = (outs FP8_AnyTensor:$result);
  let assemblyFormat = "$x $perm attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def FP8_SliceOp : FP8_Op<"slice", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "a rectangular part, as a view (0 bytes)";
  let description = [{
    Elements `offsets[i]` to `offsets[i] + size` of each dimension, the sizes being the result's shape.

    * (C1) `offsets` has one entry a dimension; the rank is kept;
    * (C2) `offsets[i] + result dim i` is at most operand dim i, and no offset is negative;
    * (C3) the element type is the same; on a scaled tensor an offset, and a size short of the dimension's end, is a
      multiple of the group (a dimension whose group is `all` must be whole), and the encoding is kept.

    Example:
    ```mlir
    %s = fp8.slice %x [0, 16] : tensor<64x32xbf16> -> tensor<64x16xbf16>
    ```
  }];
  let arguments = (ins FP8_StoredTensor:$x, DenseI64ArrayAttr:$offsets);
  let results = (outs FP8_StoredTensor:$result);
  let assemblyFormat = "$x $offsets attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def FP8_PadOp : FP8_Op<"pad", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "zeros around a tensor; the adjoint of a slice";
  let description = [{
    A tensor of zeros in which the elements `offsets[i]` onwards are those of `x`.

    * (C1) `offsets` has one entry a dimension; the rank is kept;
    * (C2) `offsets[i] + operand dim i` is at most result dim i, and no offset is negative;
    * (C3) the element type is the same and neither type has an encoding.

    Example:
    ```mlir
    %p = fp8.pad %dx [0, 16] : tensor<64x16xbf16> -> tensor<64x32xbf16>
    ```
  }];
  let arguments = (ins FP8_HighTensor:$x, DenseI64ArrayAttr:$offsets);
  let results = (outs FP8_HighTensor:$result);
  let assemblyFormat = "$x $offsets attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def FP8_ReshapeOp : FP8_Op<"reshape", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "the same elements in row-major order under another shape, as a view (0 bytes)";
  let description = [{
    A view where the operand's storage is contiguous in row-major order (an argument, the result of a kernel, a
    reshape or bitcast of one); after a `permute` or a partial `slice` the bytes must move, which the program says
    with `fp8.transpose`.

    * (C1) both types have the same number of elements and element type;
    * (C2) neither type has an encoding, or both have one with a per-tensor group;
    * (C3) the operand is no view with strides (no `permute` that changes the order of elements, no `slice` but of
      leading rows), as far as its views are visible.

    Example:
    ```mlir
    %r = fp8.reshape %x : tensor<64x32xbf16> -> tensor<2048xbf16>
    ```
  }];
  let arguments = (ins FP8_AnyTensor:$x);
  let results = (outs FP8_AnyTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def FP8_BitcastOp : FP8_Op<"bitcast", [Pure]> {
  let summary = "the same bytes under an element type of equal width, as a view (0 bytes)";
  let description = [{
    Used to move FP8 data as bytes and to read it back.

    * (C1) both types have the same shape, and element types of the same width;
    * (C2) between two FP8 types the encoding is the same.

    Example:
    ```mlir
    %b = fp8.bitcast %g : tensor<64x32xi8> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    ```
  }];
  let arguments = (ins FP8_AnyTensor:$x);
  let results = (outs FP8_AnyTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def FP8_UpdateSliceOp : FP8_Op<"update_slice", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "one piece of a tensor that is made in pieces";
  let description = [{
    `dest` with the elements `offsets[i]` onwards replaced by `piece`. Destination-passing: the result has the storage of
    `dest`, so `dest` is gone afterwards, and a tensor of N pieces is a chain of N of these ops in one storage. Without
    `dest` the op makes that storage, and the other elements are undefined until a later op of the chain writes them.
    `fp8-split-rows` makes such chains.

    * (C1) `offsets` has one entry a dimension; the rank is kept;
    * (C2) `offsets[i] + piece dim i` is at most result dim i, and no offset is negative;
    * (C3) `piece` has the element type and the encoding of the result; along a dimension of groups of more than one
      element an offset, and a size short of the dimension's end, is a multiple of the group (pieces of a dimension
      whose group is `all` have one scale in common);
    * (C4) `dest` has the type of the result, and is the result of an `fp8.update_slice` that nothing else uses, or an
      operand of the kernel the op is in that nothing else in it uses.

    Example:
    ```mlir
    %0 = fp8.update_slice %a [0, 0] : tensor<32x16xbf16> -> tensor<64x16xbf16>
    %w = fp8.update_slice %b [32, 0] into(%0 : tensor<64x16xbf16>) : tensor<32x16xbf16> -> tensor<64x16xbf16>
    ```
  }];
  let arguments = (ins FP8_StoredTensor:$piece, Optional<FP8_StoredTensor>:$dest, DenseI64ArrayAttr:$offsets);
  let results = (outs FP8_StoredTensor:$result);
  let assemblyFormat = [{
    $piece $offsets (`into` `(` $dest^ `:` type($dest) `)`)? attr-dict `:` type($piece) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // FP8_DIALECT_FP8_IR_FP8VIEWOPS_TD
