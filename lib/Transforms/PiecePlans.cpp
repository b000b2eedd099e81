//===- PiecePlans.cpp - plans of which parts run in pieces ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each plan is made as the passes make it, on a copy of the function: selection
// applied, regions split, kernels formed and ordered. That is some ten times as
// much work as to evaluate a selection by itself, so few are.
//
//===----------------------------------------------------------------------===//

#include "fp8/Transforms/PiecePlans.h"

#include "fp8/Analysis/ValueNames.h"
#include "fp8/Support/Progress.h"
#include "fp8/Transforms/ApplyPlan.h"
#include "fp8/Transforms/Residuals.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/ScopeExit.h"
#include <limits>
#include <set>

using namespace mlir;
using namespace mlir::fp8;

/// What the search may do: plans made times nodes of the graph.
static constexpr int64_t kMaxWork = 30'000;
static constexpr int64_t kMinPlans = 1, kMaxPlans = 80;
/// What takes this much less than the peak is a measurement: a scale, a
/// maximum.
static constexpr int64_t kMeasurement = 1024;
/// The numbers of pieces that are tried.
static constexpr int64_t kPieces[] = {8, 4, 2};

/// The ops of `func` that marks number.
static SmallVector<Operation *> getMarkable(func::FuncOp func) {
  SmallVector<Operation *> ops;
  func.walk([&](Operation *op) {
    if (isa<MatmulOp, AllGatherOp>(op))
      ops.push_back(op);
  });
  return ops;
}

void mlir::fp8::markPieces(func::FuncOp func, ArrayRef<PieceMark> marks) {
  SmallVector<Operation *> ops = getMarkable(func);
  for (PieceMark mark : marks)
    ops[mark.op]->setAttr(
        kPiecesAttr,
        IntegerAttr::get(IntegerType::get(func.getContext(), 64), mark.pieces));
}

void mlir::fp8::explainPieces(func::FuncOp func, const Target &target,
                              int64_t wholePeak, Decisions &decisions) {
  ValueNames names(func);
  std::map<std::string, int64_t> piecesOf;
  forEachProgramBlock(func, [&](Block &block) {
    for (const RowRegion &region :
         findRowRegions(block, target, Gathers::Marked)) {
      std::vector<std::string> seeds;
      for (Operation *seed : region.seeds)
        seeds.push_back(names.getName(seed->getResult(0)));
      int64_t pieces = region.countPieces(region.getMark().value_or(1));
      if (pieces < 2)
        continue;
      for (const std::string &seed : seeds)
        piecesOf[seed] = pieces;
      std::string others;
      for (const std::string &seed : ArrayRef(seeds).drop_front())
        others += (others.empty() ? " with " : ", ") + seed;
      int64_t rows = region.getPieceRows(pieces);
      // Divided last: what is gathered may be one number for many rows.
      std::string gathered;
      if (!region.gathers.empty())
        gathered = llvm::formatv("gathered {0} at a time instead of {1}, ",
                                 formatBytes(region.gatheredBytes * rows *
                                             region.ranks / region.rows),
                                 formatBytes(region.gatheredBytes));
      decisions.pieces.push_back(
          {seeds.front(), pieces, rows,
           llvm::formatv(
               "in {0} pieces of {1} {2}{3}: {4} of them at a time instead of "
               "{5}, {6}and {7} that are read afterwards whole; the same plan "
               "without pieces has a peak of {8}",
               pieces, rows,
               region.dim == 1    ? "columns"
               : region.ranks > 1 ? "rows of each shard"
                                  : "rows",
               others, formatBytes(region.seedBytes / region.rows * rows),
               formatBytes(region.seedBytes), gathered,
               formatBytes(region.resultBytes), formatBytes(wholePeak))});
    }
  });
  for (RecomputedDecision &entry : decisions.recomputed)
    if (auto it = piecesOf.find(entry.value + kCloneSuffix.str());
        it != piecesOf.end())
      entry.why += llvm::formatv("; in {0} pieces", it->second).str();
}

OwningOpRef<func::FuncOp>
PieceSearch::applySelectionTo(const Selection &selection) {
  IRMapping copies;
  OwningOpRef<func::FuncOp> copy(cast<func::FuncOp>(graph.func->clone(copies)));
  if (!graph.step)
    return copy;
  // The graph of the copy is that of the original.
  PlanGraph own = graph;
  own.func = *copy;
  own.step = cast<StepOp>(copies.lookup(own.step.getOperation()));
  for (PlanNode &node : own.nodes)
    node.op = copies.lookup(node.op);
  for (PlanValue &value : own.values)
    value.value = copies.lookup(value.value);
  applySelection(own, materialize(own, selection));
  return copy;
}

OwningOpRef<func::FuncOp> PieceSearch::apply(const PiecePlan &plan,
                                             SmallVectorImpl<int> *residuals) {
  OwningOpRef<func::FuncOp> func = applySelectionTo(plan.selection);
  DenseMap<Value, int> numberOf; // looked up only
  auto arguments = [&]() -> Block::BlockArgListType {
    auto steps = func->getOps<StepOp>();
    return steps.empty() ? Block::BlockArgListType()
                         : (*steps.begin()).getBackward().getArguments();
  };
  for (BlockArgument argument : arguments())
    numberOf[argument] = argument.getArgNumber();
  markPieces(*func, plan.marks);
  splitRows(*func, *graph.target, /*pieces=*/0);
  dropUnread(*func);
  if (residuals)
    for (BlockArgument argument : arguments())
      residuals->push_back(numberOf.lookup(argument));
  return func;
}

MadePlan PieceSearch::make(const PiecePlan &plan) {
  MadePlan made;
  if (plan.marks.empty()) {
    made.program =
        std::make_unique<Program>(materialize(graph, plan.selection));
    made.residuals =
        llvm::to_vector(llvm::seq<int>(0, made.program->residuals.size()));
  } else {
    SmallVector<int> numbers; // by position in the residuals of the step
    made.func = apply(plan, &numbers);
    FailureOr<PlanGraph> own = PlanGraph::build(*made.func, *graph.target);
    assert(succeeded(own) && "what is split has a graph");
    made.graph = std::make_unique<PlanGraph>(std::move(*own));
    made.program = std::make_unique<Program>(
        materialize(*made.graph, selectSaveAll(*made.graph)));
    // A program has its residuals in the order of their ops.
    DenseMap<Value, int> numberOf; // looked up only
    if (StepOp step = made.graph->step)
      for (auto [residual, number] :
           llvm::zip_equal(step.getForwardYield().getResiduals(), numbers))
        numberOf[residual] = number;
    for (int value : made.program->residuals)
      made.residuals.push_back(
          numberOf.lookup(made.program->graphValue(value).value));
  }
  made.kernels = formKernels(*made.program, fusion);
  made.order = schedule(made.kernels);
  return made;
}

void PieceSearch::evaluate(const Program &program, PiecePlan &plan) {
  KernelGraph kernels = formKernels(program, fusion);
  plan.seconds = kernels.getSeconds();
  auto [order, info] = scheduleRoughly(kernels);
  plan.peak = info.peak;
  int64_t floor = getFloor(kernels, order, info);
  int64_t bar = std::numeric_limits<int64_t>::max();
  for (auto [seconds, peak] : known)
    if (seconds <= plan.seconds)
      bar = std::min(bar, peak);
  if (isOrderImproved(kernels) &&
      (floor >= bar || !mayGetBelow(kernels, order, info, floor, bar)))
    return;
  improveSchedule(kernels, order, info, floor);
  plan.peak = info.peak;
}

void PieceSearch::evaluate(func::FuncOp func, PiecePlan &plan) {
  FailureOr<PlanGraph> own = PlanGraph::build(func, *graph.target);
  assert(succeeded(own) && "what is split has a graph");
  evaluate(materialize(*own, selectSaveAll(*own)), plan);
}

namespace {

/// A region of rows of an applied function, and the most that is live while one
/// of its kernels runs, as long as nothing is in pieces.
struct Candidate {
  SmallVector<int, 3> ops; ///< numbers of its first seed and its gathers
  int64_t height = 0, most = kMostPieces;
  RowRegion region;

  void mark(PiecePlan &plan, int64_t pieces) const {
    for (int op : ops)
      plan.marks.push_back({op, std::min(pieces, most)});
  }
};

} // namespace

/// The regions of `func` that can be split in `pieces` pieces: `isAsked`, or
/// that are worth it.
static std::vector<Candidate> findCandidates(func::FuncOp func,
                                             const Target &target,
                                             Gathers gathers, int64_t pieces,
                                             bool isAsked) {
  DenseMap<Operation *, int> numberOf; // looked up only
  for (auto [number, op] : llvm::enumerate(getMarkable(func)))
    numberOf[op] = number;
  std::vector<Candidate> candidates;
  forEachProgramBlock(func, [&](Block &block) {
    for (RowRegion &region : findRowRegions(block, target, gathers)) {
      int64_t most = isAsked ? kMostPieces : region.mostPieces;
      if (region.countPieces(std::min(pieces, most)) == 1)
        continue;
      Candidate &candidate = candidates.emplace_back();
      candidate.most = most;
      candidate.ops.push_back(numberOf.lookup(region.seeds[0]));
      for (Operation *gather : region.gathers)
        candidate.ops.push_back(numberOf.lookup(gather));
      candidate.region = std::move(region);
    }
  });
  return candidates;
}

/// The same with their heights, the highest first.
static std::vector<Candidate> rankCandidates(func::FuncOp func,
                                             const Target &target,
                                             Fusion fusion, Gathers gathers) {
  std::vector<Candidate> candidates =
      findCandidates(func, target, gathers, kPieces[0], /*isAsked=*/false);
  if (candidates.empty())
    return candidates;
  FailureOr<PlanGraph> graph = PlanGraph::build(func, target);
  assert(succeeded(graph) && "the original has a graph");
  Program program = materialize(*graph, selectSaveAll(*graph));
  KernelGraph kernels = formKernels(program, fusion);
  std::vector<int> order = schedule(kernels);
  PeakInfo info = simulate(kernels, order);
  for (auto [position, kernel] : llvm::enumerate(order))
    for (int member : kernels.kernels[kernel].members)
      for (Candidate &candidate : candidates)
        if (candidate.region.ops.contains(
                program.node(program.instances[member]).op))
          candidate.height = std::max(candidate.height, info.live[position]);
  llvm::stable_sort(candidates, [](const Candidate &a, const Candidate &b) {
    return a.height > b.height;
  });
  return candidates;
}

PiecePlan PieceSearch::splitAll(const Selection &selection, int64_t pieces,
                                Gathers gathers, bool isAsked) {
  PiecePlan plan;
  plan.selection = selection;
  OwningOpRef<func::FuncOp> func = applySelectionTo(selection);
  // As splitRows splits what is marked so.
  std::vector<Candidate> candidates =
      findCandidates(*func, *graph.target, gathers, pieces, isAsked);
  if (candidates.empty()) {
    evaluate(materialize(graph, selection), plan);
    return plan;
  }
  for (const Candidate &candidate : candidates)
    candidate.mark(plan, pieces);
  // Gathers that are not marked make other regions of what is near them.
  if (llvm::any_of(candidates, [](const Candidate &candidate) {
        return !candidate.region.gathers.empty();
      })) {
    evaluate(*apply(plan), plan);
    return plan;
  }
  for (const Candidate &candidate : candidates)
    splitRegion(candidate.region, pieces);
  dropUnread(*func);
  evaluate(*func, plan);
  return plan;
}

std::vector<PiecePlan>
PieceSearch::find(ArrayRef<const PlanOption *> frontier) {
  std::vector<PiecePlan> plans;
  int64_t numNodes = std::max<int64_t>(graph.nodes.size(), 1);
  size_t most = std::clamp<int64_t>(kMaxWork / numNodes, kMinPlans, kMaxPlans);
  // What is gathered whole, or with the pieces that it is read in.
  SmallVector<Gathers, 2> variants = {Gathers::None};
  if (llvm::any_of(graph.nodes, [](const PlanNode &node) {
        return isa<AllGatherOp>(node.op);
      })) {
    variants.push_back(Gathers::All);
    most *= 2;
  }
  auto isSmaller = [](const PiecePlan &a, const PiecePlan &b) {
    return std::tuple(a.peak, a.seconds) < std::tuple(b.peak, b.seconds);
  };
  auto isMeasurement = [&](int root) {
    return isChoice(graph, root) &&
           graph.values[root].bytes <= frontier.front()->peak / kMeasurement;
  };
  for (const PlanOption *option : frontier)
    known.push_back({option->seconds, option->peak});
  auto forget = llvm::make_scope_exit([&] { known.clear(); });
  auto add = [&](const PiecePlan &plan) {
    plans.push_back(plan);
    known.push_back({plan.seconds, plan.peak});
  };
  auto isSpent = [&] { return plans.size() >= most || isInterrupted(); };
  std::set<Selection> tried;
  /// The plan of `selection`, in as many pieces as there are, or null where it
  /// is known.
  auto look = [&](Selection selection) -> std::optional<PiecePlan> {
    applyOverrides(graph, selection);
    if (isSpent() || !tried.insert(selection).second)
      return std::nullopt;
    std::optional<PiecePlan> smallest;
    for (Gathers gathers : variants) {
      add(splitAll(selection, kPieces[0], gathers, /*isAsked=*/false));
      if (!smallest || isSmaller(plans.back(), *smallest))
        smallest = plans.back();
    }
    return smallest;
  };

  // From the smallest plan and the one that keeps the least, as they are and
  // with all measurements kept: what waits for a maximum over the rows cannot
  // be made piece by piece.
  std::optional<PiecePlan> best;
  auto improve = [&](Selection selection) {
    std::optional<PiecePlan> plan = look(std::move(selection));
    if (!plan || (best && !isSmaller(*plan, *best)))
      return false;
    best = std::move(plan);
    return true;
  };
  for (const Selection &start :
       {selectRecomputeAll(graph), frontier.front()->selection}) {
    Selection measured = start;
    for (size_t root = 0; root < measured.kept.size(); ++root)
      if (isMeasurement(root))
        measured[root] = true;
    improve(std::move(measured));
    improve(start);
  }
  if (!best || llvm::all_of(plans, [](const PiecePlan &plan) {
        return plan.marks.empty();
      }))
    return {};
  const PiecePlan start = *best;
  // With more or less of the rest, as long as that makes it smaller.
  std::vector<SmallVector<int>> classes = groupChoices(graph);
  for (bool improved = true; improved && plans.size() < most / 4;) {
    improved = false;
    for (const SmallVector<int> &members : classes)
      for (bool keep : {false, true}) {
        Selection next = best->selection;
        for (int member : members)
          next[member] = keep;
        if (plans.size() < most / 4)
          improved |= improve(std::move(next));
      }
  }

  // From the start towards less time: of what takes a kernel of its own to
  // compute again, the last of a class is kept, which is kept for the shortest
  // time; or the last of several that belong to one layer, and no measurement
  // from there on, since kernels that know a maximum store more.
  SmallVector<PiecePlan> path = {start};
  while (plans.size() < most / 2) {
    const PiecePlan from = path.back();
    std::optional<PiecePlan> next;
    double bestRate = 0;
    auto consider = [&](Selection selection) {
      std::optional<PiecePlan> plan = look(std::move(selection));
      if (!plan || plan->seconds >= from.seconds)
        return false;
      double rate = (from.seconds - plan->seconds) /
                    std::max<int64_t>(plan->peak - from.peak, 1);
      if (!next || rate > bestRate) {
        bestRate = rate;
        next = std::move(plan);
      }
      return true;
    };
    SmallVector<int> shorter; // members that save time
    int last = -1, before = -1;
    for (ArrayRef<int> members : classes) {
      if (graph.nodes[graph.values[members.front()].node].kind ==
          NodeClass::Loop)
        continue;
      while (!members.empty() && from.selection[members.back()])
        members = members.drop_back();
      if (members.empty())
        continue;
      Selection one = from.selection;
      one[members.back()] = true;
      if (!consider(std::move(one)))
        continue;
      shorter.push_back(members.back());
      if (members.back() > last) {
        last = members.back();
        before = members.size() > 1 ? members[members.size() - 2] : -1;
      }
    }
    Selection layer = from.selection;
    int first = layer.kept.size();
    for (int member : shorter)
      if (member > before) {
        layer[member] = true;
        first = std::min(first, member);
      }
    for (size_t root = first; root < layer.kept.size(); ++root)
      if (isMeasurement(root))
        layer[root] = false;
    consider(std::move(layer));
    if (!next)
      break;
    path.push_back(std::move(*next));
  }

  // Each of them in fewer pieces, and only where the whole is higher than that.
  auto refineAll = [&](const Selection &selection,
                       ArrayRef<Candidate> candidates) {
    for (int64_t pieces : kPieces) {
      size_t count = candidates.size();
      while (count > 0 && !isSpent()) {
        PiecePlan plan;
        plan.selection = selection;
        for (const Candidate &candidate : candidates.take_front(count))
          candidate.mark(plan, pieces);
        evaluate(*apply(plan), plan);
        add(plan);
        size_t needed = llvm::count_if(candidates, [&](const Candidate &other) {
          return other.height > plan.peak;
        });
        if (needed >= count)
          break;
        count = needed;
      }
    }
  };
  auto refine = [&](const Selection &selection) {
    for (Gathers gathers : variants) {
      if (isSpent())
        return;
      OwningOpRef<func::FuncOp> func = applySelectionTo(selection);
      std::vector<Candidate> candidates =
          rankCandidates(*func, *graph.target, fusion, gathers);
      refineAll(selection, candidates);
      // Gathers in pieces alone: they hide behind products, whatever is high.
      size_t all = candidates.size();
      llvm::erase_if(candidates, [](const Candidate &candidate) {
        return candidate.region.gathers.empty();
      });
      if (candidates.size() < all)
        refineAll(selection, candidates);
    }
  };
  refine(best->selection);
  for (const PiecePlan &plan : path)
    if (plan.selection != best->selection)
      refine(plan.selection);
  for (const PlanOption *option : frontier)
    refine(option->selection);
  return plans;
}
