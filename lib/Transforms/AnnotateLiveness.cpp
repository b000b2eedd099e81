//===- AnnotateLiveness.cpp - fp8-annotate-liveness -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the live range of each alias class into attributes, so that tests can
// say what it has to be at any phase.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Transforms/Passes.h"
#include "mlir/IR/Matchers.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8ANNOTATELIVENESSPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// The live ranges of one function.
class Liveness {
public:
  void run(func::FuncOp func) {
    visit(func.getBody().front());
    for (Value value : leaving)
      last[getRootOf(value)] = static_cast<int64_t>(ops.size());
    Builder builder(func.getContext());
    for (auto [index, op] : llvm::enumerate(ops))
      annotate(op, static_cast<int64_t>(index), builder);
  }

private:
  Value getRootOf(Value value) const {
    auto it = roots.find(value);
    return it == roots.end() ? value : it->second;
  }

  void visit(Block &block) {
    for (Operation &op : block) {
      if (auto step = dyn_cast<StepOp>(op)) {
        visitStep(step);
        continue;
      }
      if (isa<func::ReturnOp>(op))
        llvm::append_range(leaving, op.getOperands());
      if (op.hasTrait<OpTrait::IsTerminator>())
        continue;
      visitOp(&op);
    }
  }

  void visitStep(StepOp step) {
    visit(step.getForward().front());
    Block &backward = step.getBackward().front();
    for (auto [argument, residual] : llvm::zip_equal(
             backward.getArguments(), step.getForwardYield().getResiduals()))
      roots[argument] = getRootOf(residual);
    visit(backward);
    auto yielded = llvm::to_vector(step.getForwardYield().getValues());
    llvm::append_range(yielded, step.getBackwardYield().getValues());
    for (auto [result, value] : llvm::zip_equal(step.getResults(), yielded))
      roots[result] = getRootOf(value);
  }

  void visitOp(Operation *op) {
    int64_t position = static_cast<int64_t>(ops.size());
    ops.push_back(op);
    // Neither the order a barrier keeps nor the end of a buffer is a use of it.
    ValueRange operands = op->getOperands();
    if (isa<RematBarrierOp>(op))
      operands = operands.take_front();
    if (!isa<FreeOp>(op))
      for (Value operand : operands) {
        last[getRootOf(operand)] = position;
        // What a collective reads is in use until its token is waited for.
        if (isa<TokenType>(operand.getType()))
          if (Operation *start = getRootOf(operand).getDefiningOp())
            for (Value source : start->getOperands())
              last[getRootOf(source)] = position;
      }
    for (OpResult result : op->getResults())
      if (Value operand = getAliasedOperand(result))
        roots[result] = getRootOf(operand);
      else
        last[result] = position;
  }

  void annotate(Operation *op, int64_t index, Builder &builder) const {
    op->setAttr(kIndexAttr, builder.getI64IntegerAttr(index));
    if (matchPattern(op, m_Constant()))
      return;
    SmallVector<int64_t> live, bytes;
    for (OpResult result : op->getResults())
      if (!roots.contains(result) && !isa<TokenType>(result.getType())) {
        live.push_back(index);
        live.push_back(last.lookup(result));
        bytes.push_back(getByteSize(result.getType()));
      }
    if (live.empty())
      return;
    op->setAttr(kLiveAttr, builder.getDenseI64ArrayAttr(live));
    op->setAttr(kBytesAttr, builder.getDenseI64ArrayAttr(bytes));
  }

  std::vector<Operation *> ops;
  DenseMap<Value, Value> roots;
  DenseMap<Value, int64_t> last;
  SmallVector<Value> leaving;
};

struct AnnotateLivenessPass
    : fp8::impl::FP8AnnotateLivenessPassBase<AnnotateLivenessPass> {
  using FP8AnnotateLivenessPassBase::FP8AnnotateLivenessPassBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      if (!func.getBody().hasOneBlock()) {
        func.emitOpError("expected a body of one block, but got ")
            << func.getBody().getBlocks().size();
        signalPassFailure();
        continue;
      }
      Liveness().run(func);
    }
  }
};

} // namespace
