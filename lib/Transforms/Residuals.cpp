//===- Residuals.cpp - the border between the regions of a step -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Residuals.h.
//
//===----------------------------------------------------------------------===//

#include "fp8/Transforms/Residuals.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::fp8;

void mlir::fp8::inlineResiduals(StepOp step) {
  YieldOp yield = step.getForwardYield();
  Block &backward = step.getBackward().front();
  for (auto [argument, value] :
       llvm::zip_equal(backward.getArguments(), yield.getResiduals()))
    argument.replaceAllUsesWith(value);
  backward.eraseArguments(0, backward.getNumArguments());
  yield.getResidualsMutable().clear();
}

/// True for an op that costs nothing to write down a second time.
static bool isCloned(Operation *op) {
  return matchPattern(op, m_Constant()) ||
         isa<PermuteOp, SliceOp, ReshapeOp, BitcastOp>(op);
}

/// Removes views that nothing reads: they would count as reading what they
/// view.
static void eraseUnreadViews(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isa<PermuteOp, SliceOp, ReshapeOp, BitcastOp>(op) && op.use_empty())
      op.erase();
}

void mlir::fp8::formResiduals(StepOp step) {
  Block &forward = step.getForward().front(),
        &backward = step.getBackward().front();
  eraseUnreadViews(backward);
  auto crosses = [&](OpOperand &use) {
    Operation *user = use.getOwner();
    return backward.findAncestorOpInBlock(*user) != nullptr;
  };

  // Latest first: a cloned view reads its operand, which stands before it.
  OpBuilder builder = OpBuilder::atBlockBegin(&backward);
  for (Operation &op : llvm::reverse(forward)) {
    if (!isCloned(&op))
      continue;
    bool isRead = llvm::any_of(op.getUses(), crosses);
    if (!isRead)
      continue;
    builder.setInsertionPointToStart(&backward);
    Operation *clone = builder.clone(op);
    op.replaceUsesWithIf(clone->getResults(),
                         [&](OpOperand &use) { return crosses(use); });
  }

  YieldOp yield = step.getForwardYield();
  SmallVector<Value> residuals;
  for (Operation &op : forward)
    for (Value result : op.getResults())
      if (llvm::any_of(result.getUses(), crosses))
        residuals.push_back(result);
  for (Value residual : residuals) {
    BlockArgument argument =
        backward.addArgument(residual.getType(), residual.getLoc());
    residual.replaceUsesWithIf(argument,
                               [&](OpOperand &use) { return crosses(use); });
  }
  yield.getResidualsMutable().append(residuals);
}

/// Removes ops whose results nothing reads and that do nothing else, views
/// among them. An opaque op stays: it is there for its bytes.
static void eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (!isa<OpaqueOp>(op) && isOpTriviallyDead(&op))
      op.erase();
}

static void dropUnreadResiduals(StepOp step) {
  Block &backward = step.getBackward().front();
  MutableOperandRange residuals = step.getForwardYield().getResidualsMutable();
  for (unsigned index = backward.getNumArguments(); index-- > 0;)
    if (backward.getArgument(index).use_empty()) {
      backward.eraseArgument(index);
      residuals.erase(index);
    }
}

void mlir::fp8::dropUnread(func::FuncOp func) {
  for (StepOp step : func.getOps<StepOp>()) {
    eraseDeadOps(step.getBackward().front());
    dropUnreadResiduals(step);
    eraseDeadOps(step.getForward().front());
  }
  for (Block &block : func.getBody())
    eraseDeadOps(block);
}
