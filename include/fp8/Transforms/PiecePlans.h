//===- PiecePlans.h - plans of which parts run in pieces --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What fp8-select-saved adds to the search over what is kept: which regions of
// rows to run in pieces (fp8-split-rows), and in how many.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TRANSFORMS_PIECEPLANS_H
#define FP8_TRANSFORMS_PIECEPLANS_H

#include "fp8/Analysis/Decisions.h"
#include "fp8/Transforms/RowRegions.h"

namespace mlir::fp8 {

/// A matmul or a gather of a function whose selection is applied, by its number
/// in program order among these, and the pieces that its region is to run in.
struct PieceMark {
  int op = 0;
  int64_t pieces = 1;
};

/// A selection, what runs in pieces and what waits in host memory under it, and
/// what it costs.
struct PiecePlan {
  Selection selection;
  SmallVector<PieceMark, 4> marks;
  /// Positions in Program::residuals of the selection's program.
  SmallVector<int> offloaded;
  int64_t peak = 0;
  double seconds = 0;
};

/// The kernels of a plan in their order, as the passes make them before copies
/// to host memory.
struct MadePlan {
  OwningOpRef<func::FuncOp> func;   ///< null where nothing runs in pieces
  std::unique_ptr<PlanGraph> graph; ///< of `func`; null without one
  std::unique_ptr<Program> program;
  KernelGraph kernels;
  std::vector<int> order;
  /// By position in the residuals of `program`: the position in those of the
  /// selection's program. Some are not read in pieces.
  SmallVector<int> residuals;
};

/// Finds plans of one graph with regions in pieces.
class PieceSearch {
public:
  PieceSearch(const PlanGraph &graph, Fusion fusion)
      : graph(graph), fusion(fusion) {}

  /// The plan with every region of `selection` in `pieces` pieces, with the
  /// gathers that can be in one or none; in fewer where not `isAsked` and more
  /// are not worth it.
  PiecePlan splitAll(const Selection &selection, int64_t pieces,
                     Gathers gathers = Gathers::All, bool isAsked = true);

  /// Plans with a lower peak than `frontier`, the frontier of the plans without
  /// pieces, or faster than its plans of the same peak. Looks at a number of
  /// plans that is bounded and falls with the size of the graph, whatever the
  /// budget; no clock is read.
  std::vector<PiecePlan> find(ArrayRef<const PlanOption *> frontier);

  /// The function with `plan` applied, as fp8-split-rows leaves it.
  OwningOpRef<func::FuncOp> apply(const PiecePlan &plan) {
    return apply(plan, /*residuals=*/nullptr);
  }

  /// The kernels of `plan`.
  MadePlan make(const PiecePlan &plan);

private:
  /// The same, with MadePlan::residuals.
  OwningOpRef<func::FuncOp> apply(const PiecePlan &plan,
                                  SmallVectorImpl<int> *residuals);
  OwningOpRef<func::FuncOp> applySelectionTo(const Selection &selection);
  /// Peak and time of `plan`, which is `program`. Of one that no order of
  /// kernels brings to the frontier of `known` the peak is that of a rough
  /// order.
  void evaluate(const Program &program, PiecePlan &plan);
  /// The same of a plan that `func` is.
  void evaluate(func::FuncOp func, PiecePlan &plan);

  /// Time and peak of the plans that find() knows; empty outside of it.
  SmallVector<std::pair<double, int64_t>> known;
  const PlanGraph &graph;
  Fusion fusion;
};

/// Marks the matmuls and gathers of `func`, whose selection is applied, for
/// fp8-split-rows.
void markPieces(func::FuncOp func, ArrayRef<PieceMark> marks);

/// Adds to `decisions` what is marked in `func`, each with a sentence;
/// `wholePeak` is the peak of the same plan without pieces.
void explainPieces(func::FuncOp func, const Target &target, int64_t wholePeak,
                   Decisions &decisions);

} // namespace mlir::fp8

#endif // FP8_TRANSFORMS_PIECEPLANS_H
