//===- Formats.h - Element types and their encodings ------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The element types an artifact may name, their sizes, and the conversions the
// runtime itself needs: decoding every type to f32 (for matmuls and for
// comparing outputs) and encoding f32 (for inputs and for matmul results).
// Header only and without dependencies.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_FORMATS_H
#define FP8RT_FORMATS_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

/// Functions that a GPU's test inputs are made with, too.
#ifdef __CUDACC__
#define FP8RT_HOST_DEVICE __host__ __device__
#else
#define FP8RT_HOST_DEVICE
#endif

namespace fp8rt {

/// Element types of arguments, results and matmul operands. I8 are bytes whose
/// meaning only kernels know: masks, and codes of 12 bits, two in three bytes.
enum class DType : uint8_t { BF16, F32, F8E4M3FN, F8E5M2, I32, I8 };

/// The name of `type` in manifests and reports, which is its MLIR name.
inline const char *dtypeName(DType type) {
  switch (type) {
  case DType::BF16:
    return "bf16";
  case DType::F32:
    return "f32";
  case DType::F8E4M3FN:
    return "f8E4M3FN";
  case DType::F8E5M2:
    return "f8E5M2";
  case DType::I32:
    return "i32";
  case DType::I8:
    return "i8";
  }
  return "unknown";
}

/// The type called `name`, or nothing when there is none.
inline std::optional<DType> dtypeFromName(std::string_view name) {
  for (DType type : {DType::BF16, DType::F32, DType::F8E4M3FN, DType::F8E5M2,
                     DType::I32, DType::I8})
    if (name == dtypeName(type))
      return type;
  return std::nullopt;
}

/// Bytes of one element.
inline size_t dtypeBytes(DType type) {
  switch (type) {
  case DType::BF16:
    return 2;
  case DType::F8E4M3FN:
  case DType::F8E5M2:
  case DType::I8:
    return 1;
  case DType::F32:
  case DType::I32:
    return 4;
  }
  return 0;
}

FP8RT_HOST_DEVICE inline uint32_t bitsOfFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

FP8RT_HOST_DEVICE inline float floatOfBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// f32 to bf16, round to nearest even. Every NaN becomes 0x7FC0.
FP8RT_HOST_DEVICE inline uint16_t encodeBf16(float value) {
  uint32_t bits = bitsOfFloat(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
    return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

FP8RT_HOST_DEVICE inline float decodeBf16(uint16_t code) {
  return floatOfBits(static_cast<uint32_t>(code) << 16);
}

namespace detail {
/// Width of the stored significand and bias of the exponent of an f8 format.
struct F8Shape {
  int mantissa;
  int bias;
  uint8_t maxCode;
};

FP8RT_HOST_DEVICE inline F8Shape f8Shape(DType type) {
  return type == DType::F8E4M3FN ? F8Shape{3, 7, 0x7E} : F8Shape{2, 15, 0x7B};
}
} // namespace detail

/// f32 to f8, round to nearest even, values beyond the largest finite one
/// (infinities too) become it, with their sign. NaN becomes 0x7F. `type` is
/// `F8E4M3FN` or `F8E5M2`.
FP8RT_HOST_DEVICE inline uint8_t encodeF8(float value, DType type) {
  detail::F8Shape shape = detail::f8Shape(type);
  uint32_t bits = bitsOfFloat(value);
  uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u)
    return 0x7F;
  int exponent = static_cast<int>(magnitude >> 23) - 127;
  // The bits to be rounded, aligned so that dropping `shift` of them leaves
  // the code: exponent and significand round together, a carry goes up.
  uint32_t source;
  int shift = 23 - shape.mantissa;
  if (exponent >= 1 - shape.bias) {
    source = magnitude - (static_cast<uint32_t>(127 - shape.bias) << 23);
  } else {
    source = (magnitude & 0x7FFFFFu) | 0x800000u;
    shift += 1 - shape.bias - exponent;
    if (exponent == -127 || shift > 24)
      return sign;
  }
  uint32_t kept = source >> shift;
  uint32_t dropped = source & ((1u << shift) - 1u);
  uint32_t half = 1u << (shift - 1);
  if (dropped > half || (dropped == half && (kept & 1u)))
    ++kept;
  if (kept > shape.maxCode)
    kept = shape.maxCode;
  return static_cast<uint8_t>(sign | kept);
}

/// f8 to f32, exact. `type` is `F8E4M3FN` or `F8E5M2`.
inline float decodeF8(uint8_t code, DType type) {
  detail::F8Shape shape = detail::f8Shape(type);
  uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  uint32_t magnitude = code & 0x7Fu;
  if (type == DType::F8E4M3FN && magnitude == 0x7F)
    return floatOfBits(sign | 0x7FC00000u);
  if (type == DType::F8E5M2 && magnitude > 0x7C)
    return floatOfBits(sign | 0x7FC00000u);
  if (type == DType::F8E5M2 && magnitude == 0x7C)
    return floatOfBits(sign | 0x7F800000u);
  uint32_t exponent = magnitude >> shape.mantissa;
  uint32_t mantissa = magnitude & ((1u << shape.mantissa) - 1u);
  if (exponent == 0) {
    // mantissa * 2^(1 - bias - width), exact in f32.
    float unit = floatOfBits(
        static_cast<uint32_t>(127 + 1 - shape.bias - shape.mantissa) << 23);
    float value = static_cast<float>(mantissa) * unit;
    return floatOfBits(bitsOfFloat(value) | sign);
  }
  return floatOfBits(sign | ((exponent + 127 - shape.bias) << 23) |
                     (mantissa << (23 - shape.mantissa)));
}

/// Element `index` of `data`, which need not be aligned to it.
template <typename T>
T loadAs(const void *data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T),
              sizeof(T));
  return value;
}

/// Element `index` of `data` as f32 (an integer is converted, rounded to
/// nearest).
inline float loadElement(const void *data, DType type, size_t index) {
  switch (type) {
  case DType::BF16:
    return decodeBf16(loadAs<uint16_t>(data, index));
  case DType::F32:
    return loadAs<float>(data, index);
  case DType::F8E4M3FN:
  case DType::F8E5M2:
    return decodeF8(loadAs<uint8_t>(data, index), type);
  case DType::I32:
    return static_cast<float>(loadAs<int32_t>(data, index));
  case DType::I8:
    return static_cast<float>(loadAs<int8_t>(data, index));
  }
  return 0.0f;
}

} // namespace fp8rt

#endif // FP8RT_FORMATS_H
