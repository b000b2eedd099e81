//===- CheckPlan.cpp - fp8-check-plan ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks a plan, with no code shared with the passes that made it.
//
//===----------------------------------------------------------------------===//

#include "CheckPlan/Checks.h"
#include "fp8/Transforms/Passes.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8CHECKPLANPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

struct CheckPlanPass : fp8::impl::FP8CheckPlanPassBase<CheckPlanPass> {
  using FP8CheckPlanPassBase::FP8CheckPlanPassBase;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      FailureOr<check::PlanLine> line = check::PlanLine::read(func);
      if (failed(line)) {
        signalPassFailure();
        continue;
      }
      bool valid = succeeded(check::checkLifetimes(*line));
      valid &= succeeded(check::checkInPlace(*line));
      valid &= succeeded(check::checkPieces(*line));
      valid &= succeeded(check::checkHost(*line));
      valid &= succeeded(check::checkPlacement(*line));
      if (!valid)
        signalPassFailure();
    }
  }
};

} // namespace
