//===- FP8GroupedOps.td - products of groups of rows ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Experts: one product a group of rows, whose sizes only a run knows. `docs/rationale/grouped-matmul.md` has the reasons.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8GROUPEDOPS_TD
#define FP8_DIALECT_FP8_IR_FP8GROUPEDOPS_TD

include "fp8/Dialect/FP8/IR/FP8OpBase.td"

def FP8_GroupedMatmulOp : FP8_Op<"grouped_matmul", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "one matrix product for each group of rows";
  let description = [{
    `offsets` [G + 1] holds where groups begin, and where the last one ends: group g has the rows from `offsets[g]` to
    `offsets[g + 1]`, padding included, of a tensor with room for the *capacity* of rows. With `b` of rank 3 the rows
    of `a` are grouped: rows of group g of the result are those of `a` times `b[g]`, and rows behind the last group
    are +0. With `b` of rank 2 the sum is grouped: `result[g]` is the product of the columns of `a` that are in group
    g with the rows of `b` that are, and +0 where the group is empty. Each product has the order of
    `docs/architecture.md`, "Numbers". What lies behind the last group is not read.

    A run checks the offsets before anything is written: the first is 0, none is less than the one before, each is a
    multiple of `align`, and the last is at most the capacity. Anything else ends the run with an error that names the
    op, the group and the rows.

    `balanced` is how many rows there are if routing is balanced, which plans report beside the capacity. Differentiable
    where both operands are bf16 or f32.

    * (C1) `a` has rank 2, `b` rank 3 or 2, `offsets` is [G + 1] with G at least 1; where `b` is [G, K, N], `a` is
      [capacity, K] and the result [capacity, N]; where `b` is [capacity, N], `a` is [M, capacity] and the result
      [G, M, N];
    * (C2) an FP8 operand has a scaled encoding and a scale of shape ceil(dim / group); an operand of another type has none;
    * (C3) the element types are one of: both FP8 but not both f8E5M2; both bf16; both f32;
    * (C4) the scales are a pair that `fp8.matmul` knows; those of a `b` of rank 3 are of one matrix each, or per
      tensor; a group of scales of 128 rows of the capacity needs an `align` that is a multiple of 128;
    * (C5) `align` is at least 1, `balanced` between 1 and the capacity;
    * (C6) where both are visible, each scale is the one its operand was cast with (traced through views, transposes
      and gathers).

    Example:
    ```mlir
    %y = fp8.grouped_matmul %x, %w offsets(%o : tensor<3xi32>) scales(%sx, %sw : tensor<64x1xf32>, tensor<2x1x48xf32>) align = 16
      : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>> -> tensor<64x48xbf16>
    ```
  }];
  let arguments = (ins FP8_MatmulOperand:$a, FP8_MatmulOperand:$b, FP8_I32Tensor:$offsets, Optional<FP8_F32Tensor>:$scale_a,
    Optional<FP8_F32Tensor>:$scale_b, I64Attr:$align, OptionalAttr<I64Attr>:$balanced);
  let results = (outs FP8_HighTensor:$result);
  let assemblyFormat = [{
    $a `,` $b `offsets` `(` $offsets `:` type($offsets) `)`
    (`scales` `(` $scale_a^ `,` $scale_b `:` type($scale_a) `,` type($scale_b) `)`)? `align` `=` $align
    (`balanced` `=` $balanced^)? attr-dict `:` type($a) `,` type($b) `->` type($result)
  }];
  let extraClassDeclaration = [{
    /// Whether the sum is grouped, not the rows of the result.
    bool isSumGrouped();
    int64_t getNumGroups();
    /// The rows that all groups have room for.
    int64_t getCapacity();
  }];
  let hasVerifier = 1;
}

class FP8_GroupedLinearBase<string mnemonic, string first, string second, list<Trait> traits = []>
    : FP8_Op<mnemonic, !listconcat([Pure], traits)> {
  let results = (outs FP8_HighTensor:$result);
  let assemblyFormat = "$" # first # " `,` $" # second # [{ `offsets` `(` $offsets `:` type($offsets) `)`
    `recipe` $recipe (`balanced` `=` $balanced^)? attr-dict `:` type($}] # first # ") `,` type($" # second # ") `->` type($result)";
  let hasVerifier = 1;
}

def FP8_GroupedLinearOp : FP8_GroupedLinearBase<"grouped_linear", "x", "w", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "experts: y = x * w[g]^T in FP8 for the rows of each group, by a recipe";
  let description = [{
    Multiplies the rows of group g of `x` [capacity, K] by the transpose of `w[g]`, of `w` [G, N, K], and gives
    [capacity, N]; `offsets`, rows behind the last group and `balanced` are as in `fp8.grouped_matmul`. Groups begin at
    multiples of what the recipe needs: 128 rows with `block128`, 16 with the others. `fp8-expand-recipes` writes it out;
    scales that span rows, per tensor and those along the tokens with `rowwise`, are of all groups together. Differentiated
    as a unit, into `fp8.grouped_linear_dgrad` and `fp8.grouped_linear_wgrad`.

    * (C1) `x` and the result have rank 2, `w` has rank 3, `offsets` is [G + 1];
    * (C2) dim 1 of `x` equals dim 2 of `w`; the result is [dim 0 of `x`, dim 1 of `w`];
    * (C3) the recipe is not `delayed`;
    * (C4) `balanced` lies between 1 and dim 0 of `x`.

    Example:
    ```mlir
    %y = fp8.grouped_linear %x, %w offsets(%o : tensor<3xi32>) recipe<rowwise> : tensor<64x32xbf16>, tensor<2x48x32xbf16> -> tensor<64x48xbf16>
    ```
  }];
  let arguments = (ins FP8_HighTensor:$x, FP8_HighTensor:$w, FP8_I32Tensor:$offsets, FP8_RecipeAttr:$recipe,
    OptionalAttr<I64Attr>:$balanced);
}

def FP8_GroupedLinearDgradOp : FP8_GroupedLinearBase<"grouped_linear_dgrad", "dy", "w"> {
  let summary = "gradient of experts with respect to their input: dx = dy * w[g]";
  let description = [{
    Multiplies the rows of group g of `dy` [capacity, N] by `w[g]` of `w` [G, N, K] and gives [capacity, K], by the
    recipe of the linear.

    * (C1) `dy` and the result have rank 2, `w` has rank 3, `offsets` is [G + 1];
    * (C2) dim 1 of `dy` equals dim 1 of `w`; the result is [dim 0 of `dy`, dim 2 of `w`];
    * (C3) the recipe is not `delayed`;
    * (C4) `balanced` lies between 1 and dim 0 of `dy`.

    Example:
    ```mlir
    %dx = fp8.grouped_linear_dgrad %dy, %w offsets(%o : tensor<3xi32>) recipe<rowwise> : tensor<64x48xbf16>, tensor<2x48x32xbf16> -> tensor<64x32xbf16>
    ```
  }];
  let arguments = (ins FP8_HighTensor:$dy, FP8_HighTensor:$w, FP8_I32Tensor:$offsets, FP8_RecipeAttr:$recipe,
    OptionalAttr<I64Attr>:$balanced);
}

def FP8_GroupedLinearWgradOp : FP8_GroupedLinearBase<"grouped_linear_wgrad", "dy", "x"> {
  let summary = "gradient of experts with respect to their weights: dw[g] = dy^T * x over the rows of the group";
  let description = [{
    Multiplies the transpose of the rows of group g of `dy` [capacity, N] by those of `x` [capacity, K], and gives
    [G, N, K], by the recipe of the linear.

    * (C1) `dy` and `x` have rank 2, the result has rank 3, `offsets` is [G + 1];
    * (C2) dim 0 of `dy` equals dim 0 of `x`; the result is [G, dim 1 of `dy`, dim 1 of `x`];
    * (C3) the recipe is not `delayed`;
    * (C4) `balanced` lies between 1 and dim 0 of `dy`.

    Example:
    ```mlir
    %dw = fp8.grouped_linear_wgrad %dy, %x offsets(%o : tensor<3xi32>) recipe<rowwise> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<2x48x32xbf16>
    ```
  }];
  let arguments = (ins FP8_HighTensor:$dy, FP8_HighTensor:$x, FP8_I32Tensor:$offsets, FP8_RecipeAttr:$recipe,
    OptionalAttr<I64Attr>:$balanced);
}

#endif // FP8_DIALECT_FP8_IR_FP8GROUPEDOPS_TD
