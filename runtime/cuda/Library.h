//===- Library.h - The driver, cuBLASLt and NCCL at run time ----*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The CUDA backend uses the driver's interface, cuBLASLt and, for several
// ranks, NCCL, opened when a program first needs them: programs that link the
// runtime start on machines without them, and say what is missing when they
// need it. The CUDA runtime library is not used, so that there is no second
// owner of modules and contexts beside a framework's.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CUDA_LIBRARY_H
#define FP8RT_CUDA_LIBRARY_H

#include <cublasLt.h>
#include <cuda.h>
#ifdef FP8RT_HAVE_NCCL
#include <nccl.h>
#endif

#include <string>

// Each name is replaced by its versioned symbol where cuda.h defines one.
#define FP8RT_DRIVER_FUNCTIONS(X)                                              \
  X(cuCtxGetCurrent)                                                           \
  X(cuCtxGetDevice)                                                            \
  X(cuCtxPopCurrent)                                                           \
  X(cuCtxPushCurrent)                                                          \
  X(cuDeviceGet)                                                               \
  X(cuDeviceGetAttribute)                                                      \
  X(cuDeviceGetCount)                                                          \
  X(cuDevicePrimaryCtxRelease)                                                 \
  X(cuDevicePrimaryCtxRetain)                                                  \
  X(cuDriverGetVersion)                                                        \
  X(cuEventCreate)                                                             \
  X(cuEventDestroy)                                                            \
  X(cuEventElapsedTime)                                                        \
  X(cuEventQuery)                                                              \
  X(cuEventRecord)                                                             \
  X(cuEventSynchronize)                                                        \
  X(cuFuncGetAttribute)                                                        \
  X(cuFuncGetParamInfo)                                                        \
  X(cuFuncLoad)                                                                \
  X(cuFuncSetAttribute)                                                        \
  X(cuGetErrorName)                                                            \
  X(cuGetErrorString)                                                          \
  X(cuGraphDestroy)                                                            \
  X(cuGraphExecDestroy)                                                        \
  X(cuGraphInstantiate)                                                        \
  X(cuGraphLaunch)                                                             \
  X(cuInit)                                                                    \
  X(cuIpcCloseMemHandle)                                                       \
  X(cuIpcGetMemHandle)                                                         \
  X(cuIpcOpenMemHandle)                                                        \
  X(cuLaunchKernel)                                                            \
  X(cuMemAlloc)                                                                \
  X(cuMemAllocFromPoolAsync)                                                   \
  X(cuMemAllocHost)                                                            \
  X(cuMemFree)                                                                 \
  X(cuMemFreeAsync)                                                            \
  X(cuMemFreeHost)                                                             \
  X(cuMemGetAddressRange)                                                      \
  X(cuMemGetInfo)                                                              \
  X(cuMemPoolCreate)                                                           \
  X(cuMemPoolDestroy)                                                          \
  X(cuMemPoolGetAttribute)                                                     \
  X(cuMemPoolSetAttribute)                                                     \
  X(cuMemcpyDtoDAsync)                                                         \
  X(cuMemcpyDtoH)                                                              \
  X(cuMemcpyDtoHAsync)                                                         \
  X(cuMemcpyHtoD)                                                              \
  X(cuMemcpyHtoDAsync)                                                         \
  X(cuMemsetD8Async)                                                           \
  X(cuModuleGetFunction)                                                       \
  X(cuModuleLoadDataEx)                                                        \
  X(cuModuleUnload)                                                            \
  X(cuPointerGetAttribute)                                                     \
  X(cuStreamBatchMemOp)                                                        \
  X(cuStreamBeginCapture)                                                      \
  X(cuStreamCreate)                                                            \
  X(cuStreamCreateWithPriority)                                                \
  X(cuStreamDestroy)                                                           \
  X(cuStreamEndCapture)                                                        \
  X(cuStreamQuery)                                                             \
  X(cuStreamSynchronize)                                                       \
  X(cuStreamWaitEvent)                                                         \
  X(cuStreamWriteValue32)

#define FP8RT_NCCL_FUNCTIONS(X)                                                \
  X(ncclAllGather)                                                             \
  X(ncclAllReduce)                                                             \
  X(ncclCommAbort)                                                             \
  X(ncclCommGetAsyncError)                                                     \
  X(ncclCommInitRankConfig)                                                    \
  X(ncclGetErrorString)                                                        \
  X(ncclGetLastError)                                                          \
  X(ncclGetUniqueId)                                                           \
  X(ncclGetVersion)                                                            \
  X(ncclGroupEnd)                                                              \
  X(ncclGroupStart)                                                            \
  X(ncclRecv)                                                                  \
  X(ncclReduceScatter)                                                         \
  X(ncclSend)

#define FP8RT_CUBLASLT_FUNCTIONS(X)                                            \
  X(cublasLtCreate)                                                            \
  X(cublasLtDestroy)                                                           \
  X(cublasLtGetStatusName)                                                     \
  X(cublasLtGetVersion)                                                        \
  X(cublasLtMatmul)                                                            \
  X(cublasLtMatmulAlgoGetHeuristic)                                            \
  X(cublasLtMatmulDescCreate)                                                  \
  X(cublasLtMatmulDescDestroy)                                                 \
  X(cublasLtMatmulDescSetAttribute)                                            \
  X(cublasLtMatmulPreferenceCreate)                                            \
  X(cublasLtMatmulPreferenceDestroy)                                           \
  X(cublasLtMatmulPreferenceSetAttribute)                                      \
  X(cublasLtMatrixLayoutCreate)                                                \
  X(cublasLtMatrixLayoutDestroy)

namespace fp8rt {

/// The driver's functions. Members have the names of the functions.
struct CudaDriver {
#define FP8RT_MEMBER(name) decltype(&::name) name = nullptr;
  FP8RT_DRIVER_FUNCTIONS(FP8RT_MEMBER)

  /// "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (invalid argument)".
  std::string describe(const char *what, CUresult result) const;

  /// Whether `result` is success; else sets `error` to its description.
  bool check(const char *what, CUresult result, std::string &error) const {
    if (result == CUDA_SUCCESS)
      return true;
    error = describe(what, result);
    return false;
  }
};

struct CublasLt {
  FP8RT_CUBLASLT_FUNCTIONS(FP8RT_MEMBER)

  bool check(const char *what, cublasStatus_t status, std::string &error) const;
};

#ifdef FP8RT_HAVE_NCCL
struct Nccl {
  FP8RT_NCCL_FUNCTIONS(FP8RT_MEMBER)
};

/// NCCL, opened when a program with several ranks is first run.
const Nccl *nccl(std::string &error);
#endif
#undef FP8RT_MEMBER

/// The driver, initialised; null with `error` set where there is none. Opened
/// once, stays open.
const CudaDriver *cudaDriver(std::string &error);

/// cuBLASLt, opened when a program first needs it.
const CublasLt *cublasLt(std::string &error);

} // namespace fp8rt

#endif // FP8RT_CUDA_LIBRARY_H
