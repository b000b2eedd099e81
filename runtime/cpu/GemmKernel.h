//===- GemmKernel.h - Register-blocked inner loop of the matmul -*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One source for the inner loop, compiled once per instruction set with a
// vector width that fits it. Lanes run along n, so every element of the
// result still adds its products over k in ascending order: width and register
// blocking cannot change a bit. Include only from the GemmKernel*.cpp files,
// which define `fp8rt::gemmTile*`; the template is in an unnamed namespace, so
// that the linker never merges code of different instruction sets.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CPU_GEMMKERNEL_H
#define FP8RT_CPU_GEMMKERNEL_H

#include <cstdint>

namespace fp8rt {

/// Rows and columns of the register tile, which fix the layout of the panels.
inline constexpr int64_t kTileM = 6;
inline constexpr int64_t kTileN = 16;

/// Adds a tile's products over `kc` steps of k to `c`. `a` is [kc][kTileM],
/// `b` is [kc][kTileN], `c` has rows `ldc` elements apart. With `da` null the
/// sums go on from what is in `c`; otherwise they start from zero and
/// `c = c + (sum * da[row]) * db[column]`.
using GemmTileFn = void (*)(int64_t kc, const float *a, const float *b,
                            float *c, int64_t ldc, const float *da,
                            const float *db);

void gemmTilePortable(int64_t kc, const float *a, const float *b, float *c,
                      int64_t ldc, const float *da, const float *db);
void gemmTileX86V3(int64_t kc, const float *a, const float *b, float *c,
                   int64_t ldc, const float *da, const float *db);

namespace {

template <int Width>
inline void gemmTile(int64_t kc, const float *a, const float *b, float *c,
                     int64_t ldc, const float *da, const float *db) {
  // Element-aligned, since rows of `c` need not be aligned to vectors.
  typedef float Vector
      __attribute__((vector_size(Width * sizeof(float)), aligned(4)));
  for (int64_t half = 0; half < kTileN; half += 2 * Width) {
    Vector acc[kTileM][2];
    for (int64_t i = 0; i < kTileM; ++i)
      for (int64_t j = 0; j < 2; ++j) {
        if (da)
          acc[i][j] = Vector{};
        else
          acc[i][j] =
              *reinterpret_cast<const Vector *>(c + i * ldc + half + j * Width);
      }
    for (int64_t p = 0; p < kc; ++p) {
      Vector b0 = *reinterpret_cast<const Vector *>(b + p * kTileN + half);
      Vector b1 =
          *reinterpret_cast<const Vector *>(b + p * kTileN + half + Width);
#pragma GCC unroll 6
      for (int64_t i = 0; i < kTileM; ++i) {
        float value = a[p * kTileM + i];
        acc[i][0] = acc[i][0] + b0 * value;
        acc[i][1] = acc[i][1] + b1 * value;
      }
    }
    for (int64_t i = 0; i < kTileM; ++i)
      for (int64_t j = 0; j < 2; ++j) {
        Vector *out =
            reinterpret_cast<Vector *>(c + i * ldc + half + j * Width);
        if (da) {
          Vector columns =
              *reinterpret_cast<const Vector *>(db + half + j * Width);
          *out = *out + acc[i][j] * da[i] * columns;
        } else {
          *out = acc[i][j];
        }
      }
  }
}

} // namespace
} // namespace fp8rt

#endif // FP8RT_CPU_GEMMKERNEL_H
