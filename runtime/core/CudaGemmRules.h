//===- CudaGemmRules.h - Which matmuls cuBLASLt takes -----------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mapping of a gemm command to cuBLASLt's terms, and the reasons for which
// one is refused, as far as they can be known without the library: an artifact
// is refused when it is loaded, on a machine without a GPU too.
//
// cuBLASLt is column-major, so that a row-major d = a * b is its
// D^T = B^T * A^T: its first operand is our b, its second our a, its m is our
// n and its n our m.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_CUDAGEMMRULES_H
#define FP8RT_CORE_CUDAGEMMRULES_H

#include "Manifest.h"

#include <cstdint>
#include <string>

namespace fp8rt {

/// How the factors of an operand cover it. cuBLASLt's names: SCALAR_32F,
/// OUTER_VEC_32F, VEC128_32F, BLK128x128_32F.
enum class FactorMode { None, Scalar, OuterVector, Vec128, Block128 };

/// The name of `mode` in messages.
const char *factorModeName(FactorMode mode);

/// The dequantisation factors of one operand as cuBLASLt reads them: `slow`
/// rows of `pitch` f32, of which the first `fast` are the reciprocals of the
/// scales at `i * slowStride + j * fastStride`, the others 1.
struct FactorLayout {
  FactorMode mode = FactorMode::None;
  int64_t slow = 0, fast = 0, pitch = 0;
  int64_t slowStride = 0, fastStride = 0;
  /// In the workspace, in bytes; `offset` is a multiple of 256.
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// One matrix in column-major terms.
struct ColumnMajor {
  int64_t rows = 0, columns = 0, leading = 0;
  /// Whether the product reads its transpose.
  bool transposed = false;
};

struct CudaGemmLayout {
  ColumnMajor first, second, c, d; // our b, our a
  FactorLayout factorsA, factorsB;
  /// Where the library's own workspace starts, and its size.
  uint64_t libraryOffset = 0;
  uint64_t libraryBytes = 0;
};

/// Maps `gemm`, whose workspace has `workspaceBytes` bytes. Returns false and
/// sets `error` to the reason where cuBLASLt does not take it.
bool layoutCudaGemm(const GemmCommand &gemm, uint64_t workspaceBytes,
                    CudaGemmLayout &layout, std::string &error);

} // namespace fp8rt

#endif // FP8RT_CORE_CUDAGEMMRULES_H
