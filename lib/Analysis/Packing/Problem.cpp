//===- Problem.cpp - conflicts and loads of a packing problem ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One sweep over time finds which items conflict and how high the load is.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <tuple>

using namespace mlir::fp8;
using namespace mlir::fp8::packing;

Problem::Problem(std::vector<PackItem> given) : items(std::move(given)) {
  // Ends come before starts at the same time: lifetimes are half open.
  struct Event {
    int64_t time;
    bool starts;
    int item;
  };
  std::vector<Event> events;
  events.reserve(2 * items.size());
  for (int i = 0; i < size(); ++i) {
    events.push_back({items[i].lower, true, i});
    events.push_back({items[i].upper, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event &a, const Event &b) {
    return std::tie(a.time, a.starts, a.item) <
           std::tie(b.time, b.starts, b.item);
  });

  // The pairs, each found when its later item starts.
  std::vector<std::pair<int, int>> pairs;
  std::vector<int> live;
  std::vector<int> position(size());
  // The load after each event, from which loadAround is taken.
  std::vector<int64_t> loads;
  std::vector<std::pair<int, int>> span(size());
  int64_t load = 0;
  for (auto [index, event] : llvm::enumerate(events)) {
    int item = event.item;
    if (event.starts) {
      for (int other : live)
        pairs.emplace_back(item, other);
      position[item] = static_cast<int>(live.size());
      live.push_back(item);
      load += items[item].size;
      span[item].first = static_cast<int>(index);
    } else {
      position[live.back()] = position[item];
      std::swap(live[position[item]], live.back());
      live.pop_back();
      load -= items[item].size;
      span[item].second = static_cast<int>(index);
    }
    loads.push_back(load);
    maxLoad = std::max(maxLoad, load);
  }

  firstConflict.assign(items.size() + 1, 0);
  for (auto [a, b] : pairs) {
    ++firstConflict[a + 1];
    ++firstConflict[b + 1];
  }
  for (int i = 0; i < size(); ++i)
    firstConflict[i + 1] += firstConflict[i];
  conflicts.resize(2 * pairs.size());
  std::vector<size_t> next(firstConflict.begin(), firstConflict.end() - 1);
  for (auto [a, b] : pairs) {
    conflicts[next[a]++] = b;
    conflicts[next[b]++] = a;
  }
  for (int i = 0; i < size(); ++i)
    std::sort(conflicts.begin() + firstConflict[i],
              conflicts.begin() + firstConflict[i + 1]);

  // A sparse table of maxima answers each item's range in constant time.
  std::vector<std::vector<int64_t>> table = {loads};
  for (size_t width = 1; 2 * width <= loads.size(); width *= 2) {
    const std::vector<int64_t> &below = table.back();
    std::vector<int64_t> row(loads.size() - 2 * width + 1);
    for (size_t i = 0; i < row.size(); ++i)
      row[i] = std::max(below[i], below[i + width]);
    table.push_back(std::move(row));
  }
  for (auto [first, last] : span) {
    int level = llvm::Log2_32(last - first);
    loadAround.push_back(
        std::max(table[level][first], table[level][last - (1 << level)]));
  }
}

Load packing::getLoad(llvm::ArrayRef<PackItem> items) {
  // Ends come before starts at the same time.
  std::vector<std::pair<int64_t, int64_t>> events;
  for (const PackItem &item : items) {
    events.emplace_back(item.lower, item.size);
    events.emplace_back(item.upper, -item.size);
  }
  llvm::sort(events);
  Load load;
  int64_t live = 0;
  size_t count = 0;
  for (auto [time, change] : events) {
    live += change;
    if (change > 0)
      load.conflicts += 2 * count++;
    else
      --count;
    load.most = std::max(load.most, live);
  }
  return load;
}
