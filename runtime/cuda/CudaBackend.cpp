//===- CudaBackend.cpp - Commands on a GPU --------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Nothing here waits for the device unless its name says so. The kernels'
// parameters are one 64-bit pointer an argument.
//
//===----------------------------------------------------------------------===//

#include "CudaBackend.h"

#ifdef FP8RT_HAVE_NCCL
#include "CudaCollectives.h"
#endif
#include "CudaDevice.h"
#include "CudaGemm.h"
#include "CudaMemory.h"
#include "DeviceKernels.h"

#include <algorithm>
#include <mutex>

using namespace fp8rt;

namespace {

/// The highest priority of streams; the driver takes the nearest it has.
constexpr int kUrgent = -1000;

class LaunchTask : public Task {
public:
  LaunchTask(const CudaDevice &device, CUfunction kernel,
             const LaunchGeometry &geometry, size_t argumentCount)
      : device(device), kernel(kernel), geometry(geometry),
        parameters(argumentCount) {}

  bool run(void *const *addresses, void *stream, std::string &error) override {
    CudaDevice::Scope scope(device);
    for (size_t i = 0; i < parameters.size(); ++i)
      parameters[i] = const_cast<void **>(addresses + i);
    const auto &[grid, block, shared] = geometry;
    return device.driver.check("cuLaunchKernel",
                               device.driver.cuLaunchKernel(
                                   kernel, grid[0], grid[1], grid[2], block[0],
                                   block[1], block[2], shared, streamOf(stream),
                                   parameters.data(), nullptr),
                               error);
  }

private:
  const CudaDevice &device;
  CUfunction kernel;
  LaunchGeometry geometry;
  std::vector<void *> parameters;
};

class CopyTask : public Task {
public:
  CopyTask(Backend &backend, size_t bytes) : backend(backend), bytes(bytes) {}
  bool run(void *const *addresses, void *stream, std::string &error) override {
    return backend.copy(addresses[1], addresses[0], bytes, stream, error);
  }

private:
  Backend &backend;
  size_t bytes;
};

class FillTask : public Task {
public:
  FillTask(const CudaDevice &device, std::vector<uint64_t> bytes)
      : device(device), bytes(std::move(bytes)) {}

  /// One launch for up to kZeroRegions regions: each costs as much as it.
  bool run(void *const *addresses, void *stream, std::string &error) override {
    CudaDevice::Scope scope(device);
    for (size_t first = 0; first < bytes.size(); first += kZeroRegions) {
      size_t count = std::min(bytes.size() - first, kZeroRegions);
      ZeroParameters parameters{};
      uint64_t most = 0;
      for (size_t i = 0; i < count; ++i) {
        parameters.regions[i] = {
            static_cast<unsigned char *>(addresses[first + i]),
            bytes[first + i]};
        most = std::max(most, bytes[first + i]);
      }
      if (!device.launch(device.zero, parameters, (most + 15) / 16,
                         static_cast<unsigned>(count), stream, error))
        return false;
    }
    return true;
  }

private:
  const CudaDevice &device;
  std::vector<uint64_t> bytes;
};

class CudaEvent : public Event {
public:
  explicit CudaEvent(const CudaDevice &device) : device(device) {}
  ~CudaEvent() override {
    CudaDevice::Scope scope(device);
    if (event)
      device.driver.cuEventDestroy(event);
  }

  bool create(std::string &error) {
    CudaDevice::Scope scope(device);
    return device.driver.check(
        "cuEventCreate", device.driver.cuEventCreate(&event, CU_EVENT_DEFAULT),
        error);
  }

  bool record(void *stream, std::string &error) override {
    CudaDevice::Scope scope(device);
    return device.driver.check(
        "cuEventRecord", device.driver.cuEventRecord(event, streamOf(stream)),
        error);
  }

  bool wait(void *stream, std::string &error) override {
    CudaDevice::Scope scope(device);
    return device.driver.check(
        "cuStreamWaitEvent",
        device.driver.cuStreamWaitEvent(streamOf(stream), event,
                                        CU_EVENT_WAIT_DEFAULT),
        error);
  }

  bool elapsed(const Event &start, double &milliseconds,
               std::string &error) const override {
    CudaDevice::Scope scope(device);
    float value = 0;
    if (!device.wait(event, error) ||
        !device.driver.check(
            "cuEventElapsedTime",
            device.driver.cuEventElapsedTime(
                &value, static_cast<const CudaEvent &>(start).event, event),
            error))
      return false;
    milliseconds = value;
    return true;
  }

private:
  const CudaDevice &device;
  CUevent event = nullptr;
};

class CudaGraph : public Graph {
public:
  explicit CudaGraph(const CudaDevice &device) : device(device) {}
  ~CudaGraph() override {
    CudaDevice::Scope scope(device);
    if (executable)
      device.driver.cuGraphExecDestroy(executable);
  }

  bool instantiate(CUgraph graph, std::string &error) {
    return device.driver.check(
        "cuGraphInstantiate",
        device.driver.cuGraphInstantiate(&executable, graph, 0), error);
  }

  bool launch(void *stream, std::string &error) override {
    CudaDevice::Scope scope(device);
    return device.driver.check(
        "cuGraphLaunch",
        device.driver.cuGraphLaunch(executable, streamOf(stream)), error);
  }

private:
  const CudaDevice &device;
  CUgraphExec executable = nullptr;
};

class CudaBackend : public Backend {
public:
  ~CudaBackend() override {
    if (!device || !module)
      return;
    CudaDevice::Scope scope(*device);
    device->driver.cuModuleUnload(module);
  }

  bool load(const CudaImages &images, std::string &error) {
    device = CudaDevice::open(error);
    if (!device)
      return false;
    std::string reason;
    if (!images.cubin.empty()) {
      // The driver reads sizes from the image, which it wants aligned.
      std::string copy(images.cubin);
      if (device->loadModule(copy.data(), module, reason))
        return true;
    }
    if (!images.ptx.empty()) {
      std::string text(images.ptx);
      if (device->loadModule(text.c_str(), module, error))
        return true;
      error = "cannot load the kernels: " + error;
      return false;
    }
    if (reason.empty())
      return true;
    error =
        "cannot load the kernels, and there is no PTX to compile: " + reason;
    return false;
  }

  const char *name() const override { return "cuda"; }

  std::unique_ptr<Task> prepare(const Command &command,
                                const Function &function,
                                std::string &error) override {
    switch (command.op) {
    case CommandOp::Launch:
      return prepareLaunch(command, error);
    case CommandOp::Gemm:
      if (!openGemms(error))
        return nullptr;
      return gemms->prepare(
          command.gemm, function.buffers[command.gemm.workspace.index].bytes,
          error);
    case CommandOp::Copy:
      return std::make_unique<CopyTask>(*this, command.bytes);
    case CommandOp::Fill:
      return std::make_unique<FillTask>(*device, command.fillBytes);
    case CommandOp::Alloc:
    case CommandOp::Free:
    case CommandOp::Collective:
    case CommandOp::Offload:
    case CommandOp::Prefetch:
    case CommandOp::Wait:
      break;
    }
    error = "the command is not one that runs";
    return nullptr;
  }

  bool setRanks(Communicator *ranks, const Manifest &manifest,
                std::string &error) override {
#ifdef FP8RT_HAVE_NCCL
    collectives.reset();
    hasRanks = ranks != nullptr;
    if (ranks)
      collectives = CudaCollectives::open(*device, ranks, manifest, error);
    return !ranks || collectives;
#else
    if (ranks)
      error = "this build has no NCCL, which ranks on GPUs need: it was built "
              "where there is no nccl.h";
    return !ranks;
#endif
  }

  bool alignRanks(void *stream, std::string &error) override {
#ifdef FP8RT_HAVE_NCCL
    return !collectives || collectives->align(stream, error);
#else
    return true;
#endif
  }

  std::string transport() const override {
#ifdef FP8RT_HAVE_NCCL
    return collectives ? collectives->transport() : "";
#else
    return "";
#endif
  }

  std::unique_ptr<CollectiveTask>
  prepareCollective(Exchange &exchange, const std::string &axis,
                    std::string &error) override {
#ifdef FP8RT_HAVE_NCCL
    if (!collectives)
      collectives = CudaCollectives::open(*device, nullptr, {}, error);
    return collectives ? collectives->prepare(exchange, axis, error) : nullptr;
#else
    error = "this build has no NCCL";
    return nullptr;
#endif
  }

  std::unique_ptr<Memory> createMemory(std::string &error) override {
    return CudaMemory::create(*device, error);
  }

  std::unique_ptr<Graph>
  capture(const std::function<bool(void *, std::string &)> &enqueue,
          std::string &error) override {
    CudaDevice::Scope scope(*device);
    // A stream of its own: the caller's may be the default one, which cannot
    // be recorded, or hold work. What is on it goes before what other streams
    // have, which nothing waits for (Streams.h).
    CUstream stream = nullptr;
    if (!device->driver.check("cuStreamCreateWithPriority",
                              device->driver.cuStreamCreateWithPriority(
                                  &stream, CU_STREAM_NON_BLOCKING, kUrgent),
                              error))
      return nullptr;
    std::unique_ptr<CudaGraph> graph = record(stream, enqueue, error);
    destroyStream(stream);
    return graph;
  }

  std::unique_ptr<Event> createEvent(std::string &error) override {
    auto event = std::make_unique<CudaEvent>(*device);
    if (!event->create(error))
      return nullptr;
    return event;
  }

  bool createStream(void *&stream, std::string &error) override {
    CudaDevice::Scope scope(*device);
    CUstream created = nullptr;
    if (!device->driver.check(
            "cuStreamCreate",
            device->driver.cuStreamCreate(&created, CU_STREAM_NON_BLOCKING),
            error))
      return false;
    stream = created;
    return true;
  }

  void destroyStream(void *stream) override {
    CudaDevice::Scope scope(*device);
    device->driver.cuStreamDestroy(streamOf(stream));
  }

  bool synchronize(void *stream, std::string &error) override {
    return device->wait(streamOf(stream), error);
  }

  void *allocate(size_t bytes, std::string &error) override {
    CudaDevice::Scope scope(*device);
    CUdeviceptr pointer = 0;
    size_t taken = bytes == 0 ? 1 : bytes;
    CUresult result = device->driver.cuMemAlloc(
        &pointer, hasRanks ? sharedBytes(taken) : taken);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
      error = "out of memory: cannot allocate " + std::to_string(bytes) +
              " bytes; " + device->freeText();
    else
      device->driver.check("cuMemAlloc", result, error);
    return reinterpret_cast<void *>(pointer);
  }

  void release(void *pointer) override {
    CudaDevice::Scope scope(*device);
    device->driver.cuMemFree(deviceAddress(pointer));
  }

  void *allocateHost(size_t bytes, std::string &error) override {
    CudaDevice::Scope scope(*device);
    void *pointer = nullptr;
    if (!device->driver.check(
            "cuMemAllocHost",
            device->driver.cuMemAllocHost(&pointer, bytes == 0 ? 1 : bytes),
            error))
      error = "cannot allocate " + std::to_string(bytes) +
              " bytes of pinned host memory: " + error;
    return pointer;
  }

  void releaseHost(void *pointer) override {
    CudaDevice::Scope scope(*device);
    device->driver.cuMemFreeHost(pointer);
  }

  bool copyToHost(void *host, const void *from, size_t bytes, void *stream,
                  std::string &error) override {
    CudaDevice::Scope scope(*device);
    return device->driver.check(
        "cuMemcpyDtoHAsync",
        device->driver.cuMemcpyDtoHAsync(host, deviceAddress(from), bytes,
                                         streamOf(stream)),
        error);
  }

  bool copyFromHost(void *to, const void *host, size_t bytes, void *stream,
                    std::string &error) override {
    CudaDevice::Scope scope(*device);
    return device->driver.check(
        "cuMemcpyHtoDAsync",
        device->driver.cuMemcpyHtoDAsync(deviceAddress(to), host, bytes,
                                         streamOf(stream)),
        error);
  }

  bool upload(void *to, const void *from, size_t bytes,
              std::string &error) override {
    CudaDevice::Scope scope(*device);
    return device->driver.check(
        "cuMemcpyHtoD",
        device->driver.cuMemcpyHtoD(deviceAddress(to), from, bytes), error);
  }

  bool download(void *to, const void *from, size_t bytes,
                std::string &error) override {
    CudaDevice::Scope scope(*device);
    return device->driver.check(
        "cuMemcpyDtoH",
        device->driver.cuMemcpyDtoH(to, deviceAddress(from), bytes), error);
  }

  bool copy(void *to, const void *from, size_t bytes, void *stream,
            std::string &error) override {
    CudaDevice::Scope scope(*device);
    return device->driver.check(
        "cuMemcpyDtoDAsync",
        device->driver.cuMemcpyDtoDAsync(deviceAddress(to), deviceAddress(from),
                                         bytes, streamOf(stream)),
        error);
  }

  bool set(void *data, unsigned char value, size_t bytes, void *stream,
           std::string &error) override {
    CudaDevice::Scope scope(*device);
    return device->driver.check(
        "cuMemsetD8Async",
        device->driver.cuMemsetD8Async(deviceAddress(data), value, bytes,
                                       streamOf(stream)),
        error);
  }

  bool fillInput(void *data, const InputFill &fill, void *stream,
                 std::string &error) override {
    CudaDevice::Scope scope(*device);
    if (fill.shape.size() > kMostDims) {
      error = "test inputs of more than " + std::to_string(kMostDims) +
              " dimensions are not made on a GPU";
      return false;
    }
    FillInputParameters parameters{};
    parameters.data = data;
    parameters.count = 1;
    parameters.key = fill.key;
    parameters.scale = fill.scale;
    parameters.dtype = static_cast<uint32_t>(fill.dtype);
    parameters.init = static_cast<uint32_t>(fill.init);
    parameters.rank = static_cast<uint32_t>(fill.shape.size());
    parameters.offset = fill.offset;
    for (size_t d = 0; d < fill.shape.size(); ++d) {
      parameters.count *= static_cast<uint64_t>(fill.shape[d]);
      parameters.shape[d] = fill.shape[d];
      parameters.strides[d] = fill.strides[d];
    }
    return device->launch(device->fillInput, parameters, parameters.count, 1,
                          stream, error);
  }

  std::optional<MemoryInfo> memoryInfo() override {
    CudaDevice::Scope scope(*device);
    size_t free = 0, total = 0;
    if (device->driver.cuMemGetInfo(&free, &total) != CUDA_SUCCESS)
      return std::nullopt;
    return MemoryInfo{free, total};
  }

private:
  /// cuBLASLt is opened by the first program that multiplies.
  bool openGemms(std::string &error) {
    std::lock_guard<std::mutex> lock(gemmsMutex);
    if (!gemms)
      gemms = CudaGemmLibrary::open(*device, error);
    return gemms != nullptr;
  }

  std::unique_ptr<Task> prepareLaunch(const Command &command,
                                      std::string &error) {
    CudaDevice::Scope scope(*device);
    const CudaDriver &driver = device->driver;
    CUfunction kernel = nullptr;
    CUresult found = CUDA_ERROR_NOT_FOUND;
    if (module)
      found =
          driver.cuModuleGetFunction(&kernel, module, command.kernel.c_str());
    if (found == CUDA_ERROR_NOT_FOUND) {
      error = "the artifact has no kernel '" + command.kernel + "'";
      return nullptr;
    }
    // Loaded now: loading may wait for the device, which a graph forbids.
    if (!driver.check("cuModuleGetFunction", found, error) ||
        !driver.check("cuFuncLoad", driver.cuFuncLoad(kernel), error))
      return nullptr;
    if (!checkParameters(command, kernel, error))
      return nullptr;
    const LaunchGeometry &geometry = *command.geometry;
    uint64_t threads = static_cast<uint64_t>(geometry.block[0]) *
                       geometry.block[1] * geometry.block[2];
    int most = 0;
    if (!driver.check(
            "cuFuncGetAttribute",
            driver.cuFuncGetAttribute(
                &most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel),
            error))
      return nullptr;
    if (threads > static_cast<uint64_t>(most)) {
      error = "kernel '" + command.kernel + "' runs in blocks of at most " +
              std::to_string(most) + " threads, but is launched with " +
              std::to_string(threads);
      return nullptr;
    }
    // More than 48 KiB, with what the kernel's own variables take, must be
    // asked for.
    if (geometry.shared > 0 &&
        !driver.check("cuFuncSetAttribute",
                      driver.cuFuncSetAttribute(
                          kernel,
                          CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                          static_cast<int>(geometry.shared)),
                      error)) {
      error = std::to_string(geometry.shared) +
              " bytes of shared memory are refused: " + error;
      return nullptr;
    }
    return std::make_unique<LaunchTask>(*device, kernel, geometry,
                                        command.refs.size());
  }

  /// The driver reads as many arguments as the kernel has parameters: they
  /// must be the pointers that the command passes.
  bool checkParameters(const Command &command, CUfunction kernel,
                       std::string &error) {
    size_t count = 0, offset = 0, size = sizeof(void *);
    while (size == sizeof(void *) &&
           device->driver.cuFuncGetParamInfo(kernel, count, &offset, &size) ==
               CUDA_SUCCESS)
      ++count;
    if (size == sizeof(void *) && count == command.refs.size())
      return true;
    error = "expected kernel '" + command.kernel + "' to have " +
            std::to_string(command.refs.size()) +
            " parameters, one pointer for each argument, but ";
    error += size == sizeof(void *)
                 ? "it has " + std::to_string(count)
                 : "one has " + std::to_string(size) + " bytes";
    return false;
  }

  std::unique_ptr<CudaGraph>
  record(void *stream,
         const std::function<bool(void *, std::string &)> &enqueue,
         std::string &error) {
    const CudaDriver &driver = device->driver;
    // Relaxed: cuBLASLt may load its kernels while we record.
    if (!driver.check("cuStreamBeginCapture",
                      driver.cuStreamBeginCapture(
                          streamOf(stream), CU_STREAM_CAPTURE_MODE_RELAXED),
                      error))
      return nullptr;
    bool enqueued = enqueue(stream, error);
    CUgraph recorded = nullptr;
    CUresult ended = driver.cuStreamEndCapture(streamOf(stream), &recorded);
    auto graph = std::make_unique<CudaGraph>(*device);
    bool made = enqueued && driver.check("cuStreamEndCapture", ended, error) &&
                graph->instantiate(recorded, error);
    if (recorded)
      driver.cuGraphDestroy(recorded);
    return made ? std::move(graph) : nullptr;
  }

  std::unique_ptr<CudaDevice> device;
#ifdef FP8RT_HAVE_NCCL
  std::unique_ptr<CudaCollectives> collectives;
#endif
  bool hasRanks = false; ///< which may map memory of this one
  std::mutex gemmsMutex;
  std::unique_ptr<CudaGemmLibrary> gemms;
  CUmodule module = nullptr;
};

} // namespace

std::unique_ptr<Backend> fp8rt::createCudaBackend(const CudaImages &images,
                                                  std::string &error) {
  auto backend = std::make_unique<CudaBackend>();
  if (!backend->load(images, error))
    return nullptr;
  return backend;
}
