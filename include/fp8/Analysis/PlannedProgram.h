//===- PlannedProgram.h - planned IR with its live ranges -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function whose kernels are formed, read back for the passes that place
// frees and offsets and for the writers of plans.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_PLANNEDPROGRAM_H
#define FP8_ANALYSIS_PLANNEDPROGRAM_H

#include "fp8/Analysis/KernelGraph.h"

#include <memory>

namespace mlir::fp8 {

/// The kernels of a function in the order of the IR.
struct PlannedProgram {
  std::unique_ptr<PlanGraph> graph;
  std::unique_ptr<Program> program;
  KernelGraph kernels;
  std::vector<int> order; ///< 0, 1, 2, ...
  PeakInfo peak;
  /// Per storage root (position in Program::values): where it is live.
  std::vector<LiveRange> ranges;

  /// Reads `func`; fails with an error where it cannot be planned. What is
  /// written in place is decided where `decideReuse` is set, else it is what
  /// the kernels say.
  static FailureOr<PlannedProgram> read(func::FuncOp func, const Target &target,
                                        bool decideReuse = false);

  /// The op of a kernel: an fp8.kernel or an fp8.wait.
  Operation *getOp(int kernel) const;
  /// The IR value of a storage root, in the region that makes it.
  Value getValue(int root) const;
  const PlanValue &getEntry(int root) const {
    return program->graphValue(root);
  }
};

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_PLANNEDPROGRAM_H
