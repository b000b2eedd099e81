//===- Numerics.cpp - number formats as LLVM-ready ops ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The bf16 and f8 conversions, maxima, and the rules of scales. The functions
// of docs/numerics.md are in Math.cpp.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Numerics.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cfloat>
#include <cmath>

using namespace mlir;
using namespace mlir::fp8;

/// `element`, or a vector of it as long as the type `like`.
static Type withShapeOf(Type element, Type like) {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), element);
  return element;
}

static Value constant(OpBuilder &b, Location loc, Type type, Attribute scalar) {
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(
        b, loc, cast<TypedAttr>(DenseElementsAttr::get(vector, scalar)));
  return arith::ConstantOp::create(b, loc, cast<TypedAttr>(scalar));
}

Value Numerics::f32(float value, Value like) {
  return constant(b, loc, withShapeOf(b.getF32Type(), like.getType()),
                  b.getF32FloatAttr(value));
}

Value Numerics::i32(int32_t value, Value like) {
  return constant(b, loc, withShapeOf(b.getI32Type(), like.getType()),
                  b.getI32IntegerAttr(value));
}

Value Numerics::i64(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
}

Value Numerics::splat(Value scalar, int64_t lanes) {
  return vector::BroadcastOp::create(
      b, loc, VectorType::get({lanes}, scalar.getType()), scalar);
}

Value Numerics::bitsOf(Value x) {
  return arith::BitcastOp::create(b, loc,
                                  withShapeOf(b.getI32Type(), x.getType()), x);
}

Value Numerics::floatOf(Value bits) {
  return arith::BitcastOp::create(
      b, loc, withShapeOf(b.getF32Type(), bits.getType()), bits);
}

Value Numerics::intTo(Value x, unsigned width, bool extend) {
  Type type = withShapeOf(b.getIntegerType(width), x.getType());
  if (extend)
    return arith::ExtUIOp::create(b, loc, type, x);
  return arith::TruncIOp::create(b, loc, type, x);
}

Value Numerics::isNaN(Value x) {
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x, x);
}

Value Numerics::select(Value condition, Value yes, Value no) {
  return arith::SelectOp::create(b, loc, condition, yes, no);
}

//===----------------------------------------------------------------------===//
// bf16
//===----------------------------------------------------------------------===//

Value Numerics::roundToBF16(Value x) {
  Value bits = bitsOf(x);
  Value lsb = arith::AndIOp::create(
      b, loc, arith::ShRUIOp::create(b, loc, bits, i32(16, x)), i32(1, x));
  Value rounded = arith::AddIOp::create(
      b, loc, arith::AddIOp::create(b, loc, bits, i32(0x7FFF, x)), lsb);
  // Adding to the bits of a NaN could turn it into an infinity.
  Value quiet = arith::OrIOp::create(b, loc, bits, i32(0x00400000, x));
  Value chosen = select(isNaN(x), quiet, rounded);
  return floatOf(
      arith::AndIOp::create(b, loc, chosen, i32(int32_t(0xFFFF0000), x)));
}

Value Numerics::encodeBF16(Value x) {
  return intTo(arith::ShRUIOp::create(b, loc, bitsOf(x), i32(16, x)), 16,
               /*extend=*/false);
}

Value Numerics::decodeBF16(Value code) {
  Value wide = intTo(code, 32, /*extend=*/true);
  return floatOf(arith::ShLIOp::create(b, loc, wide, i32(16, code)));
}

//===----------------------------------------------------------------------===//
// f8 and E5M6
//===----------------------------------------------------------------------===//

namespace {
/// The numbers of a format that the conversions work with.
struct ScaledFormat {
  int32_t width;      // bits of a code
  int32_t mantissa;   // stored bits of the significand
  int32_t bias;       // of the exponent
  int32_t maxBits;    // f32 pattern of the largest finite value
  int32_t overBits;   // f32 pattern of a power of two above all that round to a
                      // finite value
  int32_t overCode;   // code of what lies above, without saturation
  int32_t normalBits; // f32 pattern of the smallest normal value
  float magic;        // f32 whose last place is the smallest subnormal
  float smallest;     // the smallest subnormal
};
} // namespace

static ScaledFormat scaledFormat(Type type) {
  if (isa<Float8E4M3FNType>(type))
    return {8,    3,          7,        0x43E00000, 0x44000000,
            0x7F, 0x3C800000, 16384.0f, 0x1p-9f};
  if (isa<E5M6Type>(type))
    return {12,    6,          15,   0x477E0000, 0x47800000,
            0x7C0, 0x38800000, 8.0f, 0x1p-20f};
  return {8, 2, 15, 0x47600000, 0x47800000, 0x7C, 0x38800000, 128.0f, 0x1p-16f};
}

Value Numerics::encodeScaled(Value x, Type type, bool saturate) {
  ScaledFormat format = scaledFormat(type);
  int32_t signBit = 1 << (format.width - 1), allOnes = signBit - 1;
  int32_t shift = 23 - format.mantissa;
  Value bits = bitsOf(x);
  Value sign = arith::AndIOp::create(
      b, loc, arith::ShRUIOp::create(b, loc, bits, i32(32 - format.width, x)),
      i32(signBit, x));
  Value magnitude = arith::AndIOp::create(b, loc, bits, i32(0x7FFFFFFF, x));
  Value a = arith::MinUIOp::create(
      b, loc, magnitude, i32(saturate ? format.maxBits : format.overBits, x));
  Value lsb = arith::AndIOp::create(
      b, loc, arith::ShRUIOp::create(b, loc, a, i32(shift, x)), i32(1, x));
  Value half = arith::AddIOp::create(b, loc, a, i32((1 << (shift - 1)) - 1, x));
  Value normal = arith::SubIOp::create(
      b, loc,
      arith::ShRUIOp::create(b, loc, arith::AddIOp::create(b, loc, half, lsb),
                             i32(shift, x)),
      i32((127 - format.bias) << format.mantissa, x));
  // Adding `magic` lets the f32 addition do the rounding to a multiple of the
  // smallest subnormal.
  Value magic = f32(format.magic, x);
  Value subnormal = arith::SubIOp::create(
      b, loc, bitsOf(arith::AddFOp::create(b, loc, floatOf(a), magic)),
      i32(llvm::bit_cast<int32_t>(format.magic), x));
  Value code = select(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                            a, i32(format.normalBits, x)),
                      subnormal, normal);
  Value nan = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt,
                                    magnitude, i32(0x7F800000, x));
  if (!saturate) {
    code = arith::MinUIOp::create(b, loc, code, i32(format.overCode, x));
    if (format.overCode == allOnes)
      nan = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                  select(nan, i32(allOnes, x), code),
                                  i32(allOnes, x));
  }
  code = select(nan, i32(allOnes, x), arith::OrIOp::create(b, loc, code, sign));
  return intTo(code, format.width == 8 ? 8 : 16, /*extend=*/false);
}

Value Numerics::decodeScaled(Value stored, Type type) {
  ScaledFormat format = scaledFormat(type);
  int32_t signBit = 1 << (format.width - 1), allOnes = signBit - 1;
  Value code = intTo(stored, 32, /*extend=*/true);
  Value like = code;
  Value sign = arith::ShLIOp::create(
      b, loc, arith::AndIOp::create(b, loc, code, i32(signBit, like)),
      i32(32 - format.width, like));
  Value m = arith::AndIOp::create(b, loc, code, i32(allOnes, like));
  Value normal = arith::AddIOp::create(
      b, loc, arith::ShLIOp::create(b, loc, m, i32(23 - format.mantissa, like)),
      i32((127 - format.bias) << 23, like));
  // Subnormal codes are small integers: no subnormal f32 arithmetic, which is
  // slow on many processors.
  Value subnormal = bitsOf(arith::MulFOp::create(
      b, loc,
      arith::SIToFPOp::create(b, loc, withShapeOf(b.getF32Type(), m.getType()),
                              m),
      f32(format.smallest, like)));
  Value isSubnormal = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                            m, i32(1 << format.mantissa, like));
  Value magnitude = select(isSubnormal, subnormal, normal);
  Value result = arith::OrIOp::create(b, loc, magnitude, sign);
  bool hasInfinity = format.overCode != allOnes;
  if (hasInfinity) {
    Value infinite = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, m,
                                           i32(format.overCode, like));
    result = select(infinite,
                    arith::OrIOp::create(b, loc, sign, i32(0x7F800000, like)),
                    result);
  }
  Value nan = arith::CmpIOp::create(
      b, loc, arith::CmpIPredicate::ugt, m,
      i32(hasInfinity ? format.overCode : allOnes - 1, like));
  return floatOf(select(nan, i32(0x7FC00000, like), result));
}

//===----------------------------------------------------------------------===//
// Maxima
//===----------------------------------------------------------------------===//

Value Numerics::toMaxKey(Value x) {
  // Patterns of negative numbers grow with the magnitude: flip all bits but
  // the sign, and signed integers order as the numbers do.
  Value bits = bitsOf(x);
  Value flip = arith::AndIOp::create(
      b, loc, arith::ShRSIOp::create(b, loc, bits, i32(31, x)),
      i32(0x7FFFFFFF, x));
  Value key = arith::XOrIOp::create(b, loc, bits, flip);
  return select(isNaN(x), i32(0x7FC00000, x), key);
}

Value Numerics::fromMaxKey(Value key) {
  Value flip = arith::AndIOp::create(
      b, loc, arith::ShRSIOp::create(b, loc, key, i32(31, key)),
      i32(0x7FFFFFFF, key));
  return floatOf(arith::XOrIOp::create(b, loc, key, flip));
}

Value Numerics::maximum(Value x, Value y) {
  return fromMaxKey(arith::MaxSIOp::create(b, loc, toMaxKey(x), toMaxKey(y)));
}

Value Numerics::minimum(Value x, Value y) {
  // Not -max(-x, -y) in keys: NaN has to win here too.
  Value least =
      fromMaxKey(arith::MinSIOp::create(b, loc, toMaxKey(x), toMaxKey(y)));
  Value nan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x, y);
  return select(nan, floatOf(i32(0x7FC00000, x)), least);
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

Value Numerics::uniform(Value position, Value offset, Value seed,
                        uint32_t stream) {
  Type i64 = withShapeOf(b.getI64Type(), position.getType());
  Value half = constant(b, loc, i64, b.getI64IntegerAttr(32));
  Value counter[4] = {intTo(position, 32, /*extend=*/false),
                      intTo(arith::ShRUIOp::create(b, loc, position, half), 32,
                            /*extend=*/false),
                      offset, i32(0, offset)};
  Value key[2] = {seed, i32(int32_t(stream), seed)};
  auto bitXor = [&](Value x, Value y) -> Value {
    return arith::XOrIOp::create(b, loc, x, y);
  };
  for (int round = 0; round < 10; ++round) {
    if (round) {
      key[0] =
          arith::AddIOp::create(b, loc, key[0], i32(int32_t(0x9E3779B9), seed));
      key[1] =
          arith::AddIOp::create(b, loc, key[1], i32(int32_t(0xBB67AE85), seed));
    }
    auto product = [&](Value x, uint32_t factor) {
      return arith::MulUIExtendedOp::create(b, loc, x, i32(int32_t(factor), x));
    };
    auto first = product(counter[0], 0xD2511F53),
         second = product(counter[2], 0xCD9E8D57);
    Value next[4] = {
        bitXor(bitXor(second.getHigh(), counter[1]), key[0]), second.getLow(),
        bitXor(bitXor(first.getHigh(), counter[3]), key[1]), first.getLow()};
    std::copy(next, next + 4, counter);
  }
  Value upper = arith::ShRUIOp::create(b, loc, counter[0], i32(8, counter[0]));
  Value number = arith::SIToFPOp::create(
      b, loc, withShapeOf(b.getF32Type(), upper.getType()), upper);
  return arith::MulFOp::create(b, loc, number, f32(0x1p-24f, number));
}

Value Numerics::scale(Value amax, const ScaleRule &rule) {
  float largest = llvm::bit_cast<float>(scaledFormat(rule.format).maxBits);
  Value x = amax;
  Value infinity = f32(INFINITY, x), nan = floatOf(i32(0x7FC00000, x));
  Value bad = isNaN(x);
  Value infinite =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, infinity);
  if (rule.nonfinite == NonFinite::Saturate)
    x = select(infinite, f32(FLT_MAX, x), x);
  else
    bad = arith::OrIOp::create(b, loc, bad, infinite);
  Value zero, s;
  auto below = [&](Value lhs, Value rhs) {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, lhs, rhs);
  };
  auto isZero = [&](Value a, Value zeroValue) {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, a,
                                 zeroValue);
  };
  if (rule.division == Division::F64) {
    // A quotient of two f32 values that is rounded to 53 bits and then to 24 is
    // the f32 quotient (53 >= 2 * 24 + 2, and none is subnormal: an amax is
    // below 2^128). Only eps may be no f32 value; what it gives is a constant.
    zero = isZero(x, f32(0.0f, x));
    s = arith::DivFOp::create(b, loc, f32(largest, x), x);
    if (rule.eps > 0) {
      float limit = float(rule.eps); // the smallest f32 that is not below eps
      if (double(limit) < rule.eps)
        limit = std::nextafterf(limit, INFINITY);
      Value tiny = below(x, f32(limit, x));
      s = select(tiny, f32(float(double(largest) / rule.eps), x), s);
      zero = constant(b, loc, withShapeOf(b.getI1Type(), x.getType()),
                      b.getBoolAttr(false));
    }
  } else {
    Value a = x;
    if (float eps = float(rule.eps); eps > 0)
      a = select(below(a, f32(eps, x)), f32(eps, x), a);
    zero = isZero(a, f32(0.0f, x));
    s = arith::DivFOp::create(b, loc, f32(largest, x), a);
  }
  if (rule.margin)
    s = arith::MulFOp::create(b, loc, s,
                              f32(std::ldexp(1.0f, -int(rule.margin)), x));
  s = select(
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, s, infinity),
      f32(FLT_MAX, x), s);
  int32_t exponent = int32_t(0xFF800000);
  if (rule.pow2 == Pow2::Floor)
    s = floatOf(arith::AndIOp::create(b, loc, bitsOf(s), i32(exponent, x)));
  if (rule.pow2 == Pow2::Ceil)
    s = floatOf(arith::AndIOp::create(
        b, loc, arith::AddIOp::create(b, loc, bitsOf(s), i32(0x007FFFFF, x)),
        i32(exponent, x)));
  s = select(zero, f32(1.0f, x), s);
  return select(bad, nan, s);
}
