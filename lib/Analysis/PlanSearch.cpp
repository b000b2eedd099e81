//===- PlanSearch.cpp - the search behind the policy auto -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Coordinate search over what is kept. Choices at the same place of equal
// layers move together first, then one by one, so that a stack of layers costs
// little more than one. Every evaluation forms, orders and simulates the
// kernels, so a plan's peak is the peak the passes will make.
//
//===----------------------------------------------------------------------===//

#include "OrderSearch.h"

#include "fp8/Analysis/Policies.h"

#include "fp8/Support/Progress.h"

#include "llvm/Support/xxhash.h"
#include <cmath>
#include <limits>
#include <set>

using namespace mlir;
using namespace mlir::fp8;

/// What a search may do: evaluations times nodes. The number of evaluations
/// falls with the size of the graph, so the time does not grow with its square.
static constexpr int64_t kMaxWork = 450'000;
/// The same where layers are left out. Each of the few plans that it finds
/// stands for one that takes much longer to evaluate.
static constexpr int64_t kMaxReducedWork = 1'200'000;
/// Bounds on the number of evaluations, whatever the size.
static constexpr int kMinEvaluations = 24, kMaxEvaluations = 1800;
/// The same for walks, whose evaluations fall with the square of the nodes.
static constexpr int64_t kMaxWalkWork = 24'000'000;
static constexpr int kMaxWalkEvaluations = 5000;
static constexpr int kRefinementRounds = 3;
/// What a step of the frontier is refined from, as a part of the peak: smaller
/// ones are none to a user. Where layers are left out the peaks are guesses,
/// and all steps are refined.
static constexpr double kSmallestStep = 1.0 / 200;
/// In a graph of more than so many nodes, a plan whose peak is this many times
/// that of another one, which is no slower, is not looked at for a better
/// order.
static constexpr size_t kMaxOrderedNodes = 128;
static constexpr double kMostAbove = 1.1;
/// A graph of fewer nodes is searched as it is, equal layers or not.
static constexpr size_t kMinReducedNodes = 200;

//===----------------------------------------------------------------------===//
// Equal choices of equal layers
//===----------------------------------------------------------------------===//

/// The choices that backward reaches when nothing is kept.
static SmallVector<int> collectChoices(const PlanGraph &graph) {
  std::vector<bool> seen(graph.values.size(), false);
  SmallVector<int> stack;
  auto visit = [&](int value) {
    int root = graph.values[value].root;
    if (seen[root])
      return;
    seen[root] = true;
    stack.push_back(root);
  };
  for (const PlanNode &node : graph.nodes)
    if (node.backward)
      for (int operand : node.operands)
        if (int producer = graph.rootOf(operand).node;
            producer >= 0 && !graph.nodes[producer].backward)
          visit(operand);
  SmallVector<int> choices;
  while (!stack.empty()) {
    int value = stack.pop_back_val();
    const PlanValue &entry = graph.values[value];
    if (isChoice(graph, value))
      choices.push_back(value);
    if (entry.node >= 0)
      for (int operand : graph.nodes[entry.node].operands)
        visit(operand);
  }
  llvm::sort(choices);
  return choices;
}

namespace {

/// Numbers values by what they are, some producers deep: op, attributes and
/// types, no names and no position.
class Signatures {
public:
  explicit Signatures(const PlanGraph &graph)
      : graph(graph), ops(graph.nodes.size(), -1) {}

  /// Equal for values that are alike `depth` producers deep.
  int get(int value, unsigned depth);

private:
  int getOp(int id);

  const PlanGraph &graph;
  std::vector<int> ops;                ///< by node; -1 where not known yet
  SmallVector<std::vector<int>> known; ///< by depth and value, the same
  // Looked up only.
  std::map<std::tuple<const void *, const void *, const void *>, int> opNumbers;
  std::map<SmallVector<intptr_t, 8>, int> numbers;
};

} // namespace

int Signatures::getOp(int id) {
  if (ops[id] >= 0)
    return ops[id];
  Operation *op = graph.nodes[id].op;
  DictionaryAttr attributes = op->getDiscardableAttrDictionary();
  if (attributes.contains(kCheckpointAttr)) {
    NamedAttrList others(attributes);
    others.erase(kCheckpointAttr);
    attributes = others.getDictionary(op->getContext());
  }
  Attribute properties =
      op->getPropertiesStorage() ? op->getPropertiesAsAttribute() : Attribute();
  int next = opNumbers.size();
  return ops[id] = opNumbers
                       .try_emplace({op->getName().getAsOpaquePointer(),
                                     attributes.getAsOpaquePointer(),
                                     properties.getAsOpaquePointer()},
                                    next)
                       .first->second;
}

int Signatures::get(int value, unsigned depth) {
  while (known.size() <= depth)
    known.emplace_back(graph.values.size(), -1);
  if (int found = known[depth][value]; found >= 0)
    return found;
  const PlanValue &entry = graph.values[value];
  SmallVector<intptr_t, 8> key = {
      reinterpret_cast<intptr_t>(entry.value.getType().getAsOpaquePointer())};
  if (entry.node >= 0) {
    key.push_back(getOp(entry.node));
    key.push_back(cast<OpResult>(entry.value).getResultNumber());
    if (depth > 0)
      for (int operand : graph.nodes[entry.node].operands)
        key.push_back(get(operand, depth - 1));
    key.push_back(-1 - static_cast<intptr_t>(depth));
  }
  int next = numbers.size();
  return known[depth][value] =
             numbers.try_emplace(std::move(key), next).first->second;
}

std::vector<SmallVector<int>> mlir::fp8::groupChoices(const PlanGraph &graph) {
  constexpr int kDepth = 3;
  // By signature and the op that reads it first.
  using Key = std::pair<int, const void *>;
  llvm::MapVector<Key, SmallVector<int>> groups;
  // The first reader tells apart what its producers do not.
  std::vector<int> firstReader(graph.values.size(), -1);
  for (auto [index, node] : llvm::enumerate(graph.nodes))
    for (int operand : node.operands)
      if (int &reader = firstReader[graph.values[operand].root]; reader < 0)
        reader = index;
  Signatures signatures(graph);
  for (int choice : collectChoices(graph)) {
    int reader = firstReader[choice];
    groups[{signatures.get(choice, kDepth),
            reader < 0
                ? nullptr
                : graph.nodes[reader].op->getName().getAsOpaquePointer()}]
        .push_back(choice);
  }
  std::vector<SmallVector<int>> result;
  for (auto &[key, members] : groups)
    result.push_back(std::move(members));
  return result;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

PlanSearch::PlanSearch(const PlanGraph &graph, Fusion fusion)
    : graph(graph), fusion(fusion), overrides(getOverrides(graph)) {
  int64_t numNodes = std::max<int64_t>(graph.nodes.size(), 1);
  maxEvaluations = std::clamp<int64_t>(kMaxWork / numNodes, kMinEvaluations,
                                       kMaxEvaluations);
  maxWalkEvaluations = std::min<int64_t>(kMaxWalkWork / numNodes / numNodes,
                                         kMaxWalkEvaluations);
}

PlanSearch::PlanSearch(const ReducedGraph &reduced, Fusion fusion)
    : PlanSearch(reduced.graph, fusion) {
  borders = reduced.borders;
  maxEvaluations = std::clamp<int64_t>(kMaxReducedWork / graph.nodes.size(),
                                       kMinEvaluations, kMaxEvaluations);
}

/// A chain of recomputations through several layers would look short: most of
/// them are left out.
Program PlanSearch::materializeLayers(Selection &selection) const {
  Program program = materialize(graph, selection);
  if (borders.empty())
    return program;
  bool changed = false;
  for (const Instance &instance : program.instances) {
    if (!instance.clone || instance.dead)
      continue;
    for (int result : graph.nodes[instance.node].results) {
      if (!llvm::binary_search(borders, result) || !isChoice(graph, result))
        continue;
      selection[result] = true;
      llvm::erase_if(selection.drops, [&, root = result](const Drop &drop) {
        return drop.root == root;
      });
      changed = true;
    }
  }
  return changed ? materialize(graph, selection) : std::move(program);
}

int PlanSearch::getNumEvaluations() const {
  return isInterrupted() ? std::numeric_limits<int>::max() / 2 : options.size();
}

int64_t PlanSearch::getLowestPeak(double seconds) const {
  auto it = lowestPeaks.upper_bound(seconds);
  return it == lowestPeaks.begin() ? std::numeric_limits<int64_t>::max()
                                   : std::prev(it)->second;
}

void PlanSearch::setPeak(PlanOption &option, PeakInfo info) {
  option.peak = info.peak;
  option.live = std::move(info.live);
  if (getLowestPeak(option.seconds) <= option.peak)
    return;
  auto it = lowestPeaks.lower_bound(option.seconds);
  while (it != lowestPeaks.end() && it->second >= option.peak)
    it = lowestPeaks.erase(it);
  lowestPeaks[option.seconds] = option.peak;
}

/// A hash of all that the kernels of `program` depend on.
static std::pair<uint64_t, uint64_t> getHash(const Program &program) {
  std::vector<int> text = {program.firstBackward};
  for (const Instance &instance : program.instances) {
    text.push_back(instance.node * 4 + instance.copy * 2 + instance.dead);
    llvm::append_range(text, instance.operands);
  }
  llvm::append_range(text, program.backwardResults);
  auto hash = llvm::xxh3_128bits(
      ArrayRef(reinterpret_cast<const uint8_t *>(text.data()),
               text.size() * sizeof(int)));
  return {hash.low64, hash.high64};
}

const PlanOption &PlanSearch::evaluate(Selection selection) {
  applyOverrides(overrides, selection);
  if (auto known = options.find(selection); known != options.end())
    return known->second;
  Program program = materializeLayers(selection);
  auto [it, inserted] = options.try_emplace(selection);
  PlanOption &option = it->second;
  if (!inserted)
    return option;
  option.selection = std::move(selection);
  if (auto [same, isNew] = firstOf.try_emplace(getHash(program), &option);
      !isNew) {
    const PlanOption &first = *same->second;
    option.seconds = first.seconds;
    option.peak = first.peak;
    option.live = first.live;
    option.isExact = first.isExact;
    option.isFinal = first.isFinal;
    return option;
  }
  KernelGraph kernels = formKernels(program, fusion);
  option.seconds = kernels.getSeconds();
  auto [order, info] = scheduleRoughly(kernels);
  // The best order is looked for where it might bring the plan to the frontier.
  int64_t bar = std::min(info.peak, getLowestPeak(option.seconds));
  int64_t floor = -1; // of the quick order
  // Where layers are left out, the order does not matter yet.
  option.isExact = !borders.empty() || !isOrderImproved(kernels);
  if (!option.isExact && (graph.nodes.size() <= kMaxOrderedNodes ||
                          info.peak <= kMostAbove * bar)) {
    floor = getFloor(kernels, order, info);
    option.isExact = info.peak <= floor;
    if (floor < bar && mayGetBelow(kernels, order, info, floor, bar)) {
      improveStretches(kernels, order, info, floor);
      option.isExact = true;
    }
  }
  bool isCleared = clears && option.isExact && info.peak <= kMostAbove * bar;
  option.isFinal =
      !borders.empty() || isCleared || (option.isExact && !isLong(kernels));
  if (isCleared)
    finishSchedule(kernels, order, info,
                   floor < 0 ? getFloor(kernels, order, info) : floor);
  setPeak(option, std::move(info));
  reportProgress(func::FuncOp(graph.func).getName(), options.size(),
                 maxEvaluations + maxWalkEvaluations,
                 lowestPeaks.rbegin()->second, lowestPeaks.begin()->first);
  return option;
}

const PlanOption &PlanSearch::evaluateExactly(Selection selection) {
  const PlanOption &known = evaluate(std::move(selection));
  if (known.isFinal)
    return known;
  PlanOption &option = options.find(known.selection)->second;
  Program program = materialize(graph, option.selection);
  KernelGraph kernels = formKernels(program, fusion);
  setPeak(option, simulate(kernels, schedule(kernels)));
  option.isExact = option.isFinal = true;
  return option;
}

/// `selection` with `members` set to `keep`.
static Selection withKept(Selection selection, ArrayRef<int> members,
                          bool keep) {
  for (int member : members)
    selection[member] = keep;
  return selection;
}

static bool isFaster(const PlanOption &a, const PlanOption &b) {
  return std::tuple(a.seconds, a.peak) < std::tuple(b.seconds, b.peak);
}
static bool isSmaller(const PlanOption &a, const PlanOption &b) {
  return std::tuple(a.peak, a.seconds) < std::tuple(b.peak, b.seconds);
}

void PlanSearch::findMeasurements() {
  constexpr int64_t kSmall = 64;
  std::vector<bool> isMeasurement(graph.values.size(), false);
  std::vector<SmallVector<int, 2>> measured(graph.values.size());
  for (const PlanNode &node : graph.nodes) {
    if (node.backward || node.kind != NodeClass::Loop)
      continue;
    for (int result : node.results)
      for (int operand : node.operands) {
        int root = graph.values[operand].root;
        int64_t bytes = graph.values[root].bytes;
        if (classOf[root] < 0 || classOf[result] < 0 ||
            graph.values[result].bytes >
                (isMeasurement[root] ? bytes : bytes / kSmall))
          continue;
        isMeasurement[result] = true;
        measured[root].push_back(result);
      }
  }
  measurements.assign(classes.size(), {});
  for (auto [members, found] : llvm::zip_equal(classes, measurements)) {
    SmallVector<int> work = members;
    while (!work.empty())
      for (int value : measured[work.pop_back_val()])
        if (!llvm::is_contained(found, value)) {
          found.push_back(value);
          work.push_back(value);
        }
  }
}

void PlanSearch::descend(const Selection &start, bool minimisePeak, int end) {
  auto better = minimisePeak ? isSmaller : isFaster;
  const PlanOption *current = &evaluate(start);
  // Towards less time: any class may change, the first improvement is taken.
  if (!minimisePeak) {
    // The largest first: not all of them may have their turn.
    SmallVector<int> order = llvm::to_vector(llvm::seq<int>(0, classes.size()));
    llvm::stable_sort(order, [&](int a, int b) {
      return graph.values[classes[a].front()].bytes >
             graph.values[classes[b].front()].bytes;
    });
    for (int round = 0; round < 3; ++round) {
      bool improved = false;
      for (int index : order) {
        if (getNumEvaluations() >= end)
          return;
        ArrayRef<int> members = classes[index];
        bool keep = !current->selection[members.front()];
        auto look = [&](Selection selection) {
          const PlanOption &next = evaluate(std::move(selection));
          if (better(next, *current)) {
            current = &next;
            improved = true;
          }
        };
        look(withKept(current->selection, members, keep));
        // What is made again may be measured again by a kernel that reads what
        // it is made of; keeping the one without the other may gain nothing.
        ArrayRef<int> small = measurements[index];
        if (!keep && !small.empty() && getNumEvaluations() < end)
          look(withKept(withKept(current->selection, members, false), small,
                        false));
      }
      if (!improved)
        return;
    }
    return;
  }
  // Towards a lower peak: the class that gives the most bytes for its time goes
  // first, then part by part.
  while (true) {
    const PlanOption *best = nullptr;
    ArrayRef<int> bestMembers;
    bool bestKeep = false;
    double bestRate = 0;
    for (const SmallVector<int> &members : classes)
      for (bool keep : {false, true}) {
        if (getNumEvaluations() >= end)
          return;
        if (llvm::all_of(members, [&](int member) {
              return current->selection[member] == keep;
            }))
          continue;
        const PlanOption &next =
            evaluate(withKept(current->selection, members, keep));
        int64_t saved = current->peak - next.peak;
        if (saved <= 0)
          continue;
        double rate = saved / std::max(next.seconds - current->seconds, 1e-12);
        if (!best || rate > bestRate) {
          best = &next;
          bestMembers = members;
          bestKeep = keep;
          bestRate = rate;
        }
      }
    if (!best)
      break;
    for (size_t part = 1;
         part < bestMembers.size() && getNumEvaluations() < end; ++part)
      evaluate(
          withKept(current->selection, bestMembers.take_front(part), bestKeep));
    current = best;
  }
  // One by one, from the smallest plan: what a whole class could not do.
  for (const SmallVector<int> &members : classes)
    for (int member : members) {
      if (getNumEvaluations() >= end)
        return;
      const PlanOption &next = evaluate(
          withKept(current->selection, member, !current->selection[member]));
      if (better(next, *current))
        current = &next;
    }
}

std::vector<const PlanOption *> PlanSearch::findFrontier() {
  classes = groupChoices(graph);
  classOf.assign(graph.values.size(), -1);
  for (auto [index, members] : llvm::enumerate(classes))
    for (int member : members)
      classOf[member] = index;
  findMeasurements();
  Selection starts[] = {selectMinCut(graph), selectSaveAll(graph),
                        selectRecomputeAll(graph),
                        Selection(graph.values.size(), false),
                        selectOpList(graph, getDefaultOpList())};
  for (const Selection &start : starts)
    evaluate(start);
  std::optional<ReducedGraph> reduced;
  if (graph.nodes.size() >= kMinReducedNodes)
    reduced = reduceRepetition(graph);
  if (reduced)
    searchReduced(*reduced);
  else
    searchDirectly();
  // What is on the frontier by another order gets that of the passes, which may
  // bring it further down.
  while (true) {
    std::vector<const PlanOption *> frontier = getFrontier();
    auto rough = llvm::find_if(
        frontier, [](const PlanOption *option) { return !option->isFinal; });
    if (rough == frontier.end())
      return frontier;
    evaluateExactly((*rough)->selection);
  }
}

void PlanSearch::searchDirectly() {
  const PlanOption *fastest = nullptr, *smallest = nullptr;
  auto rank = [&] {
    for (auto &[selection, option] : options) {
      if (!fastest || isFaster(option, *fastest))
        fastest = &option;
      if (!smallest || isSmaller(option, *smallest))
        smallest = &option;
    }
  };
  int end = maxEvaluations / (borders.empty() ? 3 : 2);
  rank();
  descend(fastest->selection, /*minimisePeak=*/false, end);
  rank();
  // Where layers are left out, the descent to less time may take all of it.
  auto getEnd = [&] {
    return borders.empty()
               ? end
               : std::max(end, getNumEvaluations() + maxEvaluations / 12);
  };
  descend(fastest->selection, /*minimisePeak=*/true, getEnd());
  rank();
  descend(smallest->selection, /*minimisePeak=*/true, getEnd());
  fillSteps(getEnd() + maxEvaluations / 6);
  for (int round = 0; round < kRefinementRounds; ++round)
    refine(getFrontier(),
           getNumEvaluations() + (maxEvaluations - getNumEvaluations()) /
                                     (kRefinementRounds - round));
  if (graph.step && !(borders.empty() && searchStates()))
    walkFrontier(getNumEvaluations() + maxWalkEvaluations);
}

void PlanSearch::searchReduced(const ReducedGraph &reduced) {
  clears = true;
  PlanSearch inner(reduced, fusion);
  std::vector<const PlanOption *> frontier = inner.findFrontier();
  // Evenly spread over the frontier, both ends included.
  size_t count = std::min<size_t>(frontier.size(), maxEvaluations / 2);
  for (size_t index = 0; index < count; ++index) {
    size_t place = count == 1 ? 0 : index * (frontier.size() - 1) / (count - 1);
    evaluate(reduced.expand(frontier[place]->selection));
  }
  fillSteps(maxEvaluations);
}

static SmallVector<Drop> getDrops(const Selection &selection, int root) {
  SmallVector<Drop> drops;
  for (const Drop &drop : selection.drops)
    if (drop.root == root)
      drops.push_back(drop);
  return drops;
}

/// `other`, but for what `selection` does with `roots`.
static Selection mix(const Selection &selection, const Selection &other,
                     ArrayRef<int> roots) {
  Selection mixed = other;
  llvm::erase_if(mixed.drops, [&](const Drop &drop) {
    return llvm::is_contained(roots, drop.root);
  });
  for (int root : roots) {
    mixed[root] = selection[root];
    llvm::append_range(mixed.drops, getDrops(selection, root));
  }
  llvm::sort(mixed.drops);
  return mixed;
}

void PlanSearch::fillSteps(int end) {
  std::set<std::pair<const PlanOption *, const PlanOption *>> tried;
  while (getNumEvaluations() < end) {
    std::vector<const PlanOption *> frontier = getFrontier();
    // The step that leaves the most to win.
    const PlanOption *smaller = nullptr, *faster = nullptr;
    double widest = 0;
    for (size_t index = 1; index < frontier.size(); ++index) {
      const PlanOption *low = frontier[index - 1], *high = frontier[index];
      double area =
          double(high->peak - low->peak) * (low->seconds - high->seconds);
      if (area > widest && !tried.count({low, high})) {
        widest = area;
        smaller = low;
        faster = high;
      }
    }
    if (!smaller)
      return;
    tried.insert({smaller, faster});
    SmallVector<int> differing;
    for (size_t value = 0; value < classOf.size(); ++value)
      if (classOf[value] >= 0 &&
          (smaller->selection[value] != faster->selection[value] ||
           getDrops(smaller->selection, value) !=
               getDrops(faster->selection, value)))
        differing.push_back(value);
    if (differing.size() < 2)
      continue;
    // Kept bytes of the first layers stay longest, so those go first. Between
    // two layers if it can be: where the first class comes again.
    size_t middle = differing.size() / 2;
    for (size_t place = middle; place < differing.size(); ++place)
      if (classOf[differing[place]] == classOf[differing.front()]) {
        middle = place;
        break;
      }
    evaluate(mix(smaller->selection, faster->selection,
                 ArrayRef<int>(differing).take_front(middle)));
  }
}

void PlanSearch::refine(ArrayRef<const PlanOption *> frontier, int end) {
  for (auto [index, option] : llvm::enumerate(frontier)) {
    if (borders.empty() && index > 0 &&
        option->peak - frontier[index - 1]->peak < kSmallestStep * option->peak)
      continue;
    for (const SmallVector<int> &members : classes)
      for (int member : members) {
        if (getNumEvaluations() >= end)
          return;
        if (option->selection[member])
          evaluate(withKept(option->selection, member, false));
      }
  }
}

std::vector<const PlanOption *> PlanSearch::getFrontier() const {
  std::vector<const PlanOption *> all;
  for (auto &[selection, option] : options)
    all.push_back(&option);
  llvm::stable_sort(all, [](const PlanOption *a, const PlanOption *b) {
    return isSmaller(*a, *b);
  });
  std::vector<const PlanOption *> frontier;
  for (const PlanOption *option : all)
    if (frontier.empty() || option->seconds < frontier.back()->seconds)
      frontier.push_back(option);
  return frontier;
}
