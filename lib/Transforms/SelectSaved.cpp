//===- SelectSaved.cpp - fp8-select-saved -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses what is kept for backward and what is computed again.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Decisions.h"
#include "fp8/Analysis/Offload.h"
#include "fp8/Analysis/TimeBound.h"
#include "fp8/Analysis/ValueNames.h"
#include "fp8/Support/ByteSize.h"
#include "fp8/Support/Progress.h"
#include "fp8/Target/Signature.h"
#include "fp8/Transforms/ApplyPlan.h"
#include "fp8/Transforms/OffloadPlans.h"
#include "fp8/Transforms/Overlap.h"
#include "fp8/Transforms/Passes.h"
#include "fp8/Transforms/Residuals.h"
#include "fp8/Transforms/RowRegions.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8SELECTSAVEDPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

struct SelectSavedPass : fp8::impl::FP8SelectSavedPassBase<SelectSavedPass> {
  using FP8SelectSavedPassBase::FP8SelectSavedPassBase;

  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }

private:
  LogicalResult run();
  LogicalResult select(func::FuncOp func, const Target &target);
  /// The plans that `auto` chooses from, whole or in pieces. Whatever the
  /// limit, so that its answers go together.
  std::vector<PiecePlan> findPlans(const PlanGraph &graph, PlanSearch &search,
                                   PieceSearch &inPieces,
                                   std::optional<PiecePlan> askedPlan);
  /// The selection of a policy other than `auto`.
  Selection getSelection(const PlanGraph &graph, Policy policy) const;
  /// The plan of that, but for what waits in host memory.
  PiecePlan getPlan(const PlanGraph &graph, PlanSearch &search,
                    PieceSearch &inPieces, Policy policy) const;
  /// The bytes that a plan no slower than `plan` may have in host memory: what
  /// its link carries in that time.
  int64_t getHostRoom(const PlanGraph &graph, const PiecePlan &plan) const;
  /// What `fp8.policy` says to offload in host memory and all else kept, as the
  /// plan that there is at least. Fails where that cannot be.
  FailureOr<PiecePlan> getAskedPlan(const PlanGraph &graph,
                                    PieceSearch &inPieces) const;
  LogicalResult reportBudget(const PlanGraph &graph, PieceSearch &inPieces,
                             const PiecePlan &smallest, int64_t limit,
                             int64_t peak);

  Policy chosenPolicy = Policy::Auto;
  llvm::StringSet<> listedOps;
  std::optional<int64_t> budgetBytes, deviceBytes;
  int64_t hostBytes = 0; ///< that values may wait in
  /// What is kept for all microbatches of a step, beside the function at hand.
  int64_t keptBytes = 0;
  Fusion fusion = Fusion::Default;
};

LogicalResult SelectSavedPass::run() {
  ModuleOp module = getOperation();
  std::optional<Policy> parsed = parsePolicy(policy);
  if (!parsed)
    return module.emitError("expected 'policy' to be save-all, recompute-all, "
                            "op-list, min-cut or auto, but got '")
           << policy << "'";
  chosenPolicy = *parsed;
  if (fuse != "default" && fuse != "none")
    return module.emitError(
               "expected 'fuse' to be 'default' or 'none', but got '")
           << fuse << "'";
  fusion = fuse == "none" ? Fusion::None : Fusion::Default;
  if (overlap != "default" && overlap != "none")
    return module.emitError(
               "expected 'overlap' to be default or none, but got '")
           << overlap << "'";
  if (pieces < 0 || pieces > kMostPieces)
    return module.emitError("expected 'pieces' from 0 to ")
           << kMostPieces << ", but got " << int64_t(pieces);
  auto emitError = [&] { return module.emitError(); };
  if (failed(parseByteOption("budget", budget, budgetBytes, emitError)) ||
      failed(parseByteOption("device-memory", deviceMemory, deviceBytes,
                             emitError)))
    return failure();
  std::optional<int64_t> granted;
  if (failed(parseByteOption("host-memory", hostMemory, granted, emitError)))
    return failure();
  hostBytes = granted.value_or(0);
  FailureOr<llvm::StringSet<>> list = parseOpList(ops, emitError);
  if (failed(list))
    return failure();
  listedOps = std::move(*list);
  const Target *target = getTargetOf(module);
  if (!target)
    return failure();
  if (hostBytes > 0 && !target->hostBytesPerSecond)
    return module.emitError("expected a target with a link to host memory for "
                            "'host-memory', but '")
           << target->name << "' has no 'host_bytes_per_second'";
  for (auto func : module.getOps<func::FuncOp>())
    if (!func.isExternal() && failed(select(func, *target)))
      return failure();
  return success();
}

Selection SelectSavedPass::getSelection(const PlanGraph &graph,
                                        Policy policy) const {
  switch (policy) {
  case Policy::SaveAll:
    return selectSaveAll(graph);
  case Policy::RecomputeAll:
    return selectRecomputeAll(graph);
  case Policy::OpList:
    return selectOpList(graph, listedOps);
  default:
    return selectMinCut(graph);
  }
}

PiecePlan SelectSavedPass::getPlan(const PlanGraph &graph, PlanSearch &search,
                                   PieceSearch &inPieces, Policy policy) const {
  Selection selection = getSelection(graph, policy);
  applyOverrides(graph, selection);
  if (pieces > 1)
    return inPieces.splitAll(selection, pieces);
  const PlanOption &option = search.evaluateExactly(selection);
  return {option.selection, {}, {}, option.peak, option.seconds};
}

std::vector<PiecePlan>
SelectSavedPass::findPlans(const PlanGraph &graph, PlanSearch &search,
                           PieceSearch &inPieces,
                           std::optional<PiecePlan> askedPlan) {
  std::vector<PiecePlan> plans;
  std::vector<const PlanOption *> frontier = search.findFrontier();
  for (const PlanOption *option : frontier)
    if (pieces > 1)
      plans.push_back(inPieces.splitAll(option->selection, pieces));
    else
      plans.push_back(
          {option->selection, {}, {}, option->peak, option->seconds});
  if (pieces == 0)
    llvm::append_range(plans, inPieces.find(frontier));
  if (!askedPlan && hostBytes == 0)
    return plans;
  std::vector<PiecePlan> offloading =
      findOffloadPlans(graph, inPieces, plans, hostBytes);
  // Plans that do not offload what they are told to are none.
  if (askedPlan)
    plans = {std::move(*askedPlan)};
  llvm::append_range(plans, offloading);
  return plans;
}

LogicalResult SelectSavedPass::reportBudget(const PlanGraph &whole,
                                            PieceSearch &inPieces,
                                            const PiecePlan &smallest,
                                            int64_t limit, int64_t peak) {
  InFlightDiagnostic diagnostic =
      whole.func->emitError()
      << "no plan with policy '" << policy << "' fits in "
      << formatBytes(limit + keptBytes) << ": expected a budget of at least "
      << formatBytes(peak + keptBytes)
      << "; min_feasible_peak_bytes (policy auto) is "
      << smallest.peak + keptBytes;
  if (!smallest.offloaded.empty())
    return diagnostic;
  OwningOpRef<func::FuncOp> func = inPieces.apply(smallest);
  FailureOr<PlanGraph> graph = PlanGraph::build(*func, *whole.target);
  if (failed(graph))
    return failure();
  Program program = materialize(*graph, selectSaveAll(*graph));
  KernelGraph kernels = formKernels(program, fusion);
  std::vector<int> order = schedule(kernels);
  PeakInfo info = simulate(kernels, order);
  if (info.peakKernel < 0)
    return diagnostic;
  // What is live there, largest first: buffers and the workspace of the kernel
  // that runs.
  constexpr int kContributors = 5;
  ValueNames names(*func);
  const KernelNode &kernel = kernels.kernels[order[info.peakKernel]];
  int64_t workspace = kernel.workspace;
  int printed = 0;
  auto printWorkspace = [&] {
    Operation *op = program.node(program.instances[kernel.members.front()]).op;
    diagnostic.attachNote(op->getLoc())
        << "live at that plan's peak: the workspace of '" << op->getName()
        << "', " << formatBytes(workspace);
    workspace = 0;
    ++printed;
  };
  for (int root : getLiveRoots(kernels, order, info.peakKernel)) {
    const PlanValue &value = program.graphValue(root);
    if (workspace > value.bytes && printed < kContributors)
      printWorkspace();
    if (printed >= kContributors)
      return diagnostic;
    diagnostic.attachNote(value.value.getLoc())
        << "live at that plan's peak: " << names.getName(value.value) << ", "
        << formatBytes(value.bytes) << ", " << value.value.getType();
    ++printed;
  }
  if (workspace > 0 && printed < kContributors)
    printWorkspace();
  return diagnostic;
}

/// A bound on the step time whatever of the collectives other kernels hide: all
/// that is not one, or one collective after another.
static TimeBound getHiddenBound(const PlanGraph &graph, Fusion fusion,
                                int64_t limit) {
  double communication = 0;
  for (const PlanNode &node : graph.nodes)
    if (node.kind == NodeClass::Collective)
      communication += node.seconds;
  if (communication == 0)
    return getTimeBound(graph, fusion, limit);
  PlanGraph hidden = graph;
  for (PlanNode &node : hidden.nodes)
    if (node.kind == NodeClass::Collective)
      node.seconds = 0;
  TimeBound bound = getTimeBound(hidden, fusion, limit);
  bound.kind += ", all collectives beside them";
  if (communication > bound.seconds)
    bound = {communication, "every collective once, one after another"};
  return bound;
}

int64_t SelectSavedPass::getHostRoom(const PlanGraph &graph,
                                     const PiecePlan &plan) const {
  int64_t bytes = 0;
  if (!plan.offloaded.empty()) {
    Program program = materialize(graph, plan.selection);
    for (int number : plan.offloaded)
      bytes += program.graphValue(program.residuals[number]).bytes;
  }
  bytes = std::max(bytes, hostBytes);
  if (bytes == 0)
    return 0;
  return std::min<double>(bytes,
                          plan.seconds * *graph.target->hostBytesPerSecond);
}

FailureOr<PiecePlan>
SelectSavedPass::getAskedPlan(const PlanGraph &graph,
                              PieceSearch &inPieces) const {
  if (!graph.target->hostBytesPerSecond)
    return graph.func->emitError("expected a target with a link to host memory "
                                 "for 'fp8.policy' \"offload\", but '")
           << graph.target->name << "' has no 'host_bytes_per_second'";
  Selection selection = selectSaveAll(graph);
  applyOverrides(graph, selection);
  PiecePlan plan;
  if (pieces > 1)
    plan = inPieces.splitAll(selection, pieces);
  else
    plan.selection = std::move(selection);
  return offloadAsked(graph, inPieces, std::move(plan));
}

/// What choosing among plans by what they cost once collectives start early may
/// do: plans made times nodes of the graph.
static constexpr int64_t kMaxOverlapWork = 10'000;

/// Of `plans`, the one that is fastest, then smallest, once their collectives
/// start early; of the first ones of very many. What is fast as if nothing hid
/// a collective comes first.
static const PiecePlan *
chooseOverlapped(const PlanGraph &graph, ArrayRef<const PiecePlan *> plans,
                 function_ref<PlanCost(const PiecePlan &)> evaluate) {
  int64_t numNodes = std::max<int64_t>(graph.nodes.size(), 1);
  plans = plans.take_front(std::max<int64_t>(kMaxOverlapWork / numNodes, 1));
  if (plans.size() == 1)
    return plans.front();
  const PiecePlan *best = nullptr;
  PlanCost least;
  for (const PiecePlan *plan : plans) {
    if (isInterrupted() && best)
      break;
    PlanCost cost = evaluate(*plan);
    if (best && std::pair(cost.seconds, cost.peak) >=
                    std::pair(least.seconds, least.peak))
      continue;
    best = plan;
    least = cost;
  }
  return best;
}

LogicalResult SelectSavedPass::select(func::FuncOp func, const Target &target) {
  dropUnread(func);
  FailureOr<PlanGraph> graph = PlanGraph::build(func, target);
  if (failed(graph))
    return failure();
  for (const PlanNode &node : graph->nodes)
    if (node.kind == NodeClass::Kernel)
      return node.op->emitOpError("expected ops that are not in kernels yet; "
                                  "this IR is planned already");
  if (func->hasAttr(kDecisionsAttr))
    return func.emitError(
        "expected joint IR, but 'fp8-select-saved' has run on it already");

  // What is said of a value here is said under the name that it has in the end.
  ValueNames(func).applyToLocations();

  // What is kept for all microbatches is alive beside this one.
  keptBytes = runsOnceAStep(func) ? 0 : getStepBytes(getOperation());
  int64_t limit = budgetBytes.value_or(std::numeric_limits<int64_t>::max());
  if (budgetBytes && limit < keptBytes)
    return func.emitError("expected a 'budget' that holds the casts of "
                          "weights that are kept for the whole step, ")
           << formatBytes(keptBytes) << ", but got " << formatBytes(limit)
           << "; compile with weight-casts=microbatch";
  if (budgetBytes)
    limit -= keptBytes;
  if (deviceBytes) {
    int64_t resident = graph->getResidentBytes();
    if (*deviceBytes < resident)
      return func.emitError("expected 'device-memory' to hold the arguments, ")
             << formatBytes(resident) << ", but got "
             << formatBytes(*deviceBytes);
    limit = std::min(limit, *deviceBytes - resident);
  }
  PlanSearch search(*graph, fusion);
  PieceSearch inPieces(*graph, fusion);
  bool isOffloadAsked = !getAskedOffloads(*graph).empty();
  std::optional<PiecePlan> askedPlan;
  if (isOffloadAsked) {
    FailureOr<PiecePlan> plan = getAskedPlan(*graph, inPieces);
    if (failed(plan))
      return failure();
    askedPlan = std::move(*plan);
  }
  std::vector<PiecePlan> plans =
      findPlans(*graph, search, inPieces, std::move(askedPlan));
  bool interrupted = isInterrupted();
  endProgress();
  auto isSmaller = [](const PiecePlan &a, const PiecePlan &b) {
    return std::tuple(a.peak, a.seconds) < std::tuple(b.peak, b.seconds);
  };
  auto isFaster = [](const PiecePlan &a, const PiecePlan &b) {
    return std::tuple(a.seconds, a.peak) < std::tuple(b.seconds, b.peak);
  };
  const PiecePlan &smallest =
      *std::min_element(plans.begin(), plans.end(), isSmaller);
  // What a plan costs once its collectives start early, as it will.
  std::function<PlanCost(const PiecePlan &)> evaluate;
  if (overlap != "none" && getNumRanks(getOperation()) > 1 &&
      llvm::any_of(graph->nodes, [](const PlanNode &node) {
        return node.chain == Chain::Communicator;
      })) {
    std::optional<int64_t> overlapLimit;
    if (budgetBytes || deviceBytes)
      overlapLimit = limit;
    evaluate = [&, overlapLimit](const PiecePlan &plan) {
      // Ops ask the module for the grid.
      ModuleOp module = getOperation();
      OwningOpRef<ModuleOp> copy(ModuleOp::create(module.getLoc()));
      (*copy)->setAttrs(module->getAttrs());
      func::FuncOp applied = inPieces.apply(plan).release();
      copy->push_back(applied);
      return evaluateOverlapped(applied, target, fusion, overlapLimit);
    };
  }
  const PiecePlan *chosen = nullptr;
  PiecePlan asked;
  // Those of the simple policies, which are not all on the frontier, but may be
  // once collectives start early.
  std::vector<PiecePlan> simplePlans;
  if (chosenPolicy == Policy::Auto) {
    // How copies to the host and early starts go together is not known here.
    bool isOverlapped = evaluate && hostBytes == 0 && !isOffloadAsked;
    if (isOverlapped)
      for (Policy simple : {Policy::SaveAll, Policy::RecomputeAll,
                            Policy::OpList, Policy::MinCut})
        simplePlans.push_back(getPlan(*graph, search, inPieces, simple));
    SmallVector<const PiecePlan *> fitting;
    for (const PiecePlan &plan : llvm::concat<PiecePlan>(plans, simplePlans))
      if (plan.peak <= limit)
        fitting.push_back(&plan);
    if (fitting.empty())
      return reportBudget(*graph, inPieces, smallest, limit, smallest.peak);
    llvm::stable_sort(fitting, [&](const PiecePlan *a, const PiecePlan *b) {
      return isFaster(*a, *b);
    });
    chosen = isOverlapped ? chooseOverlapped(*graph, fitting, evaluate)
                          : fitting.front();
  } else {
    asked = getPlan(*graph, search, inPieces, chosenPolicy);
    if (isOffloadAsked) {
      FailureOr<PiecePlan> offloading =
          offloadAsked(*graph, inPieces, std::move(asked));
      if (failed(offloading))
        return failure();
      asked = std::move(*offloading);
    }
    if (asked.peak > limit)
      return reportBudget(*graph, inPieces, smallest, limit, asked.peak);
    chosen = &asked;
  }

  Decisions decisions;
  decisions.policy = policy;
  decisions.interrupted = interrupted;
  decisions.minFeasiblePeak = smallest.peak + keptBytes;
  auto [bound, kind] = getPeakLowerBound(*graph);
  decisions.lowerBound = bound;
  decisions.boundKind = kind.str();
  int64_t boundLimit = limit;
  if (limit != std::numeric_limits<int64_t>::max())
    boundLimit += getHostRoom(*graph, *chosen);
  TimeBound timeBound = getHiddenBound(*graph, fusion, boundLimit);
  decisions.stepLowerBound = timeBound.seconds;
  decisions.stepBoundKind = timeBound.kind;
  std::function<PlanCost(const Selection &)> compare;
  if (evaluate)
    compare = [&](const Selection &selection) {
      PiecePlan plan;
      plan.selection = selection;
      return evaluate(plan);
    };
  explain(*graph, chosenPolicy, chosen->selection,
          explainOffloads(*graph, inPieces, *chosen), fusion, search,
          std::move(compare), decisions);
  int64_t wholePeak =
      chosen->marks.empty() ? chosen->peak : getWholePeak(inPieces, *chosen);
  if (graph->step) {
    applySelection(*graph, materialize(*graph, chosen->selection));
    markOffloads(graph->step, chosen->offloaded);
  }
  markPieces(func, chosen->marks);
  if (!chosen->marks.empty())
    explainPieces(func, target, wholePeak, decisions);
  func->setAttr(kDecisionsAttr, decisions.toAttribute(&getContext()));
  return success();
}

} // namespace
