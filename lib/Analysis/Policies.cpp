//===- Policies.cpp - the simple policies -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// save-all, recompute-all, op-list and min-cut as selections over a graph.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Policies.h"

#include "fp8/Analysis/MaxFlow.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fp8;

std::optional<Policy> mlir::fp8::parsePolicy(StringRef name) {
  return llvm::StringSwitch<std::optional<Policy>>(name)
      .Case("save-all", Policy::SaveAll)
      .Case("recompute-all", Policy::RecomputeAll)
      .Case("op-list", Policy::OpList)
      .Case("min-cut", Policy::MinCut)
      .Case("auto", Policy::Auto)
      .Default(std::nullopt);
}

StringRef mlir::fp8::stringifyPolicy(Policy policy) {
  switch (policy) {
  case Policy::SaveAll:
    return "save-all";
  case Policy::RecomputeAll:
    return "recompute-all";
  case Policy::OpList:
    return "op-list";
  case Policy::MinCut:
    return "min-cut";
  case Policy::Auto:
    return "auto";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// op-list
//===----------------------------------------------------------------------===//

/// torchtitan's list at the time of its report #820, in this dialect's names.
static constexpr StringLiteral kDefaultOps[] = {
    "fp8.matmul", "fp8.opaque", "fp8.reduce_scatter",
    "fp8.reduce", "fp8.amax",   "math.absf"};

llvm::StringSet<> mlir::fp8::getDefaultOpList() {
  llvm::StringSet<> ops;
  for (StringRef op : kDefaultOps)
    ops.insert(op);
  return ops;
}

/// Names that users of other systems type.
static StringRef expandShortName(StringRef name) {
  return llvm::StringSwitch<StringRef>(name)
      .Case("abs", "math.absf")
      .Case("max", "fp8.reduce")
      .Case("amax", "fp8.amax")
      .Case("mm", "fp8.matmul")
      .Case("matmul", "fp8.matmul")
      .Case("attention", "fp8.opaque")
      .Default(name);
}

FailureOr<llvm::StringSet<>>
mlir::fp8::parseOpList(StringRef spec,
                       function_ref<InFlightDiagnostic()> emitError) {
  llvm::StringSet<> ops;
  if (spec.empty())
    spec = "default";
  while (!spec.empty()) {
    bool removes = spec.consume_front("-");
    if (!removes)
      spec.consume_front("+");
    size_t end = spec.find_first_of("+-");
    // An op name may hold a '-'-free identifier only, so the next sign starts
    // the next entry.
    StringRef name = spec.take_front(end);
    spec = end == StringRef::npos ? StringRef() : spec.drop_front(end);
    if (name.empty())
      return emitError() << "expected op names joined by '+' or '-' in 'ops', "
                            "such as 'default-abs'";
    if (name == "default") {
      for (StringRef op : kDefaultOps)
        removes ? (void)ops.erase(op) : (void)ops.insert(op);
      continue;
    }
    name = expandShortName(name);
    if (!name.contains('.'))
      return emitError()
             << "expected an op name such as 'math.absf' in 'ops', but got '"
             << name << "'";
    removes ? (void)ops.erase(name) : (void)ops.insert(name);
  }
  return ops;
}

//===----------------------------------------------------------------------===//
// Selections
//===----------------------------------------------------------------------===//

Selection mlir::fp8::selectSaveAll(const PlanGraph &graph) {
  return Selection(graph.values.size(), true);
}

Selection mlir::fp8::selectRecomputeAll(const PlanGraph &graph) {
  Selection selection(graph.values.size(), false);
  for (const PlanNode &node : graph.nodes)
    if (node.op->hasAttr(kCheckpointAttr))
      for (int result : node.results)
        selection[graph.values[result].root] = true;
  return selection;
}

Selection mlir::fp8::selectOpList(const PlanGraph &graph,
                                  const llvm::StringSet<> &ops) {
  Selection selection(graph.values.size(), false);
  for (const PlanNode &node : graph.nodes)
    if (ops.contains(node.op->getName().getStringRef()))
      for (int result : node.results)
        selection[graph.values[result].root] = true;
  return selection;
}

SmallVector<std::pair<int, Attribute>>
mlir::fp8::getOverrides(const PlanGraph &graph) {
  SmallVector<std::pair<int, Attribute>> overrides;
  for (const PlanNode &node : graph.nodes) {
    Attribute attribute = node.op->getAttr(kPolicyAttr);
    if (!attribute || node.backward)
      continue;
    for (auto [index, result] : llvm::enumerate(node.results)) {
      Attribute entry = attribute;
      if (auto array = dyn_cast<ArrayAttr>(attribute))
        entry = index < array.size() ? array[index] : Attribute();
      if (entry)
        overrides.emplace_back(graph.values[result].root, entry);
    }
  }
  return overrides;
}

void mlir::fp8::applyOverrides(ArrayRef<std::pair<int, Attribute>> overrides,
                               Selection &selection) {
  for (auto [root, entry] : overrides) {
    if (auto text = dyn_cast<StringAttr>(entry))
      selection[root] = text.getValue() != "recompute";
    llvm::erase_if(selection.drops, [root = root](const Drop &drop) {
      return drop.root == root;
    });
  }
}

//===----------------------------------------------------------------------===//
// min-cut
//===----------------------------------------------------------------------===//

namespace {

/// Builds the flow network of PyTorch's partitioner: a value is split into an
/// entry and an exit joined by its weight; what backward reads must be
/// separated from what cannot be recomputed.
class MinCutBuilder {
public:
  MinCutBuilder(const PlanGraph &graph, ArrayRef<bool> mayRunAgain)
      : graph(graph), mayRunAgain(mayRunAgain),
        flow(2 * graph.values.size() + 2), source(2 * graph.values.size()),
        sink(source + 1) {}

  Selection run();

private:
  bool isBanned(int node) const {
    return isBannedByMinCut(graph.nodes[node]) &&
           (mayRunAgain.empty() || !mayRunAgain[node]);
  }
  int64_t weightOf(int value, int distance, bool fusible) const {
    double weight = graph.values[value].bytes *
                    std::pow(1.1, std::clamp(distance, 1, 100)) *
                    (fusible ? 2 : 1);
    return std::min<int64_t>(std::llround(weight), MaxFlow::kInfinite / 1024);
  }

  const PlanGraph &graph;
  ArrayRef<bool> mayRunAgain;
  MaxFlow flow;
  int source, sink;
};

Selection MinCutBuilder::run() {
  int numValues = graph.values.size();
  constexpr int kFar = 1 << 20;
  // Distance of a forward value from the backward region, and whether all its
  // users could fuse with it.
  std::vector<int> distance(numValues, kFar);
  std::vector<bool> fusible(numValues, true), readByBackward(numValues, false);
  for (int id = graph.nodes.size() - 1; id >= 0; --id) {
    const PlanNode &node = graph.nodes[id];
    int own = node.backward ? 0 : kFar;
    if (!node.backward)
      for (int result : node.results)
        own = std::min(own, distance[graph.values[result].root] +
                                (isView(node.op) ? 0 : 1));
    for (int operand : node.operands) {
      int root = graph.values[operand].root;
      if (!(isView(node.op) && !node.backward))
        fusible[root] = fusible[root] && node.kind == NodeClass::Loop;
      distance[root] = std::min(distance[root], own);
      readByBackward[root] = readByBackward[root] || node.backward;
    }
  }
  for (int value = 0; value < numValues; ++value) {
    const PlanValue &entry = graph.values[value];
    if (entry.root != value ||
        (entry.node >= 0 && graph.nodes[entry.node].backward))
      continue;
    int in = 2 * value, out = in + 1;
    bool producedLoop =
        entry.node >= 0 && graph.nodes[entry.node].kind == NodeClass::Loop;
    bool free = entry.resident || entry.escapes ||
                (entry.node >= 0 &&
                 graph.nodes[entry.node].kind == NodeClass::Constant);
    flow.addArc(in, out,
                free ? 0
                     : weightOf(value, distance[value],
                                producedLoop && fusible[value]));
    if (entry.node < 0 || isBanned(entry.node))
      flow.addArc(source, in, MaxFlow::kInfinite);
    if (readByBackward[value])
      flow.addArc(out, sink, MaxFlow::kInfinite);
  }
  for (const PlanNode &node : graph.nodes) {
    if (node.backward || isView(node.op))
      continue;
    for (int operand : node.operands)
      for (int result : node.results)
        if (int from = graph.values[operand].root,
            to = graph.values[result].root;
            from != to)
          flow.addArc(2 * from + 1, 2 * to, MaxFlow::kInfinite);
  }
  flow.run(source, sink);
  std::vector<bool> side = flow.getSourceSide(source);
  Selection selection(numValues, false);
  for (int value = 0; value < numValues; ++value)
    selection[value] = side[2 * value] && !side[2 * value + 1];
  return selection;
}

} // namespace

bool mlir::fp8::isBannedByMinCut(const PlanNode &node) {
  return node.kind == NodeClass::Matmul || node.kind == NodeClass::Opaque ||
         node.kind == NodeClass::Collective ||
         node.recompute == Recompute::Never || isa<AmaxOp, ReduceOp>(node.op);
}

Selection mlir::fp8::selectMinCut(const PlanGraph &graph,
                                  ArrayRef<bool> mayRunAgain) {
  return MinCutBuilder(graph, mayRunAgain).run();
}
