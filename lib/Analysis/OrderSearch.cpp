//===- OrderSearch.cpp - the best order of a few kernels --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stretch of an order is made again with a peak below a bar, over and over
// with a lower bar, until no order of it is below: a search over the sets of
// its kernels that have run, depth first, each set once. A kernel that stays
// below the bar, and leaves no more behind than it frees, runs at once: running
// others first helps none of them. The number of sets is limited, so the result
// does not depend on a clock; where the limit is reached the order stays as it
// was.
//
//===----------------------------------------------------------------------===//

#include "OrderSearch.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace mlir::fp8;

namespace {

class StretchOrderer {
public:
  StretchOrderer(const KernelGraph &graph, ArrayRef<int> order, int begin,
                 int end);

  /// An order of the stretch with a peak below `bar`; empty where there is
  /// none, or `work` sets were not enough.
  std::vector<int> run(int64_t bar, int64_t &work);

private:
  using Set = uint64_t;
  static constexpr Set only(int kernel) { return Set(1) << kernel; }

  /// By how much `kernel` changes what is live, once it has run too.
  int64_t getGrowth(Set after, int kernel);

  /// The sets that have run and may run next on a path, and the kernel that ran
  /// last.
  struct Path {
    Set done = 0, ready = 0;
    int parent = -1, kernel = -1;
  };
  /// A path and a kernel that may go on with it: what would be live then.
  struct Step {
    int64_t live = 0;
    int path = -1, kernel = -1;
  };

  SmallVector<int> kernels; ///< of the stretch
  SmallVector<Set> preds, succs;
  /// Of the roots that are born or die in the stretch.
  struct Root {
    int64_t bytes = 0;
    Set readers = 0;    ///< kernels of the stretch that hold it
    bool stays = false; ///< something after the stretch needs it
  };
  std::vector<Root> roots;
  SmallVector<SmallVector<int, 4>>
      ends; ///< by kernel: roots that may end there
  /// By kernel: the bytes that it needs to run, and those of its results that
  /// are left whatever has run before.
  SmallVector<int64_t> need, left;
  /// By kernel: what else reads the roots that may end there, and the growth
  /// for those of them that had run when it was last asked for.
  struct Growth {
    Set readers = 0, known = ~Set(0);
    int64_t bytes = 0;
  };
  SmallVector<Growth> growths;
  int64_t liveBefore = 0;
};

StretchOrderer::StretchOrderer(const KernelGraph &graph, ArrayRef<int> order,
                               int begin, int end)
    : kernels(order.slice(begin, end - begin)), preds(end - begin, 0),
      succs(end - begin, 0), ends(end - begin), need(end - begin, 0),
      left(end - begin, 0) {
  const Program &program = *graph.program;
  DenseMap<int, int> place; // looked up only
  for (auto [index, kernel] : llvm::enumerate(kernels))
    place[kernel] = index;
  for (auto [index, kernel] : llvm::enumerate(kernels))
    for (int pred : graph.kernels[kernel].preds)
      if (auto it = place.find(pred); it != place.end()) {
        preds[index] |= only(it->second);
        succs[it->second] |= only(index);
      }
  std::vector<LiveRange> ranges = getLiveRanges(graph, order);
  DenseMap<int, int> known; // looked up only
  auto getRoot = [&](int root) {
    auto [it, inserted] = known.try_emplace(root, roots.size());
    if (inserted) {
      const PlanValue &value = program.graphValue(root);
      const LiveRange &range = ranges[root];
      bool crosses = range.first < graph.firstBackward &&
                     range.getLastUse() >= graph.firstBackward;
      roots.push_back(
          {value.bytes * (crosses || value.escapes ? value.copies : 1), 0,
           value.escapes || range.getLastUse() >= end});
    }
    return it->second;
  };
  SmallVector<SmallVector<int, 4>> made(kernels.size());
  for (auto [index, kernel] : llvm::enumerate(kernels)) {
    const KernelNode &node = graph.kernels[kernel];
    for (int output : node.outputs)
      made[index].push_back(getRoot(output));
    auto hold = [&](int root) {
      if (ranges[root].first < 0)
        return; // No storage that the step allocates.
      int id = getRoot(root);
      if (!(roots[id].readers & only(index)) && !roots[id].stays)
        ends[index].push_back(id);
      roots[id].readers |= only(index);
    };
    llvm::for_each(node.reads, hold);
    llvm::for_each(node.holds, hold);
  }
  for (auto [index, kernel] : llvm::enumerate(kernels)) {
    need[index] = graph.kernels[kernel].workspace;
    for (int id : made[index]) {
      need[index] += roots[id].bytes;
      if (roots[id].stays || (roots[id].readers & ~only(index)))
        left[index] += roots[id].bytes;
    }
  }
  growths.resize(kernels.size());
  for (auto [index, list] : llvm::enumerate(ends))
    for (int id : list)
      growths[index].readers |= roots[id].readers;
  // What is live before the stretch: of what it does not touch, only the sum
  // matters, and that nothing of it dies here.
  for (auto [root, range] : llvm::enumerate(ranges)) {
    if (range.first < 0 || range.first >= begin || range.getLastUse() < begin)
      continue;
    const PlanValue &value = program.graphValue(root);
    bool crosses = range.first < graph.firstBackward &&
                   range.getLastUse() >= graph.firstBackward;
    liveBefore += value.bytes * (crosses || value.escapes ? value.copies : 1);
  }
}

int64_t StretchOrderer::getGrowth(Set after, int kernel) {
  Growth &growth = growths[kernel];
  if (growth.known == (after & growth.readers))
    return growth.bytes;
  growth.known = after & growth.readers;
  growth.bytes = left[kernel];
  for (int id : ends[kernel])
    if (!(roots[id].readers & ~after))
      growth.bytes -= roots[id].bytes;
  return growth.bytes;
}

std::vector<int> StretchOrderer::run(int64_t bar, int64_t &work) {
  int count = kernels.size();
  Set all = only(count) - 1, first = 0;
  for (int kernel = 0; kernel < count; ++kernel)
    if (!preds[kernel])
      first |= only(kernel);
  std::vector<Path> paths;
  std::vector<Step> stack = {{liveBefore, -1, -1}};
  SmallVector<Step, 16> nexts;
  // No set is one of the two keys with all bits that it reserves.
  DenseSet<Set> seen; // looked up only
  while (!stack.empty()) {
    Step step = stack.back();
    stack.pop_back();
    Path path = {0, first, step.path, step.kernel};
    if (step.kernel >= 0) {
      path.done = paths[step.path].done | only(step.kernel);
      if (!seen.insert(path.done).second)
        continue;
      path.ready = paths[step.path].ready & ~only(step.kernel);
      for (Set rest = succs[step.kernel]; rest; rest &= rest - 1)
        if (int kernel = llvm::countr_zero(rest); !(preds[kernel] & ~path.done))
          path.ready |= only(kernel);
    }
    int id = paths.size();
    paths.push_back(path);
    if (path.done == all) {
      std::vector<int> order;
      for (; paths[id].parent >= 0; id = paths[id].parent)
        order.push_back(kernels[paths[id].kernel]);
      std::reverse(order.begin(), order.end());
      return order;
    }
    if (--work < 0)
      return {};
    nexts.clear();
    for (Set rest = path.ready; rest; rest &= rest - 1) {
      int kernel = llvm::countr_zero(rest);
      if (step.live + need[kernel] >= bar)
        continue;
      int64_t growth = getGrowth(path.done | only(kernel), kernel);
      Step next = {step.live + growth, id, kernel};
      if (growth <= 0) {
        nexts.assign(1, next);
        break;
      }
      // The one that leaves the least behind goes on first: it stands last.
      auto place =
          llvm::upper_bound(nexts, next, [](const Step &a, const Step &b) {
            return a.live > b.live;
          });
      nexts.insert(place, next);
    }
    stack.insert(stack.end(), nexts.begin(), nexts.end());
  }
  return {};
}

} // namespace

/// Kernels of a stretch where one of kMaxStretch takes too long.
constexpr int kShortStretch = 16;

/// The kernels at which as many bytes are live as at the peak.
static int64_t countPeaks(const PeakInfo &info) {
  return llvm::count(info.live, info.peak);
}

void mlir::fp8::improveOrder(const KernelGraph &graph, std::vector<int> &order,
                             PeakInfo &info, int64_t work, int64_t floor,
                             int64_t bar) {
  int numKernels = order.size();
  // Several stretches may have one peak: each is ordered, and what comes of it
  // is taken where the last one is lower too.
  std::vector<int> current = order;
  PeakInfo reached = info;
  // Where a whole stretch takes too long, shorter ones may not. Only where
  // there are collectives, whose chain keeps the rough orders apart from good
  // ones: for others the selection knows what the order of a policy comes to.
  bool isThorough = hasCollectives(graph);
  int64_t spare = isThorough ? work / 4 : 0;
  int stretch = kMaxStretch;
  while (reached.peak > floor && reached.peakKernel >= 0) {
    int64_t &left = stretch == kMaxStretch ? work : spare;
    if (left <= 0 && stretch < kMaxStretch)
      return;
    bool backward = reached.peakKernel >= graph.firstBackward;
    int begin = backward ? graph.firstBackward : 0;
    int end = backward ? numKernels : graph.firstBackward;
    if (end - begin > stretch) {
      begin =
          std::clamp(reached.peakKernel - stretch / 2, begin, end - stretch);
      end = begin + stretch;
    }
    // To make the stretch ready takes time by the size of the program.
    left -= numKernels / 16;
    std::vector<int> better;
    if (left > 0)
      better = StretchOrderer(graph, current, begin, end)
                   .run(std::min(reached.peak, bar), left);
    std::vector<int> next = current;
    llvm::copy(better, next.begin() + begin);
    // What is written in place depends on the order.
    PeakInfo found = better.empty() ? PeakInfo() : simulate(graph, next);
    if (better.empty() || found.peak > reached.peak ||
        (found.peak == reached.peak &&
         (!isThorough || countPeaks(found) >= countPeaks(reached)))) {
      if (stretch == kShortStretch)
        return;
      stretch = kShortStretch;
      continue;
    }
    current = std::move(next);
    reached = std::move(found);
    if (reached.peak < info.peak) {
      order = current;
      info = reached;
    }
  }
}
