//===- CudaDevice.h - One GPU and the runtime's own kernels -----*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What all parts of the CUDA backend share: the driver, the device's primary
// context (the one that frameworks use) and the module of DeviceKernels.cu.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CUDA_CUDADEVICE_H
#define FP8RT_CUDA_CUDADEVICE_H

#include "Library.h"

#include <functional>
#include <memory>
#include <string>

namespace fp8rt {

inline CUdeviceptr deviceAddress(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
inline CUstream streamOf(void *stream) { return static_cast<CUstream>(stream); }

/// Memory that other processes map is a whole number of the driver's blocks, so
/// that no other allocation is in them.
inline constexpr size_t kSharedAlignment = 2 << 20;
inline size_t sharedBytes(size_t bytes) {
  return (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
}

class CudaDevice {
public:
  /// The device of the calling thread's current context, else the one of this
  /// rank among those of the machine (OpenRanks.h), else the first one.
  static std::unique_ptr<CudaDevice> open(std::string &error);
  ~CudaDevice();
  CudaDevice(const CudaDevice &) = delete;
  CudaDevice &operator=(const CudaDevice &) = delete;

  /// Makes the device's context current while it lives. The driver's
  /// functions are called within one.
  class Scope {
  public:
    explicit Scope(const CudaDevice &device) : device(device) {
      entered = device.driver.cuCtxPushCurrent(device.context) == CUDA_SUCCESS;
    }
    ~Scope() {
      CUcontext popped = nullptr;
      if (entered)
        device.driver.cuCtxPopCurrent(&popped);
    }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    const CudaDevice &device;
    bool entered;
  };

  /// Loads a cubin, fatbin or PTX text (which ends with a zero).
  bool loadModule(const void *image, CUmodule &module,
                  std::string &error) const;

  /// Launches one of the kernels below, with enough blocks for `items` items
  /// along x, `rows` along y.
  template <typename Parameters>
  bool launch(CUfunction kernel, Parameters parameters, uint64_t items,
              unsigned rows, void *stream, std::string &error) const {
    return launchRaw(kernel, &parameters, items, rows, stream, error);
  }

  /// Wait until what is enqueued on `stream`, or before `event`, has happened.
  /// Fail where a rank is lost that this one waits for.
  bool wait(CUstream stream, std::string &error) const;
  bool wait(CUevent event, std::string &error) const;

  /// Where this process is one of several ranks: asked while something is
  /// waited for; false, with the reason, once it will not come.
  std::function<bool(std::string &)> isHealthy;

  /// "F of T bytes are free", or an empty string.
  std::string freeText() const;

  const CudaDriver &driver;
  CUdevice device = 0;
  CUcontext context = nullptr;
  int processors = 0;
  CUfunction compare = nullptr, pattern = nullptr, factors = nullptr,
             fillInput = nullptr, zero = nullptr, exchange = nullptr,
             reduce = nullptr;

private:
  explicit CudaDevice(const CudaDriver &driver) : driver(driver) {}
  bool openContext(std::string &error);
  bool loadKernels(std::string &error);
  template <typename Query>
  bool poll(const char *what, Query query, std::string &error) const;
  bool launchRaw(CUfunction kernel, void *parameters, uint64_t items,
                 unsigned rows, void *stream, std::string &error) const;

  bool retained = false;
  CUmodule kernels = nullptr;
};

} // namespace fp8rt

#endif // FP8RT_CUDA_CUDADEVICE_H
