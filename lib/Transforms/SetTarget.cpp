//===- SetTarget.cpp - fp8-set-target ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names the target that costs and workspaces are taken from.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Target.h"
#include "fp8/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8SETTARGETPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

struct SetTargetPass : fp8::impl::FP8SetTargetPassBase<SetTargetPass> {
  using FP8SetTargetPassBase::FP8SetTargetPassBase;

  void runOnOperation() override {
    getOperation()->setAttr(kTargetAttr,
                            StringAttr::get(&getContext(), target));
    if (!getTargetOf(getOperation()))
      signalPassFailure();
  }
};

} // namespace
