//===- Formats.cpp - encodings of the reference -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Formats.h.
//
//===----------------------------------------------------------------------===//

#include "Formats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace mlir::fp8::reference {

namespace {

/// The values of a small format: sign, exponent bits, mantissa bits.
struct Table {
  unsigned half;                 ///< codes of one sign
  std::vector<float> values;     ///< by code
  std::vector<double> midpoints; ///< entry i: between codes i and i + 1
  unsigned maxCode;              ///< of the largest finite value
  bool hasInfinity;

  Table(int exponentBits, int mantissaBits, bool hasInfinity)
      : half(1u << (exponentBits + mantissaBits)), values(2 * half),
        midpoints(half), hasInfinity(hasInfinity) {
    int bias = (1 << (exponentBits - 1)) - 1;
    unsigned topExponent = (1u << exponentBits) - 1;
    maxCode = 0;
    std::vector<double> magnitudes(half);
    for (unsigned code = 0; code < half; ++code) {
      unsigned exponent = code >> mantissaBits;
      unsigned mantissa = code & ((1u << mantissaBits) - 1);
      double fraction = std::ldexp(mantissa, -mantissaBits);
      double magnitude = exponent == 0
                             ? std::ldexp(fraction, 1 - bias)
                             : std::ldexp(1 + fraction, int(exponent) - bias);
      magnitudes[code] = magnitude;
      float value = float(magnitude);
      if (hasInfinity && exponent == topExponent)
        value = mantissa == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
      if (!hasInfinity && code == half - 1)
        value = std::numeric_limits<float>::quiet_NaN();
      if (std::isfinite(value))
        maxCode = code;
      values[code] = value;
      values[code + half] = -value;
    }
    // Past the largest finite value the spacing goes on as if the exponent did:
    // that decides what overflows.
    for (unsigned code = 0; code + 1 < half; ++code)
      midpoints[code] = (magnitudes[code] + magnitudes[code + 1]) / 2;
    midpoints[half - 1] = std::numeric_limits<double>::infinity();
  }

  unsigned encode(float value, bool saturate) const {
    if (std::isnan(value))
      return half - 1;
    unsigned sign = std::signbit(value) ? half : 0;
    double magnitude = std::fabs(double(value));
    const double *begin = midpoints.data(), *end = begin + maxCode + 1;
    // The first midpoint that is not below the magnitude: that code, or the
    // next one from a midpoint exactly if the next one is even.
    const double *it = std::lower_bound(begin, end, magnitude);
    unsigned code = it - begin;
    if (it != end && magnitude == *it && (code & 1))
      ++code;
    if (code > maxCode) {
      if (saturate)
        code = maxCode;
      else if (!hasInfinity)
        return half - 1;
      else
        code = maxCode + 1;
    }
    return sign | code;
  }
};

const Table &getTable(Format format) {
  static const Table e4m3(4, 3, false), e5m2(5, 2, true), e5m6(5, 6, true);
  return format == Format::F8E4M3FN ? e4m3
         : format == Format::F8E5M2 ? e5m2
                                    : e5m6;
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
  return format == Format::F32                              ? 4
         : format == Format::BF16 || format == Format::E5M6 ? 2
                                                            : 1;
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
  const Table &table = getTable(format);
  for (size_t i = 0; i < count; ++i) {
    unsigned code = source[i];
    if (format == Format::E5M6)
      code = source[2 * i] | source[2 * i + 1] << 8;
    values[i] = table.values[code];
  }
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
  const Table &table = getTable(format);
  for (size_t i = 0; i < count; ++i) {
    unsigned code = table.encode(values[i], saturate);
    if (format == Format::E5M6) {
      target[2 * i] = uint8_t(code);
      target[2 * i + 1] = uint8_t(code >> 8);
    } else {
      target[i] = uint8_t(code);
    }
  }
}

} // namespace mlir::fp8::reference
