//===- KernelGraph.h - kernels, their order and their peak ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups the instances of a program into the kernels that run, orders them,
// and simulates the bytes that are live. Passes and the search for a plan use
// the same functions, so what the search sees is what the passes make.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_KERNELGRAPH_H
#define FP8_ANALYSIS_KERNELGRAPH_H

#include "fp8/Analysis/Program.h"

namespace mlir::fp8 {

/// One unit that runs. Values are positions in Program::values, always storage
/// roots.
struct KernelNode {
  SmallVector<int, 8>
      members; ///< instances, in program order; without views and constants
  NodeClass kind = NodeClass::Loop;
  bool backward = false;
  SmallVector<int, 4>
      reads; ///< roots of its operands, arguments included, each once
  SmallVector<int, 2> outputs; ///< results that someone outside reads, or that
                               ///< escape or are kept
  SmallVector<int, 4> holds;   ///< roots that must stay alive although it does
                               ///< not read them (the source at a wait)
  SmallVector<int, 4> preds;   ///< kernels that must run before
  int64_t workspace = 0;
  double seconds = 0;
};

/// The kernels of a program in an order that respects their dependences.
struct KernelGraph {
  const Program *program = nullptr;
  std::vector<KernelNode> kernels;
  int firstBackward = 0; ///< index of the first backward kernel
  /// Whether what is written in place is what `in_place` on the fp8.kernel ops
  /// says; else findReuse decides.
  bool reusesAsWritten = false;
  /// Answers of canWriteOver by kernel, output and operand: they do not depend
  /// on the order. Looked up only.
  mutable DenseMap<std::tuple<int, int, int>, bool> writesOver;

  double getSeconds() const;
};

/// Which ops may share a kernel.
enum class Fusion {
  None,   ///< every op is a kernel of its own
  Default ///< chains that one pass over memory can do
};

/// Forms kernels greedily in program order. The result is ordered by
/// dependence, then by program order.
KernelGraph formKernels(const Program &program, Fusion fusion);

/// The live bytes of a kernel order.
struct PeakInfo {
  int64_t peak = 0;
  int peakKernel = -1;       ///< position in the order
  std::vector<int64_t> live; ///< live bytes while each kernel of the order
                             ///< runs, workspace included
  int64_t residualBytes = 0; ///< kept from forward to backward
};

/// Simulates `order` (a permutation of the kernels).
PeakInfo simulate(const KernelGraph &graph, ArrayRef<int> order);

/// The order with the lowest peak of three, with what simulate() says of it.
/// Forward kernels stay before backward ones.
std::pair<std::vector<int>, PeakInfo> scheduleRoughly(const KernelGraph &graph);

/// The order of scheduleRoughly, made better around its peak (see Passes.td,
/// fp8-schedule).
std::vector<int> schedule(const KernelGraph &graph);

/// Makes the order of scheduleRoughly, of which `info` is known, that of
/// schedule(). No order has a peak below `floor`.
void improveSchedule(const KernelGraph &graph, std::vector<int> &order,
                     PeakInfo &info, int64_t floor);

/// False where schedule() searches no orders, since there are too many kernels,
/// and only clears peaks.
bool isOrderImproved(const KernelGraph &graph);

/// True where schedule() finds a peak below `bar`, as far as is known without
/// making its order to the end. `order` and `info` are those of
/// scheduleRoughly, and no order has a peak below `floor`.
bool mayGetBelow(const KernelGraph &graph, std::vector<int> order,
                 PeakInfo info, int64_t floor, int64_t bar);

/// A floor for improveSchedule: getPeakBound, but 0 where a search for an order
/// takes all kernels of a region at once. It finds the same, and sooner.
int64_t getFloor(const KernelGraph &graph, ArrayRef<int> order,
                 const PeakInfo &info);

/// Bytes that the peak of no order is below; 0 where nothing is known. `kernel`
/// is looked at more closely than the others: the one at the peak of some
/// order.
int64_t getPeakBound(const KernelGraph &graph, int kernel);

/// The roots that are live while kernel `position` of `order` runs, with its
/// outputs, largest first.
SmallVector<int> getLiveRoots(const KernelGraph &graph, ArrayRef<int> order,
                              int position);

/// Where a storage root is live in an order of kernels.
struct LiveRange {
  /// First and last position; -1 for what has no storage that the step
  /// allocates. What escapes is live to the end of the order.
  int first = -1, second = -1;
  /// The root that is written over this one, by the kernel at `second + 1`,
  /// which reads this one for the last time; -1 where none is.
  int successor = -1;
  /// The root, or the donated argument, that this one is written over; -1 where
  /// none is. Over an argument, or over what is written over one, it takes no
  /// storage.
  int predecessor = -1;
  /// Of what a gather reads: the gathered root in which it lies, at the place
  /// of this rank's part, so that it has no range of its own; -1 for storage of
  /// its own. And of that root the one that lies in it: its range begins where
  /// the part is made.
  int within = -1, part = -1;

  /// The position of the last kernel that reads or writes the root.
  int getLastUse() const { return successor < 0 ? second : second + 1; }
};

/// The live range of each root of the program (position in Program::values).
/// Storage that is written in place changes hands: each byte is in one range at
/// a time.
std::vector<LiveRange> getLiveRanges(const KernelGraph &graph,
                                     ArrayRef<int> order);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_KERNELGRAPH_H
