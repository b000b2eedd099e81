//===- fp8-frontier.cpp - plans of auto beside PyTorch's --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: fp8-frontier FILE.mlir TARGET
//
// Prints the plans of each function of FILE.mlir, a forward or a joint program,
// as lines
//
//   function,policy,share,peak_bytes,step_us
//
// for the policies
//
//  * `auto`: its frontier;
//  * `min-cut`: PyTorch's partition, with its weights and bans;
//  * `knapsack`: PyTorch's memory budget, a share of what `min-cut` keeps. Of
//    the ops that the cut may not run again it keeps those whose results fit
//    and that take the longest together, by a knapsack over 10,000 steps of
//    bytes, each op by itself; the rest may run again, and another cut says
//    what is kept.
//
// Every plan is formed, ordered and simulated in the same way.
//
//===----------------------------------------------------------------------===//

#include "../JointGraphs.h"

#include "fp8/Analysis/Policies.h"

using namespace mlir;
using namespace mlir::fp8;

/// Shares of the bytes that `min-cut` keeps: so many steps to 1.
static constexpr int kShares = 20;
/// Steps of bytes of a knapsack, as PyTorch counts them.
static constexpr int kSteps = 10'000;

namespace {

/// An op that the cut may not run again, but could.
struct Item {
  int node = -1;
  int64_t bytes = 0;
  double seconds = 0;
};

class Frontier {
public:
  explicit Frontier(const PlanGraph &graph)
      : graph(graph), search(graph, Fusion::Default) {
    for (ArrayRef<int> members : groupChoices(graph))
      for (int root : members)
        if (int node = graph.values[root].node;
            isBannedByMinCut(graph.nodes[node]))
          items.push_back(
              {node, graph.values[root].bytes, graph.nodes[node].seconds});
    llvm::stable_sort(
        items, [](const Item &a, const Item &b) { return a.node < b.node; });
  }

  void print();

private:
  void print(StringRef policy, double share, const PlanOption &plan) {
    func::FuncOp func = graph.func;
    llvm::outs() << func.getName() << ',' << policy << ',' << share << ','
                 << plan.peak << ','
                 << llvm::formatv("{0:F3}", plan.seconds * 1e6) << '\n';
  }
  /// What the cut keeps, in bytes.
  int64_t getKeptBytes(const Selection &selection) const;
  Selection selectKnapsack(int64_t capacity) const;

  const PlanGraph &graph;
  PlanSearch search;
  std::vector<Item> items;
};

} // namespace

int64_t Frontier::getKeptBytes(const Selection &selection) const {
  Program program = materialize(graph, selection);
  int64_t bytes = 0;
  for (int residual : program.residuals)
    bytes += program.graphValue(residual).escapes
                 ? 0
                 : program.graphValue(residual).bytes;
  return bytes;
}

Selection Frontier::selectKnapsack(int64_t capacity) const {
  // What fits into so many steps, and how long it takes: sizes rounded up.
  double step = std::max<double>(double(capacity) / kSteps, 1);
  std::vector<double> best(kSteps + 1, 0);
  std::vector<std::vector<bool>> isTaken(items.size(),
                                         std::vector<bool>(kSteps + 1, false));
  for (auto [index, item] : llvm::enumerate(items)) {
    int64_t size = std::ceil(item.bytes / step);
    for (int64_t room = kSteps; room >= size; --room)
      if (double with = best[room - size] + item.seconds; with > best[room]) {
        best[room] = with;
        isTaken[index][room] = true;
      }
  }
  SmallVector<bool> mayRunAgain(graph.nodes.size(), false);
  int64_t room = capacity > 0 ? kSteps : 0;
  for (int index = static_cast<int>(items.size()) - 1; index >= 0; --index)
    if (isTaken[index][room])
      room -= std::ceil(items[index].bytes / step);
    else
      mayRunAgain[items[index].node] = true;
  return selectMinCut(graph, mayRunAgain);
}

void Frontier::print() {
  Selection cut = selectMinCut(graph);
  int64_t kept = getKeptBytes(cut);
  print("min-cut", 1, search.evaluateExactly(cut));
  for (int share = kShares - 1; share >= 0; --share)
    print("knapsack", double(share) / kShares,
          search.evaluateExactly(selectKnapsack(kept * share / kShares)));
  // A search of its own, which has not seen the plans above.
  PlanSearch own(graph, Fusion::Default);
  for (const PlanOption *option : own.findFrontier())
    print("auto", 1, *option);
}

int main(int argc, char **argv) {
  return runOnJointGraphs(argc, argv, [](const PlanGraph &graph) {
    if (graph.step)
      Frontier(graph).print();
  });
}
