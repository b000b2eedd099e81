//===- InsertFrees.cpp - fp8-insert-frees -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ends the storage of each alias class directly after its last use, or hands it
// on to a result that can be written in place.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/InPlace.h"
#include "fp8/Analysis/PlannedProgram.h"
#include "fp8/Transforms/Passes.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8INSERTFREESPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

struct InsertFreesPass : fp8::impl::FP8InsertFreesPassBase<InsertFreesPass> {
  void runOnOperation() override {
    const Target *target = getTargetOf(getOperation());
    if (!target)
      return signalPassFailure();
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal() && failed(insertFrees(func, *target)))
        return signalPassFailure();
  }

private:
  static LogicalResult insertFrees(func::FuncOp func, const Target &target);
};

/// Says on the kernel at `position` which results are written over which
/// operands, and of a gather that its operand lies in its result.
static void writeInPlace(const PlannedProgram &planned, int position) {
  auto kernel = dyn_cast<KernelOp>(planned.getOp(position));
  if (!kernel)
    return;
  kernel.removeInPlaceAttr();
  SmallVector<int64_t> entries(kernel.getNumResults(), -1);
  bool any = false;
  const Program &program = *planned.program;
  const KernelNode &node = planned.kernels.kernels[position];
  const Instance &instance = program.instances[node.members.front()];
  for (int output : node.outputs) {
    const LiveRange &range = planned.ranges[output];
    int over = range.predecessor >= 0 ? range.predecessor : range.part;
    if (over < 0)
      continue;
    unsigned result =
        llvm::find(instance.results, output) - instance.results.begin();
    auto operand = llvm::find_if(instance.operands, [&](int value) {
      return program.values[value].root == over;
    });
    entries[result] = operand - instance.operands.begin();
    any = true;
  }
  if (any)
    kernel.setInPlace(entries);
}

LogicalResult InsertFreesPass::insertFrees(func::FuncOp func,
                                           const Target &target) {
  func.walk([](FreeOp free) { free.erase(); });
  FailureOr<PlannedProgram> planned =
      PlannedProgram::read(func, target, /*decideReuse=*/true);
  if (failed(planned))
    return failure();
  gatherInPlace(planned->kernels, planned->order, planned->ranges,
                planned->peak);
  for (int position : planned->order)
    writeInPlace(*planned, position);
  // In the backward region a residual is freed under the name it has there.
  DenseMap<Value, Value> residualOf;
  if (StepOp step = planned->graph->step)
    for (auto [argument, residual] :
         llvm::zip(step.getBackward().getArguments(),
                   step.getForwardYield().getResiduals()))
      residualOf.try_emplace(getRoot(residual), argument);

  std::vector<SmallVector<Value, 2>> frees(planned->order.size());
  for (auto [root, range] : llvm::enumerate(planned->ranges)) {
    if (range.first < 0 || range.successor >= 0 ||
        planned->getEntry(root).escapes)
      continue;
    bool crosses = range.first < planned->kernels.firstBackward &&
                   range.second >= planned->kernels.firstBackward;
    frees[range.second].push_back(
        crosses ? residualOf.lookup(planned->getValue(root))
                : planned->getValue(root));
  }
  for (auto [position, values] : llvm::enumerate(frees)) {
    if (values.empty())
      continue;
    Operation *op = planned->getOp(position);
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    FreeOp::create(builder, op->getLoc(), values);
  }
  return success();
}

} // namespace
