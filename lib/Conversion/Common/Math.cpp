//===- Math.cpp - elementary functions as LLVM-ready ops --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The sequences of docs/numerics.md, operation by operation. Both sides of
// every select are computed, whatever they are.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Numerics.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include <cmath>

using namespace mlir;
using namespace mlir::fp8;

static Value add(OpBuilder &b, Location loc, Value x, Value y) {
  return arith::AddFOp::create(b, loc, x, y);
}
static Value sub(OpBuilder &b, Location loc, Value x, Value y) {
  return arith::SubFOp::create(b, loc, x, y);
}
static Value mul(OpBuilder &b, Location loc, Value x, Value y) {
  return arith::MulFOp::create(b, loc, x, y);
}
static Value fma(OpBuilder &b, Location loc, Value x, Value y, Value z) {
  return LLVM::FMAOp::create(b, loc, x.getType(), x, y, z);
}
static Value compare(OpBuilder &b, Location loc, arith::CmpFPredicate predicate,
                     Value x, Value y) {
  return arith::CmpFOp::create(b, loc, predicate, x, y);
}

/// c[0] * x + c[1], times x + c[2], and so on, each rounded once.
Value Numerics::polynomial(Value x, ArrayRef<float> coefficients) {
  Value sum = f32(coefficients.front(), x);
  for (float coefficient : coefficients.drop_front())
    sum = fma(b, loc, sum, x, f32(coefficient, x));
  return sum;
}

Value Numerics::abs(Value x) {
  return floatOf(arith::AndIOp::create(b, loc, bitsOf(x), i32(0x7FFFFFFF, x)));
}

Value Numerics::neg(Value x) {
  return floatOf(
      arith::XOrIOp::create(b, loc, bitsOf(x), i32(int32_t(0x80000000), x)));
}

Value Numerics::copySign(Value magnitude, Value sign) {
  Value signBit = arith::AndIOp::create(b, loc, bitsOf(sign),
                                        i32(int32_t(0x80000000), sign));
  return floatOf(arith::OrIOp::create(b, loc, bitsOf(abs(magnitude)), signBit));
}

Value Numerics::clampAbove(Value x, float limit) {
  Value bound = f32(limit, x);
  if (minimumPropagatesNaN)
    return arith::MinimumFOp::create(b, loc, x, bound);
  return select(compare(b, loc, arith::CmpFPredicate::OGT, x, bound), bound, x);
}

Value Numerics::clampBelow(Value x, float limit) {
  Value bound = f32(limit, x);
  if (minimumPropagatesNaN)
    return arith::MaximumFOp::create(b, loc, x, bound);
  return select(compare(b, loc, arith::CmpFPredicate::OLT, x, bound), bound, x);
}

Value Numerics::exp(Value x) {
  Value magic = f32(0x1.8p+23f, x);
  Value c = clampBelow(clampAbove(x, 89.0f), -87.0f);
  Value t = fma(b, loc, c, f32(0x1.715476p+0f, x), magic);
  Value k = sub(b, loc, t, magic);
  Value r = fma(b, loc, k, f32(-0x1.62e4p-1f, x), c);
  r = fma(b, loc, k, f32(-0x1.7f7d1cp-20f, x), r);
  Value y = polynomial(r, {0x1.6a3d08p-9f, 0x1.123856p-6f, 0x1.5558bep-4f,
                           0x1.555494p-2f, 0x1.fffffcp-1f, 2.0f, 2.0f});
  // The low bits of t hold the exponent n: this is 2^(n - 1), or 0 for the
  // lowest n.
  Value power = floatOf(arith::AddIOp::create(
      b, loc, arith::ShLIOp::create(b, loc, bitsOf(t), i32(23, x)),
      i32(0x3F000000, x)));
  return mul(b, loc, y, power);
}

Value Numerics::log(Value x) {
  Value tiny = compare(b, loc, arith::CmpFPredicate::OLT, x, f32(0x1p-126f, x));
  Value v = select(tiny, mul(b, loc, x, f32(0x1p+23f, x)), x);
  Value i = arith::SubIOp::create(b, loc, bitsOf(v), i32(0x3F3504F3, x));
  Value exponent = arith::SIToFPOp::create(
      b, loc, x.getType(), arith::ShRSIOp::create(b, loc, i, i32(23, x)));
  Value k = sub(b, loc, exponent, select(tiny, f32(23.0f, x), f32(0.0f, x)));
  Value m = floatOf(arith::AddIOp::create(
      b, loc, arith::AndIOp::create(b, loc, i, i32(0x007FFFFF, x)),
      i32(0x3F3504F3, x)));
  Value f = sub(b, loc, m, f32(1.0f, x));
  Value s = arith::DivFOp::create(b, loc, f, add(b, loc, f32(2.0f, x), f));
  Value z = mul(b, loc, s, s);
  Value l = polynomial(
      z, {0x1.f13aeep-3f, 0x1.23d3ep-2f, 0x1.999c26p-2f, 0x1.555554p-1f});
  Value r = mul(b, loc, z, l);
  Value t = mul(b, loc, mul(b, loc, f32(0.5f, x), f), f);
  Value correction = add(b, loc, mul(b, loc, s, add(b, loc, t, r)),
                         mul(b, loc, k, f32(0x1.7f7d1cp-20f, x)));
  Value y = sub(b, loc, mul(b, loc, k, f32(0x1.62e4p-1f, x)),
                sub(b, loc, sub(b, loc, t, correction), f));
  Value infinity = f32(INFINITY, x), zero = f32(0.0f, x);
  y = select(compare(b, loc, arith::CmpFPredicate::OLT, x, infinity), y,
             infinity);
  y = select(compare(b, loc, arith::CmpFPredicate::OEQ, x, zero),
             f32(-INFINITY, x), y);
  return select(compare(b, loc, arith::CmpFPredicate::OGE, x, zero), y,
                floatOf(i32(0x7FC00000, x)));
}

Value Numerics::tanh(Value x) {
  Value a = abs(x), z = mul(b, loc, a, a);
  Value t = polynomial(z, {-0x1.750ce4p-8f, 0x1.51f8cep-6f, -0x1.b835a4p-5f,
                           0x1.1106f6p-3f, -0x1.555532p-2f});
  Value small = add(b, loc, a, mul(b, loc, mul(b, loc, a, z), t));
  Value one = f32(1.0f, x);
  Value large =
      sub(b, loc, one,
          arith::DivFOp::create(b, loc, f32(2.0f, x),
                                add(b, loc, exp(add(b, loc, a, a)), one)));
  Value y = copySign(
      select(compare(b, loc, arith::CmpFPredicate::OLT, a, f32(0.625f, x)),
             small, large),
      x);
  return select(compare(b, loc, arith::CmpFPredicate::OEQ, x, x), y,
                floatOf(i32(0x7FC00000, x)));
}

Value Numerics::erf(Value x) {
  Value a = abs(x), z = mul(b, loc, a, a);
  Value e = polynomial(z, {0x1.4f8e58p-14f, -0x1.a6126ep-11f, 0x1.544aa8p-8f,
                           -0x1.b8012p-6f, 0x1.ce2d64p-4f, -0x1.81274p-2f,
                           0x1.06eba8p-3f});
  Value small = add(b, loc, a, mul(b, loc, a, e));
  Value four = f32(4.0f, x);
  Value c =
      select(compare(b, loc, arith::CmpFPredicate::OGT, a, four), four, a);
  Value g = polynomial(c, {-0x1.96a738p-13f, 0x1.8c4238p-9f, -0x1.6ada66p-6f,
                           0x1.a905p-4f, 0x1.4655d6p-1f, 0x1.20a7dcp+0f,
                           0x1.d4b844p-13f});
  Value large = sub(b, loc, f32(1.0f, x), exp(neg(g)));
  Value y = copySign(
      select(compare(b, loc, arith::CmpFPredicate::OLT, a, f32(0.9375f, x)),
             small, large),
      x);
  return select(compare(b, loc, arith::CmpFPredicate::OEQ, x, x), y,
                floatOf(i32(0x7FC00000, x)));
}

Value Numerics::sqrt(Value x) {
  // The intrinsic is the IEEE operation; math.sqrt need not be. Where it gives
  // NaN, the sign of that NaN is the processor's choice.
  Value y = LLVM::SqrtOp::create(b, loc, x.getType(), x);
  return select(compare(b, loc, arith::CmpFPredicate::OGE, x, f32(0.0f, x)), y,
                floatOf(i32(0x7FC00000, x)));
}

Value Numerics::rsqrt(Value x) {
  Value root = LLVM::SqrtOp::create(b, loc, x.getType(), x);
  Value y = arith::DivFOp::create(b, loc, f32(1.0f, x), root);
  return select(compare(b, loc, arith::CmpFPredicate::OGE, x, f32(0.0f, x)), y,
                floatOf(i32(0x7FC00000, x)));
}
