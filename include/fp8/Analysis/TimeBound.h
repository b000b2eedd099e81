//===- TimeBound.h - what no plan is faster than ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A proved lower bound on the estimated step time of every plan of a graph
// within a limit on its peak: whatever is kept, in whatever kernels and order.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_TIMEBOUND_H
#define FP8_ANALYSIS_TIMEBOUND_H

#include "fp8/Analysis/KernelGraph.h"

namespace mlir::fp8 {

struct TimeBound {
  double seconds = 0;
  /// What proves it.
  std::string kind;
};

/// The bound for plans whose peak is at most `limit` bytes. It is the sum of
///
///  * the time of the ops that are kernels of their own, each run once;
///  * the time of the traffic that loop kernels cannot avoid, however they are
///    formed: see TimeBound.cpp;
///  * what must be computed again so that the rest fits between forward and
///    backward: a Lagrangian relaxation of the limit, a minimum cut for each
///    multiplier. Of loops, which may cost nothing where they are fused, only
///    with `fusion` None.
TimeBound getTimeBound(const PlanGraph &graph, Fusion fusion, int64_t limit);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_TIMEBOUND_H
