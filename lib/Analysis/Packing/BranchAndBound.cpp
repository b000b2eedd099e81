//===- BranchAndBound.cpp - exact packing -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides whether a packing within a capacity exists. If one does, there is one
// with the least sum of offsets, in which every item rests on the floor or on
// another item. The search builds that one from the bottom up, placing items in
// the order of (offset, number), each at its lowest place above what is placed.
// Everything that such a packing cannot have is pruned:
//
// * an item passed by must come to rest on an item that is still to be placed;
// * no hole may be left into which an unplaced item would fit;
// * at each time, the items that can only come to lie at some height or above
//   it must fit between it and the capacity;
// * of items with equal size and lifetime the first goes lower.
//
// Items that no unplaced item connects in time are searched apart, so that a
// failure in one part never repeats the search of another.
//
// How long a search takes depends on the order by which it chooses among equal
// offsets, by orders of magnitude. So turns of a few fixed orders, which grow
// and can prove that there is no packing, alternate with many short ones in
// random orders. Those also jump back: an item that is not live at any time
// that a failure concerns is not tried elsewhere. They only find packings.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <numeric>

using namespace mlir::fp8;
using namespace mlir::fp8::packing;

namespace {

/// A placed item, as the lower end of what may follow.
struct Last {
  int offset;
  int item;
};

/// Sections of time, `start` up to `end`.
struct Window {
  int start = std::numeric_limits<int>::max();
  int end = 0;

  void add(int otherStart, int otherEnd) {
    start = std::min(start, otherStart);
    end = std::max(end, otherEnd);
  }
};

/// The search in one static order. Items are numbered by their rank in it.
/// With `jumpsBack` a failure is no proof.
class Search {
public:
  Search(const Problem &problem, llvm::ArrayRef<int> order, int capacity,
         int unit, int64_t nodeLimit, bool jumpsBack);

  Outcome run();

  /// Offsets by rank, once found.
  std::vector<int> offset;
  int64_t nodes = 0;

private:
  Outcome solve(llvm::ArrayRef<int> items, Last last);
  Outcome solveParts(llvm::ArrayRef<int> items, Last last);
  bool bound(llvm::ArrayRef<int> items, Last last, int &lowestTop);
  /// Adds the time of `item` and of the unplaced items it is live with to
  /// `failure`.
  void blame(int item);
  bool place(int item, int at);
  void undo(size_t placedCount);

  const int capacity;
  const int64_t nodeLimit;
  const bool jumpsBack;
  /// When the last failure is about: what is live at no such time has no part
  /// in it.
  Window failure;
  int count;
  std::vector<int> size, start, end; // start and end are sections
  std::vector<int> twin;             // an equal item of lower rank, or -1
  std::vector<std::vector<int>> neighbours;

  std::vector<char> placed;
  /// The lowest place of an item above what is placed.
  std::vector<int> rest;
  /// The lowest place where it can come to lie, set by bound().
  std::vector<int> low;
  /// Per section: unplaced items that are live in it and in the one before.
  std::vector<int> crossing;
  /// Scratch of bound(): items from the top down, and their sizes per section.
  std::vector<std::pair<int, int>> stack;
  std::vector<int> above;

  /// What undo() restores.
  std::vector<int> placedStack;
  std::vector<size_t> restMark;
  std::vector<std::pair<int, int>> restTrail;
};

} // namespace

Search::Search(const Problem &problem, llvm::ArrayRef<int> order, int capacity,
               int unit, int64_t nodeLimit, bool jumpsBack)
    : capacity(capacity), nodeLimit(nodeLimit), jumpsBack(jumpsBack),
      count(problem.size()) {
  std::vector<int64_t> times;
  for (const PackItem &item : problem.items) {
    times.push_back(item.lower);
    times.push_back(item.upper);
  }
  llvm::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto section = [&](int64_t time) {
    return static_cast<int>(llvm::lower_bound(times, time) - times.begin());
  };
  std::vector<int> rank(count);
  for (auto [position, item] : llvm::enumerate(order))
    rank[item] = static_cast<int>(position);
  neighbours.resize(count);
  for (int item : order) {
    const PackItem &it = problem.items[item];
    size.push_back(static_cast<int>(it.size / unit));
    start.push_back(section(it.lower));
    end.push_back(section(it.upper));
    std::vector<int> &list = neighbours[rank[item]];
    for (int other : problem.neighbours(item))
      list.push_back(rank[other]);
    llvm::sort(list);
  }
  twin.assign(count, -1);
  std::vector<int> byShape(count);
  std::iota(byShape.begin(), byShape.end(), 0);
  auto shape = [&](int i) {
    return std::make_tuple(start[i], end[i], size[i], i);
  };
  llvm::sort(byShape, [&](int a, int b) { return shape(a) < shape(b); });
  for (int i = 1; i < count; ++i) {
    int a = byShape[i - 1], b = byShape[i];
    if (start[a] == start[b] && end[a] == end[b] && size[a] == size[b])
      twin[b] = a;
  }
  offset.assign(count, 0);
  placed.assign(count, 0);
  rest.assign(count, 0);
  low.assign(count, 0);
  crossing.assign(times.size() + 1, 0);
  above.assign(times.size(), 0);
  for (int i = 0; i < count; ++i)
    for (int s = start[i] + 1; s < end[i]; ++s)
      ++crossing[s];
}

Outcome Search::run() {
  std::vector<int> items(count);
  std::iota(items.begin(), items.end(), 0);
  return solveParts(items, {0, -1});
}

/// Places an item; true if that may have cut the unplaced items in two.
bool Search::place(int item, int at) {
  placed[item] = 1;
  offset[item] = at;
  placedStack.push_back(item);
  restMark.push_back(restTrail.size());
  const int top = at + size[item];
  for (int other : neighbours[item])
    if (!placed[other] && rest[other] < top) {
      restTrail.emplace_back(other, rest[other]);
      rest[other] = top;
    }
  bool cut = false;
  for (int s = start[item] + 1; s < end[item]; ++s)
    cut |= --crossing[s] == 0;
  return cut;
}

void Search::undo(size_t placedCount) {
  while (placedStack.size() > placedCount) {
    int item = placedStack.back();
    placedStack.pop_back();
    placed[item] = 0;
    for (int s = start[item] + 1; s < end[item]; ++s)
      ++crossing[s];
    while (restTrail.size() > restMark.back()) {
      rest[restTrail.back().first] = restTrail.back().second;
      restTrail.pop_back();
    }
    restMark.pop_back();
  }
}

void Search::blame(int item) {
  failure.add(start[item], end[item]);
  for (int other : neighbours[item])
    if (!placed[other])
      failure.add(start[other], end[other]);
}

/// Sets `low` of `items`, and `lowestTop`, which offsets of the next item must
/// be below. False if the items cannot be placed within the capacity.
bool Search::bound(llvm::ArrayRef<int> items, Last last, int &lowestTop) {
  lowestTop = std::numeric_limits<int>::max();
  int first = std::numeric_limits<int>::max(), limit = 0;
  for (int i : items) {
    lowestTop = std::min(lowestTop, rest[i] + size[i]);
    first = std::min(first, start[i]);
    limit = std::max(limit, end[i]);
  }
  for (int i : items) {
    low[i] = rest[i];
    if (rest[i] < last.offset || (rest[i] == last.offset && i < last.item)) {
      // Passed by: something still to be placed has to come under it.
      int lift = capacity;
      for (int other : neighbours[i])
        if (!placed[other])
          lift =
              std::min(lift, std::max(rest[other], last.offset) + size[other]);
      low[i] = lift;
    }
    if (low[i] + size[i] > capacity) {
      failure = {};
      blame(i);
      return false;
    }
  }
  // From the top down: what lies at `low` or above at one time is stacked.
  stack.clear();
  for (int i : items)
    stack.emplace_back(low[i], i);
  llvm::sort(stack, std::greater<>());
  std::fill(above.begin() + first, above.begin() + limit, 0);
  for (auto [value, i] : stack) {
    int highest = 0, at = start[i];
    for (int s = start[i]; s < end[i]; ++s) {
      above[s] += size[i];
      if (above[s] > highest) {
        highest = above[s];
        at = s;
      }
    }
    if (value + highest <= capacity)
      continue;
    // The stack at the section `at` is too high.
    failure = {};
    for (auto [otherValue, other] : stack) {
      if (otherValue < value)
        break;
      if (start[other] > at || at >= end[other])
        continue;
      failure.add(start[other], end[other]);
      if (low[other] > rest[other])
        blame(other);
    }
    return false;
  }
  return true;
}

Outcome Search::solve(llvm::ArrayRef<int> items, Last last) {
  if (++nodes > nodeLimit)
    return Outcome::Unknown;
  int lowestTop;
  if (!bound(items, last, lowestTop))
    return Outcome::Infeasible;
  std::vector<std::pair<int, int>> children;
  for (int i : items)
    if (low[i] == rest[i] && low[i] < lowestTop &&
        (rest[i] > last.offset || (rest[i] == last.offset && i > last.item)) &&
        (twin[i] < 0 || placed[twin[i]]))
      children.emplace_back(rest[i], i);
  llvm::sort(children);
  const size_t mark = placedStack.size();
  Window failures;
  if (children.empty())
    for (int i : items)
      failures.add(start[i], end[i]);
  std::vector<int> others;
  others.reserve(items.size());
  for (auto [at, item] : children) {
    bool cut = place(item, at);
    others.clear();
    for (int i : items)
      if (i != item)
        others.push_back(i);
    Outcome outcome = Outcome::Found;
    if (!others.empty())
      outcome =
          cut ? solveParts(others, {at, item}) : solve(others, {at, item});
    if (outcome != Outcome::Infeasible)
      return outcome;
    undo(mark);
    if (jumpsBack && (end[item] <= failure.start || start[item] >= failure.end))
      return Outcome::Infeasible;
    failures.add(failure.start, failure.end);
  }
  failure = failures;
  return Outcome::Infeasible;
}

/// Splits the items where no unplaced one crosses, and solves the parts,
/// smallest first.
Outcome Search::solveParts(llvm::ArrayRef<int> items, Last last) {
  // The part of a section: one more at each boundary that nothing crosses.
  int first = std::numeric_limits<int>::max(), limit = 0;
  for (int i : items) {
    first = std::min(first, start[i]);
    limit = std::max(limit, end[i]);
  }
  std::vector<int> partOf(limit - first, 0);
  for (int s = first + 1; s < limit; ++s)
    partOf[s - first] = partOf[s - first - 1] + (crossing[s] == 0);
  std::vector<std::vector<int>> parts(partOf.back() + 1);
  for (int i : items)
    parts[partOf[start[i] - first]].push_back(i);
  std::vector<int> smallestFirst(parts.size());
  std::iota(smallestFirst.begin(), smallestFirst.end(), 0);
  llvm::sort(smallestFirst, [&](int a, int b) {
    return std::make_pair(parts[a].size(), a) <
           std::make_pair(parts[b].size(), b);
  });
  for (int part : smallestFirst) {
    if (parts[part].empty())
      continue; // a time at which nothing is live
    Outcome outcome = solve(parts[part], last);
    if (outcome != Outcome::Found)
      return outcome;
  }
  return Outcome::Found;
}

namespace {

/// A logarithm to base 2 that is the same on every machine: linear between
/// powers of two.
double roughLog2(int64_t value) {
  int exponent = llvm::Log2_64(static_cast<uint64_t>(value));
  return exponent - 1 +
         static_cast<double>(value) /
             static_cast<double>(int64_t(1) << exponent);
}

/// Orders by a product of powers of an item's size, of the length of its life
/// and of the load around it, with exponents and some noise from a fixed
/// sequence of pseudo-random numbers.
class RandomOrders {
public:
  explicit RandomOrders(const Problem &problem) : problem(problem) {}

  std::vector<int> next() {
    double bySize = draw(), byLength = draw(), byLoad = 3 * draw(),
           noise = draw() / 2;
    std::vector<std::pair<double, int>> keyed;
    for (int i = 0; i < problem.size(); ++i) {
      const PackItem &item = problem.items[i];
      double key = bySize * roughLog2(item.size) +
                   byLength * roughLog2(item.upper - item.lower) +
                   byLoad * roughLog2(problem.loadAround[i]) + noise * draw();
      keyed.emplace_back(-key, i);
    }
    llvm::sort(keyed);
    std::vector<int> order;
    for (auto [key, item] : keyed)
      order.push_back(item);
    return order;
  }

private:
  /// SplitMix64, from 0 up to 1.
  double draw() {
    state += 0x9E3779B97F4A7C15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) * 0x1p-53;
  }

  const Problem &problem;
  uint64_t state = 1;
};

/// Nodes of a turn in a random order.
constexpr int64_t kRandomShare = 2'000;

} // namespace

Outcome packing::search(const Problem &problem, int64_t capacity,
                        int64_t &nodeLimit, std::vector<int64_t> &offsets) {
  int64_t unit = 0;
  for (const PackItem &item : problem.items)
    unit = std::gcd(unit, item.size);
  const int64_t cells = capacity / unit;
  if (problem.size() > kMaxSearchItems || cells > (1 << 29))
    return Outcome::Unknown;
  for (const PackItem &item : problem.items)
    if (item.size > capacity)
      return Outcome::Infeasible;

  // No order of the items is good on every input, so each gets a share that
  // grows from turn to turn.
  auto width = [&](int i) {
    return problem.items[i].upper - problem.items[i].lower;
  };
  auto area = [&](int i) {
    return static_cast<double>(width(i)) *
           static_cast<double>(problem.items[i].size);
  };
  std::vector<std::vector<int>> orders(4, std::vector<int>(problem.size()));
  for (auto [which, order] : llvm::enumerate(orders)) {
    std::iota(order.begin(), order.end(), 0);
    llvm::sort(order, [&, which = which](int a, int b) {
      auto key = [&](int i) {
        double w = -static_cast<double>(width(i));
        double t = -static_cast<double>(problem.loadAround[i]);
        switch (which) {
        case 0:
          return std::make_tuple(w, -area(i), t, i);
        case 1:
          return std::make_tuple(t, -area(i), w, i);
        case 2:
          return std::make_tuple(t, w, -area(i), i);
        default:
          return std::make_tuple(-area(i), w, t, i);
        }
      };
      return key(a) < key(b);
    });
  }
  RandomOrders random(problem);
  auto tryOrder = [&](llvm::ArrayRef<int> order, int64_t share,
                      bool jumpsBack) {
    Search search(problem, order, static_cast<int>(cells),
                  static_cast<int>(unit), std::min(share, nodeLimit),
                  jumpsBack);
    Outcome outcome = search.run();
    nodeLimit -= std::min(search.nodes, nodeLimit);
    if (outcome == Outcome::Found)
      for (auto [rank, item] : llvm::enumerate(order))
        offsets[item] = static_cast<int64_t>(search.offset[rank]) * unit;
    return jumpsBack && outcome == Outcome::Infeasible ? Outcome::Unknown
                                                       : outcome;
  };
  for (int64_t share = 20'000; nodeLimit > 0; share *= 2)
    for (const std::vector<int> &order : orders) {
      Outcome outcome = tryOrder(order, share, /*jumpsBack=*/false);
      for (int64_t left = share;
           outcome == Outcome::Unknown && left > 0 && nodeLimit > 0;
           left -= kRandomShare)
        outcome = tryOrder(random.next(), kRandomShare, /*jumpsBack=*/true);
      if (outcome != Outcome::Unknown)
        return outcome;
      if (nodeLimit == 0)
        break;
    }
  return Outcome::Unknown;
}
