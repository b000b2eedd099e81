//===- PlanFacts.h - what a plan says of one function -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The facts that both writers print, read once from placed IR.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_TARGET_PLAN_PLANFACTS_H
#define FP8_LIB_TARGET_PLAN_PLANFACTS_H

#include "fp8/Analysis/Decisions.h"
#include "fp8/Analysis/Replay.h"
#include "fp8/Analysis/ValueNames.h"

namespace mlir::fp8 {

struct PlanFacts {
  PlannedProgram planned;
  Decisions decisions;
  std::string function;
  /// The function whose step this one is a part of, where it was split.
  std::string partOf;
  const Target *target = nullptr;
  int64_t arenaBytes = 0, savedBytes = 0, transientBytes = 0, ioBytes = 0;
  /// What a part makes for a deferred weight gradient.
  int64_t deferredBytes = 0;
  /// What `start_of_step` makes for all microbatches, an argument here.
  int64_t stepBytes = 0;
  double stepSeconds = 0;
  std::vector<std::string> kernelNames; ///< per kernel; see ValueNames

  struct Saved {
    SavedDecision decision;
    int64_t bytes = 0;
  };
  std::vector<Saved> saved; ///< what the step allocates and keeps for backward

  struct Live {
    std::string name;
    int64_t bytes = 0;
    StringRef kind;       ///< "residual", "result", "local" or "workspace"
    std::string transfer; ///< for which alone it is there, or empty
  };
  std::vector<Live> liveAtPeak; ///< largest first

  struct Free {
    std::string name;
    int64_t bytes = 0;
    int after = 0, naiveAfter = 0; ///< kernels
  };
  std::vector<Free> frees; ///< in program order

  /// A value that backward reads in an inexact form.
  struct Lossy {
    std::string value, form;
    int64_t bytes = 0;      ///< of the form, its scales included
    int64_t exactBytes = 0; ///< of the value
    std::optional<double> gradientError;
    std::string counter; ///< the result that counts what is not exact, or empty
  };
  std::vector<Lossy> lossy; ///< in program order

  struct InPlace {
    std::string name, over;
    int64_t bytes = 0;
    bool inArgument = false; ///< costs no bytes at all
  };
  std::vector<InPlace> inPlace; ///< in program order

  /// What a rank hands to others and gets of them, in program order.
  struct Transfer {
    std::string name, axis;
    int64_t ownBytes = 0;    ///< of the operand
    int64_t resultBytes = 0; ///< of the result
    int64_t linkBytes = 0;   ///< received
    double seconds = 0, hiddenSeconds = 0;
    /// The first and the last kernel beside it; empty where none runs.
    std::string from, until;
  };
  std::vector<Transfer> transfers;
  double transferSeconds = 0, hiddenSeconds = 0;

  /// A product of groups of rows.
  struct Grouped {
    std::string name;
    int64_t groups = 0, align = 0;
    int64_t capacity = 0; ///< rows: the worst case, which the plan is made for
    int64_t balanced = 0; ///< rows where routing is balanced
    double seconds = 0, balancedSeconds = 0;
  };
  std::vector<Grouped> grouped; ///< in program order
  /// The peak if what has the capacity's rows had the balanced ones; that of
  /// the plan where nothing is grouped.
  int64_t balancedPeak = 0;

  /// What waits in host memory between forward and backward.
  struct Offloaded {
    SavedDecision decision;
    int64_t bytes = 0;
    double seconds = 0; ///< one way
    double outHiddenSeconds = 0, backHiddenSeconds = 0;
    std::string outUntil; ///< the last kernel beside the copy out
    std::string backFrom; ///< the first kernel beside the copy back, or after
                          ///< it
  };
  std::vector<Offloaded> offloaded; ///< in the order of the step's residuals
  int64_t hostBytes = 0;
  double hostSeconds = 0, hostHiddenSeconds = 0; ///< of all copies

  /// The peak if every value were freed only at the end of the region that
  /// frees it.
  int64_t naivePeak = 0;

  /// "kernel", or "start" or "wait" of a transfer; both have the name of its
  /// result.
  StringRef getKind(int kernel) const;

  /// Its name in a sentence: `x`, `the start of x` or `the wait for x`.
  std::string describe(int kernel) const;

  static FailureOr<PlanFacts> read(func::FuncOp func, const Target &target);

private:
  void readPart(func::FuncOp func, const ValueNames &names);
  void readTransfers();
  std::map<int, size_t> findInFlight(int position) const;
  void readGroups();

  Replay run;
  DenseSet<Value> crossing; ///< storage of results for later parts
};

/// The functions with a body, the step before `end_of_step`; each with its
/// facts.
FailureOr<std::vector<PlanFacts>> readPlanFacts(ModuleOp module);

} // namespace mlir::fp8

#endif // FP8_LIB_TARGET_PLAN_PLANFACTS_H
