//===- Repetition.cpp - equal layers of a program ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stack of layers is a stretch of the forward region that repeats after some
// number of nodes, and a stretch of the backward region that repeats while it
// reads the forward one layer by layer in reverse. Both are found by comparing
// each node with the one a period later; nothing depends on names.
//
// Leaving out the layers of a zone means: what follows the zone reads what lies
// one zone earlier. Of the forward region that is a shift towards the start; a
// backward node in front of the zone shifts its forward operands so too, one
// behind it shifts them towards the end, since backward runs in reverse.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Repetition.h"

#include "mlir/IR/OperationSupport.h"

#include <set>

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// Layers at each end of a stack that are left in. The outermost ones meet what
/// is around the stack; of the inner ones one stands for those left out.
constexpr int kKeptLayers = 1;
/// Distances between equal nodes that are tried as the length of a layer.
constexpr size_t kMaxPeriods = 16;
/// Stacks that are shortened one after the other.
constexpr int kMaxStacks = 16;

/// A stretch of nodes in which each is equal to the one `period` later.
struct Stretch {
  int begin = 0, end = 0, period = 0;
  int numLayers() const { return (end - begin) / period; }
};

/// `count` layers from node `begin` on that are left out.
struct Zone {
  int begin = 0, period = 0, count = 0;
  int length() const { return period * count; }
  int end() const { return begin + length(); }
  bool contains(int node) const { return node >= begin && node < end(); }
};

class Reducer {
public:
  explicit Reducer(const PlanGraph &graph) : graph(graph) { number(); }

  /// The graph with one stack shortened.
  std::optional<ReducedGraph> run();

private:
  void number();
  int producerOf(int value) const { return graph.values[value].node; }
  /// The result of its node that `value` is.
  int resultNumber(int value) const {
    return value - graph.nodes[producerOf(value)].results.front();
  }
  bool isEqualOperand(int first, int second, int a, int b,
                      int forwardPeriod) const;
  /// True where node `b` is to its surroundings what `a` is to its own.
  bool isEqual(int a, int b, int forwardPeriod) const;
  /// The longest stretches of nodes in [begin, end) that repeat, for the period
  /// that covers most; at least `minLayers` layers each.
  SmallVector<Stretch> findStretches(int begin, int end, int forwardPeriod,
                                     int minLayers) const;
  std::optional<ReducedGraph> leaveOut(const Zone &forward,
                                       const Zone &backward) const;
  /// The roots that the layers of the stack around `forward` hand on.
  std::vector<int> findBorders(const Zone &forward) const;
  int getTarget(int node, int producer, const Zone &forward,
                const Zone &backward) const;

  const PlanGraph &graph;
  std::vector<int> kindOf; ///< per node: equal for equal ops
};

} // namespace

/// Numbers nodes by what they are: op, attributes, types and what is known of
/// their results.
void Reducer::number() {
  DenseMap<std::pair<uint64_t, uint64_t>, int> known;
  for (const PlanNode &node : graph.nodes) {
    uint64_t op = OperationEquivalence::computeHash(
        node.op, OperationEquivalence::ignoreHashValue,
        OperationEquivalence::ignoreHashValue,
        OperationEquivalence::IgnoreLocations);
    uint64_t rest = llvm::hash_combine(static_cast<int>(node.kind), node.copies,
                                       node.operands.size());
    for (int result : node.results) {
      const PlanValue &value = graph.values[result];
      rest = llvm::hash_combine(rest, value.escapes, value.callerPlaced,
                                value.copies);
    }
    auto [it, inserted] = known.try_emplace(
        {op & ~(1ull << 63), rest & ~(1ull << 63)}, known.size());
    kindOf.push_back(it->second);
  }
}

bool Reducer::isEqualOperand(int first, int second, int a, int b,
                             int forwardPeriod) const {
  if (first == second)
    return true; // Both read the same value.
  if (graph.values[first].value.getType() !=
      graph.values[second].value.getType())
    return false;
  int from = producerOf(first), to = producerOf(second);
  if (from < 0 || to < 0)
    return from == to;
  if (kindOf[from] != kindOf[to] || resultNumber(first) != resultNumber(second))
    return false;
  if (graph.nodes[from].kind == NodeClass::Constant)
    return true;
  if (graph.nodes[from].backward == graph.nodes[a].backward)
    return a - from == b - to;
  return from - to == forwardPeriod;
}

bool Reducer::isEqual(int a, int b, int forwardPeriod) const {
  if (kindOf[a] != kindOf[b])
    return false;
  for (auto [first, second] :
       llvm::zip_equal(graph.nodes[a].operands, graph.nodes[b].operands))
    if (!isEqualOperand(first, second, a, b, forwardPeriod))
      return false;
  return true;
}

SmallVector<Stretch> Reducer::findStretches(int begin, int end,
                                            int forwardPeriod,
                                            int minLayers) const {
  // Distances between equal nodes, the most frequent first.
  std::map<int, int> frequency;
  DenseMap<int, int> previous;
  for (int node = begin; node < end; ++node) {
    auto [it, inserted] = previous.try_emplace(kindOf[node], node);
    if (!inserted) {
      ++frequency[node - it->second];
      it->second = node;
    }
  }
  SmallVector<std::pair<int, int>> periods(frequency.begin(), frequency.end());
  llvm::stable_sort(periods,
                    [](auto a, auto b) { return a.second > b.second; });
  if (periods.size() > kMaxPeriods)
    periods.resize(kMaxPeriods);

  SmallVector<Stretch> best;
  int mostCovered = 0;
  for (auto [period, count] : periods) {
    SmallVector<Stretch> found;
    int covered = 0;
    for (int node = begin; node + period < end;) {
      int last = node;
      while (last + period < end && isEqual(last, last + period, forwardPeriod))
        ++last;
      if (Stretch stretch = {node, last + period, period};
          stretch.numLayers() >= minLayers) {
        found.push_back(stretch);
        covered += stretch.end - stretch.begin - period;
      }
      node = last + 1;
    }
    if (covered > mostCovered) {
      mostCovered = covered;
      best = std::move(found);
    }
  }
  return best;
}

std::optional<ReducedGraph> Reducer::run() {
  constexpr int kMinLayers = 2 * kKeptLayers + 1;
  int numNodes = graph.nodes.size();
  SmallVector<Stretch> stretches =
      findStretches(0, graph.firstBackward, 0, kMinLayers);
  llvm::stable_sort(stretches, [](const Stretch &a, const Stretch &b) {
    return a.end - a.begin > b.end - b.begin;
  });
  for (const Stretch &stretch : stretches) {
    Zone forward = {stretch.begin + kKeptLayers * stretch.period,
                    stretch.period, stretch.numLayers() - 2 * kKeptLayers};
    if (graph.firstBackward == numNodes)
      continue; // A straight line keeps nothing; there is nothing to search.
    for (const Stretch &back :
         findStretches(graph.firstBackward, numNodes, stretch.period, 3)) {
      // The backward zone starts where backward first reads the last layer that
      // is left out.
      int begin = -1;
      for (int node = back.begin; node < back.end && begin < 0; ++node)
        for (int operand : graph.nodes[node].operands)
          if (int from = producerOf(operand);
              from >= forward.end() - forward.period && from < forward.end() &&
              graph.nodes[from].kind != NodeClass::Constant)
            begin = node;
      if (begin < 0)
        continue;
      Zone backward = {begin, back.period, forward.count};
      // One layer behind the zone stands for it.
      if (backward.end() + backward.period > back.end)
        continue;
      if (std::optional<ReducedGraph> reduced = leaveOut(forward, backward))
        return reduced;
    }
  }
  return std::nullopt;
}

/// The node that `node` reads instead of `producer` once the zones are left
/// out.
int Reducer::getTarget(int node, int producer, const Zone &forward,
                       const Zone &backward) const {
  if (forward.contains(producer)) {
    bool behind = graph.nodes[node].backward && node >= backward.end();
    int target = producer + (behind ? forward.length() : -forward.length());
    // Further back than one zone: the nearest layer that is left.
    while (target < forward.begin - kKeptLayers * forward.period)
      target += forward.period;
    return target;
  }
  if (backward.contains(producer)) {
    int target = producer - backward.length();
    while (target < graph.firstBackward ||
           target < backward.begin - backward.period)
      target += backward.period;
    return target;
  }
  return producer;
}

std::optional<ReducedGraph> Reducer::leaveOut(const Zone &forward,
                                              const Zone &backward) const {
  ReducedGraph result;
  PlanGraph &reduced = result.graph;
  reduced.func = graph.func;
  reduced.step = graph.step;
  reduced.target = graph.target;
  std::vector<int> index(graph.values.size(), -1);
  std::vector<int> nodeIndex(graph.nodes.size(), -1);
  auto addValue = [&](int old, int node) {
    index[old] = reduced.values.size();
    PlanValue &value = reduced.values.emplace_back(graph.values[old]);
    value.node = node;
    value.root = index[old];
  };
  for (auto [old, value] : llvm::enumerate(graph.values))
    if (value.node < 0)
      addValue(old, -1);
  /// The value to read for `value` at `node`; -1 where there is none.
  auto mapOperand = [&](int value, int node) {
    int producer = producerOf(value);
    if (producer < 0)
      return index[value];
    int target = getTarget(node, producer, forward, backward);
    if (target < 0 || target >= static_cast<int>(graph.nodes.size()) ||
        kindOf[target] != kindOf[producer])
      return -1;
    return index[graph.nodes[target].results[resultNumber(value)]];
  };
  int64_t copies = forward.count + 1;
  Zone forwardStandIn = {forward.begin - forward.period, forward.period, 1};
  Zone backwardStandIn = {backward.end(), backward.period, 1};
  for (auto [old, node] : llvm::enumerate(graph.nodes)) {
    int id = old;
    if (forward.contains(id) || backward.contains(id))
      continue;
    if (id >= graph.firstBackward && !reduced.firstBackward)
      reduced.firstBackward = reduced.nodes.size();
    nodeIndex[id] = reduced.nodes.size();
    PlanNode copy = node;
    for (int &operand : copy.operands)
      if ((operand = mapOperand(operand, id)) < 0)
        return std::nullopt;
    bool standsIn = forwardStandIn.contains(id) || backwardStandIn.contains(id);
    if (standsIn)
      copy.copies *= copies;
    for (int &value : copy.results) {
      addValue(value, reduced.nodes.size());
      PlanValue &added = reduced.values.back();
      // A view or the result of a wait shares the storage of its first operand.
      if (graph.values[value].root != value)
        added.root = reduced.values[copy.operands.front()].root;
      if (standsIn)
        added.copies *= copies;
      value = index[value];
    }
    reduced.nodes.push_back(std::move(copy));
  }
  for (int value : graph.backwardResults)
    if (index[value] >= 0)
      reduced.backwardResults.push_back(index[value]);

  /// The node that stands for one that is left out.
  auto getStandIn = [&](int node) {
    bool isForward = forward.contains(node);
    const Zone &zone = isForward ? forward : backward;
    const Zone &in = isForward ? forwardStandIn : backwardStandIn;
    return in.begin + (node - zone.begin) % zone.period;
  };
  for (auto [old, value] : llvm::enumerate(graph.values)) {
    int stand = index[old];
    if (stand < 0)
      stand =
          index[graph.nodes[getStandIn(value.node)].results[resultNumber(old)]];
    result.standsFor.push_back(stand);
  }
  for (int border : findBorders(forward))
    result.borders.push_back(result.standsFor[border]);
  for (auto [old, stand] : llvm::enumerate(nodeIndex))
    result.nodeStandsFor.push_back(stand >= 0 ? stand
                                              : nodeIndex[getStandIn(old)]);
  return result;
}

std::vector<int> Reducer::findBorders(const Zone &forward) const {
  int begin = forward.begin - forward.period;
  std::vector<int> borders;
  // Read after the layer in front of the zone; so at the same place of others.
  std::set<std::pair<int, int>> places;
  for (int reader = forward.begin; reader < graph.firstBackward; ++reader)
    for (int operand : graph.nodes[reader].operands) {
      int root = graph.values[operand].root, node = producerOf(root);
      if (node >= begin && node < forward.begin)
        places.insert({node, resultNumber(root)});
    }
  for (auto [place, number] : places)
    for (int step : {-forward.period, forward.period})
      for (int node = place; node >= 0 && node < graph.firstBackward &&
                             kindOf[node] == kindOf[place];
           node += step)
        borders.push_back(graph.nodes[node].results[number]);
  return borders;
}

std::optional<ReducedGraph>
mlir::fp8::reduceRepetition(const PlanGraph &graph) {
  std::optional<ReducedGraph> result = Reducer(graph).run();
  for (int stack = 1; result && stack < kMaxStacks; ++stack) {
    std::optional<ReducedGraph> next = Reducer(result->graph).run();
    if (!next)
      break;
    for (int &value : result->standsFor)
      value = next->standsFor[value];
    for (int &node : result->nodeStandsFor)
      node = next->nodeStandsFor[node];
    for (int &value : result->borders)
      value = next->standsFor[value];
    llvm::append_range(result->borders, next->borders);
    result->graph = std::move(next->graph);
  }
  if (result) {
    llvm::sort(result->borders);
    result->borders.erase(llvm::unique(result->borders), result->borders.end());
  }
  return result;
}

Selection ReducedGraph::expand(const Selection &selection) const {
  Selection whole;
  for (int value : standsFor)
    whole.kept.push_back(selection[value]);
  if (selection.drops.empty())
    return whole;
  // What each stands for, in the order of the program.
  std::vector<SmallVector<int, 1>> values(graph.values.size()),
      nodes(graph.nodes.size());
  for (auto [value, stand] : llvm::enumerate(standsFor))
    values[stand].push_back(value);
  for (auto [node, stand] : llvm::enumerate(nodeStandsFor))
    nodes[stand].push_back(node);
  for (auto [node, root, once] : selection.drops) {
    ArrayRef<int> at = nodes[node], of = values[root];
    for (auto [layer, value] : llvm::enumerate(of)) {
      // Each layer has a place of its own, the last one the first of backward;
      // else all are dropped at one place, the first.
      size_t place = at.size() != of.size()       ? 0
                     : node < graph.firstBackward ? layer
                                                  : of.size() - 1 - layer;
      whole.drops.push_back({at[place], value, once});
    }
  }
  llvm::sort(whole.drops);
  return whole;
}
