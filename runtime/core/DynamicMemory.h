//===- DynamicMemory.h - Allocation at each command -------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dynamic memory mode: every alloc command takes storage of its own and
// every free command gives it back, through an allocator that counts.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_DYNAMICMEMORY_H
#define FP8RT_CORE_DYNAMICMEMORY_H

#include "Backend.h"

#include <map>
#include <vector>

namespace fp8rt {

/// Counts the bytes asked of a device, below everything that knows the plan:
/// it sees sizes and pointers only.
class CountingAllocator {
public:
  explicit CountingAllocator(Memory &memory) : memory(memory) {}

  /// `bytes` bytes with `guard` bytes before and after, which are not counted.
  void *allocate(size_t bytes, size_t guard);
  /// Gives back what `allocate` returned, with the same guard.
  void release(void *pointer, size_t guard);
  /// Counts storage of the caller's as if it were allocated here.
  void adopt(void *pointer, size_t bytes);
  void disown(void *pointer);

  void resetMaximum() { maximum = current; }
  uint64_t currentBytes() const { return current; }
  uint64_t maximumBytes() const { return maximum; }

private:
  void count(void *pointer, size_t bytes);
  void uncount(void *pointer);

  Memory &memory;
  std::map<void *, size_t> sizes;
  uint64_t current = 0;
  uint64_t maximum = 0;
};

/// The buffers of one function in dynamic mode. With `check`, storage is
/// poisoned with 0xFF on both ends of its life and has guards on both sides.
class DynamicMemory {
public:
  /// `backend` tells how much memory is free when there is none left; both
  /// outlive this.
  DynamicMemory(const Function &function, Backend &backend, Memory &memory,
                bool check);
  ~DynamicMemory();
  DynamicMemory(const DynamicMemory &) = delete;
  DynamicMemory &operator=(const DynamicMemory &) = delete;

  /// Gives back what the last run left (its results) and starts another.
  void begin();
  /// Gives everything back.
  void releaseAll();
  /// Sets `address` to storage for `buffer`, or takes over `address` when the
  /// caller places it. Returns false and sets `error` when there is none.
  bool allocate(uint32_t buffer, void *&address, std::string &error);
  /// Gives `buffer` back. Returns false and sets `error` when a guard changed.
  bool release(uint32_t buffer, std::string &error);
  /// Checks the guards of everything still allocated.
  bool finish(std::string &error);

  uint64_t liveBytes() const { return allocator.currentBytes(); }
  uint64_t peakBytes() const { return allocator.maximumBytes(); }

private:
  bool checkGuards(uint32_t buffer, std::string &error);

  const Function &function;
  Backend &backend;
  Memory &memory;
  CountingAllocator allocator;
  bool check;
  size_t guard;
  std::vector<void *> addresses;
  std::vector<Comparison> comparisons;
};

} // namespace fp8rt

#endif // FP8RT_CORE_DYNAMICMEMORY_H
