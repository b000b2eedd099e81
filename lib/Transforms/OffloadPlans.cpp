//===- OffloadPlans.cpp - plans with values in host memory ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies change neither the kernels nor their order, so a plan with them is a
// plan that was found before, its order, and a set of values.
//
//===----------------------------------------------------------------------===//

#include "fp8/Transforms/OffloadPlans.h"

#include "fp8/Analysis/Offload.h"
#include "fp8/Analysis/ValueNames.h"
#include "fp8/Support/Progress.h"

using namespace mlir;
using namespace mlir::fp8;

/// What the search may do: plans looked at times nodes of the graph.
static constexpr int64_t kMaxWork = 1'000'000;
static constexpr int64_t kMinPlans = 16, kMaxPlans = 512;
/// Plans of the frontier that it starts from.
static constexpr size_t kMaxStarts = 16;

/// Those of `plans` with a lower peak than every faster one, the fastest first.
static SmallVector<const PiecePlan *> getFrontier(ArrayRef<PiecePlan> plans) {
  SmallVector<const PiecePlan *> sorted, frontier;
  for (const PiecePlan &plan : plans)
    sorted.push_back(&plan);
  llvm::stable_sort(sorted, [](const PiecePlan *a, const PiecePlan *b) {
    return std::pair(a->seconds, a->peak) < std::pair(b->seconds, b->peak);
  });
  for (const PiecePlan *plan : sorted)
    if (frontier.empty() || plan->peak < frontier.back()->peak)
      frontier.push_back(plan);
  return frontier;
}

/// The candidates of `made` that are the residuals `numbers` of its selection.
static SmallVector<int> findRoots(const MadePlan &made,
                                  const Offloader &offloader,
                                  ArrayRef<int> numbers) {
  SmallVector<int> roots;
  for (int root : offloader.getCandidates())
    if (llvm::is_contained(numbers,
                           made.residuals[offloader.getResidual(root)]))
      roots.push_back(root);
  return roots;
}

/// The residuals of `program`, that of a selection, which `fp8.policy` says to
/// offload, without those that take no memory in `made`; and the first value
/// that backward does not read at all, or -1.
static std::pair<SmallVector<int>, int> findAsked(const PlanGraph &graph,
                                                  const Program &program,
                                                  const MadePlan &made,
                                                  const Offloader &offloader) {
  SmallVector<int> numbers, inArguments;
  for (int number : offloader.getInArguments())
    inArguments.push_back(made.residuals[number]);
  int unread = -1;
  for (int value : getAskedOffloads(graph)) {
    bool isRead = false;
    for (auto [number, residual] : llvm::enumerate(program.residuals)) {
      if (program.values[residual].value != value)
        continue;
      isRead = true;
      if (!llvm::is_contained(inArguments, static_cast<int>(number)))
        numbers.push_back(number);
    }
    if (!isRead && unread < 0)
      unread = value;
  }
  return {numbers, unread};
}

std::vector<PiecePlan> mlir::fp8::findOffloadPlans(const PlanGraph &graph,
                                                   PieceSearch &search,
                                                   ArrayRef<PiecePlan> plans,
                                                   int64_t hostBytes) {
  std::vector<PiecePlan> found;
  SmallVector<const PiecePlan *> frontier = getFrontier(plans);
  if (!graph.step || frontier.empty())
    return found;
  int64_t numNodes = std::max<int64_t>(graph.nodes.size(), 1);
  int64_t left = std::clamp(kMaxWork / numNodes, kMinPlans, kMaxPlans);
  size_t numStarts = std::min(frontier.size(), kMaxStarts);
  bool isAsked = !getAskedOffloads(graph).empty();
  // From the fastest plan on, evenly spread over the frontier.
  for (size_t start = 0; start < numStarts; ++start) {
    size_t place =
        numStarts == 1 ? 0 : start * (frontier.size() - 1) / (numStarts - 1);
    const PiecePlan &from = *frontier[place];
    MadePlan made = search.make(from);
    Offloader offloader(made.kernels, made.order);
    SmallVector<int> asked;
    if (isAsked) {
      auto [numbers, unread] =
          findAsked(graph, materialize(graph, from.selection), made, offloader);
      asked = findRoots(made, offloader, numbers);
      if (unread >= 0 || asked.size() != numbers.size())
        continue; // Not what was asked for.
    }
    for (const OffloadOption &option :
         findOffloads(offloader, *made.program, asked, hostBytes,
                      left / (numStarts - start), left)) {
      PiecePlan &plan = found.emplace_back(from);
      for (int root : option.roots)
        plan.offloaded.push_back(made.residuals[offloader.getResidual(root)]);
      plan.peak = option.peak;
      plan.seconds = option.seconds;
    }
  }
  return found;
}

FailureOr<PiecePlan> mlir::fp8::offloadAsked(const PlanGraph &graph,
                                             PieceSearch &search,
                                             PiecePlan plan) {
  Program program = materialize(graph, plan.selection);
  MadePlan made = search.make(plan);
  Offloader offloader(made.kernels, made.order);
  auto [numbers, failing] = findAsked(graph, program, made, offloader);
  SmallVector<int> roots = findRoots(made, offloader, numbers);
  for (int number : numbers)
    if (failing < 0 &&
        llvm::none_of(
            roots,
            [&](int root) {
              return made.residuals[offloader.getResidual(root)] == number;
            }))
      failing = program.values[program.residuals[number]].value;
  if (failing >= 0)
    return emitError(graph.values[failing].value.getLoc())
           << "expected a value to offload that backward reads as one kernel "
              "of forward has made it, and that is no result of the step, "
              "but '"
           << ValueNames(graph.func).getName(graph.values[failing].value)
           << "' is not";
  OffloadPlan copies = offloader.plan(roots);
  plan.offloaded = std::move(numbers);
  plan.peak = copies.peak;
  plan.seconds = copies.seconds;
  return plan;
}

std::map<int, std::string> mlir::fp8::explainOffloads(const PlanGraph &graph,
                                                      PieceSearch &search,
                                                      const PiecePlan &plan) {
  std::map<int, std::string> sentences;
  if (plan.offloaded.empty())
    return sentences;
  MadePlan made = search.make(plan);
  Offloader offloader(made.kernels, made.order);
  SmallVector<int> roots = findRoots(made, offloader, plan.offloaded);
  OffloadPlan whole = offloader.plan(roots);
  constexpr size_t kMostCompared = 32;
  for (int root : roots) {
    int64_t bytes = made.program->graphValue(root).bytes;
    std::string &text = sentences[made.residuals[offloader.getResidual(root)]];
    text = llvm::formatv(
        "{0} wait in host memory; a copy takes {1} each way",
        formatBytes(bytes),
        formatMicroseconds(estimateHostSeconds(*graph.target, bytes)));
    if (roots.size() > kMostCompared)
      continue;
    SmallVector<int> others;
    for (int other : roots)
      if (other != root)
        others.push_back(other);
    OffloadPlan without = offloader.plan(others);
    double seconds = whole.seconds - without.seconds;
    int64_t saved = without.peak - whole.peak;
    text += llvm::formatv("; with it on the device the step would be {0} {1} "
                          "and the peak {2} {3}",
                          formatMicroseconds(std::abs(seconds)),
                          seconds >= 0 ? "shorter" : "longer",
                          formatBytes(std::abs(saved)),
                          saved >= 0 ? "higher" : "lower")
                .str();
  }
  return sentences;
}

int64_t mlir::fp8::getWholePeak(PieceSearch &search, PiecePlan plan) {
  plan.marks.clear();
  MadePlan made = search.make(plan);
  if (plan.offloaded.empty())
    return simulate(made.kernels, made.order).peak;
  Offloader offloader(made.kernels, made.order);
  return offloader.plan(findRoots(made, offloader, plan.offloaded)).peak;
}
