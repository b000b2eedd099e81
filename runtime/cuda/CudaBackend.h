//===- CudaBackend.h - Commands on a GPU ------------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches the artifact's kernels on the caller's stream, multiplies through
// cuBLASLt, records graphs.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CUDA_CUDABACKEND_H
#define FP8RT_CUDA_CUDABACKEND_H

#include "Backend.h"

#include <memory>
#include <string_view>

namespace fp8rt {

/// An artifact's kernels: machine code, and the text the driver compiles where
/// there is none for its device. Both empty: no kernels.
struct CudaImages {
  std::string_view cubin;
  std::string_view ptx;
};

/// Opens a device and loads `images` on it. Returns null and sets `error` on
/// failure.
std::unique_ptr<Backend> createCudaBackend(const CudaImages &images,
                                           std::string &error);

} // namespace fp8rt

#endif // FP8RT_CUDA_CUDABACKEND_H
