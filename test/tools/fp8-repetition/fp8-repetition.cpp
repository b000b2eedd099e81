//===- fp8-repetition.cpp - stacks of equal layers --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: fp8-repetition FILE.mlir TARGET
//
// Leaves layers out of the functions of FILE.mlir (fp8/Analysis/Repetition.h),
// plans what is left, expands each plan of its frontier to the whole program
// and compares what the two cost. Prints for each function
//
//   function: nodes N, left M, plans P, peak off by at most X %, time by Y %
//
// or that nothing repeats.
//
//===----------------------------------------------------------------------===//

#include "../JointGraphs.h"

#include "fp8/Analysis/Policies.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::fp8;

static void compare(const PlanGraph &graph) {
  func::FuncOp func = graph.func;
  llvm::outs() << func.getName() << ": nodes " << graph.nodes.size() << ", ";
  std::optional<ReducedGraph> reduced = reduceRepetition(graph);
  if (!reduced) {
    llvm::outs() << "nothing repeats\n";
    return;
  }
  PlanSearch inner(reduced->graph, Fusion::Default),
      whole(graph, Fusion::Default);
  double peak = 0, time = 0;
  std::vector<const PlanOption *> frontier = inner.findFrontier();
  for (const PlanOption *option : frontier) {
    const PlanOption &expanded =
        whole.evaluate(reduced->expand(option->selection));
    peak = std::max(peak, std::abs(double(expanded.peak) / option->peak - 1));
    time = std::max(time, std::abs(expanded.seconds / option->seconds - 1));
  }
  llvm::outs() << "left " << reduced->graph.nodes.size() << ", plans "
               << frontier.size() << ", peak off by at most "
               << llvm::format("%.2f %%, time by %.2f %%\n", 100 * peak,
                               100 * time);
}

int main(int argc, char **argv) {
  return runOnJointGraphs(argc, argv, compare);
}
