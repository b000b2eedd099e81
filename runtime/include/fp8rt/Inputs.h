//===- Inputs.h - Reproducible inputs from a seed ---------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an argument holds in a test run: element `e` of the argument called
// `name` is a pure function of (name, seed, step, microbatch, e), so that the
// runtime and the reference interpreter make the same inputs without talking
// to each other, in any order and in parallel. Only integer arithmetic and two
// f32 products are used: the bits do not depend on the machine or on a
// library. The definition is repeated in docs/artifact.md, "Inputs".
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_INPUTS_H
#define FP8RT_INPUTS_H

#include "fp8rt/Formats.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fp8rt {

/// How the elements of an argument are chosen.
/// `Position`: each is its row-major position in the whole tensor times the
/// scale.
enum class Init : uint8_t { Normal, Zero, One, Position };

/// What an argument is to the step; `Parameter` and `State` keep their value
/// over steps and microbatches, the others are new in each run.
enum class Role : uint8_t { Input, Parameter, Tangent, State, Donated };

/// One round of the SplitMix64 output function.
FP8RT_HOST_DEVICE inline uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// The key of one argument in one run. `step` and `microbatch` count from 0
/// and are ignored for parameters and state.
inline uint64_t inputKey(std::string_view name, Role role, uint64_t seed,
                         uint64_t step, uint64_t microbatch) {
  if (role == Role::Parameter || role == Role::State)
    step = microbatch = 0;
  uint64_t hash = 0xCBF29CE484222325ull; // FNV-1a over the bytes of the name
  for (char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  uint64_t key = splitmix64(hash);
  key = splitmix64(key ^ seed);
  key = splitmix64(key ^ step);
  return splitmix64(key ^ microbatch);
}

/// Element `e` (row-major position) before rounding to the element type:
/// four 16-bit uniforms, summed, centred, scaled to unit variance and then by
/// `scale`; at most 3.465 * |scale| in magnitude.
FP8RT_HOST_DEVICE inline float inputValue(uint64_t key, uint64_t e,
                                          float scale) {
  uint64_t bits = splitmix64(key + e * 0xD1342543DE82EF95ull);
  int32_t sum = 0;
  for (int i = 0; i < 4; ++i)
    sum += static_cast<int32_t>((bits >> (16 * i)) & 0xFFFFu);
  // 1 / sqrt((65536^2 - 1) / 3), the reciprocal of the sum's deviation.
  constexpr float unit = 0x1.bb67aep-16f;
  float normal = static_cast<float>(sum - 2 * 65535) * unit;
  return normal * scale;
}

/// Stores `value` rounded to nearest even as element `index` of `data`. f8
/// saturates; i32 takes the nearest integer, halves away from zero.
FP8RT_HOST_DEVICE inline void storeInput(void *data, DType type, size_t index,
                                         float value) {
  switch (type) {
  case DType::BF16:
    static_cast<uint16_t *>(data)[index] = encodeBf16(value);
    return;
  case DType::F32:
    static_cast<float *>(data)[index] = value;
    return;
  case DType::F8E4M3FN:
  case DType::F8E5M2:
    static_cast<uint8_t *>(data)[index] = encodeF8(value, type);
    return;
  case DType::I32:
    static_cast<int32_t *>(data)[index] =
        static_cast<int32_t>(value + (value < 0 ? -0.5f : 0.5f));
    return;
  case DType::I8:
    static_cast<int8_t *>(data)[index] =
        static_cast<int8_t>(value + (value < 0 ? -0.5f : 0.5f));
    return;
  }
}

/// The element of an argument at row-major position `e`.
FP8RT_HOST_DEVICE inline float initialValue(Init init, float scale,
                                            uint64_t key, uint64_t e) {
  return init == Init::Zero       ? 0.0f
         : init == Init::One      ? 1.0f
         : init == Init::Position ? static_cast<float>(e) * scale
                                  : inputValue(key, e, scale);
}

/// Fills `data`, `count` elements in row-major order, with the values that
/// `key` stands for.
inline void fillInput(void *data, DType type, size_t count, Init init,
                      float scale, uint64_t key) {
  for (size_t e = 0; e < count; ++e)
    storeInput(data, type, e, initialValue(init, scale, key, e));
}

/// The same for a part of a larger tensor: element (i, j, ...) of the part, of
/// `rank` dimensions of the sizes `shape`, is element `offset + i * strides[0]
/// + j * strides[1] + ...` of the whole.
inline void fillShard(void *data, DType type, size_t rank, const int64_t *shape,
                      int64_t offset, const int64_t *strides, Init init,
                      float scale, uint64_t key) {
  size_t count = 1;
  for (size_t d = 0; d < rank; ++d)
    count *= static_cast<size_t>(shape[d]);
  for (size_t e = 0; e < count; ++e) {
    auto rest = static_cast<int64_t>(e);
    int64_t at = offset;
    for (size_t d = rank; d-- > 0; rest /= shape[d])
      at += rest % shape[d] * strides[d];
    storeInput(data, type, e,
               initialValue(init, scale, key, static_cast<uint64_t>(at)));
  }
}

/// `fillInput` for an argument's value in one run.
inline void fillInput(void *data, DType type, size_t count, Init init,
                      float scale, std::string_view name, Role role,
                      uint64_t seed, uint64_t step, uint64_t microbatch) {
  fillInput(data, type, count, init, scale,
            inputKey(name, role, seed, step, microbatch));
}

} // namespace fp8rt

#endif // FP8RT_INPUTS_H
