//===- Packing.h - offsets in one arena -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Static packing of buffers with known lifetimes into one arena: two buffers
// that are live at the same time must not overlap in address, and the highest
// address is to be as low as possible. NP-hard; see PackOptions::nodeLimit.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_PACKING_H
#define FP8_ANALYSIS_PACKING_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <limits>
#include <vector>

namespace mlir::fp8 {

/// A buffer of `size` bytes that is live at the times `lower <= t < upper`.
/// One with `lower >= upper` or `size <= 0` takes no place and gets offset 0.
struct PackItem {
  int64_t lower = 0;
  int64_t upper = 0;
  int64_t size = 0;
};

struct PackOptions {
  /// Stop at the first packing that is not higher than this, in bytes. The
  /// default asks for the lowest packing that can be found.
  int64_t capacity = -1;
  /// Every offset is a multiple of it, and every size counts rounded up to it.
  int64_t alignment = 256;
  /// How many nodes the exact search may visit after the greedy orders have
  /// missed the goal; 0 turns the search off. A count and not a time, so that
  /// equal input gives equal output on every machine.
  int64_t nodeLimit = 0;
};

struct PackResult {
  /// One offset an item, in bytes, in the order of the items.
  std::vector<int64_t> offsets;
  /// The highest end of an item, sizes rounded up to the alignment.
  int64_t height = 0;
  /// No packing is lower than this. At first the largest load at any time;
  /// the exact search raises it where it finishes without a packing.
  int64_t lowerBound = 0;
  /// True where no packing is lower than `height`.
  bool provedOptimal = false;
};

/// Packs `items`. The result always holds a valid packing, whether it is within
/// the capacity or not. Where it is not, the capacity is proved infeasible if
/// `lowerBound` is above it too, and is undecided otherwise. Deterministic.
PackResult pack(llvm::ArrayRef<PackItem> items, const PackOptions &options);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_PACKING_H
