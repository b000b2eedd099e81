//===- CudaDevice.cpp - One GPU and the runtime's own kernels -------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels' fat binary is a part of this program (DeviceKernels.S).
//
//===----------------------------------------------------------------------===//

#include "CudaDevice.h"

#include "DeviceKernels.h"
#include "OpenRanks.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

using namespace fp8rt;

extern "C" const unsigned char fp8rt_device_kernels[];

std::unique_ptr<CudaDevice> CudaDevice::open(std::string &error) {
  const CudaDriver *driver = cudaDriver(error);
  if (!driver)
    return nullptr;
  std::unique_ptr<CudaDevice> device(new CudaDevice(*driver));
  if (!device->openContext(error) || !device->loadKernels(error))
    return nullptr;
  return device;
}

CudaDevice::~CudaDevice() {
  if (kernels) {
    Scope scope(*this);
    driver.cuModuleUnload(kernels);
  }
  if (retained)
    driver.cuDevicePrimaryCtxRelease(device);
}

bool CudaDevice::openContext(std::string &error) {
  CUcontext current = nullptr;
  if (driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current) {
    if (!driver.check("cuCtxGetDevice", driver.cuCtxGetDevice(&device), error))
      return false;
  } else {
    int count = 0;
    CUresult result = driver.cuDeviceGetCount(&count);
    // A launcher may let each rank see its own GPU only.
    int ordinal = count == 1 ? 0 : localRank().value_or(0);
    if (result == CUDA_SUCCESS && ordinal >= count && count > 0) {
      error = "rank " + std::to_string(ordinal) +
              " of this machine needs a GPU of its own, but there are " +
              std::to_string(count);
      return false;
    }
    if (result == CUDA_SUCCESS)
      result = driver.cuDeviceGet(&device, ordinal);
    if (result != CUDA_SUCCESS) {
      error = "no GPU on this machine (" +
              driver.describe("cuDeviceGet", result) + ")";
      return false;
    }
  }
  if (!driver.check("cuDevicePrimaryCtxRetain",
                    driver.cuDevicePrimaryCtxRetain(&context, device), error))
    return false;
  retained = true;
  return driver.check(
      "cuDeviceGetAttribute",
      driver.cuDeviceGetAttribute(
          &processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
      error);
}

bool CudaDevice::loadKernels(std::string &error) {
  if (!loadModule(fp8rt_device_kernels, kernels, error))
    return false;
  Scope scope(*this);
  for (auto [symbol, function] :
       {std::pair("fp8rt_compare", &compare),
        std::pair("fp8rt_pattern", &pattern),
        std::pair("fp8rt_factors", &factors),
        std::pair("fp8rt_fill_input", &fillInput),
        std::pair("fp8rt_zero", &zero), std::pair("fp8rt_exchange", &exchange),
        std::pair("fp8rt_reduce", &reduce)})
    if (!driver.check(symbol,
                      driver.cuModuleGetFunction(function, kernels, symbol),
                      error) ||
        !driver.check(symbol, driver.cuFuncLoad(*function), error))
      return false;
  return true;
}

bool CudaDevice::loadModule(const void *image, CUmodule &module,
                            std::string &error) const {
  Scope scope(*this);
  char log[4096] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
  if (driver.check(
          "cuModuleLoadDataEx",
          driver.cuModuleLoadDataEx(&module, image, 2, options, values), error))
    return true;
  if (log[0]) {
    std::string text = log;
    std::replace(text.begin(), text.end(), '\n', ' ');
    error += ": " + text;
  }
  return false;
}

bool CudaDevice::launchRaw(CUfunction kernel, void *parameters, uint64_t items,
                           unsigned rows, void *stream,
                           std::string &error) const {
  uint64_t blocks = (items + kDeviceBlock - 1) / kDeviceBlock;
  // Enough to fill the device; the kernels walk the rest.
  blocks =
      std::clamp<uint64_t>(blocks, 1, 8 * static_cast<uint64_t>(processors));
  void *list[] = {parameters};
  return driver.check("cuLaunchKernel",
                      driver.cuLaunchKernel(kernel,
                                            static_cast<unsigned>(blocks), rows,
                                            1, kDeviceBlock, 1, 1, 0,
                                            streamOf(stream), list, nullptr),
                      error);
}

template <typename Query>
bool CudaDevice::poll(const char *what, Query query, std::string &error) const {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> lost;
  Clock::time_point begin = Clock::now();
  while (true) {
    CUresult result = query();
    std::string reason;
    bool healthy = isHealthy(reason);
    if (result != CUDA_ERROR_NOT_READY) {
      // What was aborted is no result.
      if (!healthy)
        error = reason;
      return healthy && driver.check(what, result, error);
    }
    Clock::time_point now = Clock::now();
    if (!healthy && !lost)
      lost = now;
    // What an aborted collective held up gets a while to end.
    if (lost && now - *lost > std::chrono::seconds(5)) {
      error = reason;
      return false;
    }
    if (now - begin > std::chrono::milliseconds(1))
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

bool CudaDevice::wait(CUstream stream, std::string &error) const {
  Scope scope(*this);
  if (isHealthy)
    return poll(
        "cuStreamQuery", [&] { return driver.cuStreamQuery(stream); }, error);
  return driver.check("cuStreamSynchronize", driver.cuStreamSynchronize(stream),
                      error);
}

bool CudaDevice::wait(CUevent event, std::string &error) const {
  Scope scope(*this);
  if (isHealthy)
    return poll(
        "cuEventQuery", [&] { return driver.cuEventQuery(event); }, error);
  return driver.check("cuEventSynchronize", driver.cuEventSynchronize(event),
                      error);
}

std::string CudaDevice::freeText() const {
  Scope scope(*this);
  size_t free = 0, total = 0;
  if (driver.cuMemGetInfo(&free, &total) != CUDA_SUCCESS)
    return "";
  return std::to_string(free) + " of " + std::to_string(total) +
         " bytes are free";
}
