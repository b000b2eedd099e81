//===- CudaGemm.h - Matmuls through cuBLASLt --------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns gemm commands into tasks. The algorithm is the first of cuBLASLt's
// heuristic for the shape, types, modes, alignments and workspace, asked once
// for each and kept: it depends on nothing else, so a matmul gives the same
// bits under every plan that runs it.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CUDA_CUDAGEMM_H
#define FP8RT_CUDA_CUDAGEMM_H

#include "Backend.h"
#include "CudaDevice.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace fp8rt {

class CudaGemmLibrary {
public:
  /// Opens cuBLASLt on `device`, which outlives the library.
  static std::unique_ptr<CudaGemmLibrary> open(const CudaDevice &device,
                                               std::string &error);
  ~CudaGemmLibrary();

  /// The task of `gemm`, whose workspace has `workspaceBytes` bytes. The
  /// library outlives it. Returns null and sets `error` to the reason where
  /// cuBLASLt does not take the problem.
  std::unique_ptr<Task> prepare(const GemmCommand &gemm,
                                uint64_t workspaceBytes, std::string &error);

private:
  friend class CudaGemmTask;
  CudaGemmLibrary(const CudaDevice &device, const CublasLt &lt)
      : device(device), lt(lt) {}

  const CudaDevice &device;
  const CublasLt &lt;
  cublasLtHandle_t handle = nullptr;
  std::mutex mutex;
  /// By what the algorithm depends on, as text.
  std::map<std::string, cublasLtMatmulAlgo_t> algorithms;
};

} // namespace fp8rt

#endif // FP8RT_CUDA_CUDAGEMM_H
