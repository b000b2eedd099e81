//===- OffloadPlans.h - plans with values in host memory --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What fp8-select-saved adds to the plans that it has found, whole or in
// pieces: which of their values wait in host memory between the regions.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TRANSFORMS_OFFLOADPLANS_H
#define FP8_TRANSFORMS_OFFLOADPLANS_H

#include "fp8/Transforms/PiecePlans.h"

namespace mlir::fp8 {

/// Plans with a lower peak than those of `plans` that they come from, in which
/// values that those keep are offloaded: what `fp8.policy` says, and others as
/// long as all take at most `hostBytes`. Looks at a number of plans that is
/// bounded and falls with the size of the graph, whatever the budget; no clock
/// is read.
std::vector<PiecePlan> findOffloadPlans(const PlanGraph &graph,
                                        PieceSearch &search,
                                        ArrayRef<PiecePlan> plans,
                                        int64_t hostBytes);

/// `plan` with what `fp8.policy` says to offload in host memory. Emits an error
/// and fails where that cannot be.
FailureOr<PiecePlan> offloadAsked(const PlanGraph &graph, PieceSearch &search,
                                  PiecePlan plan);

/// A sentence for each value that `plan` has in host memory, by its position in
/// the residuals.
std::map<int, std::string> explainOffloads(const PlanGraph &graph,
                                           PieceSearch &search,
                                           const PiecePlan &plan);

/// The peak of `plan` if nothing ran in pieces, with the same values in host
/// memory.
int64_t getWholePeak(PieceSearch &search, PiecePlan plan);

} // namespace mlir::fp8

#endif // FP8_TRANSFORMS_OFFLOADPLANS_H
