//===- FakeDriver.cpp - A CUDA driver without a GPU -----------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A libcuda.so.1 for tests: streams are threads, device memory is memory that
// other processes can map, and the runtime's own kernels run as host code. So
// programs of collectives alone run on any number of ranks and machines without
// a GPU, and what an order between streams or ranks lacks shows in their
// results: each stream sleeps now and then, as FAKE_CUDA_JITTER says
// (microseconds). FAKE_CUDA_NO_IPC=RANK has that rank's GPU be out of reach.
// Artifacts' kernels and matmuls do not run.
//
//===----------------------------------------------------------------------===//

#include "Library.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <functional>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>
#include <vector_functions.h>

//===----------------------------------------------------------------------===//
// The runtime's kernels, for one thread
//===----------------------------------------------------------------------===//

#undef __global__
#undef __device__
#undef __grid_constant__
#define __global__
#define __device__
#define __grid_constant__

namespace {
struct Index {
  unsigned x = 0, y = 0;
};
thread_local Index blockIdx, threadIdx;
const Index blockDim{1, 1}, gridDim{1, 1};

[[maybe_unused]] void atomicMin(unsigned long long *at,
                                unsigned long long value) {
  *at = std::min(*at, value);
}
[[maybe_unused]] float __frcp_rn(float value) { return 1.0f / value; }
[[maybe_unused]] float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
} // namespace
using std::isnan;
using std::signbit;

#include "DeviceKernels.cu"

namespace {

template <typename Parameters, void (*kernel)(Parameters)>
std::function<void()> bind(void *parameters, unsigned rows) {
  return [value = *static_cast<Parameters *>(parameters), rows] {
    for (blockIdx.y = 0; blockIdx.y < rows; ++blockIdx.y)
      kernel(value);
  };
}

using Binder = std::function<void()> (*)(void *, unsigned);
const std::map<std::string, Binder> kernels = {
    {"fp8rt_compare", bind<CompareParameters, fp8rt_compare>},
    {"fp8rt_pattern", bind<PatternParameters, fp8rt_pattern>},
    {"fp8rt_factors", bind<FactorParameters, fp8rt_factors>},
    {"fp8rt_zero", bind<ZeroParameters, fp8rt_zero>},
    {"fp8rt_fill_input", bind<FillInputParameters, fp8rt_fill_input>},
    {"fp8rt_exchange", bind<ExchangeParameters, fp8rt_exchange>},
    {"fp8rt_reduce", bind<ReduceParameters, fp8rt_reduce>}};

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

using Work = std::function<void()>;

unsigned jitter() {
  static const unsigned most = [] {
    const char *text = std::getenv("FAKE_CUDA_JITTER");
    return text ? static_cast<unsigned>(std::atoi(text)) : 0u;
  }();
  return most;
}

class Stream {
public:
  Stream() : thread([this] { serve(); }) {}
  ~Stream() {
    {
      std::lock_guard lock(mutex);
      isEnding = true;
    }
    changed.notify_all();
    thread.join();
  }
  void add(Work work) {
    {
      std::lock_guard lock(mutex);
      queue.push_back(std::move(work));
    }
    changed.notify_all();
  }
  bool isIdle() {
    std::lock_guard lock(mutex);
    return queue.empty();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return queue.empty(); });
  }

private:
  void serve() {
    uint64_t number =
        reinterpret_cast<uintptr_t>(this) ^ static_cast<uint64_t>(::getpid());
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return !queue.empty() || isEnding; });
      if (queue.empty())
        return;
      Work &work = queue.front(); // stays there until it is done
      lock.unlock();
      number = fp8rt::splitmix64(number);
      if (jitter() && number % 4 == 0)
        std::this_thread::sleep_for(
            std::chrono::microseconds(number / 4 % jitter()));
      work();
      lock.lock();
      queue.pop_front();
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  bool isEnding = false;
  std::thread thread;
};

struct FakeEvent {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0, happened = 0;
  std::chrono::steady_clock::time_point time;
};

/// A recorded graph runs as it was enqueued, one command after another.
struct FakeGraph {
  std::vector<Work> work;
};

FakeGraph *recording = nullptr;
Stream *nullStream() {
  static auto *stream = new Stream;
  return stream;
}
Stream &streamAt(CUstream stream) {
  return stream ? *reinterpret_cast<Stream *>(stream) : *nullStream();
}

CUresult enqueue(CUstream stream, Work work) {
  if (recording)
    recording->work.push_back(std::move(work));
  else
    streamAt(stream).add(std::move(work));
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

struct Block {
  size_t bytes = 0;
  uint64_t id = 0;
  int file = -1; ///< that other processes map; none of a pool's memory
};

std::mutex blocksMutex;
auto &blocks = *new std::map<CUdeviceptr, Block>; // threads outlive statics
uint64_t lastId = 0;

void *mapFile(int file, size_t bytes) {
  void *memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

CUresult allocate(CUdeviceptr *pointer, size_t bytes, bool isShared) {
  std::lock_guard lock(blocksMutex);
  Block block{bytes, ++lastId};
  void *memory = nullptr;
  if (!isShared) {
    memory = ::aligned_alloc(256, (bytes + 255) / 256 * 256);
  } else {
    block.file = ::memfd_create("memory of a GPU", 0);
    if (::ftruncate(block.file, static_cast<off_t>(bytes)) == 0)
      memory = mapFile(block.file, bytes);
  }
  if (!memory)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  blocks[*pointer] = block;
  return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr pointer) {
  std::lock_guard lock(blocksMutex);
  auto it = blocks.find(pointer);
  if (it == blocks.end())
    return CUDA_ERROR_INVALID_VALUE;
  // Work under way may still be there: a driver would wait for it.
  if (it->second.file < 0)
    ::free(reinterpret_cast<void *>(pointer));
  else
    ::close(it->second.file);
  blocks.erase(it);
  return CUDA_SUCCESS;
}

std::map<CUdeviceptr, Block>::iterator blockOf(CUdeviceptr pointer) {
  auto it = blocks.upper_bound(pointer);
  if (it == blocks.begin() ||
      pointer >= std::prev(it)->first + std::prev(it)->second.bytes)
    return blocks.end();
  return std::prev(it);
}

struct Handle {
  int process, file;
  uint64_t bytes;
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));

bool isOutOfReach() {
  const char *text = std::getenv("FAKE_CUDA_NO_IPC");
  const char *rank = std::getenv("RANK");
  return text && rank && std::string(text) == rank;
}

Work copyWork(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return [=] {
    std::memmove(reinterpret_cast<void *>(to),
                 reinterpret_cast<const void *>(from), bytes);
  };
}

Work memoryWork(std::vector<CUstreamBatchMemOpParams> operations) {
  return [operations = std::move(operations)] {
    for (const CUstreamBatchMemOpParams &operation : operations) {
      auto *word = reinterpret_cast<std::atomic<uint32_t> *>(
          operation.writeValue.address);
      if (operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32) {
        word->store(operation.writeValue.value);
        continue;
      }
      while (word->load() != operation.waitValue.value)
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  };
}

} // namespace

//===----------------------------------------------------------------------===//
// The driver's functions
//===----------------------------------------------------------------------===//

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult result, const char **text) {
  *text = result == CUDA_ERROR_NOT_SUPPORTED ? "CUDA_ERROR_NOT_SUPPORTED"
                                             : "CUDA_ERROR_OTHER";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char **text) {
  *text = "of the driver without a GPU";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
  *count = 64;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute, CUdevice) {
  *value = 1;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(uintptr_t(1));
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice *device) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent(CUcontext *) { return CUDA_SUCCESS; }

CUresult cuModuleLoadDataEx(CUmodule *module, const void *, unsigned,
                            CUjit_option *, void **) {
  *module = reinterpret_cast<CUmodule>(uintptr_t(1));
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
  auto it = kernels.find(name);
  if (it == kernels.end())
    return CUDA_ERROR_NOT_SUPPORTED;
  *function = reinterpret_cast<CUfunction>(
      const_cast<std::pair<const std::string, Binder> *>(&*it));
  return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction) { return CUDA_SUCCESS; }
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute, CUfunction) {
  *value = 1024;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return CUDA_SUCCESS;
}
CUresult cuFuncGetParamInfo(CUfunction, size_t, size_t *, size_t *) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned rows, unsigned,
                        unsigned, unsigned, unsigned, unsigned, CUstream stream,
                        void **parameters, void **) {
  auto *entry =
      reinterpret_cast<std::pair<const std::string, Binder> *>(function);
  return enqueue(stream, entry->second(parameters[0], rows));
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned, int) {
  *stream = reinterpret_cast<CUstream>(new Stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}
CUresult cuStreamDestroy(CUstream stream) {
  delete reinterpret_cast<Stream *>(stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream stream) {
  return streamAt(stream).isIdle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuStreamSynchronize(CUstream stream) {
  streamAt(stream).wait();
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned) {
  auto *event = reinterpret_cast<FakeEvent *>(handle);
  if (recording)
    return CUDA_SUCCESS;
  std::lock_guard lock(event->mutex);
  return enqueue(stream, [event, number = event->recorded] {
    std::unique_lock waiting(event->mutex);
    event->changed.wait(waiting, [&] { return event->happened >= number; });
  });
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count,
                            CUstreamBatchMemOpParams *operations, unsigned) {
  return enqueue(stream, memoryWork({operations, operations + count}));
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address,
                              cuuint32_t value, unsigned) {
  CUstreamBatchMemOpParams operation{};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = address;
  operation.writeValue.value = value;
  return enqueue(stream, memoryWork({operation}));
}

CUresult cuEventCreate(CUevent *event, unsigned) {
  *event = reinterpret_cast<CUevent>(new FakeEvent);
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent) { return CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent handle, CUstream stream) {
  auto *event = reinterpret_cast<FakeEvent *>(handle);
  if (recording)
    return CUDA_SUCCESS;
  std::lock_guard lock(event->mutex);
  return enqueue(stream, [event, number = ++event->recorded] {
    std::lock_guard happening(event->mutex);
    event->happened = number;
    event->time = std::chrono::steady_clock::now();
    event->changed.notify_all();
  });
}
CUresult cuEventQuery(CUevent handle) {
  auto *event = reinterpret_cast<FakeEvent *>(handle);
  std::lock_guard lock(event->mutex);
  return event->happened == event->recorded ? CUDA_SUCCESS
                                            : CUDA_ERROR_NOT_READY;
}
CUresult cuEventSynchronize(CUevent handle) {
  while (cuEventQuery(handle) != CUDA_SUCCESS)
    std::this_thread::yield();
  return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
  *milliseconds = std::chrono::duration<float, std::milli>(
                      reinterpret_cast<FakeEvent *>(end)->time -
                      reinterpret_cast<FakeEvent *>(begin)->time)
                      .count();
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream, CUstreamCaptureMode) {
  recording = new FakeGraph;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream, CUgraph *graph) {
  *graph = reinterpret_cast<CUgraph>(recording);
  recording = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph,
                            unsigned long long) {
  *executable = reinterpret_cast<CUgraphExec>(
      new FakeGraph(*reinterpret_cast<FakeGraph *>(graph)));
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete reinterpret_cast<FakeGraph *>(graph);
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec graph) {
  delete reinterpret_cast<FakeGraph *>(graph);
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  for (const Work &work : reinterpret_cast<FakeGraph *>(graph)->work)
    enqueue(stream, work);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *pointer, size_t bytes) {
  return allocate(pointer, bytes, /*isShared=*/true);
}
CUresult cuMemFree(CUdeviceptr pointer) { return release(pointer); }
CUresult cuMemAllocHost(void **pointer, size_t bytes) {
  *pointer = ::malloc(bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void *pointer) {
  ::free(pointer);
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(size_t *free, size_t *total) {
  *free = *total = size_t(8) << 30;
  return CUDA_SUCCESS;
}
CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes,
                              CUdeviceptr pointer) {
  std::lock_guard lock(blocksMutex);
  auto it = blockOf(pointer);
  if (it == blocks.end())
    return CUDA_ERROR_INVALID_VALUE;
  *base = it->first;
  *bytes = it->second.bytes;
  return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                               CUdeviceptr pointer) {
  std::lock_guard lock(blocksMutex);
  auto it = blockOf(pointer);
  if (it == blocks.end())
    return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID)
    *static_cast<unsigned long long *>(data) = it->second.id;
  else if (attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE)
    *static_cast<int *>(data) = it->second.file >= 0;
  else
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *) {
  *pool = reinterpret_cast<CUmemoryPool>(uintptr_t(1));
  return CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool) { return CUDA_SUCCESS; }
CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void *value) {
  *static_cast<cuuint64_t *>(value) = 0;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void *) {
  return CUDA_SUCCESS;
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes,
                                 CUmemoryPool, CUstream) {
  return allocate(pointer, bytes, /*isShared=*/false);
}
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return enqueue(stream, [=] { release(pointer); });
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                           CUstream stream) {
  return enqueue(stream, copyWork(to, from, bytes));
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes,
                           CUstream stream) {
  return enqueue(stream,
                 copyWork(reinterpret_cast<CUdeviceptr>(to), from, bytes));
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                           CUstream stream) {
  return enqueue(stream,
                 copyWork(to, reinterpret_cast<CUdeviceptr>(from), bytes));
}
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  copyWork(reinterpret_cast<CUdeviceptr>(to), from, bytes)();
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  copyWork(to, reinterpret_cast<CUdeviceptr>(from), bytes)();
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes,
                         CUstream stream) {
  return enqueue(
      stream, [=] { std::memset(reinterpret_cast<void *>(to), value, bytes); });
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
  std::lock_guard lock(blocksMutex);
  auto it = blocks.find(pointer);
  if (it == blocks.end() || it->second.file < 0 || isOutOfReach())
    return CUDA_ERROR_NOT_SUPPORTED;
  Handle named{::getpid(), it->second.file, it->second.bytes};
  std::memcpy(handle, &named, sizeof(named));
  return CUDA_SUCCESS;
}
CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle,
                            unsigned) {
  Handle named{};
  std::memcpy(&named, &handle, sizeof(named));
  std::string path = "/proc/" + std::to_string(named.process) + "/fd/" +
                     std::to_string(named.file);
  int file = ::open(path.c_str(), O_RDWR);
  void *memory = file < 0 ? nullptr : mapFile(file, named.bytes);
  if (file >= 0)
    ::close(file);
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  return memory ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr) { return CUDA_SUCCESS; }

} // extern "C"
