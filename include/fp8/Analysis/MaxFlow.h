//===- MaxFlow.h - maximum flow and minimum cut -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dinic's algorithm on integer capacities. Deterministic: arcs are visited in
// the order they were added.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_MAXFLOW_H
#define FP8_ANALYSIS_MAXFLOW_H

#include <cstdint>
#include <limits>
#include <vector>

namespace mlir::fp8 {

class MaxFlow {
public:
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

  explicit MaxFlow(int numNodes)
      : arcsOf(numNodes), level(numNodes), next(numNodes) {}

  /// Adds an arc of `capacity` (at most kInfinite).
  void addArc(int from, int to, int64_t capacity);

  /// The value of a maximum flow, kInfinite or more where source and sink
  /// cannot be separated.
  int64_t run(int source, int sink);

  /// After run(): true for the nodes on the source's side of the minimum cut
  /// nearest to the source.
  std::vector<bool> getSourceSide(int source) const;
  /// The same for the sink's side of the minimum cut nearest to the sink.
  std::vector<bool> getSinkSide(int sink) const;

private:
  struct Arc {
    int to;
    int64_t residual;
  };
  bool buildLevels(int source, int sink);
  int64_t push(int node, int sink, int64_t limit);

  std::vector<Arc> arcs; ///< arc 2i and its reverse 2i + 1
  std::vector<std::vector<int>> arcsOf;
  std::vector<int> level;
  std::vector<size_t> next;
};

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_MAXFLOW_H
