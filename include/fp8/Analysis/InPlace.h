//===- InPlace.h - results in the storage of operands -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which result of a kernel may be written over which of its operands. One rule,
// for the search's kernels and for those in the IR.
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
/// with `graph.reusesAsWritten`, over the operand that the IR says.
void handOver(const KernelGraph &graph, ArrayRef<int> order,
              MutableArrayRef<LiveRange> ranges);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_INPLACE_H
