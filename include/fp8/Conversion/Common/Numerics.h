//===- Numerics.h -----------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the exact operation sequences of docs/numerics.md, of the bf16 and
// f8 conversions, and of the scale rules, out of arith ops that convert to
// the LLVM dialect. Everything works on scalars and on vectors alike.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_COMMON_NUMERICS_H
#define FP8_CONVERSION_COMMON_NUMERICS_H

#include "fp8/Dialect/FP8/IR/FP8.h"

namespace mlir::fp8 {

/// How a scale follows from an amax: the attributes of `fp8.scale`.
struct ScaleRule {
  Type format;
  double eps = 0.0;
  Division division = Division::F32;
  Pow2 pow2 = Pow2::None;
  int64_t margin = 0;
  NonFinite nonfinite = NonFinite::Propagate;
};

/// Emits at the insertion point of its builder. A value is a scalar or a
/// vector of any length; the operands of one call have the same length. "f32"
/// and "i32" below stand for either form.
class Numerics {
public:
  /// `minimumPropagatesNaN`: whether the machine has one instruction each for
  /// arith.minimumf and arith.maximumf.
  Numerics(OpBuilder &builder, Location loc, bool minimumPropagatesNaN = false)
      : b(builder), loc(loc), minimumPropagatesNaN(minimumPropagatesNaN) {}

  /// A constant of the length of `like`.
  Value f32(float value, Value like);
  Value i32(int32_t value, Value like);
  /// A scalar i64.
  Value i64(int64_t value);
  /// A vector of `lanes` copies of a scalar.
  Value splat(Value scalar, int64_t lanes);

  /// The bit pattern of an f32, and back.
  Value bitsOf(Value x);
  Value floatOf(Value bits);

  /// f32 rounded to the nearest bf16 (ties to even), kept as f32. A NaN keeps
  /// the upper half of its bits and becomes quiet.
  Value roundToBF16(Value x);
  /// The i16 code of an f32 that holds a bf16 value, and back.
  Value encodeBF16(Value x);
  Value decodeBF16(Value code);

  /// The code of an f32 in `format`, an f8 type (i8) or E5M6 (12 bits of an
  /// i16), rounded to nearest even. Beyond the largest finite value it
  /// saturates, or becomes NaN (f8E4M3FN) or infinity (the others). Every NaN
  /// becomes the positive one of all ones.
  Value encodeScaled(Value x, Type format, bool saturate);
  Value decodeScaled(Value code, Type format);

  /// Functions of docs/numerics.md.
  Value exp(Value x);
  Value log(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value sqrt(Value x);
  Value rsqrt(Value x);
  Value abs(Value x);
  Value neg(Value x);
  Value maximum(Value x, Value y);
  Value minimum(Value x, Value y);

  /// An i32 key that orders f32 values as a maximum over elements does: -0
  /// below +0, every NaN above everything, all NaNs equal. `fromKey` gives the
  /// value back, NaN as 0x7FC00000.
  Value toMaxKey(Value x);
  Value fromMaxKey(Value key);
  /// The key below all keys.
  static constexpr int32_t kLowestKey = INT32_MIN;

  /// The first word of Philox4x32-10 for the counter (position, 64 bits;
  /// `offset`; 0) and the key (`seed`, `stream`), as an f32 in [0, 1):
  /// docs/numerics.md, "Random numbers". `position` is i64, the others i32.
  Value uniform(Value position, Value offset, Value seed, uint32_t stream);

  /// The multiplier that `rule` gives for an amax (f32).
  Value scale(Value amax, const ScaleRule &rule);

private:
  Value intTo(Value x, unsigned width, bool extend);
  Value isNaN(Value x);
  Value select(Value condition, Value yes, Value no);
  Value polynomial(Value x, ArrayRef<float> coefficients);
  Value copySign(Value magnitude, Value sign);
  /// x where it is not above (below) `limit`, or NaN; else `limit`.
  Value clampAbove(Value x, float limit);
  Value clampBelow(Value x, float limit);

  OpBuilder &b;
  Location loc;
  bool minimumPropagatesNaN;
};

} // namespace mlir::fp8

#endif // FP8_CONVERSION_COMMON_NUMERICS_H
