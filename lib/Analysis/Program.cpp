//===- Program.cpp - a graph with a choice of what is kept ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instances of the nodes under a selection, with clones just in time.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Program.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

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

namespace {

class Materializer {
public:
  Materializer(const PlanGraph &graph, const Selection &selection,
               Program &program)
      : graph(graph), selection(selection), program(program),
        forward(graph.values.size(), -1), backward(graph.values.size(), -1),
        kept(graph.values.size(), false) {}

  void run();

private:
  int addValue(int value, int instance, int root) {
    int id = program.values.size();
    program.values.push_back({value, instance, root < 0 ? id : root});
    return id;
  }
  /// Adds an instance of `node` whose operands are already instance values, and
  /// records its results in `map`.
  void instantiate(int node, bool isBackward, bool clone,
                   ArrayRef<int> operands, std::vector<int> &map);
  /// True for an argument and for what is kept, which is recorded.
  bool readsFromForward(int value);
  /// The instance value that a backward instance reads for graph value `value`.
  int resolve(int value);
  /// Marks what the forward region need not run: what only backward reads, and
  /// computes again.
  void markDead();
  bool isKept(int root) const {
    return !isChoice(graph, root) || selection[root];
  }

  const PlanGraph &graph;
  const Selection &selection;
  Program &program;
  std::vector<int> forward,
      backward;           ///< graph value -> instance value, per region
  std::vector<bool> kept; ///< graph roots that backward reads from forward
};

void Materializer::instantiate(int node, bool isBackward, bool clone,
                               ArrayRef<int> operands, std::vector<int> &map) {
  const PlanNode &source = graph.nodes[node];
  int id = program.instances.size();
  Instance instance;
  instance.node = node;
  instance.backward = isBackward;
  instance.clone = clone;
  instance.operands.assign(operands.begin(), operands.end());
  for (auto [number, result] : llvm::enumerate(source.results)) {
    int aliased = source.aliases.empty() ? -1 : source.aliases[number];
    map[result] = addValue(
        result, id, aliased < 0 ? -1 : program.values[operands[aliased]].root);
    instance.results.push_back(map[result]);
  }
  program.instances.push_back(std::move(instance));
}

bool Materializer::readsFromForward(int value) {
  const PlanValue &entry = graph.values[value];
  if (entry.node < 0)
    return true;
  const PlanNode &node = graph.nodes[entry.node];
  if ((isView(node.op) && !isa<WaitOp>(node.op)) ||
      node.kind == NodeClass::Constant)
    return false;
  // The storage of a gather in halves is its start's, and what an opaque op
  // hands through is its operand's; what is kept is the name that they give.
  if (!isKept(entry.root))
    return false;
  kept[value] = true;
  return true;
}

int Materializer::resolve(int value) {
  // A stack of values, each with how many of its node's operands are resolved:
  // a chain of recomputations may be as long as the program.
  SmallVector<std::pair<int, unsigned>, 8> stack = {{value, 0}};
  while (!stack.empty()) {
    int current = stack.back().first;
    if (backward[current] >= 0) {
      stack.pop_back();
      continue;
    }
    if (stack.back().second == 0 && readsFromForward(current)) {
      backward[current] = forward[current];
      stack.pop_back();
      continue;
    }
    int id = graph.values[current].node;
    const PlanNode &node = graph.nodes[id];
    if (stack.back().second < node.operands.size()) {
      int operand = node.operands[stack.back().second++];
      stack.push_back({operand, 0});
      continue;
    }
    // Every result of the node is computed again together; one that is kept is
    // read from forward all the same.
    SmallVector<int, 4> operands;
    for (int operand : node.operands)
      operands.push_back(backward[operand]);
    bool clone = node.kind != NodeClass::Constant &&
                 (!isView(node.op) || isa<WaitOp>(node.op));
    SmallVector<std::pair<int, int>, 2> others;
    for (int result : node.results)
      if (clone && result != current && isKept(graph.values[result].root))
        others.push_back({result, backward[result]});
    instantiate(id, /*isBackward=*/true, clone, operands, backward);
    for (auto [result, known] : others)
      backward[result] = known;
    stack.pop_back();
  }
  return backward[value];
}

void Materializer::run() {
  for (auto [index, value] : llvm::enumerate(graph.values))
    if (value.resident)
      forward[index] = addValue(index, -1, -1);
  for (int id = 0; id < graph.firstBackward; ++id) {
    SmallVector<int, 4> operands;
    for (int operand : graph.nodes[id].operands)
      operands.push_back(forward[operand]);
    instantiate(id, /*isBackward=*/false, /*clone=*/false, operands, forward);
  }
  int numNodes = graph.nodes.size();
  program.firstBackward = program.instances.size();
  for (int id = graph.firstBackward; id < numNodes; ++id) {
    SmallVector<int, 4> operands;
    for (int operand : graph.nodes[id].operands)
      operands.push_back(resolve(operand));
    instantiate(id, /*isBackward=*/true, /*clone=*/false, operands, backward);
  }
  for (int value : graph.backwardResults)
    program.backwardResults.push_back(resolve(value));
  for (auto [index, isKept] : llvm::enumerate(kept))
    if (isKept)
      program.residuals.push_back(index);
  markDead();
}

void Materializer::markDead() {
  std::vector<bool> needed = kept;
  for (int id = graph.firstBackward - 1; id >= 0; --id) {
    const PlanNode &node = graph.nodes[id];
    bool runs = isa<OpaqueOp, KernelOp>(node.op) ||
                !wouldOpBeTriviallyDead(node.op) ||
                llvm::any_of(node.results, [&](int value) {
                  return needed[value] || graph.rootOf(value).escapes;
                });
    program.instances[id].dead = !runs;
    if (runs)
      for (int operand : node.operands)
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
