//===- Program.cpp - a graph with a choice of what is kept ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instances of the nodes under a selection, with clones just in time.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Program.h"

#include <numeric>

using namespace mlir;
using namespace mlir::fp8;

bool mlir::fp8::isChoice(const PlanGraph &graph, int root) {
  const PlanValue &value = graph.values[root];
  if (value.root != root || value.resident || value.escapes || value.node < 0)
    return false;
  const PlanNode &node = graph.nodes[value.node];
  return !node.backward && node.kind != NodeClass::Constant &&
         node.recompute != Recompute::Never;
}

std::vector<int> Selection::getPlaces(size_t numNodes) const {
  std::vector<int> places(numNodes);
  std::iota(places.begin(), places.end(), 0);
  for (size_t place = order.size(); place-- > 0;)
    places[order[place]] = place;
  return places;
}

namespace {

class Materializer {
public:
  Materializer(const PlanGraph &graph, const Selection &selection,
               Program &program)
      : graph(graph), selection(selection), program(program),
        current(graph.values.size(), -1) {}

  void run();

private:
  int addValue(int value, int instance, int root) {
    int id = program.values.size();
    bool local = instance >= 0 && graph.nodes[graph.values[value].node].kind !=
                                      NodeClass::Constant;
    program.values.push_back({value, instance, root < 0 ? id : root, local});
    return id;
  }
  /// Adds an instance of `node` whose operands are already instance values, and
  /// has `current` name its results.
  void instantiate(int node, bool copy, ArrayRef<int> operands);
  /// The instance value that is read for graph value `value` now; what it takes
  /// to have it runs first.
  int resolve(int value);
  /// Takes away what the backward region does not find: what is not kept, views
  /// and constants.
  void startBackward();
  void drop(int root);
  /// Computes again what `node` makes, for all who read it from now on.
  void runAgain(int node);
  void findResiduals();
  /// Marks what the forward region need not run: what only backward reads, and
  /// computes again.
  void markDead();
  bool isKept(int root) const {
    return !isChoice(graph, root) || selection[root];
  }

  const PlanGraph &graph;
  const Selection &selection;
  Program &program;
  int turn = 0;             ///< the node that is to run
  std::vector<int> current; ///< graph value -> instance value; -1 where it
                            ///< would have to be computed
  /// Of roots, if anything is dropped or ordered: the values that name them
  /// too.
  std::vector<SmallVector<int, 2>> namesOf;
};

void Materializer::instantiate(int node, bool copy, ArrayRef<int> operands) {
  const PlanNode &source = graph.nodes[node];
  int id = program.instances.size();
  Instance &instance = program.instances.emplace_back();
  instance.node = node;
  instance.backward = turn >= graph.firstBackward;
  instance.copy = copy;
  instance.clone = copy && source.kind != NodeClass::Constant &&
                   source.kind != NodeClass::View;
  instance.turn = turn;
  instance.operands.assign(operands.begin(), operands.end());
  for (auto [number, result] : llvm::enumerate(source.results)) {
    int aliased = source.aliases.empty() ? -1 : source.aliases[number];
    current[result] = addValue(
        result, id, aliased < 0 ? -1 : program.values[operands[aliased]].root);
    instance.results.push_back(current[result]);
  }
}

int Materializer::resolve(int value) {
  // A stack of values, each with how many of its node's operands are resolved:
  // a chain of recomputations may be as long as the program.
  SmallVector<std::pair<int, unsigned>, 8> stack = {{value, 0}};
  while (!stack.empty()) {
    int wanted = stack.back().first;
    if (current[wanted] >= 0) {
      stack.pop_back();
      continue;
    }
    int id = graph.values[wanted].node;
    const PlanNode &node = graph.nodes[id];
    if (stack.back().second < node.operands.size()) {
      int operand = node.operands[stack.back().second++];
      stack.push_back({operand, 0});
      continue;
    }
    // Every result of the node is computed again together; one that is there
    // still is read as it is.
    SmallVector<int, 4> operands;
    for (int operand : node.operands)
      operands.push_back(current[operand]);
    SmallVector<std::pair<int, int>, 2> others;
    for (int result : node.results)
      if (current[result] >= 0)
        others.push_back({result, current[result]});
    instantiate(id, /*copy=*/true, operands);
    for (auto [result, known] : others)
      current[result] = known;
    stack.pop_back();
  }
  return current[value];
}

void Materializer::startBackward() {
  program.firstBackward = program.instances.size();
  for (auto [index, value] : llvm::enumerate(graph.values)) {
    if (value.node < 0 || value.node >= graph.firstBackward)
      continue;
    // The storage of a gather in halves is its start's, and what an opaque op
    // hands through is its operand's; what is kept is the name that they give.
    const PlanNode &node = graph.nodes[value.node];
    if (node.kind == NodeClass::View || node.kind == NodeClass::Constant ||
        !isKept(value.root))
      current[index] = -1;
  }
}

void Materializer::drop(int root) {
  if (!isChoice(graph, root))
    return;
  current[root] = -1;
  for (int name : namesOf[root])
    current[name] = -1;
}

void Materializer::runAgain(int node) {
  SmallVector<int, 4> operands;
  for (int operand : graph.nodes[node].operands)
    operands.push_back(resolve(operand));
  for (int result : graph.nodes[node].results)
    if (graph.values[result].root == result)
      for (int name : namesOf[result])
        current[name] = -1;
  instantiate(node, /*copy=*/true, operands);
}

void Materializer::run() {
  for (auto [index, value] : llvm::enumerate(graph.values))
    if (value.resident)
      current[index] = addValue(index, -1, -1);
  if (!selection.drops.empty() || !selection.order.empty()) {
    namesOf.resize(graph.values.size());
    for (auto [index, value] : llvm::enumerate(graph.values))
      if (value.root != static_cast<int>(index))
        namesOf[value.root].push_back(index);
  }
  int numNodes = graph.nodes.size();
  std::vector<int> places = selection.getPlaces(numNodes);
  std::vector<Drop> drops = selection.drops;
  bool isOrdered = !selection.order.empty();
  if (isOrdered)
    llvm::stable_sort(drops, [&](const Drop &a, const Drop &b) {
      return places[a.node] < places[b.node];
    });
  auto nextDrop = drops.begin();
  bool isBackward = false;
  SmallVector<int> again; // nodes that run again before the next turn
  int end = isOrdered ? selection.order.size() : numNodes;
  for (int place = 0; place < end; ++place) {
    turn = isOrdered ? selection.order[place] : place;
    if (places[turn] < place) {
      again.push_back(turn);
      continue;
    }
    if (turn >= graph.firstBackward && !isBackward) {
      isBackward = true;
      startBackward();
    }
    for (int node : again)
      runAgain(node);
    again.clear();
    // What is dropped for this node alone, with what names it now.
    SmallVector<std::pair<int, int>, 2> names;
    for (; nextDrop != drops.end() && places[nextDrop->node] <= place;
         ++nextDrop) {
      int root = nextDrop->root;
      if (nextDrop->once) {
        names.push_back({root, current[root]});
        for (int name : namesOf[root])
          names.push_back({name, current[name]});
      }
      drop(root);
    }
    SmallVector<int, 4> operands;
    for (int operand : graph.nodes[turn].operands)
      operands.push_back(resolve(operand));
    instantiate(turn, /*copy=*/false, operands);
    for (auto [name, value] : llvm::reverse(names))
      current[name] = value;
  }
  if (!isBackward)
    startBackward();
  for (int value : graph.backwardResults)
    program.backwardResults.push_back(resolve(value));
  findResiduals();
  markDead();
}

void Materializer::findResiduals() {
  std::vector<bool> isRead(program.values.size(), false);
  auto read = [&](int value) {
    int instance = program.values[value].instance;
    isRead[value] = instance >= 0 && !program.instances[instance].backward;
  };
  for (const Instance &instance :
       llvm::drop_begin(program.instances, program.firstBackward))
    llvm::for_each(instance.operands, read);
  llvm::for_each(program.backwardResults, read);
  for (auto [value, isResidual] : llvm::enumerate(isRead))
    if (isResidual)
      program.residuals.push_back(value);
  llvm::sort(program.residuals, [&](int a, int b) {
    return program.values[a].value < program.values[b].value;
  });
}

void Materializer::markDead() {
  std::vector<bool> needed(program.values.size(), false);
  for (int residual : program.residuals)
    needed[residual] = true;
  for (int id = program.firstBackward - 1; id >= 0; --id) {
    Instance &instance = program.instances[id];
    bool runs = llvm::any_of(instance.results,
                             [&](int value) { return needed[value]; });
    if (!instance.copy)
      runs |= program.node(instance).mustRun ||
              llvm::any_of(instance.results, [&](int value) {
                return graph.rootOf(program.values[value].value).escapes;
              });
    instance.dead = !runs;
    if (runs)
      for (int operand : instance.operands)
        needed[operand] = true;
  }
}

} // namespace

Program mlir::fp8::materialize(const PlanGraph &graph,
                               const Selection &selection) {
  Program program;
  program.graph = &graph;
  program.instances.reserve(graph.nodes.size() * 2);
  program.values.reserve(graph.values.size() * 2);
  Materializer(graph, selection, program).run();
  return program;
}
