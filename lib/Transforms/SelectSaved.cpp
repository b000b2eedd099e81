//===- SelectSaved.cpp - fp8-select-saved ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses what is kept for backward and what is computed again.
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
#define GEN_PASS_DEF_FP8SELECTSAVEDPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

struct SelectSavedPass : fp8::impl::FP8SelectSavedPassBase<SelectSavedPass> {
  using FP8SelectSavedPassBase::FP8SelectSavedPassBase;

  void runOnOperation() override {
    getOperation().emitError("fp8-select-saved is not written yet");
    signalPassFailure();
  }
};

} // namespace
