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

/// Before `node` has its turn, what is kept of `root` is dropped, in either
/// region.
struct Drop {
  int node = -1, root = -1;
  /// Only `node` reads the root computed again; who comes after it reads what
  /// was kept before.
  bool once = false;

  auto operator<=>(const Drop &) const = default;
};

/// What is kept, of the storage roots of the forward pass. What may not be
/// recomputed is kept whatever a selection says.
struct Selection {
  Selection() = default;
  Selection(size_t numValues, bool keep) : kept(numValues, keep) {}

  std::vector<bool>::reference operator[](size_t root) { return kept[root]; }
  bool operator[](size_t root) const { return kept[root]; }
  auto operator<=>(const Selection &) const = default;

  /// One flag a graph value: true where it is kept for backward if backward
  /// needs it.
  std::vector<bool> kept;
  /// Sorted. Who reads a root after a drop reads it computed again. A value
  /// that is kept may so be kept for its first readers only, and one that is
  /// computed again may be so several times.
  std::vector<Drop> drops;
  /// The nodes in the order in which they run, those of forward first; empty
  /// where that is the order of the program. A node that comes once more is
  /// computed again there, for all who read it later.
  std::vector<int> order;

  /// Of each node, where it first stands in that order.
  std::vector<int> getPlaces(size_t numNodes) const;
};

/// A node as it runs. Operands and results are positions in Program::values.
struct Instance {
  int node = -1;
  bool backward = false;
  bool copy = false;  ///< not the op itself: a recomputation, or a view or a
                      ///< constant that is there once more
  bool clone = false; ///< a recomputation, in either region
  bool dead = false;  ///< of the forward region, and nothing needs it: not run
  int turn = -1;      ///< the node which this is run for, or just before
  SmallVector<int, 4> operands;
  SmallVector<int, 2> results;
};

/// A value as it runs.
struct InstanceValue {
  int value = -1;     ///< the graph value
  int instance = -1;  ///< the producer; -1 for arguments
  int root = -1;      ///< the instance value whose storage this is
  bool local = false; ///< made by the step, and no constant
};

struct Program {
  const PlanGraph *graph = nullptr;
  std::vector<Instance> instances;
  std::vector<InstanceValue> values;
  int firstBackward = 0; ///< index of the first backward instance
  /// Instance values that backward reads from forward, in the order of the
  /// graph; results of the function among them, which cost nothing to keep.
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
/// just before its first backward use. What a drop takes away is computed again
/// just before the next use.
Program materialize(const PlanGraph &graph, const Selection &selection);

/// True where the storage of graph value `root` can be chosen to be kept or
/// recomputed: it is local to the forward region, no result of the function,
/// and legal to recompute.
bool isChoice(const PlanGraph &graph, int root);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_PROGRAM_H
