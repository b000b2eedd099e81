//===- JointGraphs.h - the main function of planner tools -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What fp8-frontier and fp8-repetition have in common: they read a program and
// look at the plan graph of each of its functions.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TEST_TOOLS_JOINTGRAPHS_H
#define FP8_TEST_TOOLS_JOINTGRAPHS_H

#include "fp8/Analysis/PlanGraph.h"
#include "fp8/Interfaces/ExternalModels.h"
#include "fp8/Pipelines/Pipelines.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/InitLLVM.h"

namespace mlir::fp8 {

/// Takes `TOOL FILE.mlir TARGET`, compiles FILE.mlir for TARGET down to its
/// joint graphs and calls `run` with each. Returns the exit code: 1 behind an
/// error, which is printed.
inline int runOnJointGraphs(int argc, char **argv,
                            llvm::function_ref<void(const PlanGraph &)> run) {
  llvm::InitLLVM init(argc, argv);
  if (argc != 3) {
    llvm::errs() << "error: expected FILE.mlir TARGET\n";
    return 1;
  }
  DialectRegistry registry;
  registerDialectAndModels(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(argv[1], &context);
  if (!module)
    return 1;
  PassManager manager(&context);
  buildCompilePipeline(
      manager,
      *CompileOptions::createFromString((Twine("target=") + argv[2]).str()),
      Phase::Joint);
  if (failed(manager.run(*module)))
    return 1;
  for (auto func : module->getOps<func::FuncOp>()) {
    const Target *target = getTargetOf(func);
    if (!target || func.isExternal())
      continue;
    FailureOr<PlanGraph> graph = PlanGraph::build(func, *target);
    if (failed(graph))
      return 1;
    run(*graph);
  }
  return 0;
}

} // namespace mlir::fp8

#endif // FP8_TEST_TOOLS_JOINTGRAPHS_H
