//===- GemmKernelX86V3.cpp - Matmul inner loop, X86V3 ------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The inner loop for x86-64-v3 (AVX2); the build adds the flag.
//
//===----------------------------------------------------------------------===//

#include "GemmKernel.h"

void fp8rt::gemmTileX86V3(int64_t kc, const float *a, const float *b, float *c,
                          int64_t ldc, const float *da, const float *db) {
  gemmTile<8>(kc, a, b, c, ldc, da, db);
}
