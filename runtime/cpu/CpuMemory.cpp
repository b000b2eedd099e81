//===- CpuMemory.cpp - Storage of the host --------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Comparisons run at memory speed through memcmp, in pieces, so that the first
// difference is found without a second pass over everything.
//
//===----------------------------------------------------------------------===//

#include "CpuMemory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace fp8rt;

namespace {

/// Position of the first byte in which `a` and `b` differ, or `bytes`.
size_t firstDifference(const unsigned char *a, const unsigned char *b,
                       size_t bytes) {
  constexpr size_t chunk = 1 << 16;
  for (size_t begin = 0; begin < bytes; begin += chunk) {
    size_t size = std::min(chunk, bytes - begin);
    if (std::memcmp(a + begin, b + begin, size) == 0)
      continue;
    while (a[begin] == b[begin])
      ++begin;
    return begin;
  }
  return bytes;
}

size_t firstOther(const unsigned char *data, unsigned char value,
                  size_t bytes) {
  return static_cast<size_t>(
      std::find_if(data, data + bytes,
                   [&](unsigned char byte) { return byte != value; }) -
      data);
}

} // namespace

void *CpuMemory::allocate(size_t bytes) {
  // aligned_alloc wants a size that is a multiple of the alignment.
  return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
}

void CpuMemory::release(void *pointer) { std::free(pointer); }

void CpuMemory::set(void *data, unsigned char value, size_t bytes) {
  std::memset(data, value, bytes);
}

void CpuMemory::pattern(void *data, size_t bytes, uint64_t position) {
  auto *out = static_cast<unsigned char *>(data);
  uint64_t word = (position / 8 + 1) * kPatternStep;
  for (size_t i = 0; i < bytes; i += 8, word += kPatternStep)
    std::memcpy(out + i, &word, std::min<size_t>(8, bytes - i));
}

void CpuMemory::copy(void *to, const void *from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

void CpuMemory::compare(std::vector<Comparison> &comparisons) {
  for (Comparison &comparison : comparisons) {
    const auto *data = static_cast<const unsigned char *>(comparison.data);
    comparison.at =
        comparison.expected
            ? firstDifference(
                  data, static_cast<const unsigned char *>(comparison.expected),
                  comparison.bytes)
            : firstOther(data, comparison.value, comparison.bytes);
  }
}
