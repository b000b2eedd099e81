//===- OrderSearch.cpp - the best order of a few kernels --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stretch of an order is made again with a peak below a bar, over and over
// with a lower bar, until no order of it is below: a search over the sets of
// its kernels that have run, depth first, each set once. Two rules keep the
// sets few, and lose no order that is better than what they leave:
//
//  * A kernel that leaves more than it may free waits for the first that needs
//    it. Until then it would only stand above all others; and with what it
//    leaves the one that needs it has a peak as high.
//  * A kernel that stays below the bar, and with those that wait for it leaves
//    no more than it frees, runs at once. What is live is submodular in what
//    has run: nothing that runs later is higher for it.
//
// The number of sets is limited, so the result does not depend on a clock;
// where the limit is reached the order stays as far as it has come.
//
//===----------------------------------------------------------------------===//

#include "OrderSearch.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/bit.h"
#include <limits>

using namespace mlir;
using namespace mlir::fp8;

namespace {

class StretchOrderer {
public:
  StretchOrderer(const KernelGraph &graph, ArrayRef<int> order, int begin,
                 int end);

  /// The order of the stretch with the lowest peak below `bar`, or any with
  /// one that is not above `goal`, as far as `work` sets show it; empty where
  /// they show none below `bar`.
  std::vector<int> run(int64_t bar, int64_t goal, int64_t &work);

private:
  using Set = uint64_t;
  static constexpr Set only(int kernel) { return Set(1) << kernel; }

  /// Fills what says which kernels wait for others.
  void findWaiting();
  /// By how much `kernel` changes what is live, once it has run too.
  int64_t getGrowth(Set after, int kernel);
  /// Runs `kernel` and those that have waited for it: adds them to `done` and
  /// what they leave to `live`. Returns the most that is live meanwhile.
  int64_t step(int kernel, Set &done, int64_t &live);
  /// True where `path` goes on, from where `done` have run and `ready` may run
  /// next, to the end below `bar`.
  bool search(Set done, Set ready, int64_t live, int64_t bar, int64_t &work);

  SmallVector<int> kernels; ///< of the stretch
  SmallVector<Set> preds;
  Set waiting = 0; ///< kernels that wait for the first that needs them
  /// By kernel: those that wait for it, those that must have run before it and
  /// do not wait, and for which ones it does so.
  SmallVector<Set> waitingFor, needed, neededBy;
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
  SmallVector<int, 64> path; ///< kernels that have run, but for waiting ones
  /// Sets from which no path is below the lowest bar so far. None is one of the
  /// two keys with all bits that a DenseSet reserves. Looked up only.
  DenseSet<Set> failed;
};

StretchOrderer::StretchOrderer(const KernelGraph &graph, ArrayRef<int> order,
                               int begin, int end)
    : kernels(order.slice(begin, end - begin)), preds(end - begin, 0),
      ends(end - begin), need(end - begin, 0), left(end - begin, 0) {
  const Program &program = *graph.program;
  DenseMap<int, int> place; // looked up only
  for (auto [index, kernel] : llvm::enumerate(kernels))
    place[kernel] = index;
  for (auto [index, kernel] : llvm::enumerate(kernels))
    for (int pred : graph.kernels[kernel].preds)
      if (auto it = place.find(pred); it != place.end())
        preds[index] |= only(it->second);
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
  findWaiting();
}

void StretchOrderer::findWaiting() {
  int count = kernels.size();
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  // The least that a kernel which needs this one takes to run.
  SmallVector<int64_t> leastNeed(count, kNone);
  for (int kernel = 0; kernel < count; ++kernel)
    for (Set rest = preds[kernel]; rest; rest &= rest - 1) {
      int64_t &least = leastNeed[llvm::countr_zero(rest)];
      least = std::min(least, need[kernel]);
    }
  waitingFor.assign(count, 0);
  needed.assign(count, 0);
  neededBy.assign(count, 0);
  for (int kernel = 0; kernel < count; ++kernel) {
    for (Set rest = preds[kernel]; rest; rest &= rest - 1) {
      int pred = llvm::countr_zero(rest);
      if (waiting & only(pred)) {
        waitingFor[kernel] |= waitingFor[pred] | only(pred);
        needed[kernel] |= needed[pred];
      } else {
        needed[kernel] |= only(pred);
      }
    }
    int64_t freed = 0;
    for (int id : ends[kernel])
      freed += roots[id].bytes;
    if (leastNeed[kernel] != kNone && freed <= left[kernel] &&
        need[kernel] + freed <= left[kernel] + leastNeed[kernel]) {
      waiting |= only(kernel);
      continue;
    }
    for (Set rest = needed[kernel]; rest; rest &= rest - 1)
      neededBy[llvm::countr_zero(rest)] |= only(kernel);
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

int64_t StretchOrderer::step(int kernel, Set &done, int64_t &live) {
  int64_t highest = 0;
  auto runOne = [&](int one) {
    highest = std::max(highest, live + need[one]);
    done |= only(one);
    live += getGrowth(done, one);
  };
  for (Set rest = waitingFor[kernel] & ~done; rest; rest &= rest - 1)
    runOne(llvm::countr_zero(rest));
  runOne(kernel);
  return highest;
}

bool StretchOrderer::search(Set done, Set ready, int64_t live, int64_t bar,
                            int64_t &work) {
  if (!ready)
    return true;
  if (failed.contains(done) || --work < 0)
    return false;
  struct Next {
    int kernel;
    Set done;
    int64_t live;
  };
  // The one that leaves the least behind goes first.
  SmallVector<Next, 16> nexts;
  for (Set rest = ready; rest; rest &= rest - 1) {
    Next next = {llvm::countr_zero(rest), done, live};
    if (step(next.kernel, next.done, next.live) >= bar)
      continue;
    if (next.live <= live) {
      nexts.assign(1, next);
      break;
    }
    nexts.insert(llvm::lower_bound(nexts, next,
                                   [](const Next &a, const Next &b) {
                                     return a.live < b.live;
                                   }),
                 next);
  }
  for (const Next &next : nexts) {
    Set then = ready & ~only(next.kernel);
    for (Set rest = neededBy[next.kernel]; rest; rest &= rest - 1)
      if (int kernel = llvm::countr_zero(rest); !(needed[kernel] & ~next.done))
        then |= only(kernel);
    path.push_back(next.kernel);
    if (search(next.done, then, next.live, bar, work))
      return true;
    path.pop_back();
    if (work < 0)
      return false;
  }
  failed.insert(done);
  return false;
}

std::vector<int> StretchOrderer::run(int64_t bar, int64_t goal, int64_t &work) {
  Set first = 0;
  for (int kernel = 0, count = kernels.size(); kernel < count; ++kernel)
    if (!(waiting & only(kernel)) && !needed[kernel])
      first |= only(kernel);
  std::vector<int> order;
  while (bar > goal) {
    path.clear();
    if (!search(0, first, liveBefore, bar, work))
      break;
    order.clear();
    Set done = 0;
    int64_t live = liveBefore, peak = 0;
    for (int kernel : path) {
      for (Set rest = waitingFor[kernel] & ~done; rest; rest &= rest - 1)
        order.push_back(kernels[llvm::countr_zero(rest)]);
      order.push_back(kernels[kernel]);
      peak = std::max(peak, step(kernel, done, live));
    }
    bar = peak;
  }
  return order;
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
    // What is as high elsewhere stays.
    int64_t goal = floor;
    for (int place = 0; place < numKernels; ++place)
      if (place < begin || place >= end)
        goal = std::max(goal, reached.live[place]);
    std::vector<int> better;
    if (left > 0)
      better = StretchOrderer(graph, current, begin, end)
                   .run(std::min(reached.peak, bar), goal, left);
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
