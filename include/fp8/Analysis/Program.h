//===- Program.h - a graph with a choice of what is kept --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What runs once it is chosen which forward values are kept for backward: the
// instances of the nodes, clones included, in program order.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_PROGRAM_H
#define FP8_ANALYSIS_PROGRAM_H

#include "fp8/Analysis/PlanGraph.h"

namespace mlir::fp8 {

/// One flag a graph value: true where a root of the forward pass is kept for
/// backward if backward needs it. What may not be recomputed is kept whatever
/// the flag says.
using Selection = std::vector<bool>;

/// A node as it runs. Operands and results are positions in Program::values.
struct Instance {
  int node = -1;
  bool backward = false;
  bool clone = false; ///< a recomputation in the backward region
  bool dead = false;  ///< of the forward region, and nothing needs it: not run
  SmallVector<int, 4> operands;
  SmallVector<int, 2> results;
};

/// A value as it runs.
struct InstanceValue {
  int value = -1;    ///< the graph value
  int instance = -1; ///< the producer; -1 for arguments
  int root = -1;     ///< the instance value whose storage this is
};

struct Program {
  const PlanGraph *graph = nullptr;
  std::vector<Instance> instances;
  std::vector<InstanceValue> values;
  int firstBackward = 0; ///< index of the first backward instance
  /// Graph values that backward reads from forward, in the order of their
  /// production; results of the function among them, which cost nothing to
  /// keep.
  SmallVector<int> residuals;
  SmallVector<int>
      backwardResults; ///< instance values that the backward region yields

  const PlanValue &graphValue(int value) const {
    return graph->values[values[value].value];
  }
  const PlanNode &node(const Instance &instance) const {
    return graph->nodes[instance.node];
  }
};

/// The program of `graph` with `selection`: each forward root that backward
/// needs is read as a residual where it is kept, else computed again, once,
/// just before its first backward use.
Program materialize(const PlanGraph &graph, const Selection &selection);

/// True where the storage of graph value `root` can be chosen to be kept or
/// recomputed: it is local to the forward region, no result of the function,
/// and legal to recompute.
bool isChoice(const PlanGraph &graph, int root);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_PROGRAM_H
