//===- StateSearch.h - the shortest step of a small program -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the order of the kernels of a small program, and which of the forward
// ones run again and when, that takes the least time below a limit on memory.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_ANALYSIS_STATESEARCH_H
#define FP8_LIB_ANALYSIS_STATESEARCH_H

#include "fp8/Analysis/KernelGraph.h"

namespace mlir::fp8 {

/// A search over states: which kernels have run, and which of their results are
/// live. It knows kernels as they are where nothing is computed again, so it is
/// for programs in which ops do not share kernels.
class StateSearch {
public:
  /// Programs of more kernels or results of forward are not searched.
  static constexpr int kMaxKernels = 62, kMaxResults = 62;

  /// `kernels` are those of a program that keeps all.
  /// `mustStay` are graph values that are not to be dropped.
  StateSearch(const KernelGraph &kernels, ArrayRef<int> mustStay);

  /// False where the program is too large, has kernels of several ops, or has
  /// nothing to compute again.
  bool isPossible() const { return possible; }

  /// A kernel that runs, and which of its results it makes: one that is there
  /// still is not made again.
  struct Run {
    int kernel = -1;
    uint64_t made = 0;
  };

  enum class Aim {
    Shortest, ///< the least time
    Any       ///< whatever is found first, going on from where most has run
  };
  enum class Outcome {
    Found,  ///< `runs` has what was looked for
    None,   ///< there is none
    Unknown ///< `work` states were not enough
  };

  /// Looks for kernels in the order in which they run, some of them again, with
  /// a peak of at most `limit` bytes and less than `seconds` of recomputation.
  /// Takes from `work` what it does, about one a state that is looked at. The
  /// result depends on the arguments alone.
  Outcome run(Aim aim, int64_t limit, double seconds, int64_t &work,
              std::vector<Run> &runs);

  /// What makes a program in which each reader reads the run that it reads in
  /// `runs`, as far as a selection can say it.
  Selection select(ArrayRef<Run> runs) const;

  /// What a kernel makes.
  struct Result {
    int root = -1; ///< position in Program::values
    int kernel = -1;
    int64_t bytes = 0;
    uint64_t readers = 0; ///< kernels
    bool escapes = false, mayGo = false;
  };

private:
  using Set = uint64_t;
  static constexpr Set only(int index) { return Set(1) << index; }

  /// Of a label that no other one is better than: its results and its cost.
  struct Known {
    Set live;
    int64_t cost;
    int label;
  };
  /// What follows from which kernels have run.
  struct Done {
    Set set = 0;
    Set required = 0;          ///< results that a kernel that has not run reads
    Set useful = 0;            ///< what it may take to make them again, too
    int64_t backwardBytes = 0; ///< live results of backward kernels
    std::vector<Known> known;
  };
  /// A way to a state.
  struct Label {
    int done = -1;
    Set live = 0; ///< results of forward kernels
    int64_t cost = 0, bytes = 0;
    int parent = -1;
    Run run;
    bool beaten = false;
  };
  struct Kernel {
    Set reads = 0; ///< results of forward kernels
    Set makes = 0; ///< its results, of a forward kernel
    Set preds = 0; ///< kernels
    int64_t bytes = 0, workspace = 0;
    int64_t time = 0; ///< picoseconds
    bool mayRunAgain = false;
  };
  int getDone(Set set);
  int64_t getBytes(Set results) const;
  /// What it takes at least to make again what is needed and not live.
  int64_t getRest(const Done &done, Set live) const;
  bool runsAtOnce(const Done &before, const Done &after, int kernel) const;
  void visit(int id);
  void runAfterDrops(int id, int kernel, Set live, int64_t excess,
                     ArrayRef<int> candidates, int64_t smallest);
  void step(int id, int kernel, Set live);

  const KernelGraph &graph;
  bool possible = false;
  int numForward = 0;
  std::vector<Kernel> kernels;
  std::vector<Result> results;   ///< of forward kernels
  std::vector<Result> gradients; ///< of backward kernels
  Set movable = 0;

  // Of one run.
  Aim aim = Aim::Shortest;
  int64_t limit = 0, bound = 0, numCompared = 0;
  std::vector<Done> dones;
  DenseMap<Set, int> doneOf; ///< looked up only
  std::vector<Label> labels;
  /// Of labels to look at: the least cost that may come of them (negated), how
  /// many kernels have run, by the aim the one or the other first; the label
  /// (negated). A heap.
  std::vector<std::tuple<int64_t, int64_t, int>> open;
};

} // namespace mlir::fp8

#endif // FP8_LIB_ANALYSIS_STATESEARCH_H
