//===- Launches.h - from a kernel to launches -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits a loop kernel into launches: a maximum over columns, or a reduction
// that no fast schedule does, is complete only after a launch, so that what
// depends on it follows in another. Says where such reductions lie, and which
// memory has to be zero before.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_FP8TOCUDA_LAUNCHES_H
#define FP8_CONVERSION_FP8TOCUDA_LAUNCHES_H

#include "fp8/Conversion/FP8ToCUDA/Space.h"
#include <memory>

namespace mlir::fp8 {

/// One thing that a launch does for every element of `value`: to store it as a
/// result, or to combine it for a reduction that is complete afterwards.
struct LaunchItem {
  Value value;
  /// The `fp8.amax` or `fp8.reduce`; null for a store.
  Operation *reduction = nullptr;
  /// The number of the result (stores).
  unsigned result = 0;
  /// Whether the space holds `value` transposed (fast schedules).
  bool flip = false;
  /// A store of a reduction that the launch's blocks complete, for later
  /// launches instead of as a result.
  bool kept = false;
};

struct LaunchPlan {
  Schedule schedule = Schedule::Generic;
  SmallVector<LaunchItem> items;
};

/// Where values lie that an earlier launch completed: f32, row-major, at
/// `offset` bytes of pointer argument `argument`.
struct StoredValue {
  Value value;
  unsigned argument = 0;
  int64_t offset = 0;
  /// The first launch that may read it.
  unsigned from = 0;
};

struct KernelLaunches {
  SmallVector<LaunchPlan> launches;
  /// Rules of the fast launches; null where all are generic.
  std::shared_ptr<SpaceRules> rules;
  /// Reductions, kept ones too, and results that stand for what they were
  /// computed from.
  SmallVector<StoredValue> stored;
  /// Zeroed before the first launch: pointer argument and bytes.
  SmallVector<std::pair<unsigned, int64_t>> fills;
  /// Bytes beside operands and results.
  int64_t workspaceBytes = 0;
};

/// The launches of a checked loop kernel.
KernelLaunches planLaunches(KernelOp kernel);

/// Where the first element of a piece lies in the whole, and how far apart its
/// rows are; in elements.
int64_t getPieceOffset(UpdateSliceOp update);
int64_t getPiecePitch(UpdateSliceOp update);

/// Workspace that `kernel` needs on a CUDA target: 0 but for loop kernels with
/// a reduction that no result can hold while it is gathered.
int64_t getCUDAWorkspaceBytes(KernelOp kernel);

} // namespace mlir::fp8

#endif // FP8_CONVERSION_FP8TOCUDA_LAUNCHES_H
