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

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace fp8rt;

namespace {

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

  Kernel resolve(const std::string &symbol, std::string &error) override {
    void *address = library ? ::dlsym(library, symbol.c_str()) : nullptr;
    if (!address)
      error = "the artifact has no kernel '" + symbol + "'";
    return address;
  }

  void *allocate(size_t bytes, void *) override {
    // aligned_alloc wants a size that is a multiple of the alignment.
    return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  }

  void release(void *pointer, void *) override { std::free(pointer); }

  bool launch(Kernel kernel, void *const *args, void *,
              std::string &) override {
    reinterpret_cast<void (*)(void *const *)>(kernel)(args);
    return true;
  }

  bool gemm(const GemmProblem &problem, void *workspace, void *,
            std::string &) override {
    cpuGemm(problem, workspace, isa);
    return true;
  }

  bool copy(void *to, const void *from, size_t bytes, void *,
            std::string &) override {
    std::memmove(to, from, bytes);
    return true;
  }

private:
  int fd = -1;
  void *library = nullptr;
  CpuIsa isa = CpuIsa::Portable;
};

} // namespace

std::unique_ptr<Backend> fp8rt::createCpuBackend(std::string_view library,
                                                 std::string &error) {
  auto backend = std::make_unique<CpuBackend>();
  if (!backend->load(library, error))
    return nullptr;
  return backend;
}
