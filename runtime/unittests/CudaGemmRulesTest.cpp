//===- CudaGemmRulesTest.cpp - Which matmuls a GPU takes ------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mapping to cuBLASLt's terms, by numbers worked out by hand, and each
// reason for a refusal. Needs no GPU.
//
//===----------------------------------------------------------------------===//

#include "CudaGemmRules.h"

#include "fp8rt/CudaGemm.h"

#include <gtest/gtest.h>

#include <tuple>

using namespace fp8rt;

namespace {

/// m 136, n 264, k 272: a [136, 272] and b [272, 264], both contiguous along k.
GemmCommand f8Gemm() {
  GemmCommand gemm;
  gemm.m = 136;
  gemm.n = 264;
  gemm.k = 272;
  gemm.a = {{}, DType::F8E4M3FN, 0, {272, 1}};
  gemm.b = {{}, DType::F8E5M2, 0, {1, 272}};
  gemm.d = {{}, DType::BF16, 0, {264, 1}};
  return gemm;
}

ScaleOperand scale(int64_t group0, int64_t group1, int64_t stride0,
                   int64_t stride1) {
  return {{}, {group0, group1}, {stride0, stride1}, 0};
}

/// With a scale for each 1x128 of a and each 128x128 of b.
GemmCommand blockGemm() {
  GemmCommand gemm = f8Gemm();
  gemm.scaleA = scale(1, 128, 3, 1);   // [136, 3]
  gemm.scaleB = scale(128, 128, 1, 3); // a view of [3, 3]
  return gemm;
}

std::string refusal(const GemmCommand &gemm,
                    uint64_t workspace = kCudaGemmWorkspaceBytes) {
  CudaGemmLayout layout;
  std::string error;
  return layoutCudaGemm(gemm, workspace, layout, error) ? "accepted" : error;
}

void expectMatrix(const ColumnMajor &matrix, int64_t rows, int64_t columns,
                  int64_t leading, bool transposed) {
  EXPECT_EQ(matrix.rows, rows);
  EXPECT_EQ(matrix.columns, columns);
  EXPECT_EQ(matrix.leading, leading);
  EXPECT_EQ(matrix.transposed, transposed);
}

TEST(CudaGemmRules, MapsOperands) {
  CudaGemmLayout layout;
  std::string error;
  ASSERT_TRUE(layoutCudaGemm(f8Gemm(), kCudaGemmWorkspaceBytes, layout, error))
      << error;
  // Both are k-contiguous: the first transposed, the second not ("TN").
  expectMatrix(layout.first, 272, 264, 272, true);
  expectMatrix(layout.second, 272, 136, 272, false);
  expectMatrix(layout.d, 264, 136, 264, false);
  EXPECT_EQ(layout.libraryOffset, 0u);
  EXPECT_EQ(layout.libraryBytes, kCudaGemmWorkspaceBytes);

  // bf16 takes either order of either operand.
  GemmCommand gemm = f8Gemm();
  gemm.a = {{}, DType::BF16, 0, {1, 136}};
  gemm.b = {{}, DType::BF16, 0, {264, 1}};
  ASSERT_TRUE(layoutCudaGemm(gemm, kCudaGemmWorkspaceBytes, layout, error))
      << error;
  expectMatrix(layout.first, 264, 272, 264, false);
  expectMatrix(layout.second, 136, 272, 136, true);
}

TEST(CudaGemmRules, MapsScales) {
  CudaGemmLayout layout;
  std::string error;
  ASSERT_TRUE(
      layoutCudaGemm(blockGemm(), kCudaGemmWorkspaceBytes, layout, error))
      << error;
  auto numbers = [](const FactorLayout &factors) {
    return std::tuple(factors.mode, factors.slow, factors.fast, factors.pitch,
                      factors.slowStride, factors.fastStride, factors.offset,
                      factors.bytes);
  };
  // a: three blocks of k, each with its 136 rows; b: three blocks of n, each
  // with its three blocks of k and one of padding.
  EXPECT_EQ(numbers(layout.factorsA), std::tuple(FactorMode::Vec128, 3, 136,
                                                 136, 1, 3, 0u, 3u * 136 * 4));
  EXPECT_EQ(numbers(layout.factorsB),
            std::tuple(FactorMode::Block128, 3, 3, 4, 3, 1, 1792u, 48u));
  EXPECT_EQ(layout.libraryOffset, 2048u);
  EXPECT_EQ(layout.libraryBytes, kCudaGemmWorkspaceBytes - 2048);

  GemmCommand gemm = f8Gemm();
  gemm.scaleA = scale(1, 0, 1, 0);
  gemm.scaleB = scale(0, 1, 0, 1);
  ASSERT_TRUE(layoutCudaGemm(gemm, kCudaGemmWorkspaceBytes, layout, error))
      << error;
  EXPECT_EQ(numbers(layout.factorsA),
            std::tuple(FactorMode::OuterVector, 1, 136, 136, 0, 1, 0u, 544u));
  EXPECT_EQ(numbers(layout.factorsB), std::tuple(FactorMode::OuterVector, 1,
                                                 264, 264, 0, 1, 768u, 1056u));

  gemm.scaleA = scale(0, 0, 0, 0);
  gemm.scaleB = scale(0, 0, 0, 0);
  ASSERT_TRUE(layoutCudaGemm(gemm, kCudaGemmWorkspaceBytes, layout, error))
      << error;
  EXPECT_EQ(numbers(layout.factorsB),
            std::tuple(FactorMode::Scalar, 1, 1, 1, 0, 0, 256u, 4u));
}

TEST(CudaGemmRules, AcceptsEveryMode) {
  GemmCommand gemm = blockGemm();
  gemm.scaleB = scale(128, 1, 264, 1);
  EXPECT_EQ(refusal(gemm), "accepted");
  gemm = blockGemm();
  gemm.scaleA = scale(128, 128, 3, 1);
  gemm.scaleB = scale(128, 1, 264, 1);
  EXPECT_EQ(refusal(gemm), "accepted");
  // A scale of one operand alone, if it is for the tensor.
  gemm = f8Gemm();
  gemm.scaleA = scale(0, 0, 0, 0);
  EXPECT_EQ(refusal(gemm), "accepted");
  gemm = f8Gemm();
  gemm.c = gemm.d;
  EXPECT_EQ(refusal(gemm), "accepted");
  gemm = f8Gemm();
  gemm.m = 3;
  gemm.fastAccum = true;
  EXPECT_EQ(refusal(gemm), "accepted");
}

TEST(CudaGemmRules, RefusesWithTheReason) {
  GemmCommand gemm = f8Gemm();
  gemm.a.strides[0] = 1;
  gemm.a.strides[1] = 136;
  EXPECT_EQ(refusal(gemm), "expected f8 operands contiguous along k, but a has "
                           "a stride of 136 along k");
  gemm = f8Gemm();
  gemm.a.dtype = gemm.b.dtype = DType::BF16;
  gemm.b.strides[0] = 2;
  EXPECT_EQ(refusal(gemm), "expected b contiguous along one axis, but got the "
                           "strides 272 and 2 along k");
  gemm = f8Gemm();
  gemm.a.strides[0] = 271;
  EXPECT_EQ(refusal(gemm), "expected rows of a that do not overlap, but got a "
                           "stride of 271 for rows of 272 elements");
  gemm.a.strides[0] = 280;
  EXPECT_EQ(refusal(gemm), "expected f8 rows at multiples of 16 elements, but "
                           "those of a are 280 apart");
  gemm = f8Gemm();
  gemm.b.offset = 8;
  EXPECT_EQ(refusal(gemm), "expected f8 operands at multiples of 16 bytes, but "
                           "b starts at byte 8");
  gemm = f8Gemm();
  gemm.a.dtype = DType::F8E5M2;
  EXPECT_EQ(refusal(gemm), "cuBLASLt multiplies no f8E5M2 by f8E5M2");
  gemm.a.dtype = DType::BF16;
  EXPECT_EQ(refusal(gemm), "expected a and b both f8 or of one type, but got "
                           "bf16 and f8E5M2");
  gemm.a.dtype = gemm.b.dtype = DType::F32;
  EXPECT_EQ(refusal(gemm),
            "expected an f32 result of f32 operands, but got bf16");
  gemm = f8Gemm();
  gemm.c = gemm.d;
  gemm.c->dtype = DType::F32;
  EXPECT_EQ(refusal(gemm), "expected c of the result's type bf16, but got f32");
  gemm = f8Gemm();
  gemm.d.strides[0] = 1;
  gemm.d.strides[1] = 136;
  EXPECT_EQ(refusal(gemm), "expected a row-major d, but got a stride of 136 "
                           "along its rows");
  gemm = f8Gemm();
  gemm.a.dtype = gemm.b.dtype = DType::BF16;
  gemm.scaleA = scale(0, 0, 0, 0);
  EXPECT_EQ(refusal(gemm), "expected no scale of the bf16 operand a");
}

TEST(CudaGemmRules, RefusesScalesWithTheReason) {
  GemmCommand gemm = blockGemm();
  gemm.scaleA = scale(1, 64, 5, 1);
  EXPECT_EQ(refusal(gemm),
            "expected a scale of a for the tensor, for each row, for 1x128 or "
            "for 128x128 elements, but got one for 1 x 64 (rows x k)");
  gemm.scaleA = scale(128, 128, 3, 1);
  EXPECT_EQ(refusal(gemm),
            "cuBLASLt does not combine a scale of a for 128x128 elements with "
            "one of b for 128x128 elements");
  gemm.scaleA = scale(1, 0, 1, 0);
  gemm.scaleB = scale(0, 0, 0, 0);
  EXPECT_EQ(refusal(gemm), "cuBLASLt does not combine a scale of a for each "
                           "row with one of b for the tensor");
  gemm = blockGemm();
  gemm.fastAccum = true;
  EXPECT_EQ(refusal(gemm),
            "cuBLASLt has no fast accumulation with scales for blocks");
}

TEST(CudaGemmRules, RefusesSizesWithTheReason) {
  GemmCommand gemm = f8Gemm();
  gemm.k = 264;
  EXPECT_EQ(refusal(gemm), "cuBLASLt takes f8 operands only with k a multiple "
                           "of 16, but got 264");
  gemm = f8Gemm();
  gemm.n = 260;
  EXPECT_EQ(refusal(gemm), "cuBLASLt takes f8 operands only with n a multiple "
                           "of 8, but got 260");
  gemm = blockGemm();
  gemm.m = 130;
  EXPECT_EQ(refusal(gemm), "cuBLASLt takes 1x128 scales of a only with m a "
                           "multiple of 4, but got 130");
  EXPECT_EQ(refusal(f8Gemm(), kCudaGemmLibraryBytes - 1),
            "expected a workspace of 0 bytes of factors and 4194304 bytes for "
            "cuBLASLt at least, but got 4194303 bytes");
  EXPECT_EQ(refusal(blockGemm(), kCudaGemmLibraryBytes + 2047),
            "expected a workspace of 2048 bytes of factors and 4194304 bytes "
            "for cuBLASLt at least, but got 4196351 bytes");
}

} // namespace
