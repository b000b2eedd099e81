//===- CpuMemory.h - Storage of the host ------------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Filling, copying and comparing on the host, where everything is done at
// once.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CPU_CPUMEMORY_H
#define FP8RT_CPU_CPUMEMORY_H

#include "Memory.h"

namespace fp8rt {

class CpuMemory : public Memory {
public:
  void begin(void *) override {}
  void *allocate(size_t bytes) override;
  void release(void *pointer) override;
  void set(void *data, unsigned char value, size_t bytes) override;
  void pattern(void *data, size_t bytes, uint64_t position) override;
  void copy(void *to, const void *from, size_t bytes) override;
  void compare(std::vector<Comparison> &comparisons) override;
  void resetPoolHigh() override {}
  std::optional<uint64_t> poolHighBytes() override { return std::nullopt; }
};

} // namespace fp8rt

#endif // FP8RT_CPU_CPUMEMORY_H
