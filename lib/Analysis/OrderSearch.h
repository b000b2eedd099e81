//===- OrderSearch.h - the best order of a few kernels ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes the stretch of an order around its peak again, exactly.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_ANALYSIS_ORDERSEARCH_H
#define FP8_LIB_ANALYSIS_ORDERSEARCH_H

#include "fp8/Analysis/KernelGraph.h"

#include "llvm/ADT/BitVector.h"

namespace mlir::fp8 {

/// Kernels of a stretch. A region of no more is one stretch.
constexpr int kMaxStretch = 63;

/// The fewest kernels of the region of `kernel` that have run before it where,
/// of all orders, the least is live while it runs (without what is written in
/// place): all that it needs, and what frees more than it leaves.
llvm::BitVector findLeastBefore(const KernelGraph &graph, int kernel);

/// Lowers the peak of a long order by what may wait, and what may go, at its
/// peak, as long as that helps. A list schedule leaves a large result that
/// nothing needs, such as the gradient of a head, at every later peak. Returns
/// whether it has helped.
bool clearPeaks(const KernelGraph &graph, std::vector<int> &order,
                PeakInfo &info);

/// The two parts of improveSchedule: searches of the stretches around the peak
/// of an order of scheduleRoughly, and then, of a long order, peaks cleared and
/// stretches searched in turn.
void improveStretches(const KernelGraph &graph, std::vector<int> &order,
                      PeakInfo &info, int64_t floor);
void finishSchedule(const KernelGraph &graph, std::vector<int> &order,
                    PeakInfo &info, int64_t floor);

/// schedule() without the second part.
std::vector<int> scheduleByStretches(const KernelGraph &graph);

/// Whether a region of `graph` is more than one stretch.
bool isLong(const KernelGraph &graph);

/// Whether a kernel of `graph` exchanges anything with other ranks.
bool hasCollectives(const KernelGraph &graph);

/// Lowers the peak of `order`, stretch by stretch, each with the lowest peak
/// that any order of its kernels has (without what is written in place), until
/// one cannot be lowered below `bar` or `work` sets of kernels have been looked
/// at; then, where there are collectives, shorter stretches, with a quarter of
/// `work` more, and where several have the peak, all of them are lowered. No
/// order has a peak below `floor`. `info` is what simulate() says of `order`,
/// before and after.
void improveOrder(const KernelGraph &graph, std::vector<int> &order,
                  PeakInfo &info, int64_t work, int64_t floor, int64_t bar);

} // namespace mlir::fp8

#endif // FP8_LIB_ANALYSIS_ORDERSEARCH_H
