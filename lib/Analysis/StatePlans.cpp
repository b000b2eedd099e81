//===- StatePlans.cpp - plans of a small program from states ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns what a search over states finds into a selection, and looks so for a
// plan in each gap of the frontier of a small program.
//
//===----------------------------------------------------------------------===//

#include "StateSearch.h"

#include "fp8/Analysis/Policies.h"
#include "fp8/Support/Progress.h"

#include <limits>
#include <set>

using namespace mlir;
using namespace mlir::fp8;

/// Work of all searches for the best plan of one program, and of one search: a
/// third of a second at most.
static constexpr int64_t kMaxWork = 300'000, kMaxWorkOfOne = 60'000;
/// Work of searches for any plan, where one for the best ran out of it.
static constexpr int64_t kMaxWorkOfAny = 60'000;

/// When each node runs: by the first run of its kernel; what is in none follows
/// what it reads.
static std::vector<int> findFirstRuns(const KernelGraph &kernels,
                                      ArrayRef<StateSearch::Run> runs) {
  const Program &program = *kernels.program;
  const PlanGraph &graph = *program.graph;
  std::vector<int> runOf(kernels.kernels.size(), -1);
  for (auto [index, run] : llvm::enumerate(runs))
    if (runOf[run.kernel] < 0)
      runOf[run.kernel] = index;
  std::vector<int> when(graph.nodes.size(), -1);
  for (auto [kernel, run] : llvm::zip_equal(kernels.kernels, runOf))
    when[program.instances[kernel.members.front()].node] = run;
  for (auto [id, node] : llvm::enumerate(graph.nodes)) {
    if (when[id] >= 0)
      continue;
    for (int operand : node.operands)
      if (int producer = graph.values[operand].node; producer >= 0)
        when[id] = std::max(when[id], when[producer]);
  }
  return when;
}

Selection StateSearch::select(ArrayRef<Run> runs) const {
  const Program &program = *graph.program;
  const PlanGraph &nodes = *program.graph;
  Selection selection(nodes.values.size(), false);
  // Where all that forward must run has run, backward begins.
  std::vector<bool> hasRun(kernels.size(), false);
  int firstBackward = 0;
  for (auto [index, run] : llvm::enumerate(runs)) {
    if (run.kernel < numForward && !hasRun[run.kernel])
      firstBackward = index + 1;
    hasRun[run.kernel] = true;
  }
  // What it reads that it has not made itself is kept.
  Set made = 0;
  for (const Run &run : runs.drop_front(firstBackward)) {
    for (auto [index, result] : llvm::enumerate(results))
      if (((kernels[run.kernel].reads & ~made) >> index) & 1)
        selection[program.values[result.root].value] = true;
    made |= run.made;
  }
  // Of a node: whether it runs in backward, when, and itself.
  std::vector<std::tuple<bool, int, int>> order;
  for (auto [node, run] : llvm::enumerate(findFirstRuns(graph, runs)))
    order.emplace_back(int(node) >= nodes.firstBackward, run, node);
  hasRun.assign(kernels.size(), false);
  for (auto [index, run] : llvm::enumerate(runs)) {
    int member = graph.kernels[run.kernel].members.front();
    if (hasRun[run.kernel])
      order.emplace_back(int(index) >= firstBackward, index,
                         program.instances[member].node);
    hasRun[run.kernel] = true;
  }
  llvm::sort(order);
  for (auto [isBackward, run, node] : order)
    selection.order.push_back(node);
  if (llvm::is_sorted(selection.order))
    selection.order.clear();
  return selection;
}

/// Where the best plan of a gap was not found: evaluates any plan in it, and
/// then any that takes less time, as long as `work` lasts. One that is not the
/// best is more than none, and with its time as a bar the best is found sooner.
static void searchAny(PlanSearch &plans, StateSearch &search, int64_t limit,
                      double seconds, double once, int64_t work) {
  std::vector<StateSearch::Run> runs;
  while (search.run(StateSearch::Aim::Any, limit, seconds - once, work, runs) ==
         StateSearch::Outcome::Found) {
    const PlanOption &found = plans.evaluateExactly(search.select(runs));
    if (found.seconds >= seconds || found.peak > limit)
      return;
    seconds = found.seconds;
  }
}

bool PlanSearch::searchStates() {
  if (llvm::count_if(graph.nodes, [](const PlanNode &node) {
        return node.kind != NodeClass::View && node.kind != NodeClass::Constant;
      }) > StateSearch::kMaxKernels)
    return false;
  Program program = materialize(graph, selectSaveAll(graph));
  KernelGraph kernels = formKernels(program, fusion);
  SmallVector<int> mustStay;
  for (auto [root, entry] : getOverrides(graph))
    if (auto text = dyn_cast<StringAttr>(entry);
        text && text.getValue() != "recompute")
      mustStay.push_back(root);
  StateSearch search(kernels, mustStay);
  if (!search.isPossible())
    return false;
  double once = kernels.getSeconds();
  int64_t work = kMaxWork;
  // Whether no plan is missing on the frontier, as kernels are where nothing is
  // computed again.
  bool isClosed = fusion == Fusion::None;
  std::set<std::pair<int64_t, double>> tried;
  while (work > 0 && !isInterrupted()) {
    // From the fastest plan on: there the searches are short.
    std::vector<const PlanOption *> frontier = getFrontier();
    const PlanOption *high = nullptr;
    double longest = 0;
    for (size_t index = frontier.size(); index-- > 0;) {
      longest = index ? frontier[index - 1]->seconds
                      : std::numeric_limits<double>::infinity();
      if (tried.insert({frontier[index]->peak - 1, longest}).second) {
        high = frontier[index];
        break;
      }
    }
    if (!high)
      return isClosed;
    int64_t some = std::min(work, kMaxWorkOfOne), left = some;
    std::vector<StateSearch::Run> runs;
    StateSearch::Outcome outcome = search.run(
        StateSearch::Aim::Shortest, high->peak - 1, longest - once, left, runs);
    work -= some - left;
    isClosed &= outcome != StateSearch::Outcome::Unknown;
    if (outcome == StateSearch::Outcome::Unknown)
      searchAny(*this, search, high->peak - 1, longest, once, kMaxWorkOfAny);
    if (outcome != StateSearch::Outcome::Found)
      continue;
    const PlanOption &found = evaluateExactly(search.select(runs));
    isClosed &= found.peak < high->peak && found.seconds < longest;
  }
  return false;
}
