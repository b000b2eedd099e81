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
#include <cstring>

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

void *CountingAllocator::allocate(size_t bytes, size_t guard, void *stream) {
  auto *base =
      static_cast<unsigned char *>(backend.allocate(bytes + 2 * guard, stream));
  if (!base)
    return nullptr;
  count(base + guard, bytes);
  return base + guard;
}

void CountingAllocator::release(void *pointer, size_t guard, void *stream) {
  uncount(pointer);
  backend.release(static_cast<unsigned char *>(pointer) - guard, stream);
}

void CountingAllocator::adopt(void *pointer, size_t bytes) {
  count(pointer, bytes);
}

void CountingAllocator::disown(void *pointer) { uncount(pointer); }

DynamicMemory::DynamicMemory(const Function &function, Backend &backend,
                             bool check)
    : function(function), allocator(backend), check(check),
      guard(check ? kGuardBytes : 0),
      addresses(function.buffers.size(), nullptr) {}

DynamicMemory::~DynamicMemory() { begin(nullptr); }

void DynamicMemory::begin(void *stream) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (!addresses[i])
      continue;
    if (function.buffers[i].offset < 0)
      allocator.disown(addresses[i]);
    else
      allocator.release(addresses[i], guard, stream);
    addresses[i] = nullptr;
  }
  allocator.resetMaximum();
}

bool DynamicMemory::allocate(uint32_t index, void *&address, void *stream,
                             std::string &error) {
  const Buffer &buffer = function.buffers[index];
  if (buffer.offset < 0) {
    allocator.adopt(address, buffer.bytes);
    addresses[index] = address;
    return true;
  }
  address = allocator.allocate(buffer.bytes, guard, stream);
  if (!address) {
    error = "out of memory: cannot allocate " + std::to_string(buffer.bytes) +
            " bytes for buffer '" + buffer.name + "'";
    return false;
  }
  addresses[index] = address;
  if (check) {
    auto *base = static_cast<unsigned char *>(address);
    std::memset(base - guard, kGuardValue, guard);
    std::memset(base, 0xFF, buffer.bytes);
    std::memset(base + buffer.bytes, kGuardValue, guard);
  }
  return true;
}

bool DynamicMemory::checkGuards(uint32_t index, std::string &error) const {
  if (!check || function.buffers[index].offset < 0)
    return true;
  const Buffer &buffer = function.buffers[index];
  const auto *base = static_cast<const unsigned char *>(addresses[index]);
  for (size_t i = 0; i < guard; ++i) {
    if (base[buffer.bytes + i] != kGuardValue) {
      error = "buffer '" + buffer.name + "' of " +
              std::to_string(buffer.bytes) + " bytes was written " +
              std::to_string(i) + " bytes past its end";
      return false;
    }
    if (base[-1 - static_cast<ptrdiff_t>(i)] != kGuardValue) {
      error = "buffer '" + buffer.name + "' was written " +
              std::to_string(i + 1) + " bytes before its start";
      return false;
    }
  }
  return true;
}

bool DynamicMemory::release(uint32_t index, void *stream, std::string &error) {
  bool intact = checkGuards(index, error);
  if (check)
    std::memset(addresses[index], 0xFF, function.buffers[index].bytes);
  allocator.release(addresses[index], guard, stream);
  addresses[index] = nullptr;
  return intact;
}

bool DynamicMemory::finish(std::string &error) const {
  for (uint32_t i = 0; i < addresses.size(); ++i)
    if (addresses[i] && !checkGuards(i, error))
      return false;
  return true;
}
