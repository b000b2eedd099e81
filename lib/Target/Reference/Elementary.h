//===- Elementary.h ---------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The f32 sequences of docs/numerics.md, for the reference interpreter. Code
// generation has its own implementation and shares nothing with this file. Must
// be compiled without contraction.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_TARGET_REFERENCE_ELEMENTARY_H
#define FP8_LIB_TARGET_REFERENCE_ELEMENTARY_H

namespace mlir::fp8::reference {

float expF32(float x);
float logF32(float x);
float tanhF32(float x);
float erfF32(float x);
float sqrtF32(float x);
float rsqrtF32(float x);

/// IEEE maximum and minimum: NaN (0x7FC00000) if either operand is NaN, -0
/// below +0.
float maximumF32(float a, float b);
float minimumF32(float a, float b);

} // namespace mlir::fp8::reference

#endif // FP8_LIB_TARGET_REFERENCE_ELEMENTARY_H
