//===- Replay.h - planned IR with its transfers in time ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the kernels of planned IR in their order, by the estimates of the
// target, with transfers beside them: how long the step takes, and what of each
// transfer other kernels hide.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_REPLAY_H
#define FP8_ANALYSIS_REPLAY_H

#include "fp8/Analysis/PlannedProgram.h"

namespace mlir::fp8 {

/// A collective, or a copy to host memory or back. Positions are those of
/// kernels and waits in the order of the IR.
struct TransferRun {
  enum Kind { Exchange, ToHost, FromHost };
  Kind kind = Exchange;
  int start = 0; ///< of its kernel
  /// Of its wait; that of its kernel where nothing runs beside it.
  int wait = 0;
  /// The first kernel after its start and the last one before its wait, those
  /// that start transfers not counted; -1 where there is none.
  int firstAfter = -1, lastBefore = -1;
  double seconds = 0, hiddenSeconds = 0;

  /// Whether kernels run beside it.
  bool isBeside() const {
    return firstAfter >= 0 && firstAfter < wait && lastBefore > start;
  }
};

/// A run of a step.
struct Replay {
  double seconds = 0;
  std::vector<TransferRun> transfers; ///< in the order of their starts
};

/// Replays `planned`: kernels one after another, one collective and one copy of
/// each direction at a time beside them, and waits.
Replay replay(const PlannedProgram &planned);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_REPLAY_H
