//===- Internal.h - the parts of the packer ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The problem as the parts of the packer see it: no empty items, and sizes,
// heights and offsets counted in units (bytes divided by the alignment).
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_PACKING_INTERNAL_H
#define FP8_ANALYSIS_PACKING_INTERNAL_H

#include "fp8/Analysis/Packing.h"

namespace mlir::fp8::packing {

/// Items and, for each, the items that are live at some time together with it.
struct Problem {
  explicit Problem(std::vector<PackItem> items);

  int size() const { return static_cast<int>(items.size()); }
  /// The conflicting items of `item`, ascending.
  llvm::ArrayRef<int> neighbours(int item) const {
    return llvm::ArrayRef(conflicts).slice(
        firstConflict[item], firstConflict[item + 1] - firstConflict[item]);
  }

  /// The sum of the numbers of neighbours of all items.
  size_t conflictCount() const { return conflicts.size(); }

  std::vector<PackItem> items;
  /// The largest load at any time: a lower bound of every height.
  int64_t maxLoad = 0;
  /// For each item the largest load at a time at which it is live.
  std::vector<int64_t> loadAround;

private:
  std::vector<size_t> firstConflict;
  std::vector<int> conflicts;
};

/// The largest load at any time, and the number of conflicts: pairs of items
/// that are live together, each counted twice.
struct Load {
  int64_t most = 0;
  size_t conflicts = 0;
};
Load getLoad(llvm::ArrayRef<PackItem> items);

/// Stacks what lives long from the floor and from the ceiling, until the height
/// is no more than `goal`. Writes the offsets and returns the height.
int64_t packFromBothEnds(llvm::ArrayRef<PackItem> items, int64_t goal,
                         std::vector<int64_t> &offsets);

/// The lowest packing among several static orders, each placed by first fit and
/// by best fit. Stops at the first one not above `goal`. Returns the height.
int64_t packGreedily(const Problem &problem, int64_t goal,
                     std::vector<int64_t> &offsets);

/// More items than this are left to the greedy orders: a node of the search
/// costs time proportional to their number.
constexpr int kMaxSearchItems = 4096;

enum class Outcome { Found, Infeasible, Unknown };

/// Whether the items can be packed into `capacity`; sets `offsets` if they can.
/// Takes the nodes it visits off `nodeLimit`, and gives up at 0.
Outcome search(const Problem &problem, int64_t capacity, int64_t &nodeLimit,
               std::vector<int64_t> &offsets);

} // namespace mlir::fp8::packing

#endif // FP8_ANALYSIS_PACKING_INTERNAL_H
