//===- VerifyUtils.h - checks that several op families share ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to lib/Dialect/FP8/IR. A verifier meets IR that is wrong in other
// places too: ops that a value comes from may lack operands or attributes, and
// definitions may be cyclic. What walks from op to op here takes nothing for
// granted and ends.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_DIALECT_FP8_IR_VERIFYUTILS_H
#define FP8_LIB_DIALECT_FP8_IR_VERIFYUTILS_H

#include "fp8/Dialect/FP8/IR/FP8.h"

namespace mlir::fp8::checks {

/// The shape of a tensor.
inline ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
inline Type getElementType(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// True for f8E4M3FN and f8E5M2.
inline bool isF8(Type type) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(type);
}

/// `[64, 1]`, for diagnostics.
std::string formatList(ArrayRef<int64_t> values);

/// Fails with a diagnostic unless `actual` has the shape `expected`; `name` is
/// the operand or result in it.
LogicalResult verifyShape(Operation *op, StringRef name, Value actual,
                          ArrayRef<int64_t> expected);

/// Fails unless `format` is f8E4M3FN, f8E5M2 or, where that is allowed,
/// `!fp8.e5m6`.
LogicalResult verifyFormat(Operation *op, Type format, bool allowsE5M6 = false);

/// Fails unless `margin` lies in [0, 16].
LogicalResult verifyMargin(Operation *op, int64_t margin);

/// Fails unless `data` has a scaled encoding and `scale` the shape of its
/// scales.
LogicalResult verifyScale(Operation *op, StringRef dataName, Value data,
                          StringRef scaleName, Value scale);

/// Fails if `data` visibly comes from an `fp8.cast` with a scale that is
/// provably another value than `scale`. Looks through views, transposes,
/// gathers and barriers, not into or out of regions; two computations that are
/// written alike from the same values count as one.
LogicalResult verifySameScale(Operation *op, StringRef dataName, Value data,
                              StringRef scaleName, Value scale);

/// Checks the operands of a product [M, K] times [K, N], where `b` may have a
/// dimension before those: element types, scales, and that these are a pair
/// that products know.
LogicalResult verifyScales(Operation *op, Value a, Value scaleA, Value b,
                           Value scaleB);

/// `verifySameScale` of both operands of a product, where they have scales.
LogicalResult verifySameScales(Operation *op, Value a, Value scaleA, Value b,
                               Value scaleB);

/// Fails unless `value` is a function argument marked `fp8.state`, or the
/// argument of a kernel that is given one. An op outside any function passes.
LogicalResult verifyStateArgument(Operation *op, StringRef name, Value value);

/// Fails unless `perm` is a permutation of the dimensions of `x` and `result`
/// is `x` permuted, encoding and all.
LogicalResult verifyPermuted(Operation *op, Value x, ArrayRef<int64_t> perm,
                             Value result);

/// Fails unless the token of `op`, the start of a collective or a copy, is used
/// once: by an `fp8.wait` with its result, or by the `fp8.yield` of a kernel.
LogicalResult verifyToken(Operation *op);

/// True where a view keeps the row-major order of all bytes between its first
/// and its last, so that the view of a contiguous tensor is contiguous. Also
/// true for a view that is itself malformed, which has its own diagnostic.
bool isContiguousView(Operation *view);

} // namespace mlir::fp8::checks

#endif // FP8_LIB_DIALECT_FP8_IR_VERIFYUTILS_H
