//===- Offload.h - what waits in host memory --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A value that is kept for backward may go to host memory after forward has
// read it for the last time and come back before backward reads it first. This
// places such copies in an order of kernels and says what the step then costs;
// the search for a plan and the pass fp8-offload use the same functions, so
// what was promised is what is made.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_OFFLOAD_H
#define FP8_ANALYSIS_OFFLOAD_H

#include "fp8/Analysis/Policies.h"

namespace mlir::fp8 {

/// One value on its way to host memory and back. A position names the kernel of
/// an order before which something stands.
struct HostCopy {
  int root = -1; ///< position in Program::values
  int64_t bytes = 0;
  double seconds = 0; ///< of one way
  int outStart = 0;   ///< where the copy to the host starts
  int outEnd = 0;     ///< its wait, in forward: from there on it takes no
                      ///< bytes of the device
  int inStart = 0;    ///< where the copy back starts, in backward
  int inEnd = 0;      ///< its wait
};

/// A start or a wait of a copy, before the kernel at `position`.
struct HostEvent {
  enum Kind { OutStart, OutEnd, InStart, InEnd };
  int position = 0;
  Kind kind = OutStart;
  int copy = 0; ///< position in the list of copies
};

/// The starts and waits of `copies` in the order in which they stand.
std::vector<HostEvent> getEvents(ArrayRef<HostCopy> copies);

/// The copies of an order of kernels, and what the step costs with them.
struct OffloadPlan {
  SmallVector<HostCopy> copies; ///< as their values are made
  double seconds = 0;           ///< the kernels, and what they wait for copies
  int64_t peak = 0;
  int64_t hostBytes = 0;
};

/// Places copies in one order of the kernels of a program.
class Offloader {
public:
  /// `graph` and its program outlive the offloader; its target has a host.
  Offloader(const KernelGraph &graph, ArrayRef<int> order);

  /// The roots that may be offloaded: kept for backward, and whole when one
  /// kernel, or the last of those that each write a piece, has run. In the
  /// order in which they are made.
  ArrayRef<int> getCandidates() const { return candidates; }

  /// The name under which backward reads candidate `root`: a position in
  /// Program::residuals.
  int getResidual(int root) const { return uses[root].residual; }

  /// What is kept for backward where a donated argument was, and so takes no
  /// memory: positions in Program::residuals.
  ArrayRef<int> getInArguments() const { return inArguments; }

  /// Copies `roots`, candidates each, out as soon as they are made and back as
  /// late as it takes to hide the copy. Copies of one direction follow one
  /// another.
  OffloadPlan plan(ArrayRef<int> roots) const;

  /// The candidates that are on the device at the kernel where `plan` has its
  /// peak, but are not read there; with as much time as they have between
  /// their last use in forward and their first in backward, in seconds.
  SmallVector<std::pair<int, double>> getIdleAtPeak(const OffloadPlan &plan);

private:
  struct Use {
    int residual = -1; ///< position in Program::residuals
    int made = -1, lastForward = -1, firstBackward = -1;
  };
  int64_t simulateWith(ArrayRef<HostCopy> copies, int *peakPosition) const;

  const KernelGraph &graph;
  std::vector<int> order;
  std::vector<double> startOf; ///< of each position, as if nothing waited
  SmallVector<int> candidates, inArguments;
  std::vector<Use> uses; ///< by root
};

/// Some of the candidates of an order, and what the step costs with them in
/// host memory.
struct OffloadOption {
  SmallVector<int> roots;
  int64_t peak = 0;
  double seconds = 0;
};

/// Adds to `asked` one portion of `offloader`'s candidates after another, as
/// long as something is idle at the peak and all take at most `hostBytes`.
/// Returns the sets with a lower peak than those before them, that of `asked`
/// first where it is not empty. Looks at `maxPlans` sets at most, and takes
/// those off `left`.
std::vector<OffloadOption> findOffloads(Offloader &offloader,
                                        const Program &program,
                                        ArrayRef<int> asked, int64_t hostBytes,
                                        int64_t maxPlans, int64_t &left);

/// The roots of `graph` that `fp8.policy` says to offload, in program order.
SmallVector<int> getAskedOffloads(const PlanGraph &graph);

/// Marks for fp8-offload the ops of `step`, whose selection is applied, that
/// make the residuals of these numbers.
void markOffloads(StepOp step, ArrayRef<int> residuals);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_OFFLOAD_H
