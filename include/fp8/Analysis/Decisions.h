//===- Decisions.h - what was chosen, and why -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The record that fp8-select-saved leaves on a function (`fp8.decisions`) for
// the writers of plans and reports. Nothing that runs depends on it.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_DECISIONS_H
#define FP8_ANALYSIS_DECISIONS_H

#include "fp8/Analysis/Policies.h"

namespace mlir::fp8 {

/// One value that is kept for backward. In the order of the step's residuals.
struct SavedDecision {
  std::string value, op, loc, form, why;
  bool escapes = false; ///< a result of the function: kept anyway, at no cost
};

/// One value that is computed again.
struct RecomputedDecision {
  std::string value, op, why;
  int64_t times = 1;
  double seconds = 0;
};

/// What runs in pieces of rows.
struct PiecesDecision {
  std::string value; ///< the first of the matmuls
  int64_t pieces = 1, rows = 0;
  std::string why;
};

struct Decisions {
  std::string policy;
  /// The search was ended before it was done (fp8/Support/Progress.h).
  bool interrupted = false;
  int64_t minFeasiblePeak = 0;
  int64_t lowerBound = 0;
  std::string boundKind;
  double recomputeSeconds = 0;
  /// No plan within the budget has a shorter step, and what proves it.
  double stepLowerBound = 0;
  std::string stepBoundKind;
  std::vector<SavedDecision> saved;
  std::vector<RecomputedDecision> recomputed;
  std::vector<PiecesDecision> pieces;

  DictionaryAttr toAttribute(MLIRContext *context) const;
  /// The record on `func`, or nothing where fp8-select-saved has not run.
  static std::optional<Decisions> read(func::FuncOp func);
};

/// What a plan costs.
struct PlanCost {
  int64_t peak = 0;
  double seconds = 0;
};

/// Fills `saved`, `recomputed` and the recompute time for `chosen`, with a
/// sentence for each; `offloaded` has those of what waits in host memory, by
/// position in the residuals. `search` prices what the other choice would cost,
/// or `evaluate` where it is not null: much slower, so fewer are looked at.
void explain(const PlanGraph &graph, Policy policy, const Selection &chosen,
             const std::map<int, std::string> &offloaded, Fusion fusion,
             PlanSearch &search,
             std::function<PlanCost(const Selection &)> evaluate,
             Decisions &decisions);

/// A bound on the peak of every plan of the graph, recomputation allowed: what
/// must be live when the results are complete, or while one matmul, collective
/// or opaque op runs.
std::pair<int64_t, StringRef> getPeakLowerBound(const PlanGraph &graph);

/// `117440512` as `117,440,512 B`.
std::string formatBytes(int64_t bytes);

/// `0.0000125` as `12.500 us`.
std::string formatMicroseconds(double seconds);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_DECISIONS_H
