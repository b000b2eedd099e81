//===- KernelSchedule.h -----------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits a loop kernel into items (a store of a result, a reduction) and
// orders them in nests: a tiled nest makes several passes over a few rows
// while they are in the cache, a whole nest one pass after the other.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_FP8TOCPU_KERNELSCHEDULE_H
#define FP8_CONVERSION_FP8TOCPU_KERNELSCHEDULE_H

#include "fp8/Dialect/FP8/IR/FP8.h"

namespace mlir::fp8 {

/// One thing to be done for every element of `value`.
struct KernelItem {
  /// Hold keeps a value on the stack for the loops that follow in its tile.
  enum Kind { Store, Max, Sum, Hold };
  Kind kind = Store;
  /// The value whose elements are visited: a result, what is reduced or held.
  Value value;
  /// The `fp8.amax` or `fp8.reduce` (Max, Sum).
  Operation *reduction = nullptr;
  /// The number of the result (Store).
  unsigned result = 0;
  /// Items of a later stage read reductions of an earlier one.
  unsigned stage = 0;
  /// Rows of the nest's space that one row of `value` stands for (tiled nests).
  int64_t rowFactor = 1;
  /// Whether a reduction is complete when the rows of a tile were visited.
  bool local = true;
};

/// Items that share loops over rows.
struct KernelNest {
  /// Rows visited together; 0 for a nest that is not tiled.
  int64_t tile = 0;
  /// Rows in all (tiled nests).
  int64_t rows = 0;
  /// Whether all values are visited by their row-major position.
  bool flat = false;
  SmallVector<KernelItem> items;
};

/// The nests of a loop kernel, in the order in which they run. Every reduction
/// that a result depends on and every result is in one.
SmallVector<KernelNest> scheduleKernel(Block &body);

} // namespace mlir::fp8

#endif // FP8_CONVERSION_FP8TOCPU_KERNELSCHEDULE_H
