//===- ReserveWorkspace.cpp - fp8-reserve-workspace -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan counts the workspace of a kernel, so it has to be known before places
// are given out.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/KernelFunction.h"
#include "fp8/Conversion/FP8ToCUDA/Launches.h"
#include "fp8/Target/Target.h"
#include "fp8/Transforms/Passes.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8RESERVEWORKSPACEPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

struct ReserveWorkspacePass
    : fp8::impl::FP8ReserveWorkspacePassBase<ReserveWorkspacePass> {
  void runOnOperation() override {
    const Target *target = getTargetOf(getOperation());
    if (!target)
      return signalPassFailure();
    if (target->chip.empty())
      return;
    getOperation().walk([](KernelOp kernel) {
      if (kernel.getKind() == KernelKind::Loop)
        kernel.setWorkspace(getCUDAWorkspaceBytes(kernel));
    });
  }
};

} // namespace
