//===- CudaGemm.h - What a matmul on a GPU needs of the plan ----*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes that the compiler's target and the CUDA backend share.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CUDAGEMM_H
#define FP8RT_CUDAGEMM_H

#include <cstddef>

namespace fp8rt {

/// Bytes of workspace that the plan gives every matmul on a GPU: the
/// dequantisation factors of both operands, then cuBLASLt's own.
inline constexpr size_t kCudaGemmWorkspaceBytes = 32 * 1024 * 1024;

/// What must be left for cuBLASLt behind the factors.
inline constexpr size_t kCudaGemmLibraryBytes = 4 * 1024 * 1024;

} // namespace fp8rt

#endif // FP8RT_CUDAGEMM_H
