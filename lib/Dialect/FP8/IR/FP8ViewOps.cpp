//===- FP8ViewOps.cpp - views and layout changes ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verification and folding of the ops of FP8ViewOps.td.
//
//===----------------------------------------------------------------------===//

#include "VerifyUtils.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::checks;

/// The permutation that first `inner` and then `outer` make together.
static SmallVector<int64_t> compose(ArrayRef<int64_t> inner,
                                    ArrayRef<int64_t> outer) {
  SmallVector<int64_t> result;
  for (int64_t dim : outer)
    result.push_back(inner[dim]);
  return result;
}

static bool isIdentity(ArrayRef<int64_t> perm) {
  return llvm::all_of(llvm::enumerate(perm), [](auto pair) {
    return pair.value() == int64_t(pair.index());
  });
}

/// The same op on one operand before `op`, or null.
template <typename OpTy>
static OpTy getSameBefore(OpTy op) {
  return op.getX().template getDefiningOp<OpTy>();
}

//===----------------------------------------------------------------------===//
// permute and transpose
//===----------------------------------------------------------------------===//

LogicalResult PermuteOp::verify() {
  return verifyPermuted(*this, getX(), getPerm(), getResult());
}
LogicalResult TransposeOp::verify() {
  return verifyPermuted(*this, getX(), getPerm(), getResult());
}

/// An identity becomes its operand, two in a row become one.
template <typename OpTy>
static OpFoldResult foldPermutation(OpTy op) {
  if (isIdentity(op.getPerm()))
    return op.getX();
  OpTy before = getSameBefore(op);
  if (!before)
    return {};
  SmallVector<int64_t> perm = compose(before.getPerm(), op.getPerm());
  if (isIdentity(perm))
    return before.getX();
  op.getXMutable().assign(before.getX());
  op.setPerm(perm);
  return op.getResult();
}

OpFoldResult PermuteOp::fold(FoldAdaptor adaptor) {
  return foldPermutation(*this);
}
OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  return foldPermutation(*this);
}

//===----------------------------------------------------------------------===//
// slice and pad
//===----------------------------------------------------------------------===//

/// Checks the constraints that a part of `large` at `offsets` with the shape of
/// `small` meets: (C1), (C2) and the element type of (C3).
static LogicalResult verifyPart(Operation *op, StringRef largeName, Value large,
                                Value small, ArrayRef<int64_t> offsets) {
  // (C1)
  ArrayRef<int64_t> whole = getShape(large), part = getShape(small);
  if (whole.size() != part.size())
    return op->emitOpError()
           << "expected operand and result of one rank, but got "
           << op->getOperand(0).getType() << " and "
           << op->getResult(0).getType();
  if (offsets.size() != whole.size())
    return op->emitOpError()
           << "expected 'offsets' with one entry per dimension ("
           << whole.size() << "), but got " << offsets.size();
  // (C2), written so that nothing overflows
  for (auto [dim, offset] : llvm::enumerate(offsets))
    if (offset < 0 || offset > whole[dim] || part[dim] > whole[dim] - offset)
      return op->emitOpError()
             << "expected a part inside dimension " << dim << " of '"
             << largeName << "' (" << whole[dim] << "), but got offset "
             << offset << " and size " << part[dim];
  // (C3)
  if (getElementType(large) != getElementType(small))
    return op->emitOpError() << "expected one element type, but got "
                             << op->getOperand(0).getType() << " and "
                             << op->getResult(0).getType();
  return success();
}

LogicalResult SliceOp::verify() {
  if (failed(verifyPart(*this, "x", getX(), getResult(), getOffsets())))
    return failure();
  // (C3)
  Type from = getX().getType(), to = getResult().getType();
  TensorEncodingAttr encoding = getEncoding(from);
  if (encoding != getEncoding(to))
    return emitOpError() << "expected the encoding to be kept, but got " << from
                         << " and " << to;
  if (!encoding || !encoding.isScaled())
    return success();
  ArrayRef<int64_t> whole = getShape(getX()), part = getShape(getResult()),
                    group = encoding.getGroup();
  for (auto [dim, offset] : llvm::enumerate(getOffsets())) {
    bool good = group[dim] == 0 ? part[dim] == whole[dim]
                                : offset % group[dim] == 0 &&
                                      (offset + part[dim] == whole[dim] ||
                                       part[dim] % group[dim] == 0);
    if (!good)
      return emitOpError()
             << "expected a part of whole scale groups in dimension " << dim
             << " (" << (group[dim] == 0 ? "all" : std::to_string(group[dim]))
             << "), but got offset " << offset << " and size " << part[dim];
  }
  return success();
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getResult().getType())
    return getX();
  SliceOp before = getSameBefore(*this);
  if (!before)
    return {};
  SmallVector<int64_t> offsets;
  for (auto [outer, inner] : llvm::zip_equal(getOffsets(), before.getOffsets()))
    offsets.push_back(outer + inner);
  getXMutable().assign(before.getX());
  setOffsets(offsets);
  return getResult();
}

LogicalResult PadOp::verify() {
  if (failed(verifyPart(*this, "result", getResult(), getX(), getOffsets())))
    return failure();
  // (C3)
  for (Type type : {Type(getX().getType()), Type(getResult().getType())})
    if (getEncoding(type))
      return emitOpError() << "expected types without an encoding, but got "
                           << type;
  return success();
}

OpFoldResult PadOp::fold(FoldAdaptor adaptor) {
  return getX().getType() == getResult().getType() ? OpFoldResult(getX())
                                                   : OpFoldResult();
}

//===----------------------------------------------------------------------===//
// update_slice
//===----------------------------------------------------------------------===//

LogicalResult UpdateSliceOp::verify() {
  if (failed(
          verifyPart(*this, "result", getResult(), getPiece(), getOffsets())))
    return failure();
  // (C3)
  TensorEncodingAttr encoding = getEncoding(getResult().getType());
  if (encoding != getEncoding(getPiece().getType()))
    return emitOpError() << "expected one encoding, but got "
                         << getPiece().getType() << " and "
                         << getResult().getType();
  if (encoding && encoding.isScaled()) {
    ArrayRef<int64_t> whole = getShape(getResult()),
                      part = getShape(getPiece()), group = encoding.getGroup();
    for (auto [dim, offset] : llvm::enumerate(getOffsets()))
      if (group[dim] > 1 &&
          (offset % group[dim] != 0 ||
           (offset + part[dim] != whole[dim] && part[dim] % group[dim] != 0)))
        return emitOpError()
               << "expected a piece of whole scale groups in dimension " << dim
               << " (" << group[dim] << "), but got offset " << offset
               << " and size " << part[dim];
  }
  // (C4)
  Value dest = getDest();
  if (!dest)
    return success();
  if (dest.getType() != getResult().getType())
    return emitOpError() << "expected 'dest' of the result's type "
                         << getResult().getType() << ", but got "
                         << dest.getType();
  auto argument = dyn_cast<BlockArgument>(dest);
  bool isMade =
      argument ? isa_and_nonnull<KernelOp>(argument.getOwner()->getParentOp())
               : isa<UpdateSliceOp>(dest.getDefiningOp());
  if (!isMade)
    return emitOpError()
           << "expected 'dest' to be the result of an 'fp8.update_slice' or an "
              "operand of the kernel, but got "
           << (argument
                   ? "an argument"
                   : "a result of '" +
                         dest.getDefiningOp()->getName().getStringRef() + "'");
  if (dest.hasOneUse())
    return success();
  InFlightDiagnostic diagnostic =
      emitOpError() << "expected 'dest' to have no other use, since the piece "
                       "is written over it";
  for (Operation *user : dest.getUsers())
    if (user != getOperation()) {
      diagnostic.attachNote(user->getLoc()) << "it is used here too";
      break;
    }
  return diagnostic;
}

void UpdateSliceOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  // Two that make storage are two storages, however equal.
  if (!getDest())
    effects.emplace_back(MemoryEffects::Allocate::get(),
                         getOperation()->getOpResult(0), ArenaResource::get());
}

//===----------------------------------------------------------------------===//
// reshape
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  auto from = cast<RankedTensorType>(getX().getType()),
       to = cast<RankedTensorType>(getResult().getType());
  // (C1)
  if (from.getNumElements() != to.getNumElements() ||
      from.getElementType() != to.getElementType())
    return emitOpError()
           << "expected as many elements of the same type, but got " << from
           << " and " << to;
  // (C2)
  TensorEncodingAttr before = getEncoding(from), after = getEncoding(to);
  if (bool(before) != bool(after))
    return emitOpError()
           << "expected both types with an encoding or none, but got " << from
           << " and " << to;
  for (TensorEncodingAttr encoding : {before, after})
    if (encoding &&
        (!encoding.isScaled() ||
         llvm::any_of(encoding.getGroup(), [](int64_t size) { return size; })))
      return emitOpError() << "expected a scale per tensor, but got "
                           << encoding;
  if (before && before.getPow2() != after.getPow2())
    return emitOpError() << "expected 'pow2' on both types or none, but got "
                         << from << " and " << to;
  // (C3); the bound ends the walk over a cycle, which the dominance check
  // refuses only later
  Operation *view = getX().getDefiningOp();
  for (int steps = 0;
       view && isView(view) && view->getNumOperands() != 0 && steps < 1024;
       ++steps) {
    if (!isContiguousView(view)) {
      InFlightDiagnostic diagnostic = emitOpError()
                                      << "expected contiguous storage, but got "
                                         "a view with strides; move the bytes "
                                         "with 'fp8.transpose' first";
      diagnostic.attachNote(view->getLoc())
          << "strides come from this '" << view->getName() << "'";
      return diagnostic;
    }
    view = view->getOperand(0).getDefiningOp();
  }
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getResult().getType())
    return getX();
  ReshapeOp before = getSameBefore(*this);
  if (!before)
    return {};
  if (before.getX().getType() == getResult().getType())
    return before.getX();
  getXMutable().assign(before.getX());
  return getResult();
}

//===----------------------------------------------------------------------===//
// bitcast
//===----------------------------------------------------------------------===//

LogicalResult BitcastOp::verify() {
  auto from = cast<RankedTensorType>(getX().getType()),
       to = cast<RankedTensorType>(getResult().getType());
  // (C1)
  if (from.getShape() != to.getShape() ||
      from.getElementTypeBitWidth() != to.getElementTypeBitWidth())
    return emitOpError()
           << "expected one shape and elements of one width, but got " << from
           << " and " << to;
  // (C2)
  if (isF8(from.getElementType()) && isF8(to.getElementType()) &&
      from.getEncoding() != to.getEncoding())
    return emitOpError() << "expected one encoding on FP8 types, but got "
                         << from << " and " << to;
  return success();
}

OpFoldResult BitcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getResult().getType())
    return getX();
  // There and back; other chains stay, since what lies between may have lost an
  // encoding.
  BitcastOp before = getSameBefore(*this);
  return before && before.getX().getType() == getResult().getType()
             ? OpFoldResult(before.getX())
             : OpFoldResult();
}
