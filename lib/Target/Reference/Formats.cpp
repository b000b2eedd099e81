//===- Formats.cpp - encodings of the reference -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Formats.h.
//
//===----------------------------------------------------------------------===//

#include "Formats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace mlir::fp8::reference {

namespace {

/// The values of an FP8 format: sign, exponent bits, mantissa bits.
struct F8Table {
  std::array<float, 256> values;     ///< by code
  std::array<double, 128> midpoints; ///< entry i: between codes i and i + 1
  unsigned maxCode;                  ///< of the largest finite value
  bool hasInfinity;

  F8Table(int exponentBits, int mantissaBits, bool hasInfinity)
      : hasInfinity(hasInfinity) {
    int bias = (1 << (exponentBits - 1)) - 1;
    int topExponent = (1 << exponentBits) - 1;
    maxCode = 0;
    std::array<double, 129> magnitudes;
    for (unsigned code = 0; code < 128; ++code) {
      int exponent = code >> mantissaBits;
      int mantissa = code & ((1 << mantissaBits) - 1);
      double fraction = std::ldexp(mantissa, -mantissaBits);
      double magnitude = exponent == 0
                             ? std::ldexp(fraction, 1 - bias)
                             : std::ldexp(1 + fraction, exponent - bias);
      magnitudes[code] = magnitude;
      float value = float(magnitude);
      if (hasInfinity && exponent == topExponent)
        value = mantissa == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
      if (!hasInfinity && code == 127)
        value = std::numeric_limits<float>::quiet_NaN();
      if (std::isfinite(value))
        maxCode = code;
      values[code] = value;
      values[code + 128] = -value;
    }
    // Past the largest finite value the spacing goes on as if the exponent did:
    // that decides what overflows.
    for (unsigned code = 0; code < 127; ++code)
      midpoints[code] = (magnitudes[code] + magnitudes[code + 1]) / 2;
    midpoints[127] = std::numeric_limits<double>::infinity();
  }

  uint8_t encode(float value, bool saturate) const {
    if (std::isnan(value))
      return 0x7F;
    uint8_t sign = std::signbit(value) ? 0x80 : 0;
    double magnitude = std::fabs(double(value));
    const double *end = midpoints.begin() + maxCode + 1;
    // The first midpoint that is not below the magnitude: that code, or the
    // next one from a midpoint exactly if the next one is even.
    const double *it = std::lower_bound(midpoints.begin(), end, magnitude);
    unsigned code = it - midpoints.begin();
    if (it != end && magnitude == *it && (code & 1))
      ++code;
    if (code > maxCode) {
      if (saturate)
        code = maxCode;
      else if (!hasInfinity)
        return 0x7F;
      else
        code = maxCode + 1;
    }
    return sign | uint8_t(code);
  }
};

const F8Table &getTable(Format format) {
  static const F8Table e4m3(4, 3, false), e5m2(5, 2, true);
  return format == Format::F8E4M3FN ? e4m3 : e5m2;
}

uint16_t encodeBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t upper = bits >> 16;
  if (std::isnan(value))
    return upper | 0x0040;
  uint32_t lower = bits & 0xFFFF;
  bool isUp = lower > 0x8000 || (lower == 0x8000 && (upper & 1));
  return isUp ? upper + 1 : upper;
}

} // namespace

size_t getElementBytes(Format format) {
  return format == Format::F32 ? 4 : format == Format::BF16 ? 2 : 1;
}

float getMaxFinite(Format format) {
  if (format == Format::F32)
    return std::numeric_limits<float>::max();
  if (format == Format::BF16)
    return 0x1.fep+127f;
  return getTable(format).values[getTable(format).maxCode];
}

float roundToBF16(float value) {
  return std::bit_cast<float>(uint32_t(encodeBF16(value)) << 16);
}

void decode(Format format, const uint8_t *source, float *values, size_t count) {
  if (format == Format::F32) {
    std::memcpy(values, source, 4 * count);
    return;
  }
  if (format == Format::BF16) {
    for (size_t i = 0; i < count; ++i) {
      uint16_t bits;
      std::memcpy(&bits, source + 2 * i, 2);
      values[i] = std::bit_cast<float>(uint32_t(bits) << 16);
    }
    return;
  }
  const F8Table &table = getTable(format);
  for (size_t i = 0; i < count; ++i)
    values[i] = table.values[source[i]];
}

void encode(Format format, const float *values, uint8_t *target, size_t count,
            bool saturate) {
  if (format == Format::F32) {
    std::memcpy(target, values, 4 * count);
    return;
  }
  if (format == Format::BF16) {
    for (size_t i = 0; i < count; ++i) {
      uint16_t bits = encodeBF16(values[i]);
      std::memcpy(target + 2 * i, &bits, 2);
    }
    return;
  }
  const F8Table &table = getTable(format);
  for (size_t i = 0; i < count; ++i)
    target[i] = table.encode(values[i], saturate);
}

} // namespace mlir::fp8::reference
