//===- Numeric.h ------------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arithmetic of docs/architecture.md, "Numbers", and of the fp8 ops'
// descriptions, on f32 arrays. Must be compiled without contraction.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_TARGET_REFERENCE_NUMERIC_H
#define FP8_LIB_TARGET_REFERENCE_NUMERIC_H

#include "Formats.h"

#include <optional>
#include <vector>

namespace mlir::fp8::reference {

/// The attributes of fp8.scale.
struct ScaleRule {
  Format format;
  double eps = 0;
  bool isDoubleDivision = false;
  enum { NoPow2, Floor, Ceil } pow2 = NoPow2;
  int margin = 0;
  bool isSaturating = false;
};

/// The multiplier for one amax.
float scaleFromAmax(float amax, const ScaleRule &rule);

/// A multiple of 2^-24 in [0, 1): docs/numerics.md, "Random numbers".
float uniformF32(uint64_t position, uint32_t offset, uint32_t seed,
                 uint32_t stream);

/// Adds up values in the order they come, by the rule of 256 partial sums.
class Sum {
public:
  void add(float value) {
    float &partial = partials[count++ & 255];
    partial = partial + value;
  }
  float finish();

private:
  float partials[256] = {};
  size_t count = 0;
};

/// A matrix of multipliers over an operand: the one of element (i, j) is at
/// (rowGroup ? i / rowGroup : 0, columnGroup ? j / columnGroup : 0) of a
/// row-major [*, columns] array.
struct MatmulScale {
  const float *values;
  int64_t rowGroup, columnGroup;
  int64_t columns;

  float at(int64_t i, int64_t j) const {
    return values[(rowGroup ? i / rowGroup : 0) * columns +
                  (columnGroup ? j / columnGroup : 0)];
  }
};

/// result [m, n] = a [m, k] * b [k, n] + c, everything row-major f32, before
/// the rounding to the result type. NaN is 0x7FC00000. `c` may be null.
void matmul(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
            const std::optional<MatmulScale> &scaleA,
            const std::optional<MatmulScale> &scaleB, const float *c,
            float *result);

} // namespace mlir::fp8::reference

#endif // FP8_LIB_TARGET_REFERENCE_NUMERIC_H
