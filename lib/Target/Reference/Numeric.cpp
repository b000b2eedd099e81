//===- Numeric.cpp ----------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Numeric.h.
//
//===----------------------------------------------------------------------===//

#include "Numeric.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

// The matmul is written once and compiled for AVX2 too, without fused
// multiply-adds: the bits are the same.
#if defined(__x86_64__) && defined(__clang__)
#define FP8_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define FP8_VECTOR_CLONES
#endif

namespace mlir::fp8::reference {

static const float kNaN = std::bit_cast<float>(uint32_t(0x7FC00000));

float scaleFromAmax(float amax, const ScaleRule &rule) {
  constexpr float largest = std::numeric_limits<float>::max();
  if (std::isnan(amax))
    return kNaN;
  if (std::isinf(amax)) {
    if (!rule.isSaturating)
      return kNaN;
    amax = largest;
  }
  float scale;
  float maxFinite = getMaxFinite(rule.format);
  if (rule.isDoubleDivision) {
    double a = std::max(double(amax), rule.eps);
    if (a == 0)
      return 1;
    scale = float(double(maxFinite) / a);
  } else {
    float a = std::max(amax, float(rule.eps));
    if (a == 0)
      return 1;
    scale = maxFinite / a;
  }
  scale = scale * std::ldexp(1.0f, -rule.margin);
  if (std::isinf(scale))
    scale = largest;
  if (rule.pow2 == ScaleRule::NoPow2)
    return scale;
  // scale = fraction * 2^exponent with the fraction in [1/2, 1).
  int exponent;
  float fraction = std::frexp(scale, &exponent);
  if (rule.pow2 == ScaleRule::Floor || fraction == 0.5f)
    return std::ldexp(1.0f, exponent - 1);
  return std::ldexp(1.0f, exponent);
}

float Sum::finish() {
  for (unsigned half = 128; half >= 1; half /= 2)
    for (unsigned j = 0; j < half; ++j)
      partials[j] = partials[j] + partials[j + half];
  return partials[0];
}

namespace {

constexpr int64_t kRows = 4, kColumns = 16;
typedef float Vector __attribute__((vector_size(4 * kColumns)));

/// Adds to sums[r] the products of kRows rows of `a` (k entries, stride `lda`)
/// and a panel of `b` (k times kColumns), k ascending.
FP8_VECTOR_CLONES
void addProducts(int64_t k, const float *a, int64_t lda, const float *panel,
                 float *sums) {
  Vector s0, s1, s2, s3;
  __builtin_memcpy(&s0, sums, sizeof(Vector));
  __builtin_memcpy(&s1, sums + kColumns, sizeof(Vector));
  __builtin_memcpy(&s2, sums + 2 * kColumns, sizeof(Vector));
  __builtin_memcpy(&s3, sums + 3 * kColumns, sizeof(Vector));
  for (int64_t i = 0; i < k; ++i) {
    Vector b;
    __builtin_memcpy(&b, panel + i * kColumns, sizeof(Vector));
    s0 = s0 + b * a[i];
    s1 = s1 + b * a[lda + i];
    s2 = s2 + b * a[2 * lda + i];
    s3 = s3 + b * a[3 * lda + i];
  }
  __builtin_memcpy(sums, &s0, sizeof(Vector));
  __builtin_memcpy(sums + kColumns, &s1, sizeof(Vector));
  __builtin_memcpy(sums + 2 * kColumns, &s2, sizeof(Vector));
  __builtin_memcpy(sums + 3 * kColumns, &s3, sizeof(Vector));
}

float dequantizationFactor(const MatmulScale &scale, int64_t i, int64_t j) {
  return 1.0f / scale.at(i, j);
}

} // namespace

void matmul(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
            const std::optional<MatmulScale> &scaleA,
            const std::optional<MatmulScale> &scaleB, const float *c,
            float *result) {
  // Groups along k: of columns of a, of rows of b. Equal where both have them.
  int64_t group = scaleA && scaleA->columnGroup ? scaleA->columnGroup
                  : scaleB                      ? scaleB->rowGroup
                                                : 0;
  int64_t step = group ? group : k;

  // Rows are padded with zeros to whole tiles; what they give is dropped.
  int64_t paddedM = (m + kRows - 1) / kRows * kRows;
  std::vector<float> rows(paddedM * k, 0.0f);
  std::copy(a, a + m * k, rows.begin());
  std::vector<float> panel(k * kColumns);

  for (int64_t column = 0; column < n; column += kColumns) {
    int64_t width = std::min(kColumns, n - column);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < kColumns; ++j)
        panel[i * kColumns + j] = j < width ? b[i * n + column + j] : 0.0f;
    for (int64_t row = 0; row < m; row += kRows) {
      float totals[kRows * kColumns] = {};
      for (int64_t start = 0; start < k; start += step) {
        float sums[kRows * kColumns] = {};
        addProducts(std::min(step, k - start), &rows[row * k + start], k,
                    &panel[start * kColumns], sums);
        for (int64_t r = 0; r < kRows && row + r < m; ++r) {
          for (int64_t j = 0; j < width; ++j) {
            float value = sums[r * kColumns + j];
            if (scaleA)
              value = value * dequantizationFactor(*scaleA, row + r, start);
            if (scaleB)
              value = value * dequantizationFactor(*scaleB, start, column + j);
            float &total = totals[r * kColumns + j];
            // Without blocks there is one sum, which is the total.
            total = group ? total + value : value;
          }
        }
      }
      for (int64_t r = 0; r < kRows && row + r < m; ++r) {
        for (int64_t j = 0; j < width; ++j) {
          int64_t index = (row + r) * n + column + j;
          float value = totals[r * kColumns + j];
          if (c)
            value = value + c[index];
          result[index] = std::isnan(value) ? kNaN : value;
        }
      }
    }
  }
}

float uniformF32(uint64_t position, uint32_t offset, uint32_t seed,
                 uint32_t stream) {
  // Philox4x32-10 of Salmon, Moraes, Dror and Shaw (SC 2011).
  uint32_t c0 = uint32_t(position), c1 = uint32_t(position >> 32), c2 = offset,
           c3 = 0;
  for (uint32_t round = 0; round < 10; ++round) {
    uint64_t p = uint64_t(0xD2511F53u) * c0, q = uint64_t(0xCD9E8D57u) * c2;
    uint32_t k0 = seed + round * 0x9E3779B9u, k1 = stream + round * 0xBB67AE85u;
    c0 = uint32_t(q >> 32) ^ c1 ^ k0;
    c1 = uint32_t(q);
    c2 = uint32_t(p >> 32) ^ c3 ^ k1;
    c3 = uint32_t(p);
  }
  return float(c0 >> 8) * 0x1p-24f;
}

} // namespace mlir::fp8::reference
