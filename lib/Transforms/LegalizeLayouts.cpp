//===- LegalizeLayouts.cpp - fp8-legalize-layouts ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves the operands of FP8 matmuls into the order that the target takes. The
// moves stand in the IR before anything is planned, so that they are candidates
// for saving, recomputing and fusing like every other op.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/ValueNames.h"
#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Target.h"
#include "fp8/Transforms/Passes.h"
#include "fp8/Transforms/Residuals.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8LEGALIZELAYOUTSPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

/// Elements between neighbours along each dimension of `value`, views looked
/// through.
static SmallVector<int64_t> getStrides(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  Operation *op = value.getDefiningOp();
  if (auto permute = dyn_cast_or_null<PermuteOp>(op)) {
    SmallVector<int64_t> source = getStrides(permute.getX()), strides;
    for (int64_t dim : permute.getPerm())
      strides.push_back(source[dim]);
    return strides;
  }
  if (isa_and_nonnull<SliceOp, BitcastOp>(op))
    return getStrides(op->getOperand(0));
  // Anything else lies in row-major order: the operand of a reshape must.
  SmallVector<int64_t> strides(type.getRank(), 1);
  for (int64_t dim = type.getRank() - 1; dim > 0; --dim)
    strides[dim - 1] = strides[dim] * type.getDimSize(dim);
  return strides;
}

namespace {

/// Moves operands within one region, which reads what it moved once.
class Legalizer {
public:
  explicit Legalizer(MLIRContext *context) : builder(context) {}

  void legalize(Block &block);

private:
  template <typename OpT>
  void legalize(OpT matmul);
  /// A view of `source` with the last two dimensions exchanged.
  Value exchange(Operation *matmul, Value source);
  /// The same as a tensor of its own.
  Value transpose(Operation *matmul, Value source);

  OpBuilder builder;
  DenseMap<Value, Value> moved; // Looked up only.
};

} // namespace

/// The dimensions of `value` in order, but the last two exchanged.
static SmallVector<int64_t> exchangedOrder(Value value) {
  SmallVector<int64_t> perm = llvm::to_vector(
      llvm::seq<int64_t>(cast<RankedTensorType>(value.getType()).getRank()));
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  return perm;
}

Value Legalizer::exchange(Operation *matmul, Value source) {
  SmallVector<int64_t> order = exchangedOrder(source);
  if (auto permute = source.getDefiningOp<PermuteOp>();
      permute && permute.getPerm() == ArrayRef(order))
    return permute.getX();
  return PermuteOp::create(
      builder, matmul->getLoc(),
      exchangeDimensions(cast<RankedTensorType>(source.getType())), source,
      order);
}

Value Legalizer::transpose(Operation *matmul, Value source) {
  Value &known = moved[source];
  if (known)
    return known;
  Operation *producer = source.getDefiningOp();
  bool isBehind = producer && producer->getBlock() == matmul->getBlock();
  OpBuilder::InsertionGuard guard(builder);
  if (isBehind)
    builder.setInsertionPointAfter(producer);
  Location loc = getDerivedLocation(source, ".t");
  return known = TransposeOp::create(
             builder, loc,
             exchangeDimensions(cast<RankedTensorType>(source.getType())),
             source, exchangedOrder(source));
}

template <typename OpT>
void Legalizer::legalize(OpT matmul) {
  auto element = cast<FloatType>(getElementTypeOrSelf(matmul.getA()));
  if (element.getWidth() != 8)
    return;
  builder.setInsertionPoint(matmul);
  if (getStrides(matmul.getA()).back() != 1)
    matmul.getAMutable().assign(
        transpose(matmul, exchange(matmul, matmul.getA())));
  SmallVector<int64_t> strides = getStrides(matmul.getB());
  if (strides[strides.size() - 2] != 1) {
    Value rows = transpose(matmul, matmul.getB());
    matmul.getBMutable().assign(PermuteOp::create(builder, matmul.getLoc(),
                                                  matmul.getB().getType(), rows,
                                                  exchangedOrder(rows)));
  }
}

void Legalizer::legalize(Block &block) {
  for (Operation &op : block) {
    if (auto matmul = dyn_cast<MatmulOp>(op))
      legalize(matmul);
    else if (auto grouped = dyn_cast<GroupedMatmulOp>(op))
      legalize(grouped);
  }
}

namespace {

struct LegalizeLayoutsPass
    : fp8::impl::FP8LegalizeLayoutsPassBase<LegalizeLayoutsPass> {
  using FP8LegalizeLayoutsPassBase::FP8LegalizeLayoutsPassBase;

  void runOnOperation() override {
    const Target *target = getTargetOf(getOperation());
    if (!target)
      return signalPassFailure();
    if (!target->contiguousK)
      return;
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody()) {
        Legalizer(&getContext()).legalize(block);
        for (StepOp step : block.getOps<StepOp>()) {
          inlineResiduals(step);
          Legalizer legalizer(&getContext());
          legalizer.legalize(step.getForward().front());
          legalizer.legalize(step.getBackward().front());
          formResiduals(step);
        }
      }
  }
};

} // namespace
