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

  /// The roots that may be offloaded: kept for backward under their own name
  /// alone, and whole when one kernel has made them. In the order in which they
  /// are made.
  ArrayRef<int> getCandidates() const { return candidates; }

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
    int made = -1, lastForward = -1, firstBackward = -1;
  };
  int64_t simulateWith(ArrayRef<HostCopy> copies, int *peakPosition) const;

  const KernelGraph &graph;
  std::vector<int> order;
  std::vector<double> startOf; ///< of each position, as if nothing waited
  SmallVector<int> candidates;
  std::vector<Use> uses; ///< by root
};

/// A selection of which some values are offloaded.
struct OffloadOption {
  Selection selection;
  SmallVector<int> offloaded; ///< roots of the graph
  int64_t peak = 0;
  double seconds = 0;
};

/// Plans with a lower peak than those of `frontier`, in which values that they
/// keep are offloaded: what `fp8.policy` says, and others as long as all take
/// at most `hostBytes`. Looks at a number of plans that is bounded and falls
/// with the size of the graph, whatever the budget; no clock is read.
std::vector<OffloadOption> findOffloads(const PlanGraph &graph, Fusion fusion,
                                        ArrayRef<const PlanOption *> frontier,
                                        int64_t hostBytes);

/// What `selection` costs where the values that `fp8.policy` says to offload
/// are. Emits an error and fails where one cannot be.
FailureOr<OffloadOption> evaluateOffload(const PlanGraph &graph, Fusion fusion,
                                         const Selection &selection);

/// The roots of `graph` that `fp8.policy` says to offload, in program order.
SmallVector<int> getAskedOffloads(const PlanGraph &graph);

/// Marks the ops of `graph` that make `roots` for fp8-offload.
void markOffloads(const PlanGraph &graph, ArrayRef<int> roots);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_OFFLOAD_H
