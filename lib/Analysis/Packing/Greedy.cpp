//===- Greedy.cpp - packing in a static order -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places the items one after the other, each in a gap between the items already
// placed that are live together with it, or on top of them. No order is best on
// all inputs, and each is cheap, so several are tried.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <array>
#include <numeric>

using namespace mlir::fp8;
using namespace mlir::fp8::packing;

namespace {

enum class Fit { First, Best };

/// What an order sorts by, most significant first, each descending. Ties end at
/// the larger size, then the lower number.
using Key = std::array<int64_t, 3>;

constexpr int kOrders = 7;

/// After this many visited conflicts no further order is started, so that a
/// program of ten thousand buffers is still packed in a second or so.
constexpr int64_t kMaxVisits = 50'000'000;

Key getKey(const Problem &problem, int order, int item) {
  const PackItem &it = problem.items[item];
  int64_t width = it.upper - it.lower;
  // Areas are only compared, so precision may go.
  double area = static_cast<double>(width) * static_cast<double>(it.size);
  int64_t scaledArea = static_cast<int64_t>(std::min(area, 9.0e18));
  switch (order) {
  case 0:
    // Exact on nested lifetimes, which a training step is close to.
    return {width, it.size, 0};
  case 1:
    return {it.size, width, 0};
  case 2:
    return {scaledArea, it.size, 0};
  case 3:
    return {-it.lower, it.size, width};
  case 4:
    return {it.upper, it.size, width};
  case 5:
    return {problem.loadAround[item], it.size, width};
  default:
    return {problem.loadAround[item], width, it.size};
  }
}

/// Places all items in `order`; returns the height.
int64_t place(const Problem &problem, llvm::ArrayRef<int> order, Fit fit,
              std::vector<int64_t> &offsets) {
  offsets.assign(problem.size(), -1);
  std::vector<std::pair<int64_t, int64_t>> taken;
  int64_t height = 0;
  for (int item : order) {
    int64_t size = problem.items[item].size;
    taken.clear();
    for (int other : problem.neighbours(item))
      if (offsets[other] >= 0)
        taken.emplace_back(offsets[other],
                           offsets[other] + problem.items[other].size);
    llvm::sort(taken);
    int64_t top = 0, best = -1, bestGap = 0;
    for (auto [begin, end] : taken) {
      int64_t gap = begin - top;
      if (gap >= size && (best < 0 || gap < bestGap)) {
        best = top;
        bestGap = gap;
        if (fit == Fit::First)
          break;
      }
      top = std::max(top, end);
    }
    offsets[item] = best < 0 ? top : best;
    height = std::max(height, offsets[item] + size);
  }
  return height;
}

} // namespace

int64_t packing::packGreedily(const Problem &problem, int64_t goal,
                              std::vector<int64_t> &offsets) {
  int64_t best = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> candidate;
  std::vector<int> order(problem.size());
  std::vector<Key> keys(problem.size());
  int64_t visits = 0;
  for (int which = 0; which < kOrders; ++which) {
    for (int i = 0; i < problem.size(); ++i)
      keys[i] = getKey(problem, which, i);
    std::iota(order.begin(), order.end(), 0);
    llvm::sort(order, [&](int a, int b) {
      return keys[a] != keys[b] ? keys[a] > keys[b] : a < b;
    });
    for (Fit fit : {Fit::First, Fit::Best}) {
      int64_t height = place(problem, order, fit, candidate);
      if (height < best) {
        best = height;
        offsets = candidate;
      }
      visits += static_cast<int64_t>(problem.conflictCount());
      if (best <= goal || visits > kMaxVisits)
        return best;
    }
  }
  return best;
}
