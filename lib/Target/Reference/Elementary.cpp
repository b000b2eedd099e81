//===- Elementary.cpp -------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Line by line what docs/numerics.md says; the coefficients come from
// utils/fit-numerics.py.
//
//===----------------------------------------------------------------------===//

#include "Elementary.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace mlir::fp8::reference {

static const float kNaN = std::bit_cast<float>(uint32_t(0x7FC00000));
static const float kInf = std::bit_cast<float>(uint32_t(0x7F800000));

float expF32(float x) {
  float c = x > 89.0f ? 89.0f : x;
  c = c < -87.0f ? -87.0f : c;
  float t = std::fma(c, 0x1.715476p+0f, 0x1.8p+23f);
  float k = t - 0x1.8p+23f;
  float r = std::fma(k, -0x1.62e4p-1f, c);
  r = std::fma(k, -0x1.7f7d1cp-20f, r);
  float q = 0x1.6a3d08p-9f;
  q = std::fma(q, r, 0x1.123856p-6f);
  q = std::fma(q, r, 0x1.5558bep-4f);
  q = std::fma(q, r, 0x1.555494p-2f);
  q = std::fma(q, r, 0x1.fffffcp-1f);
  q = std::fma(q, r, 2.0f);
  q = std::fma(q, r, 2.0f);
  return q *
         std::bit_cast<float>((std::bit_cast<uint32_t>(t) << 23) + 0x3F000000u);
}

float logF32(float x) {
  bool tiny = x < 0x1p-126f;
  float v = tiny ? x * 0x1p+23f : x;
  int32_t i = std::bit_cast<int32_t>(v) - 0x3F3504F3;
  float k = float(i >> 23) - (tiny ? 23.0f : 0.0f);
  float m = std::bit_cast<float>((i & 0x007FFFFF) + 0x3F3504F3);
  float f = m - 1.0f;
  float s = f / (2.0f + f);
  float z = s * s;
  float l = 0x1.f13aeep-3f;
  l = std::fma(l, z, 0x1.23d3ep-2f);
  l = std::fma(l, z, 0x1.999c26p-2f);
  l = std::fma(l, z, 0x1.555554p-1f);
  float r = l * z;
  float half = (0.5f * f) * f;
  float y =
      k * 0x1.62e4p-1f - ((half - (s * (half + r) + k * 0x1.7f7d1cp-20f)) - f);
  y = x < kInf ? y : kInf;
  y = x == 0.0f ? -kInf : y;
  return x >= 0.0f ? y : kNaN;
}

float tanhF32(float x) {
  float a = std::fabs(x);
  float z = a * a;
  float t = -0x1.750ce4p-8f;
  t = std::fma(t, z, 0x1.51f8cep-6f);
  t = std::fma(t, z, -0x1.b835a4p-5f);
  t = std::fma(t, z, 0x1.1106f6p-3f);
  t = std::fma(t, z, -0x1.555532p-2f);
  float small = a + (a * z) * t;
  float large = 1.0f - 2.0f / (expF32(a + a) + 1.0f);
  float y = std::copysign(a < 0.625f ? small : large, x);
  return x == x ? y : kNaN;
}

float erfF32(float x) {
  float a = std::fabs(x);
  float z = a * a;
  float e = 0x1.4f8e58p-14f;
  e = std::fma(e, z, -0x1.a6126ep-11f);
  e = std::fma(e, z, 0x1.544aa8p-8f);
  e = std::fma(e, z, -0x1.b8012p-6f);
  e = std::fma(e, z, 0x1.ce2d64p-4f);
  e = std::fma(e, z, -0x1.81274p-2f);
  e = std::fma(e, z, 0x1.06eba8p-3f);
  float small = a + a * e;
  float c = a > 4.0f ? 4.0f : a;
  float g = -0x1.96a738p-13f;
  g = std::fma(g, c, 0x1.8c4238p-9f);
  g = std::fma(g, c, -0x1.6ada66p-6f);
  g = std::fma(g, c, 0x1.a905p-4f);
  g = std::fma(g, c, 0x1.4655d6p-1f);
  g = std::fma(g, c, 0x1.20a7dcp+0f);
  g = std::fma(g, c, 0x1.d4b844p-13f);
  float large = 1.0f - expF32(-g);
  float y = std::copysign(a < 0.9375f ? small : large, x);
  return x == x ? y : kNaN;
}

float sqrtF32(float x) { return x >= 0.0f ? std::sqrt(x) : kNaN; }

float rsqrtF32(float x) {
  float y = 1.0f / std::sqrt(x);
  return x >= 0.0f ? y : kNaN;
}

float maximumF32(float a, float b) {
  if (a != a || b != b)
    return kNaN;
  if (a == b)
    return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

float minimumF32(float a, float b) {
  if (a != a || b != b)
    return kNaN;
  if (a == b)
    return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

} // namespace mlir::fp8::reference
