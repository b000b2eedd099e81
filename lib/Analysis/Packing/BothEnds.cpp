//===- BothEnds.cpp - packing what lives long at the two ends ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A training step keeps values from forward to backward, which end in the
// reverse order of their start, and makes gradients that stay to the end. The
// first are stacked on the floor, the latter hung from the ceiling, each
// without looking at pairs of items; what lives shortly goes between. Where
// lifetimes are so, this is as low as the load, in O(n log n) for any number of
// items that are live together.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <numeric>
#include <tuple>

using namespace mlir::fp8;
using namespace mlir::fp8::packing;

namespace {

/// Maxima over ranges of times, which only rise.
class Skyline {
public:
  explicit Skyline(int times)
      : leaves(llvm::PowerOf2Ceil(std::max(times, 1))), most(2 * leaves, 0),
        raised(2 * leaves, 0) {}

  int64_t getMax(int lower, int upper) const {
    return getMax(1, 0, leaves, lower, upper);
  }
  /// Raises [lower, upper) to at least `height`.
  void raise(int lower, int upper, int64_t height) {
    raise(1, 0, leaves, lower, upper, height);
  }

private:
  int64_t getMax(int node, int begin, int end, int lower, int upper) const {
    if (upper <= begin || end <= lower)
      return 0;
    if (lower <= begin && end <= upper)
      return most[node];
    int middle = (begin + end) / 2;
    return std::max({raised[node],
                     getMax(2 * node, begin, middle, lower, upper),
                     getMax(2 * node + 1, middle, end, lower, upper)});
  }
  void raise(int node, int begin, int end, int lower, int upper,
             int64_t height) {
    if (upper <= begin || end <= lower)
      return;
    most[node] = std::max(most[node], height);
    if (lower <= begin && end <= upper) {
      raised[node] = std::max(raised[node], height);
      return;
    }
    int middle = (begin + end) / 2;
    raise(2 * node, begin, middle, lower, upper, height);
    raise(2 * node + 1, middle, end, lower, upper, height);
  }

  int leaves;
  std::vector<int64_t> most;   ///< the maximum below a node
  std::vector<int64_t> raised; ///< what the whole range of a node is raised to
};

/// An item with its times numbered.
struct Item {
  int lower = 0, upper = 0;
  int64_t size = 0;
  int width() const { return upper - lower; }
};

class BothEnds {
public:
  explicit BothEnds(llvm::ArrayRef<PackItem> given);

  /// Packs with items of more than `limit` times at the ends; the height, or
  /// nothing where too many of the others are live together.
  std::optional<int64_t> pack(int limit, bool largestFirst,
                              std::vector<int64_t> &offsets);

private:
  std::vector<Item> items;
  int numTimes = 0;
};

} // namespace

/// Pairs of short items that are live together: beyond, the rest is too dense.
static constexpr size_t kMaxPairs = 4'000'000;

BothEnds::BothEnds(llvm::ArrayRef<PackItem> given) {
  std::vector<int64_t> times;
  for (const PackItem &item : given) {
    times.push_back(item.lower);
    times.push_back(item.upper);
  }
  llvm::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto number = [&](int64_t time) {
    return static_cast<int>(llvm::lower_bound(times, time) - times.begin());
  };
  for (const PackItem &item : given)
    items.push_back({number(item.lower), number(item.upper), item.size});
  numTimes = static_cast<int>(times.size()) - 1;
}

std::optional<int64_t> BothEnds::pack(int limit, bool largestFirst,
                                      std::vector<int64_t> &offsets) {
  std::vector<int> floor, ceiling, between;
  for (int i = 0, e = static_cast<int>(items.size()); i < e; ++i)
    (items[i].upper == numTimes ? ceiling
     : items[i].width() > limit ? floor
                                : between)
        .push_back(i);
  llvm::sort(floor, [&](int a, int b) {
    return std::tuple(-items[a].upper, items[a].lower, a) <
           std::tuple(-items[b].upper, items[b].lower, b);
  });
  llvm::sort(ceiling, [&](int a, int b) {
    return std::pair(items[a].lower, a) < std::pair(items[b].lower, b);
  });
  offsets.assign(items.size(), -1);
  Skyline low(numTimes), high(numTimes);
  auto stack = [&](Skyline &skyline, int i) {
    const Item &item = items[i];
    offsets[i] = skyline.getMax(item.lower, item.upper);
    skyline.raise(item.lower, item.upper, offsets[i] + item.size);
  };
  for (int i : floor)
    stack(low, i);
  for (int i : ceiling)
    stack(high, i);
  int64_t height = 0;
  for (int time = 0; time < numTimes; ++time)
    height = std::max(height,
                      low.getMax(time, time + 1) + high.getMax(time, time + 1));

  // Who is live together with whom among the others.
  llvm::sort(between, [&](int a, int b) {
    return std::pair(items[a].lower, a) < std::pair(items[b].lower, b);
  });
  std::vector<std::vector<int>> neighbours(items.size());
  size_t pairs = 0;
  std::vector<int> live;
  for (int i : between) {
    llvm::erase_if(
        live, [&](int other) { return items[other].upper <= items[i].lower; });
    for (int other : live) {
      neighbours[i].push_back(other);
      neighbours[other].push_back(i);
    }
    pairs += live.size();
    if (pairs > kMaxPairs)
      return std::nullopt;
    live.push_back(i);
  }
  llvm::sort(between, [&](int a, int b) {
    auto key = [&](int i) {
      int64_t size = items[i].size, width = items[i].width();
      return largestFirst ? std::tuple(-size, -width, i)
                          : std::tuple(-width, -size, i);
    };
    return key(a) < key(b);
  });
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (int i : between) {
    const Item &item = items[i];
    taken.clear();
    for (int other : neighbours[i])
      if (offsets[other] >= 0)
        taken.emplace_back(offsets[other], offsets[other] + items[other].size);
    llvm::sort(taken);
    int64_t place = low.getMax(item.lower, item.upper);
    for (auto [begin, end] : taken) {
      if (begin - place >= item.size)
        break;
      place = std::max(place, end);
    }
    offsets[i] = place;
    height = std::max(height,
                      place + item.size + high.getMax(item.lower, item.upper));
  }
  for (int i : ceiling)
    offsets[i] = height - offsets[i] - items[i].size;
  return height;
}

int64_t packing::packFromBothEnds(llvm::ArrayRef<PackItem> items, int64_t goal,
                                  std::vector<int64_t> &offsets) {
  BothEnds packer(items);
  int64_t best = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> candidate;
  for (int limit : {8, 32, 128, 512})
    for (bool largestFirst : {false, true}) {
      std::optional<int64_t> height =
          packer.pack(limit, largestFirst, candidate);
      // Then all of them are stacked.
      if (!height && offsets.empty())
        return *packer.pack(0, largestFirst, offsets);
      if (!height)
        return best;
      if (*height < best) {
        best = *height;
        offsets = candidate;
      }
      if (best <= goal)
        return best;
    }
  return best;
}
