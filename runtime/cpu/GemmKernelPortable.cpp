//===- GemmKernelPortable.cpp - Matmul inner loop, Portable
//------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The inner loop for any processor with 128-bit vectors (or none).
//
//===----------------------------------------------------------------------===//

#include "GemmKernel.h"

void fp8rt::gemmTilePortable(int64_t kc, const float *a, const float *b,
                             float *c, int64_t ldc, const float *da,
                             const float *db) {
  gemmTile<4>(kc, a, b, c, ldc, da, db);
}
