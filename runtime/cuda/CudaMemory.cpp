//===- CudaMemory.cpp - Storage of a GPU ----------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A comparison is a kernel that lowers a 64-bit answer to the position of a
// difference; the answers of all comparisons come back in one copy.
//
//===----------------------------------------------------------------------===//

#include "CudaMemory.h"

#include "DeviceKernels.h"

#include <algorithm>

using namespace fp8rt;

std::unique_ptr<CudaMemory> CudaMemory::create(const CudaDevice &device,
                                               std::string &error) {
  std::unique_ptr<CudaMemory> memory(new CudaMemory(device));
  return memory->createPool(error) ? std::move(memory) : nullptr;
}

bool CudaMemory::createPool(std::string &error) {
  CudaDevice::Scope scope(device);
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.device;
  if (!device.driver.check("cuMemPoolCreate",
                           device.driver.cuMemPoolCreate(&pool, &properties),
                           error))
    return false;
  // Freed storage stays with the pool: the next run takes it again.
  cuuint64_t threshold = UINT64_MAX;
  return device.driver.check(
      "cuMemPoolSetAttribute",
      device.driver.cuMemPoolSetAttribute(
          pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
      error);
}

CudaMemory::~CudaMemory() {
  CudaDevice::Scope scope(device);
  if (pool)
    device.driver.cuMemPoolDestroy(pool);
  if (answers)
    device.driver.cuMemFree(answers);
  if (hostAnswers)
    device.driver.cuMemFreeHost(hostAnswers);
}

void CudaMemory::begin(void *newStream) {
  message.clear();
  CudaDevice::Scope scope(device);
  // Only a change of streams waits: what the pool gives back is in the order
  // of the stream that used it.
  if (begun && newStream != stream)
    device.wait(streamOf(stream), message);
  stream = newStream;
  begun = true;
}

void *CudaMemory::allocate(size_t bytes) {
  CudaDevice::Scope scope(device);
  CUdeviceptr pointer = 0;
  CUresult result = device.driver.cuMemAllocFromPoolAsync(&pointer, bytes, pool,
                                                          streamOf(stream));
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    return nullptr;
  if (!check("cuMemAllocFromPoolAsync", result))
    return nullptr;
  return reinterpret_cast<void *>(pointer);
}

void CudaMemory::release(void *pointer) {
  CudaDevice::Scope scope(device);
  check("cuMemFreeAsync",
        device.driver.cuMemFreeAsync(deviceAddress(pointer), streamOf(stream)));
}

void CudaMemory::set(void *data, unsigned char value, size_t bytes) {
  if (!message.empty() || bytes == 0)
    return;
  CudaDevice::Scope scope(device);
  check("cuMemsetD8Async",
        device.driver.cuMemsetD8Async(deviceAddress(data), value, bytes,
                                      streamOf(stream)));
}

void CudaMemory::pattern(void *data, size_t bytes, uint64_t position) {
  if (!message.empty() || bytes == 0)
    return;
  CudaDevice::Scope scope(device);
  device.launch(
      device.pattern,
      PatternParameters{static_cast<unsigned char *>(data), bytes, position},
      bytes / 8 + 1, 1, stream, message);
}

void CudaMemory::copy(void *to, const void *from, size_t bytes) {
  if (!message.empty() || bytes == 0)
    return;
  CudaDevice::Scope scope(device);
  check("cuMemcpyDtoDAsync",
        device.driver.cuMemcpyDtoDAsync(deviceAddress(to), deviceAddress(from),
                                        bytes, streamOf(stream)));
}

bool CudaMemory::reserve(size_t count) {
  if (count <= capacity)
    return true;
  size_t wanted = std::max<size_t>(2 * capacity, std::max<size_t>(count, 256));
  if (answers)
    check("cuMemFree", device.driver.cuMemFree(answers));
  if (hostAnswers)
    check("cuMemFreeHost", device.driver.cuMemFreeHost(hostAnswers));
  answers = 0;
  hostAnswers = nullptr;
  capacity = 0;
  void *host = nullptr;
  if (!check("cuMemAlloc",
             device.driver.cuMemAlloc(&answers, wanted * sizeof(uint64_t))) ||
      !check("cuMemAllocHost",
             device.driver.cuMemAllocHost(&host, wanted * sizeof(uint64_t))))
    return false;
  hostAnswers = static_cast<uint64_t *>(host);
  capacity = wanted;
  return true;
}

void CudaMemory::compare(std::vector<Comparison> &comparisons) {
  for (Comparison &comparison : comparisons)
    comparison.at = comparison.bytes;
  if (!message.empty() || comparisons.empty())
    return;
  CudaDevice::Scope scope(device);
  size_t count = comparisons.size();
  size_t size = count * sizeof(uint64_t);
  if (!reserve(count) ||
      !check("cuMemsetD8Async", device.driver.cuMemsetD8Async(
                                    answers, 0xFF, size, streamOf(stream))))
    return;
  auto *first = reinterpret_cast<unsigned long long *>(answers);
  for (size_t i = 0; i < count; ++i) {
    const Comparison &comparison = comparisons[i];
    if (comparison.bytes == 0)
      continue;
    CompareParameters parameters{
        static_cast<const unsigned char *>(comparison.data),
        static_cast<const unsigned char *>(comparison.expected),
        comparison.bytes, first + i, comparison.value};
    if (!device.launch(device.compare, parameters, comparison.bytes / 16 + 2, 1,
                       stream, message))
      return;
  }
  if (!check("cuMemcpyDtoHAsync",
             device.driver.cuMemcpyDtoHAsync(hostAnswers, answers, size,
                                             streamOf(stream))) ||
      !device.wait(streamOf(stream), message))
    return;
  for (size_t i = 0; i < count; ++i)
    comparisons[i].at = std::min(hostAnswers[i], comparisons[i].bytes);
}

void CudaMemory::resetPoolHigh() {
  CudaDevice::Scope scope(device);
  cuuint64_t zero = 0;
  check("cuMemPoolSetAttribute",
        device.driver.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
                                            &zero));
}

std::optional<uint64_t> CudaMemory::poolHighBytes() {
  CudaDevice::Scope scope(device);
  cuuint64_t bytes = 0;
  if (device.driver.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
                                          &bytes) != CUDA_SUCCESS)
    return std::nullopt;
  return bytes;
}
