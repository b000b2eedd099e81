//===- Formats.h - encodings of the reference -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// bf16, FP8 and E5M6 to f32 and back, for the reference interpreter: the small
// ones through a table of all values and a search over the midpoints between
// them. Neither the compiler's nor the runtime's conversions are used, as this
// is what they are checked against.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_TARGET_REFERENCE_FORMATS_H
#define FP8_LIB_TARGET_REFERENCE_FORMATS_H

#include <cstddef>
#include <cstdint>

namespace mlir::fp8::reference {

/// Codes of E5M6, of 12 bits, take two bytes here.
enum class Format { F32, BF16, E5M6, F8E4M3FN, F8E5M2 };

/// Bytes of one element.
size_t getElementBytes(Format format);

/// The largest finite value.
float getMaxFinite(Format format);

/// Decodes `count` elements at `source` (any alignment). Exact.
void decode(Format format, const uint8_t *source, float *values, size_t count);

/// Encodes `count` values, rounded to nearest even. NaN becomes 0x7F in both
/// FP8 formats and 0x7FF in E5M6; in bf16 it stays a NaN of the same sign and
/// upper payload, made quiet. With `saturate` a value beyond the largest finite
/// one becomes that one; without, it becomes NaN in f8E4M3FN and infinity in
/// the others. bf16 overflows to infinity always.
void encode(Format format, const float *values, uint8_t *target, size_t count,
            bool saturate = true);

/// `value` rounded to bf16, as an f32.
float roundToBF16(float value);

} // namespace mlir::fp8::reference

#endif // FP8_LIB_TARGET_REFERENCE_FORMATS_H
