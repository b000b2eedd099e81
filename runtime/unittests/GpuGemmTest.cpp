//===- GpuGemmTest.cpp - Matmuls on a GPU against float64 -----------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every mode of every kind of matmul at sizes that are and are not multiples
// of a block: either refused with a reason, or right by relative 2-norm
// against sums in float64 on the host. Scales differ by factors of up to 16
// from one to the next, so that a factor in the wrong place shows. Prints a
// line for each case.
//
//===----------------------------------------------------------------------===//

#include "RunHarness.h"

#include "fp8rt/Formats.h"
#include "fp8rt/Inputs.h"

#include <cmath>

using namespace fp8rt;
using namespace fp8rt::test;

namespace {

/// Groups of the scales of a and b; a negative entry: no scale.
struct Mode {
  const char *name;
  int64_t a[2];
  int64_t b[2];
};

constexpr Mode kModes[] = {
    {"none", {-1, -1}, {-1, -1}},
    {"tensor", {0, 0}, {0, 0}},
    {"outer", {1, 0}, {0, 1}},
    {"1x128 x 1x128", {1, 128}, {128, 1}},
    {"1x128 x 128x128", {1, 128}, {128, 128}},
    {"128x128 x 1x128", {128, 128}, {128, 1}},
};

struct Case {
  Mode mode = kModes[0];
  int64_t m = 0, n = 0, k = 0;
  DType a = DType::F8E4M3FN, b = DType::F8E4M3FN, d = DType::F32;
  bool accumulate = false;
  bool fast = false;
  /// Elements between rows beyond their length.
  int64_t padding = 0;
  /// a is [k, m] and b is [k, n] in memory (not for f8).
  bool outerContiguous = false;
};

/// An operand of random values, [outer][k] in memory (or the other way round).
struct TestOperand {
  std::vector<uint8_t> bytes;
  int64_t outerStride = 0, sumStride = 0;
  /// Of its scale, [outer groups][k groups] in memory.
  std::vector<float> scale;
  int64_t outerGroup = 0, sumGroup = 0, scaleStride = 0;

  /// The values that the operand stands for, [outer][k].
  std::vector<double> values(DType type, int64_t outer, int64_t k) const {
    std::vector<double> out;
    for (int64_t i = 0; i < outer; ++i)
      for (int64_t p = 0; p < k; ++p) {
        auto at = static_cast<size_t>(i * outerStride + p * sumStride);
        double value = loadElement(bytes.data(), type, at);
        int64_t row = outerGroup ? i / outerGroup : 0;
        int64_t column = sumGroup ? p / sumGroup : 0;
        if (!scale.empty())
          value *= 1.0f / scale[row * scaleStride + column];
        out.push_back(value);
      }
    return out;
  }
};

TestOperand makeOperand(const Case &test, DType type, int64_t outer,
                        int64_t outerGroup, int64_t sumGroup, uint64_t seed) {
  TestOperand operand;
  int64_t rows = outer, columns = test.k;
  if (test.outerContiguous)
    std::swap(rows, columns);
  int64_t leading = columns + test.padding;
  operand.outerStride = test.outerContiguous ? 1 : leading;
  operand.sumStride = test.outerContiguous ? leading : 1;
  operand.bytes.resize(rows * leading * dtypeBytes(type));
  fillInput(operand.bytes.data(), type, rows * leading, Init::Normal, 1.0f,
            splitmix64(seed));
  if (outerGroup < 0)
    return operand;
  operand.outerGroup = outerGroup;
  operand.sumGroup = sumGroup;
  int64_t scaleRows = outerGroup ? (outer + outerGroup - 1) / outerGroup : 1;
  operand.scaleStride = sumGroup ? (test.k + sumGroup - 1) / sumGroup : 1;
  for (int64_t i = 0; i < scaleRows * operand.scaleStride; ++i)
    operand.scale.push_back(std::exp2(
        inputValue(splitmix64(seed + 1), static_cast<uint64_t>(i), 1.0f)));
  return operand;
}

Json typed(int index, DType type, int64_t stride0, int64_t stride1) {
  return {{"arg", index},
          {"dtype", dtypeName(type)},
          {"offset", 0},
          {"strides", {stride0, stride1}}};
}

/// An argument that is a vector of `bytes` bytes.
Json vectorArgument(const std::string &name, DType type, size_t bytes,
                    const std::string &role = "input") {
  return {{"name", name},
          {"dtype", dtypeName(type)},
          {"shape", {bytes / dtypeBytes(type)}},
          {"bytes", bytes},
          {"role", role}};
}

/// The outcome of a case: an error, or the relative 2-norm of the difference.
struct GemmOutcome {
  std::string error;
  double relative = 0;
};

GemmOutcome runCase(const Case &test) {
  TestOperand a =
      makeOperand(test, test.a, test.m, test.mode.a[0], test.mode.a[1], 11);
  // The group of b is (k, n).
  TestOperand b =
      makeOperand(test, test.b, test.n, test.mode.b[1], test.mode.b[0], 22);
  size_t count = static_cast<size_t>(test.m * test.n);
  std::vector<uint8_t> c(count * dtypeBytes(test.d));
  fillInput(c.data(), test.d, count, Init::Normal, 3.0f, splitmix64(33));

  Json gemm = {{"op", "gemm"},
               {"m", test.m},
               {"n", test.n},
               {"k", test.k},
               {"a", typed(0, test.a, a.outerStride, a.sumStride)},
               {"b", typed(1, test.b, b.sumStride, b.outerStride)},
               {"d", typed(2, test.d, test.n, 1)},
               {"workspace", buf(0)},
               {"fast_accum", test.fast},
               {"name", "mm"},
               {"loc", "mm.mlir:1:2"}};
  if (test.accumulate)
    gemm["c"] = gemm["d"];
  std::vector<Json> arguments = {
      vectorArgument("a", test.a, a.bytes.size()),
      vectorArgument("b", test.b, b.bytes.size()),
      vectorArgument("d", test.d, c.size(), "state")};
  if (!a.scale.empty()) {
    arguments.push_back(vectorArgument("sa", DType::F32, 4 * a.scale.size()));
    arguments.push_back(vectorArgument("sb", DType::F32, 4 * b.scale.size()));
    gemm["scale_a"] = {{"arg", 3},
                       {"group", {test.mode.a[0], test.mode.a[1]}},
                       {"strides", {a.scaleStride, 1}},
                       {"offset", 0}};
    gemm["scale_b"] = {{"arg", 4},
                       {"group", {test.mode.b[0], test.mode.b[1]}},
                       {"strides", {1, b.scaleStride}},
                       {"offset", 0}};
  }
  int64_t workspace = kCudaGemmWorkspaceBytes;
  Json function = {{"name", "step"},
                   {"arguments", arguments},
                   {"buffers", {buffer("ws", 0, "workspace", workspace)}},
                   {"results", Json::array()},
                   {"peak_bytes", workspace},
                   {"arena_bytes", workspace},
                   {"saved_bytes", 0},
                   {"commands", {alloc(0), gemm, release(0)}}};

  GemmOutcome outcome;
  LoadedProgram program("cuda", artifactFor("cuda", manifest({function})));
  fp8rt_runner_options request{};
  request.struct_size = sizeof(request);
  fp8rt_runner *runner = nullptr;
  if (!program.handle) {
    outcome.error = program.error;
    return outcome;
  }
  if (fp8rt_create_runner(program.handle, 0, &request, &runner,
                          &program.failure)) {
    outcome.error = take(program.failure);
    return outcome;
  }
  std::vector<void *> data = {program.upload(a.bytes), program.upload(b.bytes),
                              program.upload(c)};
  if (!a.scale.empty()) {
    data.push_back(program.upload(a.scale));
    data.push_back(program.upload(b.scale));
  }
  void *arena = program.allocate(kCudaGemmWorkspaceBytes);
  if (fp8rt_run(runner, data.data(), nullptr, arena, kCudaGemmWorkspaceBytes,
                nullptr, &program.failure) ||
      fp8rt_synchronize(program.handle, nullptr, &program.failure)) {
    outcome.error = take(program.failure);
    fp8rt_destroy_runner(runner);
    return outcome;
  }
  std::vector<uint8_t> got = program.download<uint8_t>(data[2], c.size());
  fp8rt_destroy_runner(runner);

  std::vector<double> left = a.values(test.a, test.m, test.k);
  std::vector<double> right = b.values(test.b, test.n, test.k);
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < test.m; ++i)
    for (int64_t j = 0; j < test.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < test.k; ++p)
        sum += left[i * test.k + p] * right[j * test.k + p];
      auto e = static_cast<size_t>(i * test.n + j);
      if (test.accumulate)
        sum += loadElement(c.data(), test.d, e);
      double value = loadElement(got.data(), test.d, e);
      difference += (value - sum) * (value - sum);
      norm += sum * sum;
    }
  outcome.relative = std::sqrt(difference / norm);
  return outcome;
}

/// What the hardware's sums may differ by: f8 products are summed with fewer
/// bits than f32 has, faster ones with fewer still.
double toleranceOf(const Case &test) {
  bool f8 = dtypeBytes(test.a) == 1;
  double sums = !f8 ? 1e-5 : test.fast ? 1e-2 : 2e-3;
  return sums + (test.d == DType::BF16 ? 3e-3 : 0);
}

void report(const Case &test, const GemmOutcome &outcome) {
  std::printf(
      "  %-16s m %4lld n %4lld k %4lld %s x %s -> %s%s%s%s: ", test.mode.name,
      static_cast<long long>(test.m), static_cast<long long>(test.n),
      static_cast<long long>(test.k), dtypeName(test.a), dtypeName(test.b),
      dtypeName(test.d), test.accumulate ? " + c" : "",
      test.fast ? " fast" : "", test.padding ? " padded" : "");
  if (outcome.error.empty())
    std::printf("relative error %.2e\n", outcome.relative);
  else
    std::printf("refused: %s\n", outcome.error.c_str());
}

class GpuGemm : public testing::Test {
protected:
  void SetUp() override {
    if (!missingGpu().empty())
      GTEST_SKIP() << missingGpu();
  }
  /// Runs `test`; it must be right, or refused if it may be.
  void expectRight(const Case &test, bool mayBeRefused = false) {
    GemmOutcome outcome = runCase(test);
    report(test, outcome);
    if (mayBeRefused && !outcome.error.empty()) {
      EXPECT_NE(outcome.error.find("gemm 'mm' (mm.mlir:1:2): "),
                std::string::npos)
          << outcome.error;
      return;
    }
    EXPECT_EQ(outcome.error, "");
    EXPECT_LT(outcome.relative, toleranceOf(test));
  }
};

TEST_F(GpuGemm, EveryModeAndResult) {
  for (const Mode &mode : kModes)
    for (DType d : {DType::BF16, DType::F32})
      for (bool accumulate : {false, true})
        expectRight({mode, 256, 384, 512, DType::F8E4M3FN, DType::F8E4M3FN, d,
                     accumulate});
}

TEST_F(GpuGemm, EveryPairOfF8Types) {
  for (const Mode &mode : kModes) {
    expectRight({mode, 256, 384, 512, DType::F8E4M3FN, DType::F8E5M2});
    expectRight({mode, 256, 384, 512, DType::F8E5M2, DType::F8E4M3FN});
  }
}

TEST_F(GpuGemm, FastAccumulation) {
  for (int mode : {1, 2})
    for (bool accumulate : {false, true})
      expectRight({kModes[mode], 256, 384, 512, DType::F8E4M3FN,
                   DType::F8E4M3FN, DType::BF16, accumulate, /*fast=*/true});
}

TEST_F(GpuGemm, OddSizesAreRightOrRefused) {
  for (const Mode &mode : kModes)
    for (int64_t m : {1, 8, 24, 130, 132})
      for (int64_t n : {8, 72, 264})
        for (int64_t k : {16, 144, 400})
          expectRight(
              {mode, m, n, k, DType::F8E4M3FN, DType::F8E4M3FN, DType::BF16},
              /*mayBeRefused=*/true);
}

TEST_F(GpuGemm, RowsWithGaps) {
  for (const Mode &mode : kModes)
    expectRight({mode, 128, 256, 384, DType::F8E4M3FN, DType::F8E4M3FN,
                 DType::F32, false, false, /*padding=*/16});
}

TEST_F(GpuGemm, WiderTypesInEitherOrder) {
  for (bool outerContiguous : {false, true})
    for (DType d : {DType::BF16, DType::F32})
      for (bool accumulate : {false, true})
        expectRight({kModes[0], 130, 72, 144, DType::BF16, DType::BF16, d,
                     accumulate, false, 0, outerContiguous});
  for (bool outerContiguous : {false, true})
    expectRight({kModes[0], 130, 70, 33, DType::F32, DType::F32, DType::F32,
                 true, false, 0, outerContiguous});
  expectRight({kModes[0], 7, 5, 3, DType::BF16, DType::BF16, DType::F32},
              /*mayBeRefused=*/true);
}

} // namespace
