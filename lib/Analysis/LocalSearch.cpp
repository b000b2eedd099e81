//===- LocalSearch.cpp - plans near a plan, within a limit ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks from plan to plan towards a short step whose peak is within a limit. A
// step of the walk drops a value that waits where more is live than the limit,
// until its next reader, or keeps one that is computed again. The best of these
// changes is taken, be it better or worse, and not taken back for a while; what
// a byte over the limit weighs rises as long as the walk is above it and falls
// as long as it is below, so the walk goes to and fro across the limit.
//
//===----------------------------------------------------------------------===//

#include "OrderSearch.h"

#include "fp8/Analysis/Policies.h"

#include <map>

using namespace mlir;
using namespace mlir::fp8;

/// Steps of a walk, and for how many of them a change is not taken back.
static constexpr int kMaxSteps = 12, kTenure = 8;
/// Changes of a kind that are tried from one plan: so many over the nodes of
/// the graph, within bounds.
static constexpr size_t kChangeWork = 4000, kMinChanges = 8, kMaxChanges = 64;
/// Walks in graphs of more nodes than this end after evaluations that found
/// nothing: so many over the nodes.
static constexpr size_t kMaxPatientNodes = 69;
static constexpr size_t kPatienceWork = 40'000;

namespace {

/// A drop that is added or taken away; one at the first node of backward stands
/// for the flag that says what is kept.
using Change = Drop;

Selection apply(const PlanGraph &graph, Selection selection, Change change) {
  if (change.node == graph.firstBackward) {
    selection[change.root] = !selection[change.root];
    return selection;
  }
  auto it = llvm::lower_bound(selection.drops, change);
  if (it != selection.drops.end() && *it == change)
    selection.drops.erase(it);
  else
    selection.drops.insert(it, change);
  return selection;
}

/// The changes of one plan that may help.
class ChangeFinder {
public:
  ChangeFinder(const PlanGraph &graph, Fusion fusion,
               const Selection &selection, bool isExact)
      : graph(graph), selection(selection),
        program(materialize(graph, selection)),
        kernels(formKernels(program, fusion)),
        order(isExact ? scheduleByStretches(kernels)
                      : scheduleRoughly(kernels).first),
        places(selection.getPlaces(graph.nodes.size())),
        readers(program.values.size()) {
    for (auto [index, id] : llvm::enumerate(order))
      for (int member : kernels.kernels[id].members)
        for (int operand : program.instances[member].operands)
          readers[program.values[operand].root].push_back(
              {index, program.instances[member].turn});
  }

  /// About `limit` drops, first of what is live at the peak without being used
  /// there.
  SmallVector<Change> findDrops(size_t limit);
  /// What would spare recomputations, the longest `limit` of them.
  SmallVector<Change> findKeeps(size_t limit);

private:
  void addDrops(int root, SmallVectorImpl<Change> &changes);

  const PlanGraph &graph;
  const Selection &selection;
  Program program;
  KernelGraph kernels;
  std::vector<int> order;
  std::vector<int> places; ///< of nodes
  /// Of roots: places in the order at which they are read, and for which turn.
  std::vector<SmallVector<std::pair<int, int>, 4>> readers;
};

void ChangeFinder::addDrops(int root, SmallVectorImpl<Change> &changes) {
  int value = program.values[root].value,
      instance = program.values[root].instance;
  if (!isChoice(graph, value))
    return;
  const Instance &producer = program.instances[instance];
  SmallVector<int> turns;
  for (auto [place, turn] : readers[root])
    turns.push_back(turn);
  llvm::sort(turns, [&](int a, int b) { return places[a] < places[b]; });
  turns.erase(llvm::unique(turns), turns.end());
  auto add = [&](Change change) {
    if (!llvm::is_contained(changes, change))
      changes.push_back(change);
  };
  for (auto [index, turn] : llvm::enumerate(turns)) {
    if (turn == producer.turn)
      continue;
    bool isFirst = index == 0;
    if (!producer.backward && turn >= graph.firstBackward &&
        (isFirst || turns[index - 1] < graph.firstBackward))
      add({graph.firstBackward, value});
    else if (!isFirst)
      add({turn, value});
    if (turn != turns.back())
      add({turn, value, /*once=*/true});
  }
}

SmallVector<Change> ChangeFinder::findDrops(size_t limit) {
  // What waits at the peak comes first.
  int peak = simulate(kernels, order).peakKernel;
  SmallVector<Change> changes;
  if (peak < 0)
    return changes;
  std::vector<bool> isDone(program.values.size(), false);
  const KernelNode &kernel = kernels.kernels[order[peak]];
  for (int root : llvm::concat<const int>(kernel.reads, kernel.outputs))
    isDone[root] = true;
  SmallVector<int> roots = getLiveRoots(kernels, order, peak);
  for (int root : roots)
    if (!isDone[root] && changes.size() < limit)
      addDrops(root, changes);
  for (auto [root, entry] : llvm::enumerate(program.values))
    if (int id = root; entry.root == id && entry.instance >= 0 &&
                       !program.instances[entry.instance].dead &&
                       (isDone[id] || !llvm::is_contained(roots, id)) &&
                       changes.size() < limit)
      addDrops(id, changes);
  return changes;
}

SmallVector<Change> ChangeFinder::findKeeps(size_t limit) {
  SmallVector<Change> changes;
  auto add = [&](Change change) {
    if (!llvm::is_contained(changes, change))
      changes.push_back(change);
  };
  for (const Instance &instance : program.instances) {
    if (!instance.clone || instance.dead)
      continue;
    for (int result : graph.nodes[instance.node].results) {
      int root = graph.values[result].root;
      if (!isChoice(graph, root))
        continue;
      Change last = {-1, root};
      for (const Drop &drop : selection.drops)
        if (drop.root == root &&
            (drop.once ? drop.node == instance.turn
                       : places[drop.node] <= places[instance.turn]))
          last = drop;
      if (last.node >= 0)
        add(last);
      if (last.node < graph.firstBackward && instance.backward &&
          !selection[root])
        add({graph.firstBackward, root});
    }
  }
  // The longest first.
  if (changes.size() > limit) {
    llvm::stable_sort(changes, [&](Change a, Change b) {
      auto secondsOf = [&](Change change) {
        return graph.nodes[graph.values[change.root].node].seconds;
      };
      return secondsOf(a) > secondsOf(b);
    });
    changes.resize(limit);
  }
  return changes;
}

} // namespace

int64_t PlanOption::getExcess(int64_t limit) const {
  int64_t excess = 0;
  for (int64_t bytes : live)
    excess += std::max<int64_t>(bytes - limit, 0);
  return excess;
}

bool PlanSearch::isWalked(int end) const {
  int spent = getNumEvaluations();
  return spent >= end ||
         (graph.nodes.size() > kMaxPatientNodes &&
          static_cast<size_t>(spent - lastFound) * graph.nodes.size() >=
              kPatienceWork);
}

void PlanSearch::walk(const PlanOption &start, int64_t limit, int end) {
  double forwardSeconds = 0;
  for (const PlanNode &node : graph.nodes)
    forwardSeconds += node.backward ? 0 : node.seconds;
  double weight = forwardSeconds / std::max<int64_t>(limit, 1);
  size_t maxChanges =
      std::clamp(kChangeWork / std::max<size_t>(graph.nodes.size(), 1),
                 kMinChanges, kMaxChanges);
  std::map<Change, int> takenBack; // the step from which on it may be
  const PlanOption *current = &start;
  for (int step = 0; step < kMaxSteps; ++step) {
    int64_t excess = current->getExcess(limit);
    ChangeFinder finder(graph, fusion, current->selection, current->isExact);
    SmallVector<Change> changes = finder.findKeeps(maxChanges);
    if (excess > 0)
      llvm::append_range(changes, finder.findDrops(maxChanges));
    const PlanOption *best = nullptr;
    Change bestChange;
    double bestScore = 0;
    for (Change change : changes) {
      if (isWalked(end))
        return;
      bool isNew = false;
      int before = getNumEvaluations();
      Selection next = apply(graph, current->selection, change);
      const PlanOption &option = evaluate(std::move(next));
      isNew = getNumEvaluations() > before && option.peak <= limit &&
              getLowestPeak(option.seconds) == option.peak;
      if (isNew)
        lastFound = getNumEvaluations();
      auto taken = takenBack.find(change);
      if (taken != takenBack.end() && step < taken->second && !isNew)
        continue;
      double score = option.seconds + weight * option.getExcess(limit);
      if (!best || score < bestScore) {
        best = &option;
        bestChange = change;
        bestScore = score;
      }
    }
    if (!best)
      return;
    current = best;
    takenBack[bestChange] = step + kTenure;
    weight *= current->peak > limit ? 1.5 : 0.7;
  }
}

void PlanSearch::walkFrontier(int end) {
  lastFound = getNumEvaluations();
  std::map<int64_t, double> tried; // limits, and the time that was known
  while (!isWalked(end)) {
    std::vector<const PlanOption *> frontier = getFrontier();
    const PlanOption *low = nullptr, *high = nullptr;
    double widest = -1;
    for (auto [index, option] : llvm::enumerate(frontier)) {
      auto it = tried.find(option->peak - 1);
      double known = index ? frontier[index - 1]->seconds : 0;
      if (it != tried.end() && it->second == known)
        continue;
      double area = index ? double(option->peak - frontier[index - 1]->peak) *
                                (frontier[index - 1]->seconds - option->seconds)
                          : std::numeric_limits<double>::max();
      if (area > widest) {
        widest = area;
        low = index ? frontier[index - 1] : nullptr;
        high = option;
      }
    }
    if (!high)
      return;
    int64_t limit = high->peak - 1;
    tried[limit] = low ? low->seconds : 0;
    walk(*high, limit, end);
    if (low)
      walk(*low, limit, end);
  }
}
