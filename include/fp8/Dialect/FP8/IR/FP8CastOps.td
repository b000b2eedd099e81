//===- FP8CastOps.td - amax, scales and casts ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Everything between a high-precision tensor and its FP8 form.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8CASTOPS_TD
#define FP8_DIALECT_FP8_IR_FP8CASTOPS_TD

include "fp8/Dialect/FP8/IR/FP8OpBase.td"

def FP8_AmaxOp : FP8_Op<"amax", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "largest absolute value of each group";
  let description = [{
    For each group of elements (see `docs/architecture.md`, "Shapes of scales"; 0 stands for the whole dimension) the
    largest |x|, as f32. NaN where an element of the group is NaN. Stop-gradient.

    * (C1) `group` has one entry a dimension, each at least 0;
    * (C2) the result has the shape ceil(dim / group), 1 where the group is 0.

    Example:
    ```mlir
    %m = fp8.amax %x group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
    ```
  }];
  let arguments = (ins FP8_HighTensor:$x, DenseI64ArrayAttr:$group);
  let results = (outs FP8_F32Tensor:$result);
  let assemblyFormat = "$x `group` `=` $group attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

def FP8_ScaleOp : FP8_Op<"scale", [Pure, AllTypesMatch<["amax", "result"]>, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "the multiplier of a cast, from an amax";
  let description = [{
    Elementwise, with `max` the largest finite value of `format` (448, 57344 or 65024):

    1. a NaN gives NaN; an infinite amax gives NaN with `nonfinite = propagate`, with `saturate` it becomes FLT_MAX;
    2. `a = max(amax, eps)` (eps 0: unchanged); if `a` is 0 the result is 1;
    3. `s = rn(max / a)` in f32, or divided in f64 and then rounded to f32, as `division` says;
    4. `s = rn(s * 2^-margin)`; an infinite `s` becomes FLT_MAX;
    5. `pow2 = floor` clears the mantissa of `s`; `ceil` gives the next power of two that is not below `s`.

    torchao's rule is `eps = 1e-12, division = double`; TransformerEngine's `eps = 0, division = single`. Stop-gradient.

    * (C1) `format` is f8E4M3FN, f8E5M2 or `!fp8.e5m6`;
    * (C2) `eps` is finite and not negative;
    * (C3) `margin` lies in [0, 16].

    Example:
    ```mlir
    %s = fp8.scale %m format = f8E4M3FN {eps = 1.0e-12 : f64, division = #fp8.division<double>} : tensor<64x1xf32>
    ```
  }];
  let arguments = (ins FP8_F32Tensor:$amax, TypeAttr:$format,
    DefaultValuedAttr<F64Attr, "0.0">:$eps,
    DefaultValuedAttr<FP8_DivisionAttr, "Division::F32">:$division,
    DefaultValuedAttr<FP8_Pow2Attr, "Pow2::None">:$pow2,
    DefaultValuedAttr<I64Attr, "0">:$margin,
    DefaultValuedAttr<FP8_NonFiniteAttr, "NonFinite::Propagate">:$nonfinite);
  let results = (outs FP8_F32Tensor:$result);
  let assemblyFormat = "$amax `format` `=` $format attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def FP8_CastOp : FP8_Op<"cast", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<SaveAlternativesInterface>]> {
  let summary = "x * s, rounded to an FP8 format or to E5M6";
  let description = [{
    Each element is `encode(rn_f32(x * s))` with the scale of its group: round to nearest even; beyond the largest
    finite value it saturates (`saturate = true`, the default) or becomes NaN in f8E4M3FN, infinity in f8E5M2 and
    `!fp8.e5m6`; NaN encodes to 0x7F in both FP8 formats, to 0x7FF in `!fp8.e5m6`. The gradient passes straight through, clipped elements too.

    * (C1) the result has the shape of `x` and a scaled encoding;
    * (C2) the shape of `scale` is ceil(dim / group) of the result's group.

    Example:
    ```mlir
    %q = fp8.cast %x, %s : tensor<64x32xbf16>, tensor<64x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    ```
  }];
  let arguments = (ins FP8_HighTensor:$x, FP8_F32Tensor:$scale, DefaultValuedAttr<BoolAttr, "true">:$saturate);
  let results = (outs FP8_CastTensor:$result);
  let assemblyFormat = "$x `,` $scale attr-dict `:` type($x) `,` type($scale) `->` type($result)";
  let hasVerifier = 1;
}

def FP8_DequantizeOp : FP8_Op<"dequantize", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<SaveAlternativesInterface>]> {
  let summary = "the value a scaled tensor stands for";
  let description = [{
    Each element is `decode(q) * d` with `d = rn(1 / s)` of its group, in f32, then rounded to the result type. The
    only way out of a scaled type.

    * (C1) `q` has a scaled encoding; the result has its shape and no encoding;
    * (C2) the shape of `scale` is ceil(dim / group) of `q`'s group;
    * (C3) where both are visible, `scale` is the one that `q` was cast with.

    Example:
    ```mlir
    %x = fp8.dequantize %q, %s : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<64x1xf32> -> tensor<64x32xbf16>
    ```
  }];
  let arguments = (ins FP8_CastTensor:$q, FP8_F32Tensor:$scale);
  let results = (outs FP8_HighTensor:$result);
  let assemblyFormat = "$q `,` $scale attr-dict `:` type($q) `,` type($scale) `->` type($result)";
  let hasVerifier = 1;
}

def FP8_PushAmaxOp : FP8_Op<"push_amax", [MemoryEffects<[MemRead<FP8_StateResource>, MemWrite<FP8_StateResource>]>]> {
  let summary = "max-combines an amax into slot 0 of a history, in place";
  let description = [{
    `history[0] = max(history[0], amax)` (NaN if either is NaN). The effect on the state that delayed scaling needs;
    never recomputed, so it runs once a microbatch whatever the plan.

    * (C1) `amax` has one element, `history` has rank 1;
    * (C2) `history` is a function argument marked `fp8.state`, or one handed to the kernel the op is in.

    Example:
    ```mlir
    fp8.push_amax %m, %history : tensor<1x1xf32>, tensor<16xf32>
    ```
  }];
  let arguments = (ins FP8_F32Tensor:$amax, FP8_F32Tensor:$history);
  let assemblyFormat = "$amax `,` $history attr-dict `:` type($amax) `,` type($history)";
  let hasVerifier = 1;
}

def FP8_UpdateScaleOp : FP8_Op<"update_scale", [MemoryEffects<[MemRead<FP8_StateResource>, MemWrite<FP8_StateResource>]>]> {
  let summary = "end of a step: the scale from a history, and the history rolled, in place";
  let description = [{
    `amax` = the maximum over the history (NaN if any is NaN). `scale` becomes what `fp8.scale` gives for that amax
    (same attributes) where it is above 0; with an amax of 0 it stays. Then the history moves up by one (slot i+1 =
    slot i, the oldest is dropped) and slot 0 becomes 0. TransformerEngine's delayed scaling with the "max" rule.

    * (C1) `scale` has one element, `history` has rank 1;
    * (C2) both are function arguments marked `fp8.state`, or such handed to the kernel the op is in;
    * (C3) `format` is f8E4M3FN or f8E5M2, `margin` lies in [0, 16].

    Example:
    ```mlir
    fp8.update_scale %history, %scale format = f8E4M3FN : tensor<16xf32>, tensor<1x1xf32>
    ```
  }];
  let arguments = (ins FP8_F32Tensor:$history, FP8_F32Tensor:$scale, TypeAttr:$format,
    DefaultValuedAttr<FP8_Pow2Attr, "Pow2::None">:$pow2, DefaultValuedAttr<I64Attr, "0">:$margin);
  let assemblyFormat = "$history `,` $scale `format` `=` $format attr-dict `:` type($history) `,` type($scale)";
  let hasVerifier = 1;
}

#endif // FP8_DIALECT_FP8_IR_FP8CASTOPS_TD
