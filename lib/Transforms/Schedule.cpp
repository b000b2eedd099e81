//===- Schedule.cpp - fp8-schedule ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders the kernels of each program for the lowest peak.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Policies.h"
#include "fp8/Transforms/ApplyPlan.h"
#include "fp8/Transforms/Passes.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8SCHEDULEPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

struct SchedulePass : fp8::impl::FP8SchedulePassBase<SchedulePass> {
  void runOnOperation() override {
    const Target *target = getTargetOf(getOperation());
    if (!target)
      return signalPassFailure();
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      FailureOr<PlanGraph> graph = PlanGraph::build(func, *target);
      if (failed(graph))
        return signalPassFailure();
      Program program = materialize(*graph, selectSaveAll(*graph));
      KernelGraph kernels = formKernels(program, Fusion::None);
      applyOrder(kernels, schedule(kernels));
    }
  }
};

} // namespace
