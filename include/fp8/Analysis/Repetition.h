//===- Repetition.h - equal layers of a program -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the layers that a program repeats and leaves most of them out, so that
// a search over what is kept costs as much for a hundred layers as for a few.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_REPETITION_H
#define FP8_ANALYSIS_REPETITION_H

#include "fp8/Analysis/Program.h"

namespace mlir::fp8 {

/// A graph with fewer copies of its layers. One of those left stands for those
/// left out: see PlanNode::copies and PlanValue::copies.
struct ReducedGraph {
  PlanGraph graph;
  /// Per value of the whole graph, the value of `graph` that stands for it.
  std::vector<int> standsFor;
  /// The same, per node.
  std::vector<int> nodeStandsFor;
  /// Values of `graph` that the layers hand on in forward, of each layer that
  /// is left: what one makes and the next reads. Sorted.
  std::vector<int> borders;

  /// The choice of the whole graph in which every layer left out chooses as the
  /// one that stands for it.
  Selection expand(const Selection &selection) const;
};

/// Leaves out the middle layers of every stack of equal layers: of layers whose
/// forward and backward ops are the same, in the same order, with the same
/// types and attributes, and each reads the one before in the same way. Nothing
/// where the graph has no stack of three layers or more. Takes O(n) for a
/// bounded number of stacks.
std::optional<ReducedGraph> reduceRepetition(const PlanGraph &graph);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_REPETITION_H
