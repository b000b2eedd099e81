//===- Library.cpp - The driver, cuBLASLt and NCCL at run time ------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A library that lacks a function is refused: it is older than the headers
// this was built with.
//
//===----------------------------------------------------------------------===//

#include "Library.h"

#include <cstdlib>
#include <dlfcn.h>
#include <vector>

using namespace fp8rt;

// Two steps, so that the names that cuda.h replaces are replaced first.
#define FP8RT_TEXT(name) #name
#define FP8RT_SYMBOL(name) FP8RT_TEXT(name)

namespace {

/// Opens the first of `paths` that there is.
void *openLibrary(const std::vector<std::string> &paths, std::string &error) {
  std::string reasons;
  for (const std::string &path : paths) {
    if (void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
      return library;
    reasons += (reasons.empty() ? "" : "; ") + std::string(::dlerror());
  }
  error = reasons;
  return nullptr;
}

template <typename Fn>
bool resolve(void *library, const char *symbol, Fn &function,
             std::string &error) {
  function = reinterpret_cast<Fn>(::dlsym(library, symbol));
  if (!function && error.empty())
    error = std::string("it has no function '") + symbol + "'";
  return function != nullptr;
}

bool loadDriver(CudaDriver &driver, std::string &error) {
  void *library = openLibrary({"libcuda.so.1"}, error);
  if (!library) {
    error = "no CUDA driver on this machine (" + error + ")";
    return false;
  }
#define FP8RT_RESOLVE(name)                                                    \
  resolve(library, FP8RT_SYMBOL(name), driver.name, error);
  FP8RT_DRIVER_FUNCTIONS(FP8RT_RESOLVE)
#undef FP8RT_RESOLVE
  if (!error.empty()) {
    error = "the CUDA driver is too old for this build (for CUDA " +
            std::to_string(CUDA_VERSION / 1000) + "): " + error;
    return false;
  }
  return driver.check("cuInit", driver.cuInit(0), error);
}

bool loadCublasLt(CublasLt &library, std::string &error) {
  std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  std::vector<std::string> paths = {name};
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *home = std::getenv(variable); home && *home)
      paths.push_back(std::string(home) + "/lib64/" + name);
  paths.push_back("/usr/local/cuda/lib64/" + name);
  void *handle = openLibrary(paths, error);
  if (!handle) {
    error = "cannot open cuBLASLt: set LD_LIBRARY_PATH or CUDA_HOME (" + error +
            ")";
    return false;
  }
#define FP8RT_RESOLVE(name) resolve(handle, #name, library.name, error);
  FP8RT_CUBLASLT_FUNCTIONS(FP8RT_RESOLVE)
#undef FP8RT_RESOLVE
  if (!error.empty())
    error = name + " does not fit this build: " + error;
  return error.empty();
}

#ifdef FP8RT_HAVE_NCCL
bool loadNccl(Nccl &library, std::string &error) {
  // Multicast on NVLink has taken shared GPUs out of service.
  ::setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);
  void *handle = openLibrary({"libnccl.so.2"}, error);
  if (!handle) {
    error = "cannot open NCCL, which ranks on GPUs need: set LD_LIBRARY_PATH "
            "to the folder of libnccl.so.2 (" +
            error + ")";
    return false;
  }
#define FP8RT_RESOLVE(name) resolve(handle, #name, library.name, error);
  FP8RT_NCCL_FUNCTIONS(FP8RT_RESOLVE)
#undef FP8RT_RESOLVE
  if (!error.empty())
    error = "libnccl.so.2 does not fit this build: " + error;
  return error.empty();
}
#endif

/// A library and, where it cannot be used, the reason.
template <typename T>
struct Loaded {
  explicit Loaded(bool (*load)(T &, std::string &)) {
    usable = load(functions, reason);
  }
  const T *get(std::string &error) const {
    if (usable)
      return &functions;
    error = reason;
    return nullptr;
  }

  T functions;
  std::string reason;
  bool usable = false;
};

} // namespace

std::string CudaDriver::describe(const char *what, CUresult result) const {
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  return std::string(what) + ": " +
         (name ? name : "error " + std::to_string(result)) +
         (text ? " (" + std::string(text) + ")" : "");
}

bool CublasLt::check(const char *what, cublasStatus_t status,
                     std::string &error) const {
  if (status == CUBLAS_STATUS_SUCCESS)
    return true;
  error = std::string(what) + ": " + cublasLtGetStatusName(status);
  return false;
}

const CudaDriver *fp8rt::cudaDriver(std::string &error) {
  static const Loaded<CudaDriver> loaded(loadDriver);
  return loaded.get(error);
}

const CublasLt *fp8rt::cublasLt(std::string &error) {
  static const Loaded<CublasLt> loaded(loadCublasLt);
  return loaded.get(error);
}

#ifdef FP8RT_HAVE_NCCL
const Nccl *fp8rt::nccl(std::string &error) {
  static const Loaded<Nccl> loaded(loadNccl);
  return loaded.get(error);
}
#endif
