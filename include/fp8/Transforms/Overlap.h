//===- Overlap.h - transfers beside kernels ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What fp8-overlap does to one function, for those who must know what a plan
// costs once its transfers start early.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TRANSFORMS_OVERLAP_H
#define FP8_TRANSFORMS_OVERLAP_H

#include "fp8/Analysis/Decisions.h"

namespace mlir::fp8 {

/// Starts the collectives of `func`, planned IR, early enough to run beside
/// other kernels, as long as no more than `limit` bytes are live. Fails after
/// an error where `func` is not planned IR.
LogicalResult overlapTransfers(func::FuncOp func, const Target &target,
                               std::optional<int64_t> limit);

/// What `func`, a copy whose selection is applied, costs with its transfers
/// started early. Makes it planned IR.
PlanCost evaluateOverlapped(func::FuncOp func, const Target &target,
                            Fusion fusion, std::optional<int64_t> limit);

} // namespace mlir::fp8

#endif // FP8_TRANSFORMS_OVERLAP_H
