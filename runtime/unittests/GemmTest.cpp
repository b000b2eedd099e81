//===- GemmTest.cpp - The matmul against a double loop --------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The oracle is a plain triple loop written from docs/architecture.md,
// "Numbers", with decoders of its own (through ldexp, not through bit
// patterns); bits must be equal for every type, stride, scale and size.
//
//===----------------------------------------------------------------------===//

#include "fp8rt/CpuGemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <memory>
#include <random>
#include <vector>

using namespace fp8rt;

namespace {

float oracleDecode(DType type, const void *data, int64_t i) {
  if (type == DType::F32)
    return static_cast<const float *>(data)[i];
  uint32_t code;
  int width, bias, exponentBits;
  if (type == DType::BF16) {
    code = static_cast<const uint16_t *>(data)[i];
    width = 7, bias = 127, exponentBits = 8;
  } else {
    code = static_cast<const uint8_t *>(data)[i];
    width = type == DType::F8E4M3FN ? 3 : 2;
    bias = type == DType::F8E4M3FN ? 7 : 15;
    exponentBits = 7 - width;
  }
  uint32_t mantissa = code % (1u << width);
  uint32_t exponent = (code >> width) % (1u << exponentBits);
  double sign = (code >> (width + exponentBits)) & 1 ? -1.0 : 1.0;
  uint32_t top = (1u << exponentBits) - 1;
  if (type == DType::F8E4M3FN) {
    if (exponent == top && mantissa == 7)
      return std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == top) {
    return mantissa ? std::numeric_limits<float>::quiet_NaN()
                    : static_cast<float>(
                          sign * std::numeric_limits<double>::infinity());
  }
  double value =
      exponent == 0
          ? std::ldexp(static_cast<double>(mantissa), 1 - bias - width)
          : std::ldexp(1.0 + std::ldexp(static_cast<double>(mantissa), -width),
                       static_cast<int>(exponent) - bias);
  return static_cast<float>(sign * value);
}

/// bf16 by choosing the nearer of the two neighbours, ties to the even one.
uint16_t oracleBf16(float value) {
  if (std::isnan(value))
    return 0x7FC0;
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  auto low = static_cast<uint16_t>(bits >> 16);
  uint32_t rest = bits & 0xFFFF;
  if (rest > 0x8000 || (rest == 0x8000 && low % 2 == 1))
    ++low;
  return low;
}

float product(float a, float b) {
  volatile float result = a * b;
  return result;
}
float sum(float a, float b) {
  volatile float result = a + b;
  return result;
}

struct Case {
  int64_t m, n, k;
  DType a, b, c, d;
  bool hasC;
  bool transposeA, transposeB, transposeD;
  // Groups: {m, k} and {k, n}; -1 means no scale.
  int64_t groupA[2], groupB[2];
};

class Storage {
public:
  Storage(DType type, int64_t rows, int64_t columns, bool transpose,
          int64_t offset, int64_t extra)
      : type(type), offset(offset) {
    strides[0] = transpose ? 1 : columns + extra;
    strides[1] = transpose ? rows + extra : 1;
    bytes.resize((offset + (rows + extra) * (columns + extra)) *
                 dtypeBytes(type));
  }
  void fill(std::mt19937 &random, bool special) {
    for (size_t i = 0; i < bytes.size() / dtypeBytes(type); ++i) {
      if (dtypeBytes(type) == 1) {
        uint8_t code = random() % 256;
        bool finite = type == DType::F8E4M3FN ? (code & 0x7F) != 0x7F
                                              : (code & 0x7F) < 0x7C;
        bytes[i] = finite || special ? code : 0;
        continue;
      }
      float value = static_cast<float>(static_cast<int32_t>(random())) *
                    (random() % 2 ? 0x1p-31f : 0x1p-40f);
      if (special && random() % 64 == 0)
        value = random() % 2 ? INFINITY : -0.0f;
      if (type == DType::BF16) {
        uint16_t code = oracleBf16(value);
        std::memcpy(&bytes[i * 2], &code, 2);
      } else {
        std::memcpy(&bytes[i * 4], &value, 4);
      }
    }
  }
  int64_t at(int64_t i, int64_t j) const {
    return offset + i * strides[0] + j * strides[1];
  }
  float get(int64_t i, int64_t j) const {
    return oracleDecode(type, bytes.data(), at(i, j));
  }
  /// All of it as f32, row-major.
  std::vector<float> decoded(int64_t rows, int64_t columns) const {
    std::vector<float> values;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        values.push_back(get(i, j));
    return values;
  }
  GemmMatrix matrix() {
    return {bytes.data() + offset * dtypeBytes(type),
            type,
            {strides[0], strides[1]}};
  }

  DType type;
  int64_t offset;
  int64_t strides[2];
  std::vector<uint8_t> bytes;
};

struct ScaleStorage {
  ScaleStorage(const int64_t (&groups)[2], int64_t rows, int64_t columns,
               std::mt19937 &random) {
    present = groups[0] >= 0;
    if (!present)
      return;
    group[0] = groups[0];
    group[1] = groups[1];
    int64_t sizes[2];
    sizes[0] = group[0] ? (rows + group[0] - 1) / group[0] : 1;
    sizes[1] = group[1] ? (columns + group[1] - 1) / group[1] : 1;
    values.resize(sizes[0] * sizes[1]);
    for (float &value : values)
      value = std::ldexp(1.0f + static_cast<float>(random() % 1000) / 1000.0f,
                         static_cast<int>(random() % 8) - 4);
    strides[0] = 1;
    strides[1] = sizes[0];
  }
  float get(int64_t i, int64_t j) const {
    int64_t gi = group[0] ? i / group[0] : 0, gj = group[1] ? j / group[1] : 0;
    volatile float inverse = 1.0f / values[gi * strides[0] + gj * strides[1]];
    return inverse;
  }
  GemmScale scale() const {
    if (!present)
      return {};
    return {values.data(), {group[0], group[1]}, {strides[0], strides[1]}};
  }
  bool present = false;
  int64_t group[2] = {0, 0};
  int64_t strides[2] = {0, 0};
  std::vector<float> values;
};

void check(const Case &c, unsigned seed, bool special) {
  std::mt19937 random(seed);
  Storage a(c.a, c.m, c.k, c.transposeA, 3, 1);
  Storage b(c.b, c.k, c.n, c.transposeB, 5, 2);
  Storage acc(c.c, c.m, c.n, false, 1, 3);
  a.fill(random, special);
  b.fill(random, special);
  acc.fill(random, special);
  ScaleStorage sa(c.groupA, c.m, c.k, random), sb(c.groupB, c.k, c.n, random);

  GemmProblem problem;
  problem.m = c.m, problem.n = c.n, problem.k = c.k;
  problem.a = a.matrix(), problem.b = b.matrix();
  if (c.hasC)
    problem.c = acc.matrix();
  problem.scaleA = sa.scale(), problem.scaleB = sb.scale();

  std::unique_ptr<void, void (*)(void *)> workspace(
      std::aligned_alloc(256, kCpuGemmWorkspaceBytes), std::free);
  std::vector<Storage> results;
  for (CpuIsa isa : {CpuIsa::Portable, bestCpuIsa()}) {
    Storage &d = results.emplace_back(c.d, c.m, c.n, c.transposeD, 2, 1);
    std::memset(d.bytes.data(), 0xA5, d.bytes.size());
    std::memset(workspace.get(), 0xFF, kCpuGemmWorkspaceBytes);
    problem.d = d.matrix();
    cpuGemm(problem, workspace.get(), isa);
  }

  Storage expected(c.d, c.m, c.n, c.transposeD, 2, 1);
  std::memset(expected.bytes.data(), 0xA5, expected.bytes.size());
  std::vector<float> av = a.decoded(c.m, c.k), bv = b.decoded(c.k, c.n);
  int64_t block = std::max(sa.group[1], sb.group[0]);
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j) {
      float value = 0.0f;
      if (block > 0) {
        for (int64_t p0 = 0; p0 < c.k; p0 += block) {
          float part = 0.0f;
          for (int64_t p = p0; p < std::min(c.k, p0 + block); ++p)
            part = sum(part, product(av[i * c.k + p], bv[p * c.n + j]));
          if (sa.present)
            part = product(part, sa.get(i, p0));
          if (sb.present)
            part = product(part, sb.get(p0, j));
          value = sum(value, part);
        }
      } else {
        for (int64_t p = 0; p < c.k; ++p)
          value = sum(value, product(av[i * c.k + p], bv[p * c.n + j]));
        if (sa.present)
          value = product(value, sa.get(i, 0));
        if (sb.present)
          value = product(value, sb.get(0, j));
      }
      if (c.hasC)
        value = sum(value, acc.get(i, j));
      if (c.d == DType::BF16) {
        uint16_t code = oracleBf16(value);
        std::memcpy(&expected.bytes[expected.at(i, j) * 2], &code, 2);
      } else {
        uint32_t nan = 0x7FC00000;
        std::memcpy(&expected.bytes[expected.at(i, j) * 4],
                    std::isnan(value) ? static_cast<void *>(&nan) : &value, 4);
      }
    }
  // Whole storage: the gaps between rows must be untouched too.
  EXPECT_EQ(results[0].bytes, expected.bytes) << "portable";
  EXPECT_EQ(results[1].bytes, expected.bytes) << "vectorised";
}

Case plain(int64_t m, int64_t n, int64_t k, DType a, DType b, DType d) {
  return {m,     n,     k,     a,     b,        DType::F32, d,
          false, false, false, false, {-1, -1}, {-1, -1}};
}

TEST(Gemm, EveryPairOfTypesAndLayouts) {
  unsigned seed = 1;
  for (DType a : {DType::BF16, DType::F32, DType::F8E4M3FN, DType::F8E5M2})
    for (DType b : {DType::BF16, DType::F32, DType::F8E4M3FN, DType::F8E5M2})
      for (int layout = 0; layout < 8; ++layout) {
        Case c =
            plain(13, 35, 141, a, b, layout % 2 ? DType::BF16 : DType::F32);
        c.transposeA = layout & 1;
        c.transposeB = layout & 2;
        c.transposeD = layout & 4;
        check(c, seed++, false);
      }
}

TEST(Gemm, OddSizesAcrossBlockBorders) {
  unsigned seed = 100;
  for (int64_t m : {1, 6, 95, 97, 200})
    for (int64_t n : {1, 15, 17, 225})
      for (int64_t k : {1, 127, 129, 300})
        check(plain(m, n, k, DType::F8E4M3FN, DType::BF16, DType::BF16), seed++,
              false);
}

TEST(Gemm, ScalesOfEveryGroup) {
  unsigned seed = 200;
  const int64_t groupsA[][2] = {{-1, -1}, {0, 0}, {1, 0}, {1, 128}, {128, 128}};
  const int64_t groupsB[][2] = {{-1, -1}, {0, 0}, {0, 1}, {128, 1}, {128, 128}};
  for (const auto &ga : groupsA)
    for (const auto &gb : groupsB)
      for (int64_t k : {64, 128, 300}) {
        Case c = plain(101, 230, k, DType::F8E4M3FN, DType::F8E5M2,
                       k == 64 ? DType::F32 : DType::BF16);
        c.groupA[0] = ga[0], c.groupA[1] = ga[1];
        c.groupB[0] = gb[0], c.groupB[1] = gb[1];
        check(c, seed++, false);
      }
  Case c = plain(9, 20, 100, DType::F8E4M3FN, DType::F8E4M3FN, DType::F32);
  c.groupA[0] = 1, c.groupA[1] = 32;
  c.groupB[0] = 32, c.groupB[1] = 1;
  check(c, seed, false);
}

TEST(Gemm, AccumulatorIsAddedLast) {
  unsigned seed = 300;
  for (DType acc : {DType::BF16, DType::F32})
    for (DType d : {DType::BF16, DType::F32})
      for (bool blocks : {false, true}) {
        Case c = plain(50, 70, 200, DType::F8E4M3FN, DType::F8E4M3FN, d);
        c.hasC = true;
        c.c = acc;
        c.groupA[0] = 1, c.groupA[1] = blocks ? 128 : 0;
        c.groupB[0] = blocks ? 128 : 0, c.groupB[1] = 1;
        check(c, seed++, false);
      }
}

TEST(Gemm, SpecialValues) {
  unsigned seed = 400;
  for (DType t : {DType::BF16, DType::F32, DType::F8E4M3FN, DType::F8E5M2})
    for (DType d : {DType::BF16, DType::F32}) {
      Case c = plain(20, 40, 9, t, t, d);
      c.hasC = true;
      check(c, seed++, true);
    }
}

TEST(Gemm, AllCodesDecode) {
  // A column of every code times one: the decoder alone.
  for (DType t : {DType::F8E4M3FN, DType::F8E5M2}) {
    std::vector<uint8_t> codes(256);
    for (int i = 0; i < 256; ++i)
      codes[i] = static_cast<uint8_t>(i);
    float one = 1.0f;
    std::vector<float> out(256);
    std::unique_ptr<void, void (*)(void *)> workspace(
        std::aligned_alloc(256, kCpuGemmWorkspaceBytes), std::free);
    GemmProblem problem;
    problem.m = 256, problem.n = 1, problem.k = 1;
    problem.a = {codes.data(), t, {1, 1}};
    problem.b = {&one, DType::F32, {1, 1}};
    problem.d = {out.data(), DType::F32, {1, 1}};
    cpuGemm(problem, workspace.get(), bestCpuIsa());
    for (int i = 0; i < 256; ++i) {
      float expected = oracleDecode(t, codes.data(), i);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(out[i])) << i;
      } else {
        EXPECT_EQ(out[i], expected) << i;
      }
    }
  }
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FP8RT_SANITIZED
#endif
#endif

/// Seconds of processor time this thread has used: other work on the machine
/// does not count.
double threadSeconds() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

/// GFLOP/s of the fastest of several runs on 512 x 512 x 1792 (k = 512).
double rate(DType a, DType b, bool rowwise) {
  std::mt19937 random(1);
  Storage x(a, 512, 512, false, 0, 0), w(b, 512, 1792, true, 0, 0);
  Storage y(DType::BF16, 512, 1792, false, 0, 0);
  x.fill(random, false);
  w.fill(random, false);
  std::vector<float> scales(1792, 2.0f);
  std::unique_ptr<void, void (*)(void *)> workspace(
      std::aligned_alloc(256, kCpuGemmWorkspaceBytes), std::free);
  GemmProblem problem;
  problem.m = 512, problem.n = 1792, problem.k = 512;
  problem.a = x.matrix(), problem.b = w.matrix(), problem.d = y.matrix();
  if (rowwise) {
    problem.scaleA = {scales.data(), {1, 0}, {1, 1}};
    problem.scaleB = {scales.data(), {0, 1}, {1, 1}};
  }
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    double start = threadSeconds();
    cpuGemm(problem, workspace.get(), bestCpuIsa());
    best = std::min(best, threadSeconds() - start);
  }
  return 2.0 * 512 * 512 * 1792 / best / 1e9;
}

TEST(Gemm, IsFast) {
#ifdef FP8RT_SANITIZED
  GTEST_SKIP() << "rates mean nothing under a sanitizer";
#endif
  double f8 = rate(DType::F8E4M3FN, DType::F8E4M3FN, true);
  double bf16 = rate(DType::BF16, DType::BF16, false);
  std::printf("f8 rowwise %.1f GFLOP/s, bf16 %.1f GFLOP/s\n", f8, bf16);
  // Far below what is measured (5 is the promise), so that a busy machine
  // passes.
  EXPECT_GE(f8, 5.0);
  EXPECT_GE(bf16, 5.0);
}

} // namespace
