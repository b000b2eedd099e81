//===- InputsTest.cpp - Inputs and their encodings ------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs against values computed by an independent program (Python integers,
// from the formula in docs/artifact.md); encodings against a search for the
// nearest code.
//
//===----------------------------------------------------------------------===//

#include "fp8rt/Inputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

using namespace fp8rt;

namespace {

float valueOf(const char *name, uint64_t seed, uint64_t step,
              uint64_t microbatch, uint64_t e, float scale) {
  return inputValue(inputKey(name, Role::Input, seed, step, microbatch), e,
                    scale);
}

TEST(Inputs, AreTheFormulas) {
  EXPECT_EQ(valueOf("x", 0, 0, 0, 0, 1.0f), 0x1.52b432p+0f);
  EXPECT_EQ(valueOf("x", 0, 0, 0, 1, 1.0f), -0x1.e21414p-1f);
  EXPECT_EQ(valueOf("x", 7, 0, 0, 0, 1.0f), 0x1.09fdd8p-1f);
  EXPECT_EQ(valueOf("x", 7, 2, 0, 0, 1.0f), -0x1.3e6650p+1f);
  EXPECT_EQ(valueOf("x", 7, 2, 1, 0, 1.0f), 0x1.50c690p-3f);
  EXPECT_EQ(valueOf("layer0.w1", 7, 0, 0, 12345, 0.02f), 0x1.187422p-8f);
}

TEST(Inputs, ParametersAndStateKeepTheirValue) {
  for (Role role : {Role::Parameter, Role::State})
    EXPECT_EQ(inputKey("w", role, 3, 5, 1), inputKey("w", role, 3, 0, 0));
  for (Role role : {Role::Input, Role::Tangent, Role::Donated})
    EXPECT_NE(inputKey("w", role, 3, 5, 1), inputKey("w", role, 3, 0, 0));
}

TEST(Inputs, HaveUnitVariance) {
  double sum = 0, squares = 0;
  const int count = 1 << 18;
  uint64_t key = inputKey("x", Role::Input, 1, 0, 0);
  for (int e = 0; e < count; ++e) {
    double value = inputValue(key, e, 1.0f);
    sum += value;
    squares += value * value;
  }
  // Deviations of these means are about 0.002 and 0.003.
  EXPECT_NEAR(sum / count, 0.0, 0.01);
  EXPECT_NEAR(squares / count, 1.0, 0.015);
}

TEST(Inputs, FillEveryType) {
  std::vector<uint8_t> codes(4096);
  fillInput(codes.data(), DType::F8E5M2, codes.size(), Init::Normal, 1e30f, "x",
            Role::Input, 0, 0, 0);
  for (uint8_t code : codes)
    EXPECT_TRUE((code & 0x7F) == 0x7B || (code & 0x7F) == 0) << int(code);
  int32_t whole[3];
  fillInput(whole, DType::I32, 3, Init::One, 9.0f, "x", Role::Input, 0, 0, 0);
  EXPECT_EQ(whole[2], 1);
  uint16_t half[2];
  fillInput(half, DType::BF16, 2, Init::Zero, 9.0f, "x", Role::Input, 0, 0, 0);
  EXPECT_EQ(half[1], 0);
}

/// The value of a finite code, by its definition.
double valueOfCode(int code, int width, int bias) {
  int exponent = (code & 0x7F) >> width;
  int mantissa = code & ((1 << width) - 1);
  double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - width)
                               : std::ldexp(mantissa + (1 << width),
                                            exponent - bias - width);
  return code & 0x80 ? -value : value;
}

void checkEncode(DType type, int width, int bias, int maxCode, float value) {
  // Beyond the largest value everything is equally far; clamp first.
  double target =
      std::fmin(std::fabs(value), valueOfCode(maxCode, width, bias));
  int best = 0;
  for (int code = 0; code <= maxCode; ++code) {
    double distance = std::fabs(valueOfCode(code, width, bias) - target);
    double least = std::fabs(valueOfCode(best, width, bias) - target);
    if (distance < least || (distance == least && code % 2 == 0))
      best = code;
  }
  if (std::signbit(value))
    best |= 0x80;
  ASSERT_EQ(encodeF8(value, type), best) << value;
}

TEST(Formats, EncodeF8IsTheNearestCode) {
  struct {
    DType type;
    int width, bias, maxCode;
  } formats[] = {{DType::F8E4M3FN, 3, 7, 0x7E}, {DType::F8E5M2, 2, 15, 0x7B}};
  for (auto [type, width, bias, maxCode] : formats) {
    // Every code, every midpoint, and their neighbours in f32.
    for (int code = 0; code <= maxCode; ++code)
      for (double step : {0.0, 0.5}) {
        double here = valueOfCode(code, width, bias);
        double next = valueOfCode(code + 1, width, bias);
        auto middle = static_cast<float>(here + step * (next - here));
        for (float value : {middle, std::nextafterf(middle, -INFINITY),
                            std::nextafterf(middle, INFINITY)})
          for (float sign : {1.0f, -1.0f})
            checkEncode(type, width, bias, maxCode, sign * value);
      }
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
      float value = std::ldexp(static_cast<float>(random()) * 0x1p-32f,
                               static_cast<int>(random() % 48) - 24);
      checkEncode(type, width, bias, maxCode, value);
    }
    for (float value : {INFINITY, -INFINITY, 1e30f, 0.0f, -0.0f, 1e-40f})
      checkEncode(type, width, bias, maxCode, value);
    EXPECT_EQ(encodeF8(NAN, type), 0x7F);
    for (int code = 0; code < 256; ++code)
      if ((code & 0x7F) <= maxCode) {
        EXPECT_EQ(decodeF8(static_cast<uint8_t>(code), type),
                  valueOfCode(code, width, bias));
      }
  }
  EXPECT_TRUE(std::isinf(decodeF8(0xFC, DType::F8E5M2)));
  EXPECT_TRUE(std::isnan(decodeF8(0x7D, DType::F8E5M2)));
  EXPECT_TRUE(std::isnan(decodeF8(0xFF, DType::F8E4M3FN)));
}

TEST(Formats, EncodeBf16IsTheNearestCode) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000000; ++i) {
    uint32_t bits = random();
    if (i % 4 == 0)
      bits = (bits & 0xFFFF0000u) | 0x8000u;
    float value = floatOfBits(bits);
    if (std::isnan(value)) {
      EXPECT_EQ(encodeBf16(value), 0x7FC0);
      continue;
    }
    double low = decodeBf16(static_cast<uint16_t>(bits >> 16));
    // The code above may be infinity; its place in the order is 2^128.
    auto above = static_cast<uint16_t>((bits >> 16) + 1);
    double high = std::isinf(decodeBf16(above))
                      ? std::copysign(std::ldexp(1.0, 128), value)
                      : decodeBf16(above);
    if (std::isinf(value))
      continue;
    double toLow = std::fabs(value - low), toHigh = std::fabs(high - value);
    bool takeHigh = toHigh < toLow || (toHigh == toLow && above % 2 == 0);
    ASSERT_EQ(encodeBf16(value),
              takeHigh ? above : static_cast<uint16_t>(bits >> 16))
        << value;
  }
}

} // namespace
