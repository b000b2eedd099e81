//===- CpuBackend.cpp - Commands on the host ------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The shared object is loaded from an anonymous file in memory, so that an
// artifact needs no writable directory and leaves nothing behind.
//
//===----------------------------------------------------------------------===//

#include "CpuBackend.h"

#include "CpuCollective.h"
#include "CpuMemory.h"
#include "fp8rt/CpuGemm.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <sys/mman.h>
#include <unistd.h>

using namespace fp8rt;

namespace {

using KernelFn = void (*)(void *const *);

class LaunchTask : public Task {
public:
  explicit LaunchTask(KernelFn kernel) : kernel(kernel) {}
  bool run(void *const *addresses, void *, std::string &) override {
    kernel(addresses);
    return true;
  }

private:
  KernelFn kernel;
};

class GemmTask : public Task {
public:
  GemmTask(const GemmCommand &gemm, CpuIsa isa) : gemm(gemm), isa(isa) {}

  bool run(void *const *addresses, void *, std::string &error) override {
    size_t next = 4;
    GemmProblem problem;
    problem.m = gemm.m;
    problem.n = gemm.n;
    problem.k = gemm.k;
    problem.a = matrix(gemm.a, addresses[0]);
    problem.b = matrix(gemm.b, addresses[1]);
    problem.d = matrix(gemm.d, addresses[2]);
    if (gemm.c)
      problem.c = matrix(*gemm.c, addresses[next++]);
    if (gemm.scaleA)
      problem.scaleA = scale(*gemm.scaleA, addresses[next++]);
    if (gemm.scaleB)
      problem.scaleB = scale(*gemm.scaleB, addresses[next++]);
    if (!gemm.groups) {
      cpuGemm(problem, addresses[3], isa);
      return true;
    }
    const GemmGroups &groups = *gemm.groups;
    GroupedGemmProblem grouped;
    grouped.whole = problem;
    grouped.offsets = static_cast<const int32_t *>(addresses[next]);
    grouped.count = groups.count;
    grouped.align = groups.align;
    grouped.ofSum = groups.ofSum;
    grouped.stride = groups.stride;
    grouped.scaleStride = groups.scaleStride;
    return cpuGroupedGemm(grouped, addresses[3], isa, error);
  }

private:
  static GemmMatrix matrix(const Operand &operand, void *base) {
    return {static_cast<unsigned char *>(base) +
                operand.offset * dtypeBytes(operand.dtype),
            operand.dtype,
            {operand.strides[0], operand.strides[1]}};
  }
  static GemmScale scale(const ScaleOperand &operand, void *base) {
    return {static_cast<float *>(base) + operand.offset,
            {operand.group[0], operand.group[1]},
            {operand.strides[0], operand.strides[1]}};
  }

  const GemmCommand &gemm;
  CpuIsa isa;
};

class CopyTask : public Task {
public:
  explicit CopyTask(size_t bytes) : bytes(bytes) {}
  bool run(void *const *addresses, void *, std::string &) override {
    std::memmove(addresses[1], addresses[0], bytes);
    return true;
  }

private:
  size_t bytes;
};

class FillTask : public Task {
public:
  explicit FillTask(std::vector<uint64_t> bytes) : bytes(std::move(bytes)) {}
  bool run(void *const *addresses, void *, std::string &) override {
    for (size_t i = 0; i < bytes.size(); ++i)
      std::memset(addresses[i], 0, bytes[i]);
    return true;
  }

private:
  std::vector<uint64_t> bytes;
};

class CpuEvent : public Event {
public:
  bool record(void *, std::string &) override {
    at = std::chrono::steady_clock::now();
    return true;
  }
  bool wait(void *, std::string &) override { return true; }
  bool elapsed(const Event &start, double &milliseconds,
               std::string &) const override {
    milliseconds = std::chrono::duration<double, std::milli>(
                       at - static_cast<const CpuEvent &>(start).at)
                       .count();
    return true;
  }

private:
  std::chrono::steady_clock::time_point at;
};

class CpuBackend : public Backend {
public:
  ~CpuBackend() override {
    if (library)
      ::dlclose(library);
    if (fd >= 0)
      ::close(fd);
  }

  bool load(std::string_view bytes, std::string &error) {
    isa = bestCpuIsa();
    if (bytes.empty())
      return true;
    fd = ::memfd_create("fp8opt-kernels", MFD_CLOEXEC);
    if (fd < 0) {
      error = std::string("cannot create a file in memory: ") +
              std::strerror(errno);
      return false;
    }
    for (size_t done = 0; done < bytes.size();) {
      ssize_t put = ::write(fd, bytes.data() + done, bytes.size() - done);
      if (put < 0 && errno == EINTR)
        continue;
      if (put <= 0) {
        error = std::string("cannot copy the kernels to memory: ") +
                std::strerror(errno);
        return false;
      }
      done += static_cast<size_t>(put);
    }
    // The descriptor stays open while the library is loaded: the loader knows
    // libraries by path, and a path of a closed descriptor would be reused.
    std::string path = "/proc/self/fd/" + std::to_string(fd);
    library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      error = std::string("cannot load the kernels: ") + ::dlerror();
      return false;
    }
    return true;
  }

  const char *name() const override { return "cpu"; }

  std::unique_ptr<Task> prepare(const Command &command, const Function &,
                                std::string &error) override {
    switch (command.op) {
    case CommandOp::Launch: {
      void *address =
          library ? ::dlsym(library, command.kernel.c_str()) : nullptr;
      if (address)
        return std::make_unique<LaunchTask>(
            reinterpret_cast<KernelFn>(address));
      error = "the artifact has no kernel '" + command.kernel + "'";
      return nullptr;
    }
    case CommandOp::Gemm:
      return std::make_unique<GemmTask>(command.gemm, isa);
    case CommandOp::Copy:
      return std::make_unique<CopyTask>(command.bytes);
    case CommandOp::Fill:
      return std::make_unique<FillTask>(command.fillBytes);
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

  bool setRanks(Communicator *newRanks, const Manifest &,
                std::string &) override {
    ranks = newRanks;
    return true;
  }

  std::string transport() const override { return ranks ? "messages" : ""; }
  bool alignRanks(void *, std::string &) override { return true; }

  std::unique_ptr<CollectiveTask> prepareCollective(Exchange &exchange,
                                                    const std::string &,
                                                    std::string &) override {
    return std::make_unique<CpuCollective>(exchange, ranks);
  }

  std::unique_ptr<Memory> createMemory(std::string &) override {
    return std::make_unique<CpuMemory>();
  }

  std::unique_ptr<Graph>
  capture(const std::function<bool(void *, std::string &)> &,
          std::string &error) override {
    error = "the CPU has no graphs to record a run in";
    return nullptr;
  }

  std::unique_ptr<Event> createEvent(std::string &) override {
    return std::make_unique<CpuEvent>();
  }

  bool createStream(void *&stream, std::string &) override {
    stream = nullptr;
    return true;
  }
  void destroyStream(void *) override {}
  bool synchronize(void *, std::string &) override { return true; }

  void *allocate(size_t bytes, std::string &error) override {
    // aligned_alloc wants a size that is a multiple of the alignment.
    void *pointer = std::aligned_alloc(256, (bytes / 256 + 1) * 256);
    if (!pointer)
      error =
          "out of memory: cannot allocate " + std::to_string(bytes) + " bytes";
    return pointer;
  }
  void release(void *pointer) override { std::free(pointer); }

  void *allocateHost(size_t bytes, std::string &error) override {
    return allocate(bytes, error);
  }
  void releaseHost(void *pointer) override { release(pointer); }
  bool copyToHost(void *host, const void *from, size_t bytes, void *,
                  std::string &) override {
    std::memcpy(host, from, bytes);
    return true;
  }
  bool copyFromHost(void *to, const void *host, size_t bytes, void *,
                    std::string &) override {
    std::memcpy(to, host, bytes);
    return true;
  }

  bool upload(void *to, const void *from, size_t bytes,
              std::string &) override {
    std::memcpy(to, from, bytes);
    return true;
  }
  bool download(void *to, const void *from, size_t bytes,
                std::string &) override {
    std::memcpy(to, from, bytes);
    return true;
  }
  bool copy(void *to, const void *from, size_t bytes, void *,
            std::string &) override {
    std::memmove(to, from, bytes);
    return true;
  }

  bool set(void *data, unsigned char value, size_t bytes, void *,
           std::string &) override {
    std::memset(data, value, bytes);
    return true;
  }

  bool fillInput(void *data, const InputFill &fill, void *,
                 std::string &) override {
    fillShard(data, fill.dtype, fill.shape.size(), fill.shape.data(),
              fill.offset, fill.strides.data(), fill.init, fill.scale,
              fill.key);
    return true;
  }

  /// MemAvailable of Linux: what can be allocated without swapping.
  std::optional<MemoryInfo> memoryInfo() override {
    MemoryInfo info;
    std::ifstream file("/proc/meminfo");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("MemTotal:"))
        info.total = std::strtoull(line.c_str() + 9, nullptr, 10) * 1024;
      if (line.starts_with("MemAvailable:"))
        info.free = std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
    }
    if (info.total == 0 || info.free == 0)
      return std::nullopt;
    return info;
  }

private:
  int fd = -1;
  void *library = nullptr;
  CpuIsa isa = CpuIsa::Portable;
  Communicator *ranks = nullptr;
};

} // namespace

std::unique_ptr<Backend> fp8rt::createCpuBackend(std::string_view library,
                                                 std::string &error) {
  auto backend = std::make_unique<CpuBackend>();
  if (!backend->load(library, error))
    return nullptr;
  return backend;
}
