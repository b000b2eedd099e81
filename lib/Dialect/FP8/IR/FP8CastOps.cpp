//===- FP8CastOps.cpp - amax, scales and casts ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verification of the ops of FP8CastOps.td, and the forms a cast tensor can be
// kept in.
//
//===----------------------------------------------------------------------===//

#include "VerifyUtils.h"

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::checks;

LogicalResult AmaxOp::verify() {
  // (C1)
  ArrayRef<int64_t> group = getGroup(), shape = getShape(getX());
  if (group.size() != shape.size())
    return emitOpError() << "expected 'group' with one entry per dimension ("
                         << shape.size() << "), but got " << group.size();
  for (int64_t size : group)
    if (size < 0)
      return emitOpError() << "expected 'group' entries of at least 0, but got "
                           << size;
  // (C2)
  return verifyShape(*this, "result", getResult(), getScaleShape(shape, group));
}

LogicalResult ScaleOp::verify() {
  // (C1)
  if (failed(verifyFormat(*this, getFormat(), /*allowsE5M6=*/true)))
    return failure();
  // (C2)
  const APFloat &eps = getEps();
  if (!eps.isFinite() || (eps.isNegative() && !eps.isZero()))
    return emitOpError()
           << "expected 'eps' to be finite and not negative, but got "
           << getEpsAttr();
  // (C3)
  return verifyMargin(*this, getMargin());
}

LogicalResult CastOp::verify() {
  // (C1)
  if (failed(verifyShape(*this, "result", getResult(), getShape(getX()))))
    return failure();
  // (C1), (C2)
  return verifyScale(*this, "result", getResult(), "scale", getScale());
}

LogicalResult DequantizeOp::verify() {
  // (C1)
  if (failed(verifyShape(*this, "result", getResult(), getShape(getQ()))))
    return failure();
  if (getEncoding(getResult().getType()))
    return emitOpError() << "expected 'result' without an encoding, but got "
                         << getResult().getType();
  // (C1), (C2)
  if (failed(verifyScale(*this, "q", getQ(), "scale", getScale())))
    return failure();
  // (C3)
  return verifySameScale(*this, "q", getQ(), "scale", getScale());
}

//===----------------------------------------------------------------------===//
// State of delayed scaling
//===----------------------------------------------------------------------===//

/// One element for `single`, rank 1 for `history`.
static LogicalResult verifyHistory(Operation *op, StringRef name, Value single,
                                   Value history) {
  auto type = cast<RankedTensorType>(single.getType());
  if (type.getNumElements() != 1)
    return op->emitOpError()
           << "expected '" << name << "' of one element, but got " << type;
  if (cast<RankedTensorType>(history.getType()).getRank() != 1)
    return op->emitOpError()
           << "expected 'history' of rank 1, but got " << history.getType();
  return success();
}

LogicalResult PushAmaxOp::verify() {
  // (C1)
  if (failed(verifyHistory(*this, "amax", getAmax(), getHistory())))
    return failure();
  // (C2)
  return verifyStateArgument(*this, "history", getHistory());
}

LogicalResult UpdateScaleOp::verify() {
  // (C1)
  if (failed(verifyHistory(*this, "scale", getScale(), getHistory())))
    return failure();
  // (C2)
  if (failed(verifyStateArgument(*this, "history", getHistory())) ||
      failed(verifyStateArgument(*this, "scale", getScale())))
    return failure();
  // (C3)
  return failed(verifyFormat(*this, getFormat()))
             ? failure()
             : verifyMargin(*this, getMargin());
}
