//===- Gemm.cpp - Blocking, packing and scaling of the matmul -------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The result is cut into blocks whose f32 sums stay in the workspace while k
// is walked in ascending slices; operands are decoded to f32 while they are
// packed into panels. With scales along k a slice is one scale group, whose
// sum is scaled and added; otherwise a slice goes on where the last one
// stopped, which is the same as one pass over k.
//
//===----------------------------------------------------------------------===//

#include "fp8rt/CpuGemm.h"

#include "GemmKernel.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace fp8rt;

namespace {

constexpr int64_t kBlockM = 16 * kTileM;
constexpr int64_t kBlockN = 14 * kTileN;
constexpr int64_t kBlockK = kCpuGemmMaxScaleGroup;

/// What the workspace holds. Panels of `a` are [kc][kTileM], of `b`
/// [kc][kTileN], one after the other.
struct Workspace {
  float a[kBlockM * kBlockK];
  float b[kBlockK * kBlockN];
  float sums[kBlockM * kBlockN];
  float da[kBlockM];
  float db[kBlockN];
};
static_assert(sizeof(Workspace) <= kCpuGemmWorkspaceBytes);

constexpr std::array<float, 256> makeTable(bool e4m3) {
  std::array<float, 256> table{};
  int width = e4m3 ? 3 : 2;
  int bias = e4m3 ? 7 : 15;
  for (int code = 0; code < 256; ++code) {
    int exponent = (code & 0x7F) >> width;
    int mantissa = code & ((1 << width) - 1);
    float value =
        static_cast<float>(exponent == 0 ? mantissa : mantissa + (1 << width));
    int power = (exponent == 0 ? 1 : exponent) - bias - width;
    for (; power < 0; ++power)
      value *= 0.5f;
    for (; power > 0; --power)
      value *= 2.0f;
    bool isNan = e4m3 ? (code & 0x7F) == 0x7F : (code & 0x7F) > 0x7C;
    if (isNan)
      value = __builtin_nanf("");
    else if (!e4m3 && (code & 0x7F) == 0x7C)
      value = __builtin_inff();
    table[code] = code & 0x80 ? -value : value;
  }
  return table;
}

constexpr std::array<float, 256> kE4M3 = makeTable(true);
constexpr std::array<float, 256> kE5M2 = makeTable(false);

struct FromF32 {
  using Storage = float;
  static float decode(float x) { return x; }
};
struct FromBf16 {
  using Storage = uint16_t;
  static float decode(uint16_t x) { return decodeBf16(x); }
};
struct FromE4M3 {
  using Storage = uint8_t;
  static float decode(uint8_t x) { return kE4M3[x]; }
};
struct FromE5M2 {
  using Storage = uint8_t;
  static float decode(uint8_t x) { return kE5M2[x]; }
};

/// Packs `rows` x `depth` elements into panels [depth][Tile], rows beyond
/// `rows` as zeros. Element (r, p) is `source[r * rowStride + p * stepStride]`.
template <typename From, int64_t Tile>
void pack(const typename From::Storage *source, int64_t rows, int64_t depth,
          int64_t rowStride, int64_t stepStride, float *out) {
  for (int64_t r0 = 0; r0 < rows; r0 += Tile, out += Tile * depth) {
    int64_t used = std::min(Tile, rows - r0);
    const auto *base = source + r0 * rowStride;
    if (used < Tile)
      std::fill(out, out + Tile * depth, 0.0f);
    if (rowStride == 1) {
      for (int64_t p = 0; p < depth; ++p)
        for (int64_t r = 0; r < used; ++r)
          out[p * Tile + r] = From::decode(base[p * stepStride + r]);
    } else {
      for (int64_t r = 0; r < used; ++r)
        for (int64_t p = 0; p < depth; ++p)
          out[p * Tile + r] =
              From::decode(base[r * rowStride + p * stepStride]);
    }
  }
}

template <int64_t Tile>
void packAny(const GemmMatrix &matrix, int64_t first, int64_t rows,
             int64_t depth, int64_t rowStride, int64_t stepStride, float *out) {
  auto run = [&](auto from) {
    using From = decltype(from);
    const auto *source =
        static_cast<const typename From::Storage *>(matrix.data) + first;
    pack<From, Tile>(source, rows, depth, rowStride, stepStride, out);
  };
  switch (matrix.dtype) {
  case DType::BF16:
    return run(FromBf16());
  case DType::F8E4M3FN:
    return run(FromE4M3());
  case DType::F8E5M2:
    return run(FromE5M2());
  case DType::F32:
  case DType::I32: // refused when the artifact is loaded
  case DType::I8:
    return run(FromF32());
  }
}

/// Dequantisation factors of `count` rows of `a` (or columns of `b`) from
/// `first` on, at position `k` along the summed axis; 1 without a scale, which
/// multiplies exactly. `axis` is the one that `first` counts along.
void factors(const GemmScale &scale, int axis, int64_t first, int64_t count,
             int64_t k, float *out) {
  if (!scale.data) {
    std::fill(out, out + count, 1.0f);
    return;
  }
  int other = 1 - axis;
  const float *base = scale.data;
  if (scale.group[other])
    base += k / scale.group[other] * scale.strides[other];
  for (int64_t i = 0; i < count; ++i) {
    int64_t group = scale.group[axis] ? (first + i) / scale.group[axis] : 0;
    out[i] = 1.0f / base[group * scale.strides[axis]];
  }
}

float loadAccumulator(const GemmMatrix &c, int64_t index) {
  if (c.dtype == DType::BF16)
    return decodeBf16(static_cast<const uint16_t *>(c.data)[index]);
  return static_cast<const float *>(c.data)[index];
}

void storeResult(const GemmMatrix &d, int64_t index, float value) {
  if (d.dtype == DType::BF16)
    static_cast<uint16_t *>(d.data)[index] = encodeBf16(value);
  else
    static_cast<float *>(d.data)[index] =
        value != value ? floatOfBits(0x7FC00000u) : value;
}

} // namespace

CpuIsa fp8rt::bestCpuIsa() {
#if defined(__x86_64__)
  // The build compiles that kernel for x86-64-v3; these imply the rest of it.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    return CpuIsa::X86V3;
#endif
  return CpuIsa::Portable;
}

void fp8rt::cpuGemm(const GemmProblem &problem, void *workspace, CpuIsa isa) {
  auto &ws = *static_cast<Workspace *>(workspace);
  GemmTileFn tile = gemmTilePortable;
#if defined(__x86_64__)
  if (isa == CpuIsa::X86V3)
    tile = gemmTileX86V3;
#else
  (void)isa;
#endif
  const GemmMatrix &a = problem.a, &b = problem.b, &c = problem.c,
                   &d = problem.d;
  int64_t groupA = problem.scaleA.data ? problem.scaleA.group[1] : 0;
  int64_t groupB = problem.scaleB.data ? problem.scaleB.group[0] : 0;
  int64_t group = std::max(groupA, groupB);
  bool scaled = problem.scaleA.data || problem.scaleB.data;
  int64_t slice = group ? group : kBlockK;

  for (int64_t j0 = 0; j0 < problem.n; j0 += kBlockN) {
    int64_t columns = std::min(kBlockN, problem.n - j0);
    for (int64_t i0 = 0; i0 < problem.m; i0 += kBlockM) {
      int64_t rows = std::min(kBlockM, problem.m - i0);
      std::memset(ws.sums, 0, sizeof(ws.sums));
      for (int64_t p0 = 0; p0 < problem.k; p0 += slice) {
        int64_t depth = std::min(slice, problem.k - p0);
        packAny<kTileM>(a, i0 * a.strides[0] + p0 * a.strides[1], rows, depth,
                        a.strides[0], a.strides[1], ws.a);
        packAny<kTileN>(b, p0 * b.strides[0] + j0 * b.strides[1], columns,
                        depth, b.strides[1], b.strides[0], ws.b);
        if (group) {
          factors(problem.scaleA, 0, i0, rows, p0, ws.da);
          factors(problem.scaleB, 1, j0, columns, p0, ws.db);
        }
        for (int64_t j = 0; j < columns; j += kTileN)
          for (int64_t i = 0; i < rows; i += kTileM)
            tile(depth, ws.a + i * depth, ws.b + j * depth,
                 ws.sums + i * kBlockN + j, kBlockN,
                 group ? ws.da + i : nullptr, ws.db + j);
      }

      bool scaleAtEnd = scaled && !group;
      if (scaleAtEnd) {
        factors(problem.scaleA, 0, i0, rows, 0, ws.da);
        factors(problem.scaleB, 1, j0, columns, 0, ws.db);
      }
      for (int64_t i = 0; i < rows; ++i) {
        float *sums = ws.sums + i * kBlockN;
        if (scaleAtEnd)
          for (int64_t j = 0; j < columns; ++j)
            sums[j] = sums[j] * ws.da[i] * ws.db[j];
        if (c.data)
          for (int64_t j = 0; j < columns; ++j)
            sums[j] += loadAccumulator(c, (i0 + i) * c.strides[0] +
                                              (j0 + j) * c.strides[1]);
        for (int64_t j = 0; j < columns; ++j)
          storeResult(d, (i0 + i) * d.strides[0] + (j0 + j) * d.strides[1],
                      sums[j]);
      }
    }
  }
}
