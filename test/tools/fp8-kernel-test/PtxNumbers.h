//===- PtxNumbers.h - number formats of PTX ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions between f32 and the narrow formats as the PTX manual has them,
// on the host.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TEST_TOOLS_FP8_KERNEL_TEST_PTXNUMBERS_H
#define FP8_TEST_TOOLS_FP8_KERNEL_TEST_PTXNUMBERS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace fp8test {

inline float toFloat(uint64_t bits) {
  float value;
  uint32_t low = uint32_t(bits);
  std::memcpy(&value, &low, 4);
  return value;
}
inline uint64_t toBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return value != value ? 0x7FFFFFFF : bits;
}
inline float fromBF16(uint32_t code) { return toFloat(uint64_t(code) << 16); }
inline uint32_t toBF16(float value) {
  if (value != value)
    return 0x7FFF;
  uint32_t bits = uint32_t(toBits(value));
  return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
}

/// Rounds to a format of few bits by scaling: exact in double precision.
inline uint32_t toF8(float value, int mantissa, int bias, double largest) {
  if (value != value)
    return 0x7F;
  uint32_t sign = std::signbit(value) ? 0x80 : 0;
  double magnitude = std::fabs(double(value));
  int exponent = magnitude > 0 ? std::ilogb(std::min(magnitude, 1e30)) : -1000;
  exponent = std::max(exponent, 1 - bias);
  double unit = std::ldexp(1.0, exponent - mantissa);
  double rounded = std::nearbyint(std::min(magnitude, 1e30) / unit) * unit;
  if (rounded > largest)
    rounded = largest;
  if (rounded == 0)
    return sign;
  exponent = std::max(std::ilogb(rounded), 1 - bias);
  auto significand = uint32_t(rounded / std::ldexp(1.0, exponent - mantissa));
  uint32_t hidden = 1u << mantissa;
  if (significand < hidden)
    return sign | significand;
  return sign | uint32_t(exponent + bias) << mantissa | (significand - hidden);
}
inline float fromF8(uint32_t code, int mantissa, int bias, bool infinities) {
  uint32_t magnitude = code & 0x7F, hidden = 1u << mantissa;
  uint32_t exponent = magnitude >> mantissa,
           fraction = magnitude & (hidden - 1);
  double value;
  if (infinities && magnitude > 0x7C)
    return NAN;
  if (infinities && magnitude == 0x7C)
    value = INFINITY;
  else if (!infinities && magnitude == 0x7F)
    return NAN;
  else if (exponent == 0)
    value = std::ldexp(double(fraction), 1 - bias - mantissa);
  else
    value =
        std::ldexp(double(fraction + hidden), int(exponent) - bias - mantissa);
  return float(code & 0x80 ? -value : value);
}
inline float fromHalf(uint32_t code) {
  int exponent = (code >> 10) & 31;
  double fraction = code & 1023, value;
  if (exponent == 31)
    value = fraction ? NAN : INFINITY;
  else if (exponent == 0)
    value = std::ldexp(fraction, -24);
  else
    value = std::ldexp(fraction + 1024, exponent - 25);
  return float(code & 0x8000 ? -value : value);
}
inline uint32_t toHalf(float value) { // exact for values of an f8 format
  if (value != value)
    return 0x7FFF;
  uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(double(value));
  if (std::isinf(value))
    return sign | 0x7C00;
  if (magnitude == 0)
    return sign;
  int exponent = std::max(std::ilogb(magnitude), -14);
  auto significand = uint32_t(std::ldexp(magnitude, 10 - exponent));
  if (significand < 1024)
    return sign | significand;
  return sign | uint32_t(exponent + 15) << 10 | (significand - 1024);
}

/// The two bf16 of `f` of the two bf16 of each.
template <typename F>
inline uint64_t eachBF16(uint64_t x, uint64_t y, F f) {
  uint64_t low = toBF16(f(fromBF16(x & 0xFFFF), fromBF16(y & 0xFFFF)));
  uint64_t high =
      toBF16(f(fromBF16((x >> 16) & 0xFFFF), fromBF16((y >> 16) & 0xFFFF)));
  return low | high << 16;
}

inline uint64_t truncate(uint64_t value, int width) {
  return width >= 64 ? value : value & ((uint64_t(1) << width) - 1);
}
inline int64_t extend(uint64_t value, int width) {
  if (width >= 64)
    return int64_t(value);
  uint64_t sign = uint64_t(1) << (width - 1);
  return int64_t((truncate(value, width) ^ sign) - sign);
}

} // namespace fp8test

#endif // FP8_TEST_TOOLS_FP8_KERNEL_TEST_PTXNUMBERS_H
