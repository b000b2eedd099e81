//===- CudaMemory.h - Storage of a GPU --------------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Filling, copying and comparing by kernels, and stream-ordered allocation
// from a pool of its own, so that what the pool counts is this runner's.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CUDA_CUDAMEMORY_H
#define FP8RT_CUDA_CUDAMEMORY_H

#include "CudaDevice.h"
#include "Memory.h"

namespace fp8rt {

class CudaMemory : public Memory {
public:
  /// `device` outlives the memory. Returns null and sets `error` on failure.
  static std::unique_ptr<CudaMemory> create(const CudaDevice &device,
                                            std::string &error);
  ~CudaMemory() override;

  void begin(void *stream) override;
  void *allocate(size_t bytes) override;
  void release(void *pointer) override;
  void set(void *data, unsigned char value, size_t bytes) override;
  void pattern(void *data, size_t bytes, uint64_t position) override;
  void copy(void *to, const void *from, size_t bytes) override;
  void compare(std::vector<Comparison> &comparisons) override;
  void resetPoolHigh() override;
  std::optional<uint64_t> poolHighBytes() override;

private:
  explicit CudaMemory(const CudaDevice &device) : device(device) {}
  bool createPool(std::string &error);
  /// Room for the answers of `count` comparisons.
  bool reserve(size_t count);
  bool check(const char *what, CUresult result) {
    return message.empty() && device.driver.check(what, result, message);
  }

  const CudaDevice &device;
  void *stream = nullptr;
  bool begun = false;
  CUmemoryPool pool = nullptr;
  size_t capacity = 0;
  CUdeviceptr answers = 0;
  uint64_t *hostAnswers = nullptr;
};

} // namespace fp8rt

#endif // FP8RT_CUDA_CUDAMEMORY_H
