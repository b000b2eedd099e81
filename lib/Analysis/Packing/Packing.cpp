//===- Packing.cpp - offsets in one arena -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of attack: the load bound, then the greedy orders.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir::fp8;
using namespace mlir::fp8::packing;

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

  Problem problem(std::move(kept));
  int64_t bound = problem.maxLoad;
  int64_t goal = bound;
  if (options.capacity >= 0)
    goal = std::max(goal, options.capacity / unit);
  std::vector<int64_t> offsets;
  int64_t height = packGreedily(problem, goal, offsets);

  for (auto [item, offset] : llvm::zip_equal(origin, offsets))
    result.offsets[item] = offset * unit;
  result.height = height * unit;
  result.lowerBound = bound * unit;
  result.provedOptimal = height == bound;
  return result;
}
