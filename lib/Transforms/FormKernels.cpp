//===- FormKernels.cpp - fp8-form-kernels ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups ops into fp8.kernel regions, the units that run.
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
#define GEN_PASS_DEF_FP8FORMKERNELSPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

struct FormKernelsPass : fp8::impl::FP8FormKernelsPassBase<FormKernelsPass> {
  using FP8FormKernelsPassBase::FP8FormKernelsPassBase;

  void runOnOperation() override {
    getOperation().emitError("fp8-form-kernels is not written yet");
    signalPassFailure();
  }
};

} // namespace
