//===- CheckPlan.cpp - fp8-check-plan ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks a plan, with no code shared with the passes that made it.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

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
    getOperation().emitError("fp8-check-plan is not written yet");
    signalPassFailure();
  }
};

} // namespace
