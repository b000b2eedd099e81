//===- Schedule.cpp - order of kernels and live bytes -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Live ranges of storage roots under an order of kernels, the peak they give,
// and schedules that lower it.
//
//===----------------------------------------------------------------------===//

#include "OrderSearch.h"

#include "fp8/Analysis/InPlace.h"
#include "fp8/Analysis/KernelGraph.h"

#include "llvm/Support/MathExtras.h"
#include <array>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::fp8;

/// Sets of kernels that the exact search may look at for one order: at most so
/// many, and this over the square of the number of kernels.
static constexpr int64_t kMaxSets = 20'000, kMaxOrderWork = 40'000'000;
/// The same to find out whether it is worth while, which a search for a plan
/// asks many times.
static constexpr int64_t kMaxTrialWork = 1'500'000;
/// Rounds in which the peaks of a long order are cleared, times its kernels.
static constexpr int64_t kMaxClearedKernels = 10'000;
/// How often what has been cleared is searched again.
static constexpr int kMaxRounds = 4;

std::vector<LiveRange> mlir::fp8::getLiveRanges(const KernelGraph &graph,
                                                ArrayRef<int> order) {
  const Program &program = *graph.program;
  std::vector<LiveRange> ranges(program.values.size());
  int end = static_cast<int>(order.size()) - 1;
  for (auto [index, id] : llvm::enumerate(order)) {
    int position = index;
    const KernelNode &kernel = graph.kernels[id];
    for (int output : kernel.outputs)
      if (program.graphValue(output).bytes > 0) // A token takes no memory.
        ranges[output] = {position,
                          program.graphValue(output).escapes ? end : position};
    auto extend = [&](int root) {
      if (program.values[root].local)
        ranges[root].second = std::max(ranges[root].second, position);
    };
    llvm::for_each(kernel.reads, extend);
    llvm::for_each(kernel.holds, extend);
  }
  handOver(graph, order, ranges);
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
    const PlanValue &value = program.graphValue(root);
    bool crosses = range.first < graph.firstBackward &&
                   range.getLastUse() >= graph.firstBackward;
    int64_t bytes = value.bytes * (crosses || value.escapes ? value.copies : 1);
    change[range.first] += bytes;
    change[range.second + 1] -= bytes;
    if (crosses && !value.escapes)
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
/// far, else the one that needs the least while it runs. Ties go to the first
/// in program order. Takes O(n log n): what a kernel needs is known from the
/// start, so a tree over the kernels in the order of their needs answers which
/// of those that fit leaves the least.
class ListScheduler {
public:
  explicit ListScheduler(const KernelGraph &graph)
      : graph(graph), readers(graph.program->values.size()),
        numReaders(graph.program->values.size(), 0),
        successors(graph.kernels.size()), waiting(graph.kernels.size(), 0),
        growth(graph.kernels.size(), 0), done(graph.kernels.size(), false) {
    for (auto [index, kernel] : llvm::enumerate(graph.kernels)) {
      for (int pred : kernel.preds)
        successors[pred].push_back(index);
      waiting[index] = kernel.preds.size();
      forEachHeld(kernel, [&](int root) {
        readers[root].push_back(index);
        ++numReaders[root];
      });
    }
    for (auto [index, kernel] : llvm::enumerate(graph.kernels))
      growth[index] = outputBytes(kernel) - freedBytes(kernel);
    sortByNeed();
  }

  std::vector<int> run() {
    int numKernels = graph.kernels.size();
    runRange(0, graph.firstBackward);
    runRange(graph.firstBackward, numKernels);
    return std::move(order);
  }

private:
  /// The bytes a kernel leaves behind and its number; the smallest goes first.
  using Key = std::pair<int64_t, int>;
  static constexpr Key kNone = {std::numeric_limits<int64_t>::max(),
                                std::numeric_limits<int>::max()};

  template <typename Function>
  void forEachHeld(const KernelNode &kernel, Function function) const {
    for (int root : kernel.reads)
      if (graph.program->values[root].local)
        function(root);
    for (int root : kernel.holds)
      if (graph.program->values[root].local &&
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
  /// What ends with `kernel` as long as no other kernel runs.
  int64_t freedBytes(const KernelNode &kernel) const {
    int64_t bytes = 0;
    forEachHeld(kernel, [&](int root) {
      if (numReaders[root] == 1 && !graph.program->graphValue(root).escapes)
        bytes += bytesOf(root);
    });
    for (int output : kernel.outputs)
      if (numReaders[output] == 0 && !graph.program->graphValue(output).escapes)
        bytes += bytesOf(output);
    return bytes;
  }

  void sortByNeed() {
    int numKernels = graph.kernels.size();
    byNeed.resize(numKernels);
    std::iota(byNeed.begin(), byNeed.end(), 0);
    std::vector<int64_t> needOf(numKernels);
    for (auto [index, kernel] : llvm::enumerate(graph.kernels))
      needOf[index] = outputBytes(kernel) + kernel.workspace;
    llvm::stable_sort(byNeed,
                      [&](int a, int b) { return needOf[a] < needOf[b]; });
    rank.resize(numKernels);
    for (auto [index, kernel] : llvm::enumerate(byNeed)) {
      rank[kernel] = index;
      needs.push_back(needOf[kernel]);
    }
    leaves = llvm::PowerOf2Ceil(std::max(numKernels, 1));
    tree.assign(2 * leaves, kNone);
  }

  void setKey(int kernel, Key key) {
    int node = leaves + rank[kernel];
    tree[node] = key;
    for (node /= 2; node >= 1; node /= 2)
      tree[node] = std::min(tree[2 * node], tree[2 * node + 1]);
  }
  void setReady(int kernel) { setKey(kernel, {growth[kernel], kernel}); }

  /// The ready kernel that leaves the least behind among those whose need ranks
  /// below `end`; -1 where none is ready.
  int findLeast(int end) const {
    Key best = kNone;
    for (int left = leaves, right = leaves + end; left < right;
         left /= 2, right /= 2) {
      if (left & 1)
        best = std::min(best, tree[left++]);
      if (right & 1)
        best = std::min(best, tree[--right]);
    }
    return best == kNone ? -1 : best.second;
  }
  /// The ready kernel that needs the least; -1 where none is ready.
  int findSmallest() const {
    if (tree[1] == kNone)
      return -1;
    int node = 1;
    while (node < leaves)
      node = tree[2 * node] != kNone ? 2 * node : 2 * node + 1;
    return byNeed[node - leaves];
  }

  void runRange(int begin, int end) {
    for (int kernel = begin; kernel < end; ++kernel)
      if (waiting[kernel] == 0)
        setReady(kernel);
    while (true) {
      int fitting = llvm::upper_bound(needs, peak - live) - needs.begin();
      int id = findLeast(fitting);
      if (id < 0)
        id = findSmallest();
      if (id < 0)
        return;
      runKernel(id, begin, end);
    }
  }

  void runKernel(int id, int begin, int end) {
    const KernelNode &kernel = graph.kernels[id];
    setKey(id, kNone);
    done[id] = true;
    order.push_back(id);
    peak = std::max(peak, live + needs[rank[id]]);
    live += growth[id];
    forEachHeld(kernel, [&](int root) {
      if (--numReaders[root] != 1 || graph.program->graphValue(root).escapes)
        return;
      // The reader that is left frees it.
      int last = *llvm::find_if(readers[root],
                                [&](int reader) { return !done[reader]; });
      growth[last] -= bytesOf(root);
      if (tree[leaves + rank[last]] != kNone)
        setReady(last);
    });
    for (int successor : successors[id])
      if (--waiting[successor] == 0 && successor >= begin && successor < end)
        setReady(successor);
  }

  const KernelGraph &graph;
  std::vector<SmallVector<int, 4>> readers; ///< kernels that hold a root
  std::vector<int> numReaders;              ///< those that have not run
  std::vector<SmallVector<int, 4>> successors;
  std::vector<int> waiting;
  std::vector<int64_t> growth; ///< bytes a kernel would leave behind
  std::vector<bool> done;
  std::vector<int> byNeed, rank; ///< kernels by the bytes they need, inverse
  std::vector<int64_t> needs;    ///< those bytes, in that order
  int leaves = 0;
  std::vector<Key> tree; ///< minima of the ready kernels' keys, by rank
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

bool mlir::fp8::hasCollectives(const KernelGraph &graph) {
  return llvm::any_of(graph.kernels, [&](const KernelNode &kernel) {
    return llvm::any_of(kernel.members, [&](int member) {
      return graph.program->node(graph.program->instances[member]).chain ==
             Chain::Communicator;
    });
  });
}

bool mlir::fp8::isLong(const KernelGraph &graph) {
  int numKernels = graph.kernels.size();
  return graph.firstBackward > kMaxStretch ||
         numKernels - graph.firstBackward > kMaxStretch;
}

/// Gives the forward region of `order` the late order where that has a lower
/// peak there: an order by memory is content below the peak of backward, and
/// would gather the weights of many layers at once.
static void lowerForward(const KernelGraph &graph, std::vector<int> &order,
                         PeakInfo &info) {
  auto forwardPeak = [&](const PeakInfo &of) {
    return graph.firstBackward == 0
               ? 0
               : *std::max_element(of.live.begin(),
                                   of.live.begin() + graph.firstBackward);
  };
  std::vector<int> mixed = scheduleLate(graph);
  std::copy(order.begin() + graph.firstBackward, order.end(),
            mixed.begin() + graph.firstBackward);
  PeakInfo other = simulate(graph, mixed);
  if (other.peak > info.peak || forwardPeak(other) >= forwardPeak(info))
    return;
  order = std::move(mixed);
  info = std::move(other);
}

/// `order` with the kernels `ran` of the region from `begin` to `end` before
/// `kernel` and the others behind it. Of these the ones that were before it
/// come next, or, where `isLate` is set, each just before the first kernel that
/// needs it, and last what none needs.
static std::vector<int> parted(const KernelGraph &graph, ArrayRef<int> order,
                               int kernel, const llvm::BitVector &ran,
                               int begin, int end, bool isLate) {
  // Where a kernel goes: its place, or that of the first one that needs it.
  std::vector<int> placeOf(graph.kernels.size(), end);
  bool isBehind = false;
  std::vector<bool> moves(graph.kernels.size(), false);
  for (int place = begin; place < end; ++place) {
    int id = order[place];
    moves[id] = isLate && !isBehind && !ran[id] && id != kernel;
    if (!moves[id])
      placeOf[id] = place;
    isBehind |= id == kernel;
  }
  for (int place = end - 1; place >= begin; --place)
    for (int pred : graph.kernels[order[place]].preds)
      if (moves[pred])
        placeOf[pred] = std::min(placeOf[pred], placeOf[order[place]]);
  std::vector<int> result(order);
  std::stable_sort(result.begin() + begin, result.begin() + end,
                   [&](int a, int b) {
                     auto key = [&](int id) {
                       return std::tuple(id == kernel ? 1
                                         : ran[id]    ? 0
                                                      : 2,
                                         placeOf[id], !moves[id]);
                     };
                     return key(a) < key(b);
                   });
  return result;
}

bool mlir::fp8::clearPeaks(const KernelGraph &graph, std::vector<int> &order,
                           PeakInfo &info) {
  int numKernels = order.size();
  for (int64_t round = 0;
       info.peakKernel >= 0 && round * numKernels < kMaxClearedKernels;
       ++round) {
    int kernel = order[info.peakKernel];
    bool backward = graph.kernels[kernel].backward;
    int begin = backward ? graph.firstBackward : 0;
    int end = backward ? numKernels : graph.firstBackward;
    llvm::BitVector ran = findLeastBefore(graph, kernel);
    std::vector<int> before = order;
    bool isLower = false;
    for (bool isLate : {false, true}) {
      std::vector<int> next =
          parted(graph, before, kernel, ran, begin, end, isLate);
      PeakInfo found = simulate(graph, next);
      if (found.peak >= info.peak)
        continue;
      order = std::move(next);
      info = std::move(found);
      isLower = true;
    }
    if (!isLower)
      return round > 0;
  }
  return true;
}

std::pair<std::vector<int>, PeakInfo>
mlir::fp8::scheduleRoughly(const KernelGraph &graph) {
  std::vector<int> best(graph.kernels.size());
  std::iota(best.begin(), best.end(), 0);
  PeakInfo lowest = simulate(graph, best);
  std::array<std::vector<int>, 2> candidates = {scheduleLate(graph),
                                                ListScheduler(graph).run()};
  for (std::vector<int> &order : candidates)
    if (PeakInfo info = simulate(graph, order); info.peak < lowest.peak) {
      lowest = std::move(info);
      best = std::move(order);
    }
  if (hasCollectives(graph))
    lowerForward(graph, best, lowest);
  return {std::move(best), std::move(lowest)};
}

/// Sets of kernels that the exact search may look at for one order of `graph`;
/// 0 where they would not be worth the time to make a stretch ready.
static int64_t getSets(const KernelGraph &graph, int64_t work) {
  int64_t count = std::max<int64_t>(graph.kernels.size(), 1);
  int64_t sets = std::min(kMaxSets, work / count / count);
  return sets > count / 16 + kMaxStretch ? sets : 0;
}

std::vector<int> mlir::fp8::scheduleByStretches(const KernelGraph &graph) {
  auto [order, info] = scheduleRoughly(graph);
  improveStretches(graph, order, info, getFloor(graph, order, info));
  return std::move(order);
}

bool mlir::fp8::isOrderImproved(const KernelGraph &graph) {
  return getSets(graph, kMaxOrderWork) > 0;
}

std::vector<int> mlir::fp8::schedule(const KernelGraph &graph) {
  auto [order, info] = scheduleRoughly(graph);
  improveSchedule(graph, order, info, getFloor(graph, order, info));
  return std::move(order);
}

int64_t mlir::fp8::getFloor(const KernelGraph &graph, ArrayRef<int> order,
                            const PeakInfo &info) {
  if (!isLong(graph))
    return 0;
  return getPeakBound(graph, info.peakKernel < 0 ? -1 : order[info.peakKernel]);
}

void mlir::fp8::improveStretches(const KernelGraph &graph,
                                 std::vector<int> &order, PeakInfo &info,
                                 int64_t floor) {
  if (isOrderImproved(graph))
    improveOrder(graph, order, info, getSets(graph, kMaxOrderWork), floor,
                 std::numeric_limits<int64_t>::max());
}

void mlir::fp8::finishSchedule(const KernelGraph &graph,
                               std::vector<int> &order, PeakInfo &info,
                               int64_t floor) {
  if (!isLong(graph))
    return;
  int rounds = isOrderImproved(graph) ? kMaxRounds : 1;
  for (int round = 0; round < rounds && info.peak > floor; ++round) {
    if (!clearPeaks(graph, order, info))
      return;
    improveStretches(graph, order, info, floor);
  }
}

void mlir::fp8::improveSchedule(const KernelGraph &graph,
                                std::vector<int> &order, PeakInfo &info,
                                int64_t floor) {
  improveStretches(graph, order, info, floor);
  finishSchedule(graph, order, info, floor);
}

bool mlir::fp8::mayGetBelow(const KernelGraph &graph, std::vector<int> order,
                            PeakInfo info, int64_t floor, int64_t bar) {
  // Any order below the bar will do.
  improveOrder(graph, order, info, getSets(graph, kMaxTrialWork),
               std::max(floor, bar - 1), bar);
  return info.peak < bar;
}
