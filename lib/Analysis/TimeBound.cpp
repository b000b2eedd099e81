//===- TimeBound.cpp - what no plan is faster than --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The traffic of loop kernels, whatever they are: a kernel reads each root that
// it does not make itself once or more, and writes each that others read. Loops
// of the two regions are never in one kernel. So
//
//  * what is made by a loop and leaves as a result, or is read by an op that is
//    no loop, is written;
//  * what is no loop's is read once in each region where a loop reads it;
//  * what backward loops need of forward values is read by them, or made again
//    from others that are: a cut between the values that no loop makes and the
//    backward loops, of which the smallest is taken;
//  * where a loop reads a value that no loop makes again after a reduction over
//    it that is known only at the end of its loop, the two are in different
//    kernels, and the value is read once more. (Of what a loop makes that says
//    nothing: both kernels may make it.)
//
// What must be computed again: all that is kept for backward is live between
// the regions. Keeping less than backward reads means running ops again; for
// each price of a byte a minimum cut says which, and the price times the limit
// is taken off. Every price gives a bound; the best of some is used.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/TimeBound.h"

#include "fp8/Analysis/MaxFlow.h"

#include <array>
#include <cmath>

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// Times in the flow networks are whole picoseconds, rounded down.
constexpr double kTicksPerSecond = 1e12;
/// Prices of a byte are multiples of 1 / kPriceUnit ticks.
constexpr int64_t kPriceUnit = 1024;
/// Prices that are tried.
constexpr int kMaxPrices = 24;

class BoundBuilder {
public:
  BoundBuilder(const PlanGraph &graph, Fusion fusion)
      : graph(graph), fusion(fusion), numValues(graph.values.size()),
        hasReaders(graph.values.size(), false) {
    for (const PlanNode &node : graph.nodes)
      if (node.kind != NodeClass::View)
        for (int operand : node.operands)
          hasReaders[graph.values[operand].root] = true;
  }

  double getOwnKernelSeconds() const;
  int64_t getLoopBytes() const;
  double getRecomputeSeconds(int64_t limit) const;

private:
  bool isLoop(int node) const {
    return node >= 0 && graph.nodes[node].kind == NodeClass::Loop;
  }
  bool isConstant(int value) const {
    int node = graph.values[value].node;
    return node >= 0 && graph.nodes[node].kind == NodeClass::Constant;
  }
  /// The time of one run of `node` as a kernel of its own, as kernels are
  /// priced.
  double getSeconds(const PlanNode &node) const;
  int64_t getReadAgainBytes() const;
  bool isReadAgain(int value, const PlanNode &reduction,
                   ArrayRef<SmallVector<int, 4>> readers) const;
  int64_t getBackwardReadBytes() const;
  int64_t getLimitBetweenRegions(int64_t limit) const;
  /// The cost of the cheapest choice at `price`, and the bytes it keeps.
  std::pair<int64_t, int64_t> cut(int64_t price) const;

  const PlanGraph &graph;
  Fusion fusion;
  int numValues;
  std::vector<bool> hasReaders; ///< of roots
};

} // namespace

double BoundBuilder::getOwnKernelSeconds() const {
  double seconds = 0;
  for (const PlanNode &node : graph.nodes)
    if (node.kind != NodeClass::View && node.kind != NodeClass::Constant &&
        (node.kind != NodeClass::Loop || fusion == Fusion::None))
      seconds += getSeconds(node);
  return seconds;
}

double BoundBuilder::getSeconds(const PlanNode &node) const {
  if (node.kind != NodeClass::Loop)
    return node.seconds;
  OpCost cost;
  cost.flopsF32 = node.cost.flopsF32;
  SmallVector<int, 4> roots;
  for (int operand : node.operands)
    if (int root = graph.values[operand].root;
        !isConstant(root) && !llvm::is_contained(roots, root)) {
      roots.push_back(root);
      cost.bytesRead += graph.values[operand].bytes;
    }
  for (int result : node.results)
    if (hasReaders[result] || graph.values[result].escapes)
      cost.bytesWritten += graph.values[result].bytes;
  return estimateSeconds(*graph.target, cost);
}

int64_t BoundBuilder::getLoopBytes() const {
  int64_t bytes = 0;
  std::vector<bool> isWritten(numValues, false);
  // Per region, the least that is read of a root.
  constexpr int64_t kUnread = std::numeric_limits<int64_t>::max();
  std::vector<std::array<int64_t, 2>> leastRead(numValues, {kUnread, kUnread});
  for (const PlanNode &node : graph.nodes) {
    if (node.kind == NodeClass::View)
      continue;
    for (int operand : node.operands) {
      int root = graph.values[operand].root;
      if (node.kind != NodeClass::Loop) {
        isWritten[root] = true;
        continue;
      }
      int64_t &least = leastRead[root][node.backward];
      least = std::min(least, graph.values[operand].bytes);
    }
  }
  for (auto [id, value] : llvm::enumerate(graph.values)) {
    int root = id;
    if (value.root != root)
      continue;
    if (isLoop(value.node)) {
      if (isWritten[root] || value.escapes)
        bytes += value.bytes;
      continue;
    }
    if (isConstant(root))
      continue;
    for (bool backward : {false, true})
      // What backward reads of forward values is in the cut.
      if (leastRead[root][backward] != kUnread &&
          !(backward && (value.node < 0 || !graph.nodes[value.node].backward)))
        bytes += leastRead[root][backward];
  }
  return bytes + getBackwardReadBytes() + getReadAgainBytes();
}

bool BoundBuilder::isReadAgain(int value, const PlanNode &reduction,
                               ArrayRef<SmallVector<int, 4>> readers) const {
  // From the result on through loops of its region, a few of them.
  constexpr size_t kMaxLoops = 64;
  SmallVector<int, 16> stack(reduction.results.begin(),
                             reduction.results.end());
  llvm::SmallDenseSet<int, 16> seen; // looked up only
  while (!stack.empty() && seen.size() < kMaxLoops) {
    int current = stack.pop_back_val();
    for (int reader : readers[current]) {
      const PlanNode &node = graph.nodes[reader];
      if (node.kind != NodeClass::Loop || node.backward != reduction.backward ||
          !seen.insert(reader).second)
        continue;
      bool sameSpace =
          ArrayRef<int64_t>(node.space) == ArrayRef<int64_t>(reduction.space);
      if (sameSpace && llvm::is_contained(node.operands, value))
        return true;
      llvm::append_range(stack, node.results);
    }
  }
  return false;
}

int64_t BoundBuilder::getReadAgainBytes() const {
  std::vector<SmallVector<int, 4>> readers(numValues);
  for (auto [index, node] : llvm::enumerate(graph.nodes))
    for (int operand : node.operands)
      readers[graph.values[operand].root].push_back(index);
  int64_t bytes = 0;
  // Each value counts once a region, however many reductions there are.
  std::vector<std::array<bool, 2>> counted(numValues, {false, false});
  for (const PlanNode &node : graph.nodes) {
    if (node.kind != NodeClass::Loop || node.locality != Locality::AtEnd)
      continue;
    for (int operand : node.operands) {
      const PlanValue &value = graph.values[operand];
      if (value.root != operand || isConstant(operand) || isLoop(value.node) ||
          counted[operand][node.backward] ||
          !isReadAgain(operand, node, readers))
        continue;
      counted[operand][node.backward] = true;
      bytes += value.bytes;
    }
  }
  return bytes;
}

int64_t BoundBuilder::getBackwardReadBytes() const {
  // Values are split into an entry and an exit; what no loop makes is the
  // source, what an original backward loop reads is the sink.
  MaxFlow flow(2 * numValues + 2);
  int source = 2 * numValues, sink = source + 1;
  std::vector<int64_t> leastRead(numValues, 0);
  std::vector<bool> isRead(numValues, false);
  for (const PlanNode &node : graph.nodes) {
    if (node.kind == NodeClass::View)
      continue;
    for (int operand : node.operands) {
      int root = graph.values[operand].root;
      // A view may be all that a loop reads.
      int64_t bytes = graph.values[operand].bytes;
      leastRead[root] =
          leastRead[root] ? std::min(leastRead[root], bytes) : bytes;
      isRead[root] =
          isRead[root] || (node.backward && isLoop(&node - graph.nodes.data()));
      if (node.kind == NodeClass::Loop && !node.backward)
        for (int result : node.results)
          flow.addArc(2 * root + 1, 2 * graph.values[result].root,
                      MaxFlow::kInfinite);
    }
  }
  for (auto [id, value] : llvm::enumerate(graph.values)) {
    int root = id;
    bool backward = value.node >= 0 && graph.nodes[value.node].backward;
    if (value.root != root || backward || isConstant(root))
      continue;
    flow.addArc(2 * root, 2 * root + 1, leastRead[root]);
    if (!isLoop(value.node))
      flow.addArc(source, 2 * root, MaxFlow::kInfinite);
    if (isRead[root])
      flow.addArc(2 * root + 1, sink, MaxFlow::kInfinite);
  }
  return flow.run(source, sink);
}

int64_t BoundBuilder::getLimitBetweenRegions(int64_t limit) const {
  // A value written over a donated argument takes nothing of the limit; else
  // the results of forward are live there too.
  int64_t donated = 0, results = 0;
  for (const PlanValue &value : graph.values) {
    donated += value.donated ? value.bytes : 0;
    if (value.escapes && value.node >= 0 && !graph.nodes[value.node].backward)
      results += value.bytes;
  }
  return limit + donated - (donated ? 0 : std::min(results, limit));
}

std::pair<int64_t, int64_t> BoundBuilder::cut(int64_t price) const {
  int numNodes = graph.firstBackward;
  MaxFlow flow(2 * numValues + numNodes + 2);
  int source = 2 * numValues + numNodes, sink = source + 1;
  auto priceOf = [&](int64_t bytes) {
    return static_cast<int64_t>(static_cast<double>(bytes) * price /
                                kPriceUnit);
  };
  std::vector<bool> isRead(numValues, false);
  for (const PlanNode &node : graph.nodes)
    if (node.kind != NodeClass::View && node.backward)
      for (int operand : node.operands)
        isRead[graph.values[operand].root] = true;
  for (int value : graph.backwardResults)
    isRead[graph.values[value].root] = true;
  for (int id = 0; id < numNodes; ++id) {
    const PlanNode &node = graph.nodes[id];
    if (node.kind == NodeClass::View || node.kind == NodeClass::Constant)
      continue;
    int runs = 2 * numValues + id;
    bool isFree = node.kind == NodeClass::Loop && fusion != Fusion::None;
    flow.addArc(source, runs,
                node.recompute == Recompute::Never
                    ? MaxFlow::kInfinite
                    : static_cast<int64_t>(
                          isFree ? 0 : getSeconds(node) * kTicksPerSecond));
    for (int result : node.results)
      flow.addArc(runs, 2 * graph.values[result].root, MaxFlow::kInfinite);
    for (int operand : node.operands)
      flow.addArc(2 * graph.values[operand].root + 1, runs, MaxFlow::kInfinite);
  }
  for (auto [id, value] : llvm::enumerate(graph.values)) {
    int root = id;
    if (value.root != root || value.resident || isConstant(root) ||
        graph.nodes[value.node].backward)
      continue;
    flow.addArc(2 * root, 2 * root + 1,
                value.escapes ? 0 : priceOf(value.bytes));
    if (isRead[root])
      flow.addArc(2 * root + 1, sink, MaxFlow::kInfinite);
  }
  int64_t cost = flow.run(source, sink);
  std::vector<bool> side = flow.getSourceSide(source);
  int64_t kept = 0;
  for (auto [id, value] : llvm::enumerate(graph.values))
    if (side[2 * id] && !side[2 * id + 1] && !value.escapes)
      kept += value.bytes;
  return {cost, kept};
}

double BoundBuilder::getRecomputeSeconds(int64_t limit) const {
  if (graph.firstBackward == static_cast<int>(graph.nodes.size()) ||
      limit == std::numeric_limits<int64_t>::max())
    return 0;
  limit = getLimitBetweenRegions(limit);
  double best = 0;
  auto tryPrice = [&](int64_t price) {
    auto [cost, kept] = cut(price);
    // Rounded towards zero: the bound holds.
    double ticks = double(cost) - std::ceil(double(limit) * price / kPriceUnit);
    best = std::max(best, ticks * (1 - 1e-12));
    return kept > limit;
  };
  // The bound rises with the price as long as more is kept than fits.
  int64_t low = 0, high = 1;
  int count = 0;
  for (; count < kMaxPrices && tryPrice(high); ++count) {
    low = high;
    high *= 4;
  }
  for (; count < kMaxPrices && high - low > std::max<int64_t>(low / 64, 1);
       ++count) {
    int64_t middle = low + (high - low) / 2;
    (tryPrice(middle) ? low : high) = middle;
  }
  return best / kTicksPerSecond;
}

TimeBound mlir::fp8::getTimeBound(const PlanGraph &graph, Fusion fusion,
                                  int64_t limit) {
  BoundBuilder builder(graph, fusion);
  double loops = fusion == Fusion::None ? 0
                                        : double(builder.getLoopBytes()) /
                                              graph.target->copyBytesPerSecond;
  double recompute = builder.getRecomputeSeconds(limit);
  TimeBound bound;
  bound.seconds = builder.getOwnKernelSeconds() + loops + recompute;
  bound.kind = fusion == Fusion::None ? "every op once"
                                      : "every matmul once and the least "
                                        "traffic of loops";
  if (recompute > 0)
    bound.kind += ", and a Lagrangian cut of what does not fit";
  return bound;
}
