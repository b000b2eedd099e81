//===- FormKernels.cpp - fp8-form-kernels -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups the ops of each program into the kernels that run.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Policies.h"
#include "fp8/Target/Signature.h"
#include "fp8/Transforms/ApplyPlan.h"
#include "fp8/Transforms/Passes.h"
#include "fp8/Transforms/Residuals.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8FORMKERNELSPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

/// Keeps the names that the locations of returned values give the results: a
/// kernel of several results has one location.
static void keepResultNames(func::FuncOp func) {
  Signature signature = getSignature(func);
  ValueRange returned = func.getBody().front().getTerminator()->getOperands();
  for (auto [index, value] : llvm::enumerate(returned))
    if (isa<NameLoc>(value.getLoc()))
      setResultName(func, index, signature.results[index].name);
}

namespace {

struct FormKernelsPass : fp8::impl::FP8FormKernelsPassBase<FormKernelsPass> {
  using FP8FormKernelsPassBase::FP8FormKernelsPassBase;

  void runOnOperation() override {
    if (fuse != "default" && fuse != "none") {
      getOperation().emitError(
          "expected 'fuse' to be 'default' or 'none', but got '")
          << fuse << "'";
      return signalPassFailure();
    }
    const Target *target = getTargetOf(getOperation());
    if (!target)
      return signalPassFailure();
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      dropUnread(func);
      FailureOr<PlanGraph> graph = PlanGraph::build(func, *target);
      if (failed(graph))
        return signalPassFailure();
      if (llvm::any_of(graph->nodes, [](const PlanNode &node) {
            return node.kind == NodeClass::Kernel;
          })) {
        func.emitError("expected ops that are not in kernels yet, but got an "
                       "'fp8.kernel'");
        return signalPassFailure();
      }
      keepResultNames(func);
      // What the IR says is kept is kept; nothing is chosen here.
      Program program = materialize(*graph, selectSaveAll(*graph));
      applyKernels(formKernels(program, fuse == "none" ? Fusion::None
                                                       : Fusion::Default));
    }
  }
};

} // namespace
