//===- DeviceKernels.cu - The runtime's own kernels -----------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels that no plan knows of: the factors of a matmul, fills, and what the
// watcher and the tool need (patterns, comparisons, test inputs). Each walks
// its data with a stride of the whole grid, so that any grid is right.
//
//===----------------------------------------------------------------------===//

#include "DeviceKernels.h"

#include "fp8rt/Inputs.h"

using namespace fp8rt;

namespace {

__device__ uint64_t firstIndex() {
  return static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ uint64_t gridStride() {
  return static_cast<uint64_t>(gridDim.x) * blockDim.x;
}

/// Lowers `*first` to `position`. Read first: once it is low, the many threads
/// that find a difference do not queue for it.
__device__ void lower(unsigned long long *first, uint64_t position) {
  if (*static_cast<volatile unsigned long long *>(first) > position)
    atomicMin(first, static_cast<unsigned long long>(position));
}

} // namespace

extern "C" __global__ void fp8rt_compare(CompareParameters p) {
  bool together = !p.expected || ((reinterpret_cast<uintptr_t>(p.data) ^
                                   reinterpret_cast<uintptr_t>(p.expected)) &
                                  15) == 0;
  // Chunks of 16 bytes from the aligned address at or before the first byte;
  // single bytes where the two ranges are not aligned alike.
  uint64_t head = reinterpret_cast<uintptr_t>(p.data) & 15;
  uint32_t splat = p.value * 0x01010101u;
  uint64_t chunks = (head + p.bytes + 15) / 16;
  for (uint64_t chunk = firstIndex(); chunk < chunks; chunk += gridStride()) {
    uint64_t begin = chunk == 0 ? 0 : chunk * 16 - head;
    uint64_t end = chunk * 16 + 16 - head;
    if (end > p.bytes)
      end = p.bytes;
    if (together && end - begin == 16) {
      uint4 a = *reinterpret_cast<const uint4 *>(p.data + begin);
      uint4 b = p.expected
                    ? *reinterpret_cast<const uint4 *>(p.expected + begin)
                    : make_uint4(splat, splat, splat, splat);
      if (a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w)
        continue;
    }
    for (uint64_t i = begin; i < end; ++i)
      if (p.data[i] != (p.expected ? p.expected[i] : p.value)) {
        lower(p.first, i);
        break;
      }
  }
}

extern "C" __global__ void fp8rt_pattern(PatternParameters p) {
  constexpr uint64_t step = 0x9E3779B97F4A7C15ull; // Memory::kPatternStep
  uint64_t words = p.bytes / 8;
  uint64_t base = p.position / 8 + 1;
  for (uint64_t i = firstIndex(); i < words; i += gridStride())
    reinterpret_cast<uint64_t *>(p.data)[i] = (base + i) * step;
  uint64_t last = (base + words) * step;
  for (uint64_t i = firstIndex(); i < p.bytes % 8; i += gridStride())
    p.data[words * 8 + i] = static_cast<unsigned char>(last >> (8 * i));
}

extern "C" __global__ void fp8rt_factors(FactorParameters p) {
  // Not indexed by the block: the parameters stay where they are passed.
  const FactorOperand operand = blockIdx.y == 0 ? p.operands[0] : p.operands[1];
  uint64_t count = static_cast<uint64_t>(operand.slow) *
                   static_cast<uint64_t>(operand.pitch);
  for (uint64_t e = firstIndex(); e < count; e += gridStride()) {
    int64_t i = static_cast<int64_t>(e) / operand.pitch;
    int64_t j = static_cast<int64_t>(e) % operand.pitch;
    operand.out[e] = j < operand.fast
                         ? __frcp_rn(operand.scale[i * operand.slowStride +
                                                   j * operand.fastStride])
                         : 1.0f;
  }
}

extern "C" __global__ void
fp8rt_zero(const __grid_constant__ ZeroParameters p) {
  ZeroRegion region = p.regions[blockIdx.y];
  uint64_t words = region.bytes / 16;
  for (uint64_t i = firstIndex(); i < words; i += gridStride())
    reinterpret_cast<uint4 *>(region.data)[i] = make_uint4(0, 0, 0, 0);
  for (uint64_t i = firstIndex(); i < region.bytes % 16; i += gridStride())
    region.data[words * 16 + i] = 0;
}

extern "C" __global__ void
fp8rt_fill_input(const __grid_constant__ FillInputParameters p) {
  for (uint64_t e = firstIndex(); e < p.count; e += gridStride()) {
    auto rest = static_cast<int64_t>(e);
    int64_t at = p.offset;
    for (uint32_t d = p.rank; d-- > 1; rest /= p.shape[d])
      at += rest % p.shape[d] * p.strides[d];
    if (p.rank > 0)
      at += rest * p.strides[0];
    storeInput(p.data, static_cast<DType>(p.dtype), e,
               initialValue(static_cast<Init>(p.init), p.scale, p.key,
                            static_cast<uint64_t>(at)));
  }
}

namespace {

template <typename T>
__device__ void exchange(const ExchangeParameters &p) {
  auto *strided = reinterpret_cast<T *>(p.strided);
  auto *dense = reinterpret_cast<T *>(p.dense);
  for (uint64_t e = firstIndex(); e < p.count; e += gridStride()) {
    auto position = static_cast<int64_t>(p.first + e);
    int64_t rest = position / p.run, at = position % p.run;
    for (uint32_t d = p.rank; d-- > 0; rest /= p.shape[d])
      at += rest % p.shape[d] * p.strides[d];
    if (p.toDense)
      dense[e] = strided[at];
    else
      strided[at] = dense[e];
  }
}

} // namespace

extern "C" __global__ void
fp8rt_exchange(const __grid_constant__ ExchangeParameters p) {
  switch (p.width) {
  case 1:
    return exchange<uint8_t>(p);
  case 2:
    return exchange<uint16_t>(p);
  case 4:
    return exchange<uint32_t>(p);
  case 8:
    return exchange<uint64_t>(p);
  case 16:
    return exchange<uint4>(p);
  }
}

namespace {

__device__ const unsigned char *pieceOf(const ReduceParameters &p, uint32_t m) {
  return m == p.member ? p.own : p.pieces + m * p.pieceBytes;
}

/// Adds a piece's element to those of the members before it.
__device__ float join(const ReduceParameters &p, float total, float value) {
  if (!p.isMax)
    return p.sumsInBF16 ? decodeBf16(encodeBf16(total + value)) : total + value;
  if (isnan(total) || isnan(value))
    return __uint_as_float(0x7FC00000u);
  if (total == value)
    return signbit(total) ? value : total; // -0 < +0
  return fmaxf(total, value);
}

__device__ float load(const float *data) { return *data; }
__device__ float load(const uint16_t *data) { return decodeBf16(*data); }
__device__ void store(float *data, float value) {
  *data = isnan(value) ? __uint_as_float(0x7FC00000u) : value;
}
__device__ void store(uint16_t *data, float value) {
  *data = isnan(value) ? uint16_t(0x7FFF) : encodeBf16(value);
}

template <typename T>
__device__ void reduceOne(const ReduceParameters &p, uint64_t e) {
  float total = load(reinterpret_cast<const T *>(pieceOf(p, 0)) + e);
  for (uint32_t m = 1; m < p.members; ++m)
    total =
        join(p, total, load(reinterpret_cast<const T *>(pieceOf(p, m)) + e));
  store(reinterpret_cast<T *>(p.target) + e, total);
}

/// 16 bytes of two members at a time: both are on their way together, without
/// which memory would not be busy.
template <typename T>
__device__ void reduceTwo(const ReduceParameters &p, uint64_t vector) {
  constexpr uint32_t width = 16 / sizeof(T);
  uint4 words[2] = {reinterpret_cast<const uint4 *>(pieceOf(p, 0))[vector],
                    reinterpret_cast<const uint4 *>(pieceOf(p, 1))[vector]};
  T sums[width];
  for (uint32_t i = 0; i < width; ++i) {
    T first, second;
    memcpy(&first, reinterpret_cast<const T *>(&words[0]) + i, sizeof(T));
    memcpy(&second, reinterpret_cast<const T *>(&words[1]) + i, sizeof(T));
    store(sums + i, join(p, load(&first), load(&second)));
  }
  uint4 sum;
  memcpy(&sum, sums, sizeof(sum));
  reinterpret_cast<uint4 *>(p.target)[vector] = sum;
}

template <typename T>
__device__ void reduce(const ReduceParameters &p) {
  uint64_t addresses = reinterpret_cast<uintptr_t>(p.pieces) |
                       reinterpret_cast<uintptr_t>(p.own) |
                       reinterpret_cast<uintptr_t>(p.target) | p.pieceBytes;
  uint64_t width = 16 / sizeof(T);
  uint64_t vectors =
      p.members == 2 && addresses % 16 == 0 ? p.count / width : 0;
  for (uint64_t v = firstIndex(); v < vectors; v += gridStride())
    reduceTwo<T>(p, v);
  for (uint64_t e = vectors * width + firstIndex(); e < p.count;
       e += gridStride())
    reduceOne<T>(p, e);
}

} // namespace

extern "C" __global__ void
fp8rt_reduce(const __grid_constant__ ReduceParameters p) {
  if (p.isBF16)
    reduce<uint16_t>(p);
  else
    reduce<float>(p);
}
