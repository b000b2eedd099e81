//===- InPlace.h - results in the storage of operands -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which result of a kernel may be written over which of its operands, by one
// rule for the search's kernels and for those in the IR; and which operand of a
// gather may be made within its result.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_INPLACE_H
#define FP8_ANALYSIS_INPLACE_H

#include "fp8/Analysis/KernelGraph.h"

namespace mlir::fp8 {

/// True where writing root `output` of kernel number `kernel` over its operand
/// root `operand`, element by element, changes no bit of what the kernel gives:
/// in a matmul the operand is the accumulator, and nothing else, and has the
/// result's type; in a loop kernel it has the result's shape and element width,
/// everything that is computed from it is computed element by element, and,
/// where the kernel reads back a reduction and so passes over memory more than
/// once, the result is all that is computed from it.
bool canWriteOver(const KernelGraph &graph, int kernel, int output,
                  int operand);

/// Hands storage over in `ranges`, which have none in place yet: each output is
/// written over an operand that no one reads after its kernel, where
/// canWriteOver allows it, a donated argument before a buffer of the step; or,
/// with `graph.reusesAsWritten`, over the operand that the IR says, or with it
/// inside where that is a gather's.
void handOver(const KernelGraph &graph, ArrayRef<int> order,
              MutableArrayRef<LiveRange> ranges);

/// Has what only a gather reads be made in its place of the gathered tensor,
/// which is then there from that kernel on, wherever that raises no peak above
/// that of `info`: nothing copies this rank's part then, and from the gather on
/// it is not there twice. Only where the part is one stretch of the result, and
/// made by a loop kernel in the region of the gather. `ranges` are those of
/// `order`, with what is handed over; they and `info.live` follow.
void gatherInPlace(const KernelGraph &graph, ArrayRef<int> order,
                   MutableArrayRef<LiveRange> ranges, PeakInfo &info);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_INPLACE_H
