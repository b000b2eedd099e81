//===- FP8LinearOps.td - linears with a recipe ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A linear and its two gradients, before recipes are expanded.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8LINEAROPS_TD
#define FP8_DIALECT_FP8_IR_FP8LINEAROPS_TD

include "fp8/Dialect/FP8/IR/FP8OpBase.td"

class FP8_LinearBase<string mnemonic, string first, string second, list<Trait> traits = []>
    : FP8_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<MemoryEffectsOpInterface>], traits)> {
  let results = (outs FP8_HighTensor:$result);
  let assemblyFormat = "$" # first # " `,` $" # second # [{ (`state` `(` $state^ `:` type($state) `)`)?
    `recipe` $recipe attr-dict `:` type($}] # first # ") `,` type($" # second # ") `->` type($result)";
  let hasVerifier = 1;
}

def FP8_LinearOp : FP8_LinearBase<"linear", "x", "w", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "y = x * w^T in FP8, by a recipe";
  let description = [{
    Multiplies `x` [N, K] by the transpose of `w` [M, K] and gives [N, M]. The recipe says how each operand is scaled
    and cast, in the forward product and in both gradients; `fp8-expand-recipes` writes that out as `fp8.amax`,
    `fp8.scale`, `fp8.cast` and `fp8.matmul`. Differentiated as a unit, into `fp8.linear_dgrad` and
    `fp8.linear_wgrad`.

    With a `delayed` recipe the state operands are, in order, history and scale of x, of w and of dy: histories
    `tensor<Lxf32>`, scales `tensor<1x1xf32>`, all function arguments marked `fp8.state`.

    * (C1) `x`, `w` and the result have rank 2;
    * (C2) dim 1 of `x` equals dim 1 of `w`; the result is [dim 0 of `x`, dim 0 of `w`];
    * (C3) `state` has six operands with a `delayed` recipe and none with any other;
    * (C4) state operands alternate rank-1 f32 histories and [1, 1] f32 scales.

    Example:
    ```mlir
    %y = fp8.linear %x, %w recipe<rowwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
    ```
  }];
  let arguments = (ins FP8_HighTensor:$x, FP8_HighTensor:$w, Variadic<FP8_F32Tensor>:$state, FP8_RecipeAttr:$recipe);
}

def FP8_LinearDgradOp : FP8_LinearBase<"linear_dgrad", "dy", "w"> {
  let summary = "gradient of a linear with respect to its input: dx = dy * w";
  let description = [{
    Multiplies `dy` [N, M] by `w` [M, K] and gives [N, K], by the recipe of the linear.

    * (C1) `dy`, `w` and the result have rank 2;
    * (C2) dim 1 of `dy` equals dim 0 of `w`; the result is [dim 0 of `dy`, dim 1 of `w`];
    * (C3) `state` has six operands with a `delayed` recipe and none with any other;
    * (C4) state operands alternate rank-1 f32 histories and [1, 1] f32 scales.

    Example:
    ```mlir
    %dx = fp8.linear_dgrad %dy, %w recipe<rowwise> : tensor<64x48xbf16>, tensor<48x32xbf16> -> tensor<64x32xbf16>
    ```
  }];
  let arguments = (ins FP8_HighTensor:$dy, FP8_HighTensor:$w, Variadic<FP8_F32Tensor>:$state, FP8_RecipeAttr:$recipe);
}

def FP8_LinearWgradOp : FP8_LinearBase<"linear_wgrad", "dy", "x"> {
  let summary = "gradient of a linear with respect to its weight: dw = dy^T * x";
  let description = [{
    Multiplies the transpose of `dy` [N, M] by `x` [N, K] and gives [M, K], by the recipe of the linear.

    * (C1) `dy`, `x` and the result have rank 2;
    * (C2) dim 0 of `dy` equals dim 0 of `x`; the result is [dim 1 of `dy`, dim 1 of `x`];
    * (C3) `state` has six operands with a `delayed` recipe and none with any other;
    * (C4) state operands alternate rank-1 f32 histories and [1, 1] f32 scales.

    Example:
    ```mlir
    %dw = fp8.linear_wgrad %dy, %x recipe<rowwise> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<48x32xbf16>
    ```
  }];
  let arguments = (ins FP8_HighTensor:$dy, FP8_HighTensor:$x, Variadic<FP8_F32Tensor>:$state, FP8_RecipeAttr:$recipe);
}

#endif // FP8_DIALECT_FP8_IR_FP8LINEAROPS_TD
