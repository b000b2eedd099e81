//===- Schedule.cpp - order of kernels and live bytes -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Live ranges of storage roots under an order of kernels, the peak they give,
// and schedules that lower it.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/KernelGraph.h"

#include <array>
#include <numeric>

using namespace mlir;
using namespace mlir::fp8;

/// True for a root with storage that the step allocates.
static bool isLocalStorage(const Program &program, int root) {
  int instance = program.values[root].instance;
  return instance >= 0 &&
         program.node(program.instances[instance]).kind != NodeClass::Constant;
}

std::vector<std::pair<int, int>>
mlir::fp8::getLiveRanges(const KernelGraph &graph, ArrayRef<int> order) {
  const Program &program = *graph.program;
  std::vector<std::pair<int, int>> ranges(program.values.size(), {-1, -1});
  int end = static_cast<int>(order.size()) - 1;
  for (auto [index, id] : llvm::enumerate(order)) {
    int position = index;
    const KernelNode &kernel = graph.kernels[id];
    for (int output : kernel.outputs)
      if (program.graphValue(output).bytes > 0) // A token takes no memory.
        ranges[output] = {position,
                          program.graphValue(output).escapes ? end : position};
    auto extend = [&](int root) {
      if (isLocalStorage(program, root))
        ranges[root].second = std::max(ranges[root].second, position);
    };
    llvm::for_each(kernel.reads, extend);
    llvm::for_each(kernel.holds, extend);
  }
  return ranges;
}

PeakInfo mlir::fp8::simulate(const KernelGraph &graph, ArrayRef<int> order) {
  const Program &program = *graph.program;
  PeakInfo info;
  info.live.assign(order.size(), 0);
  std::vector<int64_t> change(order.size() + 1, 0);
  for (auto [root, range] : llvm::enumerate(getLiveRanges(graph, order))) {
    if (range.first < 0)
      continue;
    int64_t bytes = program.graphValue(root).bytes;
    change[range.first] += bytes;
    change[range.second + 1] -= bytes;
    if (range.first < graph.firstBackward &&
        range.second >= graph.firstBackward &&
        !program.graphValue(root).escapes)
      info.residualBytes += bytes;
  }
  int64_t live = 0;
  for (auto [position, id] : llvm::enumerate(order)) {
    live += change[position];
    info.live[position] = live + graph.kernels[id].workspace;
    if (info.live[position] > info.peak) {
      info.peak = info.live[position];
      info.peakKernel = position;
    }
  }
  return info;
}

SmallVector<int> mlir::fp8::getLiveRoots(const KernelGraph &graph,
                                         ArrayRef<int> order, int position) {
  SmallVector<int> roots;
  for (auto [root, range] : llvm::enumerate(getLiveRanges(graph, order)))
    if (range.first >= 0 && range.first <= position && position <= range.second)
      roots.push_back(root);
  llvm::stable_sort(roots, [&](int a, int b) {
    return graph.program->graphValue(a).bytes >
           graph.program->graphValue(b).bytes;
  });
  return roots;
}

namespace {

/// Schedules a range of kernels by what they do to memory: the next kernel is
/// the one that leaves the least behind among those that stay under the peak so
/// far, else the one that needs the least while it runs.
class ListScheduler {
public:
  explicit ListScheduler(const KernelGraph &graph)
      : graph(graph), readers(graph.program->values.size(), 0),
        successors(graph.kernels.size()), waiting(graph.kernels.size(), 0) {
    for (auto [index, kernel] : llvm::enumerate(graph.kernels)) {
      for (int pred : kernel.preds)
        successors[pred].push_back(index);
      waiting[index] = kernel.preds.size();
      forEachHeld(kernel, [&](int root) { ++readers[root]; });
    }
  }

  std::vector<int> run() {
    int numKernels = graph.kernels.size();
    runRange(0, graph.firstBackward);
    runRange(graph.firstBackward, numKernels);
    return std::move(order);
  }

private:
  template <typename Function>
  void forEachHeld(const KernelNode &kernel, Function function) const {
    for (int root : kernel.reads)
      if (isLocalStorage(*graph.program, root))
        function(root);
    for (int root : kernel.holds)
      if (isLocalStorage(*graph.program, root) &&
          !llvm::is_contained(kernel.reads, root))
        function(root);
  }
  int64_t bytesOf(int root) const {
    return graph.program->graphValue(root).bytes;
  }
  int64_t outputBytes(const KernelNode &kernel) const {
    int64_t bytes = 0;
    for (int output : kernel.outputs)
      bytes += bytesOf(output);
    return bytes;
  }
  int64_t freedBytes(const KernelNode &kernel) const {
    int64_t bytes = 0;
    forEachHeld(kernel, [&](int root) {
      if (readers[root] == 1 && !graph.program->graphValue(root).escapes)
        bytes += bytesOf(root);
    });
    for (int output : kernel.outputs)
      if (readers[output] == 0 && !graph.program->graphValue(output).escapes)
        bytes += bytesOf(output);
    return bytes;
  }

  void runRange(int begin, int end) {
    SmallVector<int> ready;
    auto inRange = [&](int kernel) { return kernel >= begin && kernel < end; };
    for (int kernel = begin; kernel < end; ++kernel)
      if (waiting[kernel] == 0)
        ready.push_back(kernel);
    while (!ready.empty()) {
      int best = -1;
      std::tuple<bool, int64_t, int> bestKey;
      for (auto [slot, id] : llvm::enumerate(ready)) {
        const KernelNode &kernel = graph.kernels[id];
        int64_t during = live + outputBytes(kernel) + kernel.workspace;
        int64_t after = live + outputBytes(kernel) - freedBytes(kernel);
        bool raises = during > peak;
        std::tuple<bool, int64_t, int> key(raises, raises ? during : after, id);
        if (best < 0 || key < bestKey) {
          best = slot;
          bestKey = key;
        }
      }
      int id = ready[best];
      ready.erase(ready.begin() + best);
      const KernelNode &kernel = graph.kernels[id];
      peak = std::max(peak, live + outputBytes(kernel) + kernel.workspace);
      live += outputBytes(kernel) - freedBytes(kernel);
      forEachHeld(kernel, [&](int root) { --readers[root]; });
      order.push_back(id);
      for (int successor : successors[id])
        if (--waiting[successor] == 0 && inRange(successor))
          ready.insert(llvm::lower_bound(ready, successor), successor);
    }
  }

  const KernelGraph &graph;
  std::vector<int> readers; ///< kernels that still hold a root
  std::vector<SmallVector<int, 4>> successors;
  std::vector<int> waiting;
  std::vector<int> order;
  int64_t live = 0, peak = 0;
};

} // namespace

/// Program order, but each kernel just before the first that needs it.
static std::vector<int> scheduleLate(const KernelGraph &graph) {
  int numKernels = graph.kernels.size();
  std::vector<int> neededBy(numKernels);
  std::iota(neededBy.begin(), neededBy.end(), 0);
  std::vector<bool> needed(numKernels, false);
  for (int id = numKernels - 1; id >= 0; --id)
    for (int pred : graph.kernels[id].preds)
      // A forward kernel that only backward reads keeps its place.
      if (graph.kernels[pred].backward == graph.kernels[id].backward) {
        neededBy[pred] = needed[pred] ? std::min(neededBy[pred], neededBy[id])
                                      : neededBy[id];
        needed[pred] = true;
      }
  std::vector<int> order(numKernels);
  std::iota(order.begin(), order.end(), 0);
  // A kernel is needed no later than what it needs, and equal ones keep their
  // order: dependences hold.
  llvm::stable_sort(order, [&](int a, int b) {
    const KernelNode &first = graph.kernels[a], &second = graph.kernels[b];
    return std::tuple(first.backward, neededBy[a]) <
           std::tuple(second.backward, neededBy[b]);
  });
  return order;
}

std::vector<int> mlir::fp8::schedule(const KernelGraph &graph) {
  std::vector<int> best(graph.kernels.size());
  std::iota(best.begin(), best.end(), 0);
  int64_t lowest = simulate(graph, best).peak;
  std::array<std::vector<int>, 2> candidates = {scheduleLate(graph),
                                                ListScheduler(graph).run()};
  for (std::vector<int> &order : candidates)
    if (int64_t peak = simulate(graph, order).peak; peak < lowest) {
      lowest = peak;
      best = std::move(order);
    }
  return best;
}
