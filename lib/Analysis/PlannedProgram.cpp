//===- PlannedProgram.cpp - planned IR with its live ranges -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a function whose kernels are formed.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/PlannedProgram.h"

#include "fp8/Analysis/Policies.h"

#include <numeric>

using namespace mlir;
using namespace mlir::fp8;

FailureOr<PlannedProgram> PlannedProgram::read(func::FuncOp func,
                                               const Target &target,
                                               bool decideReuse) {
  FailureOr<PlanGraph> graph = PlanGraph::build(func, target);
  if (failed(graph))
    return failure();
  for (const PlanNode &node : graph->nodes)
    if (node.kind != NodeClass::Kernel && node.kind != NodeClass::View &&
        node.kind != NodeClass::Constant && !isa<WaitOp>(node.op))
      return node.op->emitOpError("expected every op that runs to be in an "
                                  "'fp8.kernel'; run 'fp8-form-kernels' first");
  PlannedProgram result;
  result.graph = std::make_unique<PlanGraph>(std::move(*graph));
  result.program = std::make_unique<Program>(
      materialize(*result.graph, selectSaveAll(*result.graph)));
  result.kernels = formKernels(*result.program, Fusion::None);
  result.kernels.reusesAsWritten = !decideReuse;
  result.order.resize(result.kernels.kernels.size());
  std::iota(result.order.begin(), result.order.end(), 0);
  result.peak = simulate(result.kernels, result.order);
  result.ranges = getLiveRanges(result.kernels, result.order);
  return result;
}

Operation *PlannedProgram::getOp(int kernel) const {
  return program
      ->node(program->instances[kernels.kernels[kernel].members.front()])
      .op;
}

Value PlannedProgram::getValue(int root) const { return getEntry(root).value; }
