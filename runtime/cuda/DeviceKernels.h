//===- DeviceKernels.h - Parameters of the runtime's own kernels -*- C++ -*-==//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the host passes to the kernels of DeviceKernels.cu.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CUDA_DEVICEKERNELS_H
#define FP8RT_CUDA_DEVICEKERNELS_H

#include <cstddef>
#include <cstdint>

namespace fp8rt {

/// Threads of a block of every kernel here.
inline constexpr uint32_t kDeviceBlock = 256;

/// fp8rt_compare: sets `*first` to the smallest position at which `data`
/// differs from `expected` (or from `value`, where that is null). `*first` is
/// at least `bytes` before.
struct CompareParameters {
  const unsigned char *data;
  const unsigned char *expected;
  uint64_t bytes;
  unsigned long long *first;
  uint32_t value;
};

/// fp8rt_pattern: the words of `Memory::pattern`; `data` is aligned to 8 bytes.
struct PatternParameters {
  unsigned char *data;
  uint64_t bytes;
  uint64_t position;
};

/// One operand of fp8rt_factors: `slow` rows of `pitch` factors, the first
/// `fast` of each the reciprocals of `scale[i * slowStride + j * fastStride]`,
/// the others 1. No rows: nothing.
struct FactorOperand {
  const float *scale;
  float *out;
  int64_t slow, fast, pitch;
  int64_t slowStride, fastStride;
};

/// fp8rt_factors: block row y of the grid makes the factors of operand y.
struct FactorParameters {
  FactorOperand operands[2];
};

/// The most regions of one launch of fp8rt_zero.
inline constexpr std::size_t kZeroRegions = 16;

struct ZeroRegion {
  unsigned char *data;
  uint64_t bytes;
};

/// fp8rt_zero: block row y of the grid sets region y to zero; `data` is
/// aligned to 16 bytes.
struct ZeroParameters {
  ZeroRegion regions[kZeroRegions];
};

/// The most dimensions of what the kernels below walk.
inline constexpr std::size_t kMostDims = 8;

/// fp8rt_fill_input: `count` elements as fp8rt/Inputs.h says; `dtype` and
/// `init` are the values of `DType` and `Init`. Element (i, j, ...) of the
/// `rank` dimensions has the value of position `offset + i * strides[0] + ...`.
struct FillInputParameters {
  void *data;
  uint64_t count;
  uint64_t key;
  float scale;
  uint32_t dtype;
  uint32_t init;
  uint32_t rank;
  int64_t offset;
  int64_t shape[kMostDims], strides[kMostDims];
};

/// fp8rt_exchange: copies elements `first` to `first + count` of a strided
/// piece to or from dense memory. An element has `width` bytes (1, 2, 4, 8 or
/// 16); `run` of them lie next to one another, and the runs along the `rank`
/// dimensions of `shape` have strides in elements.
struct ExchangeParameters {
  unsigned char *strided;
  unsigned char *dense;
  uint64_t first, count;
  uint32_t width;
  uint32_t rank;
  uint32_t toDense;
  int64_t run;
  int64_t shape[kMostDims], strides[kMostDims];
};

/// fp8rt_reduce: `count` elements of f32, or bf16 where `isBF16`, from the
/// pieces of `members` ranks, in their order. That of member m is `own` where m
/// is `member`, else at `pieces + m * pieceBytes`.
struct ReduceParameters {
  const unsigned char *pieces;
  const unsigned char *own;
  unsigned char *target;
  uint64_t count, pieceBytes;
  uint32_t members, member;
  uint32_t isBF16, isMax, sumsInBF16;
};

} // namespace fp8rt

#endif // FP8RT_CUDA_DEVICEKERNELS_H
