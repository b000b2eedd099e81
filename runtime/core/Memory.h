//===- Memory.h - A device's storage as measuring parts see it --*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the watcher and the dynamic memory mode need of a device: allocations in
// stream order, filling, copying and comparing. Each runner has one.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_MEMORY_H
#define FP8RT_CORE_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fp8rt {

/// A range of bytes to be compared with other bytes, or with one value.
struct Comparison {
  const void *data = nullptr;
  /// Null: every byte is expected to be `value`.
  const void *expected = nullptr;
  unsigned char value = 0;
  uint64_t bytes = 0;
  /// Position of the first byte that differs, or `bytes`; set by `compare`.
  uint64_t at = 0;
};

/// Work is done in the order of the stream given to `begin`. A failure of the
/// device is kept in `failure` and makes what follows do nothing.
class Memory {
public:
  virtual ~Memory() = default;

  /// Forgets failures; what follows is ordered after what `stream` holds now.
  virtual void begin(void *stream) = 0;

  /// Storage of `bytes` bytes aligned to 256 bytes, or null when there is
  /// none. What remains of it goes when the memory goes.
  virtual void *allocate(size_t bytes) = 0;
  virtual void release(void *pointer) = 0;

  virtual void set(void *data, unsigned char value, size_t bytes) = 0;
  /// 64-bit words that are multiples of an odd constant, the first one the
  /// `position / 8 + 1`st: no two nearby words are equal, so constant data
  /// never hides a whole range. `position` is a multiple of 8.
  virtual void pattern(void *data, size_t bytes, uint64_t position) = 0;
  virtual void copy(void *to, const void *from, size_t bytes) = 0;
  /// Sets `at` of each comparison; waits for what came before.
  virtual void compare(std::vector<Comparison> &comparisons) = 0;

  /// The largest number of bytes in use, as the device's own allocator counts
  /// them, since the last `resetPoolHigh`; nothing where it does not count.
  virtual void resetPoolHigh() = 0;
  virtual std::optional<uint64_t> poolHighBytes() = 0;

  /// The first failure, or an empty string.
  const std::string &failure() const { return message; }

  static constexpr uint64_t kPatternStep = 0x9E3779B97F4A7C15ull;

protected:
  std::string message;
};

} // namespace fp8rt

#endif // FP8RT_CORE_MEMORY_H
