//===- DynamicMemory.cpp - Allocation at each command ---------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Requested bytes are counted exactly; alignment and guards are not.
//
//===----------------------------------------------------------------------===//

#include "DynamicMemory.h"

#include <algorithm>

using namespace fp8rt;

namespace {
/// Guard on each side in checked mode; a multiple of the alignment.
constexpr size_t kGuardBytes = 256;
constexpr unsigned char kGuardValue = 0xA5;
} // namespace

void CountingAllocator::count(void *pointer, size_t bytes) {
  sizes[pointer] = bytes;
  current += bytes;
  maximum = std::max(maximum, current);
}

void CountingAllocator::uncount(void *pointer) {
  auto it = sizes.find(pointer);
  if (it == sizes.end())
    return;
  current -= it->second;
  sizes.erase(it);
}

void *CountingAllocator::allocate(size_t bytes, size_t guard) {
  auto *base = static_cast<unsigned char *>(memory.allocate(bytes + 2 * guard));
  if (!base)
    return nullptr;
  count(base + guard, bytes);
  return base + guard;
}

void CountingAllocator::release(void *pointer, size_t guard) {
  uncount(pointer);
  memory.release(static_cast<unsigned char *>(pointer) - guard);
}

void CountingAllocator::adopt(void *pointer, size_t bytes) {
  count(pointer, bytes);
}

void CountingAllocator::disown(void *pointer) { uncount(pointer); }

DynamicMemory::DynamicMemory(const Function &function, Backend &backend,
                             Memory &memory, bool check)
    : function(function), backend(backend), memory(memory), allocator(memory),
      check(check), guard(check ? kGuardBytes : 0),
      addresses(function.buffers.size(), nullptr) {}

DynamicMemory::~DynamicMemory() { releaseAll(); }

void DynamicMemory::releaseAll() {
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (!addresses[i])
      continue;
    if (function.buffers[i].offset < 0)
      allocator.disown(addresses[i]);
    else
      allocator.release(addresses[i], guard);
    addresses[i] = nullptr;
  }
}

void DynamicMemory::begin() {
  releaseAll();
  allocator.resetMaximum();
  memory.resetPoolHigh();
}

bool DynamicMemory::allocate(uint32_t index, void *&address,
                             std::string &error) {
  const Buffer &buffer = function.buffers[index];
  if (buffer.offset < 0) {
    allocator.adopt(address, buffer.bytes);
    addresses[index] = address;
    return true;
  }
  address = allocator.allocate(buffer.bytes, guard);
  if (!memory.failure().empty()) {
    error = memory.failure();
    return false;
  }
  if (!address) {
    error = "out of memory: cannot allocate " + std::to_string(buffer.bytes) +
            " bytes for buffer '" + buffer.name + "' beside " +
            std::to_string(allocator.currentBytes()) +
            " bytes of other buffers; the plan's peak is " +
            std::to_string(function.peakBytes) + " bytes";
    if (std::optional<Backend::MemoryInfo> info = backend.memoryInfo())
      error += ", and " + std::to_string(info->free) + " of " +
               std::to_string(info->total) + " bytes are free";
    return false;
  }
  addresses[index] = address;
  if (check) {
    auto *base = static_cast<unsigned char *>(address);
    memory.set(base - guard, kGuardValue, guard);
    memory.set(base, 0xFF, buffer.bytes);
    memory.set(base + buffer.bytes, kGuardValue, guard);
  }
  return true;
}

bool DynamicMemory::checkGuards(uint32_t index, std::string &error) {
  if (!check || function.buffers[index].offset < 0)
    return true;
  const Buffer &buffer = function.buffers[index];
  const auto *base = static_cast<const unsigned char *>(addresses[index]);
  comparisons.clear();
  comparisons.push_back(
      {base + buffer.bytes, nullptr, kGuardValue, guard, guard});
  comparisons.push_back({base - guard, nullptr, kGuardValue, guard, guard});
  memory.compare(comparisons);
  if (uint64_t at = comparisons[0].at; at < guard) {
    error = "buffer '" + buffer.name + "' of " + std::to_string(buffer.bytes) +
            " bytes was written " + std::to_string(at) + " bytes past its end";
    return false;
  }
  if (uint64_t at = comparisons[1].at; at < guard) {
    error = "buffer '" + buffer.name + "' was written " +
            std::to_string(guard - at) + " bytes before its start";
    return false;
  }
  return true;
}

bool DynamicMemory::release(uint32_t index, std::string &error) {
  bool intact = checkGuards(index, error);
  if (check)
    memory.set(addresses[index], 0xFF, function.buffers[index].bytes);
  allocator.release(addresses[index], guard);
  addresses[index] = nullptr;
  return intact;
}

bool DynamicMemory::finish(std::string &error) {
  for (uint32_t i = 0; i < addresses.size(); ++i)
    if (addresses[i] && !checkGuards(i, error))
      return false;
  return true;
}
