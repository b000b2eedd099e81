//===- ApplyPlan.h - from the plan graph back to the IR ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes decide on a plan graph; these functions write a decision into the
// IR, once.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TRANSFORMS_APPLYPLAN_H
#define FP8_TRANSFORMS_APPLYPLAN_H

#include "fp8/Analysis/KernelGraph.h"

namespace mlir::fp8 {

/// Makes the residuals of `program` explicit in its step and clones what it
/// recomputes into the backward region, each clone reading kept values and
/// arguments through an `fp8.remat_barrier`.
void applySelection(const PlanGraph &graph, const Program &program);

/// Replaces the ops of the program by `fp8.kernel` ops in the order of
/// `kernels`.
void applyKernels(const KernelGraph &kernels);

/// Moves the kernels of the program, each an op of its own, into `order`.
void applyOrder(const KernelGraph &kernels, ArrayRef<int> order);

} // namespace mlir::fp8

#endif // FP8_TRANSFORMS_APPLYPLAN_H
