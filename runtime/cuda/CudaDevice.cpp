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

#include <algorithm>

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
  } else if (CUresult result = driver.cuDeviceGet(&device, 0);
             result != CUDA_SUCCESS) {
    error = "no GPU on this machine (" +
            driver.describe("cuDeviceGet", result) + ")";
    return false;
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
  for (auto [symbol, function] : {std::pair("fp8rt_compare", &compare),
                                  std::pair("fp8rt_pattern", &pattern),
                                  std::pair("fp8rt_factors", &factors),
                                  std::pair("fp8rt_fill_input", &fillInput),
                                  std::pair("fp8rt_zero", &zero)})
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

std::string CudaDevice::freeText() const {
  Scope scope(*this);
  size_t free = 0, total = 0;
  if (driver.cuMemGetInfo(&free, &total) != CUDA_SUCCESS)
    return "";
  return std::to_string(free) + " of " + std::to_string(total) +
         " bytes are free";
}
