//===- FP8CollectiveOps.cpp -------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verification of the ops of FP8CollectiveOps.td.
//
//===----------------------------------------------------------------------===//

#include "VerifyUtils.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::checks;

/// The size of `axis` in the nearest module with a grid; nothing without such a
/// module or axis.
static std::optional<int64_t> getAxisSize(Operation *op, StringRef axis) {
  for (Operation *module = op->getParentOp(); module;
       module = module->getParentOp())
    if (auto grid = module->getAttrOfType<DictionaryAttr>(kGridAttr)) {
      auto size = grid.getAs<IntegerAttr>(axis);
      if (!size || !size.getType().isSignlessInteger(64))
        return std::nullopt;
      return size.getInt();
    }
  return std::nullopt;
}

static LogicalResult verifyGather(Operation *op, Value x, StringRef axis,
                                  int64_t dim, Value result) {
  // (C1)
  std::optional<int64_t> size = getAxisSize(op, axis);
  if (!size)
    return op->emitOpError()
           << "expected axis '" << axis << "' in the '" << kGridAttr
           << "' of the module, but got none there";
  // (C2)
  ArrayRef<int64_t> shard = getShape(x);
  int64_t rank = shard.size();
  if (dim < 0 || dim >= rank)
    return op->emitOpError() << "expected 'dim' between 0 and " << rank - 1
                             << ", but got " << dim;
  SmallVector<int64_t> whole(shard);
  if (llvm::MulOverflow(shard[dim], *size, whole[dim]))
    return op->emitOpError()
           << "expected a gathered dimension that fits 64 bits, but got "
           << shard[dim] << " times " << *size;
  if (failed(verifyShape(op, "result", result, whole)))
    return failure();
  // (C3)
  TensorEncodingAttr encoding = getEncoding(x.getType());
  if (getElementType(x) != getElementType(result) ||
      encoding != getEncoding(result.getType()))
    return op->emitOpError()
           << "expected one element type and encoding, but got " << x.getType()
           << " and " << result.getType();
  if (!encoding || !encoding.isScaled())
    return success();
  int64_t group = encoding.getGroup()[dim];
  if (group != 0 && shard[dim] % group != 0)
    return op->emitOpError() << "expected a scale group in dim " << dim
                             << " that divides the shard's " << shard[dim]
                             << ", but got " << group;
  // (C4)
  if (encoding.getLayout() == ScaleLayout::GemmReady)
    return op->emitOpError()
           << "expected compact scales, but got " << x.getType();
  return success();
}

LogicalResult AllGatherOp::verify() {
  return verifyGather(*this, getX(), getAxis(), getDim(), getResult());
}

LogicalResult AllGatherStartOp::verify() {
  if (failed(verifyGather(*this, getX(), getAxis(), getDim(), getResult())))
    return failure();
  // (C5)
  if (!getToken().hasOneUse())
    return emitOpError() << "expected exactly one use of the token, but got "
                         << std::distance(getToken().use_begin(),
                                          getToken().use_end());
  Operation *user = *getToken().user_begin();
  bool waited = isa<WaitOp>(user) && user->getNumOperands() == 2 &&
                user->getOperand(0) == getResult();
  if (waited ||
      (isa<YieldOp>(user) && isa_and_nonnull<KernelOp>(user->getParentOp())))
    return success();
  InFlightDiagnostic diagnostic =
      emitOpError()
      << "expected the token to be waited for together with the result, but "
         "got a use by '"
      << user->getName() << "'";
  diagnostic.attachNote(user->getLoc()) << "used here";
  return diagnostic;
}

LogicalResult WaitOp::verify() {
  // (C1); arguments of a region stand for what is not visible here
  Operation *data = getX().getDefiningOp(), *token = getToken().getDefiningOp();
  auto isStart = [](Operation *op) {
    return isa<AllGatherStartOp, KernelOp>(op);
  };
  if ((data && !isStart(data)) || (token && !isStart(token)) ||
      (data && token && data != token) || (bool(data) != bool(token)))
    return emitOpError()
           << "expected operand and token from one start op, but got "
           << (data ? "a result of '" + data->getName().getStringRef().str() +
                          "'"
                    : "an argument")
           << " and "
           << (token ? "a token of '" + token->getName().getStringRef().str() +
                           "'"
                     : "an argument as token");
  // (C2) is the trait AllTypesMatch.
  return success();
}
