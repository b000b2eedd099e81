//===- Packing.cpp - offsets in one arena -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of attack: the load bound, the greedy orders, the exact search.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir::fp8;
using namespace mlir::fp8::packing;

/// With more conflicts than this, a packing within half a percent of the load
/// is left as it is, and with very many there is no time and no memory for
/// more.
static constexpr size_t kManyConflicts = 2'000'000, kMaxConflicts = 50'000'000;

/// Looks for a packing of `items` lower than `height`, which it lowers with its
/// `offsets`, down to `goal`. Raises `bound`, which no packing is below.
static void improve(std::vector<PackItem> items, int64_t goal,
                    const PackOptions &options, std::vector<int64_t> &offsets,
                    int64_t &height, int64_t &bound) {
  Problem problem(std::move(items));
  std::vector<int64_t> candidate;
  if (int64_t greedy = packGreedily(problem, goal, candidate);
      greedy < height) {
    height = greedy;
    offsets = std::move(candidate);
  }

  int64_t nodes = options.nodeLimit, givenUp = bound - 1;
  // Spends up to `share` nodes on `target`.
  auto aimAt = [&](int64_t target, int64_t share) {
    nodes -= share;
    Outcome outcome = search(problem, target, share, offsets);
    nodes += share;
    if (outcome == Outcome::Found) {
      height = 0;
      for (auto [item, offset] : llvm::zip_equal(problem.items, offsets))
        height = std::max(height, offset + item.size);
      return;
    }
    givenUp = std::max(givenUp, target);
    if (outcome == Outcome::Infeasible)
      bound = std::max(bound, target + 1);
  };
  if (options.capacity >= 0) {
    if (height > goal && nodes > 0)
      aimAt(goal, nodes);
    return;
  }
  // The goal is found in few nodes or in very many. What is a little above it
  // takes far fewer, so most nodes go there where the best so far is higher,
  // after a few for what is easier still.
  const int64_t easy = goal + goal / 50, near = goal + goal * 9 / 1000;
  if (height > goal && nodes > 0)
    aimAt(goal, height > near ? nodes / 8 + 1 : nodes / 2 + 1);
  if (height > easy && nodes > 0 && givenUp < easy)
    aimAt(easy, nodes / 4 + 1);
  if (height > near && nodes > 0 && givenUp < near)
    aimAt(near, nodes - nodes / 4);
  // Then halve what lies between the best packing and the heights that were
  // proved impossible or given up.
  while (height > goal && height - 1 > givenUp && nodes > 0)
    aimAt(givenUp + 1 + (height - 1 - givenUp) / 2, (nodes + 1) / 2);
}

PackResult mlir::fp8::pack(llvm::ArrayRef<PackItem> items,
                           const PackOptions &options) {
  PackResult result;
  result.offsets.assign(items.size(), 0);
  const int64_t unit = std::max<int64_t>(options.alignment, 1);

  // With sizes in units of the alignment every offset is aligned by itself.
  std::vector<PackItem> kept;
  std::vector<size_t> origin;
  for (auto [index, item] : llvm::enumerate(items)) {
    if (item.size <= 0 || item.lower >= item.upper)
      continue;
    kept.push_back(item);
    kept.back().size = llvm::divideCeil(static_cast<uint64_t>(item.size),
                                        static_cast<uint64_t>(unit));
    origin.push_back(index);
  }
  if (kept.empty()) {
    result.provedOptimal = true;
    return result;
  }

  Load load = getLoad(kept);
  int64_t bound = load.most;
  int64_t goal = bound;
  if (options.capacity >= 0)
    goal = std::max(goal, options.capacity / unit);
  std::vector<int64_t> offsets;
  int64_t height = packFromBothEnds(kept, goal, offsets);
  bool isClose = load.conflicts > kManyConflicts && height - goal <= goal / 200;
  if (height > goal && !isClose && load.conflicts <= kMaxConflicts)
    improve(kept, goal, options, offsets, height, bound);

  for (auto [item, offset] : llvm::zip_equal(origin, offsets))
    result.offsets[item] = offset * unit;
  result.height = height * unit;
  result.lowerBound = bound * unit;
  result.provedOptimal = height == bound;
  return result;
}
