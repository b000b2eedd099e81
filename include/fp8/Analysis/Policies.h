//===- Policies.h - what each policy keeps for backward ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The simple policies of fp8-select-saved as selections over a PlanGraph, and
// the search behind `auto`.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_POLICIES_H
#define FP8_ANALYSIS_POLICIES_H

#include "fp8/Analysis/KernelGraph.h"
#include "fp8/Analysis/Repetition.h"

#include <map>

namespace mlir::fp8 {

enum class Policy { SaveAll, RecomputeAll, OpList, MinCut, Auto };

/// The policy of a name such as `min-cut`, or nothing.
std::optional<Policy> parsePolicy(StringRef name);
StringRef stringifyPolicy(Policy policy);

/// The op names of `op-list`: `spec` is empty (the default list), `a+b`,
/// `default-a` or `default+a`. A short name such as `abs` stands for
/// `math.absf`.
FailureOr<llvm::StringSet<>>
parseOpList(StringRef spec, function_ref<InFlightDiagnostic()> emitError);

/// The list of `op-list` where none is given.
llvm::StringSet<> getDefaultOpList();

Selection selectSaveAll(const PlanGraph &graph);
Selection selectRecomputeAll(const PlanGraph &graph);
Selection selectOpList(const PlanGraph &graph, const llvm::StringSet<> &ops);
/// The nodes of which `mayRunAgain` says so, if it is not empty, are not
/// banned.
Selection selectMinCut(const PlanGraph &graph, ArrayRef<bool> mayRunAgain = {});

/// True for what PyTorch's partitioner does not compute again.
bool isBannedByMinCut(const PlanNode &node);

/// The entries of `fp8.policy` on forward ops, each with the root of the result
/// that it is for, in the order of nodes and results.
SmallVector<std::pair<int, Attribute>> getOverrides(const PlanGraph &graph);

/// Applies `overrides`, those of getOverrides, to `selection`.
void applyOverrides(ArrayRef<std::pair<int, Attribute>> overrides,
                    Selection &selection);
inline void applyOverrides(const PlanGraph &graph, Selection &selection) {
  applyOverrides(getOverrides(graph), selection);
}

/// A selection and what it costs.
struct PlanOption {
  Selection selection;
  int64_t peak = 0;
  double seconds = 0;
  /// False where the peak is that of a quickly made order: another plan is
  /// known that is no worse than this one in any order.
  bool isExact = false;
  /// Whether the peak is that of schedule(), which clears the peaks of a long
  /// order. A search clears those of plans that turn out to be on the frontier.
  bool isFinal = false;
  std::vector<int64_t> live; ///< bytes while each kernel of that order runs

  /// Bytes by which the kernels are above `limit`, summed.
  int64_t getExcess(int64_t limit) const;
};

/// Finds plans of one graph. Every selection is evaluated once, on kernels as
/// they will be formed and ordered.
class PlanSearch {
public:
  PlanSearch(const PlanGraph &graph, Fusion fusion);
  /// Of a graph with layers left out.
  PlanSearch(const ReducedGraph &reduced, Fusion fusion);

  const PlanOption &evaluate(Selection selection);
  /// The same, with the peak of the order that the passes make.
  const PlanOption &evaluateExactly(Selection selection);

  /// The plans that are on the frontier of peak and time, by rising peak.
  /// Contains at least one plan no worse than each of the simple policies in
  /// both. Deterministic; the number of evaluations is bounded and falls with
  /// the size of the graph, no clock is read.
  std::vector<const PlanOption *> findFrontier();

  /// How many evaluations are spent: more than there are once the search is
  /// interrupted.
  int getNumEvaluations() const;

  /// How many evaluations a search may do on a graph of this size.
  int getMaxEvaluations() const { return maxEvaluations; }

  /// The class of choice `root`, equal for the choices at the same place of
  /// equal layers; -1 before findFrontier(), and for what is no choice.
  int getClass(int root) const { return classOf.empty() ? -1 : classOf[root]; }

private:
  /// The search on the graph itself.
  void searchDirectly();
  /// The search on `reduced`, of which the frontier is evaluated here.
  void searchReduced(const ReducedGraph &reduced);
  /// Keeps what `selection` would compute again of what layers hand on. Makes
  /// the program.
  Program materializeLayers(Selection &selection) const;
  /// Fills `measurements`.
  void findMeasurements();
  void descend(const Selection &start, bool minimisePeak, int end);
  /// Tries plans that keep one value less than one of `frontier`, so that the
  /// frontier has no large steps.
  void refine(ArrayRef<const PlanOption *> frontier, int end);
  /// Tries plans between two neighbours on the frontier, halving the widest
  /// step first: the front part of the program chooses as the smaller one.
  void fillSteps(int end);
  std::vector<const PlanOption *> getFrontier() const;

  /// The lowest peak of the plans known that take no longer than `seconds`.
  int64_t getLowestPeak(double seconds) const;
  void setPeak(PlanOption &option, PeakInfo info);
  /// LocalSearch.cpp: a walk from `start` towards a short step within `limit`.
  void walk(const PlanOption &start, int64_t limit, int end);
  /// Whether walks are over: they may not go on past `end`, nor for long where
  /// they find nothing.
  bool isWalked(int end) const;
  /// Walks just below the peaks of the frontier.
  void walkFrontier(int end);
  /// StatePlans.cpp: looks for a plan in each gap of the frontier by a search
  /// over states, where the program is small enough. True where no gap is left
  /// in which there might be one.
  bool searchStates();

  const PlanGraph &graph;
  Fusion fusion;
  SmallVector<std::pair<int, Attribute>> overrides;
  int maxEvaluations, maxWalkEvaluations;
  ArrayRef<int> borders; ///< ReducedGraph::borders
  /// Whether what may be on the frontier has its peaks cleared at once: where
  /// plans were found with layers left out.
  bool clears = false;
  std::map<Selection, PlanOption> options;
  /// By a hash of the program, the first selection that came to it: many
  /// differ in what backward does not read.
  std::map<std::pair<uint64_t, uint64_t>, PlanOption *> firstOf;
  int lastFound = 0; ///< evaluations when a walk last found a better plan
  /// Peaks of the plans known that take up to so many seconds: fall as those
  /// rise.
  std::map<double, int64_t> lowestPeaks;
  std::vector<SmallVector<int>>
      classes; ///< choices that stand at the same place of equal layers
  /// By class: choices that measure its members, scales and maxima.
  std::vector<SmallVector<int>> measurements;
  std::vector<int> classOf; ///< per value: its class; -1 where it is no choice
};

/// Choices grouped by what they are: op, attributes, types, and the same of
/// their producers to a small depth.
std::vector<SmallVector<int>> groupChoices(const PlanGraph &graph);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_POLICIES_H
