//===- LowerToCPU.cpp - fp8-lower-to-cpu ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates LLVM dialect functions for the loop and state kernels.
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
#define GEN_PASS_DEF_FP8LOWERTOCPUPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

struct LowerToCPUPass : fp8::impl::FP8LowerToCPUPassBase<LowerToCPUPass> {
  using FP8LowerToCPUPassBase::FP8LowerToCPUPassBase;

  void runOnOperation() override {
    getOperation().emitError("fp8-lower-to-cpu is not written yet");
    signalPassFailure();
  }
};

} // namespace
