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
//  * where a loop reads a value again after a reduction over it that is known
//    only at the end of its loop, the two are in different kernels. Both read
//    what the value is made of, once more than counted above, unless something
//    on the way is stored: another cut, in which what a loop makes costs its
//    write and its read.
//
// The cuts share no cost. Take the loop values that a plan stores. Of a value
// that no loop makes, and that is on a way to such a reduction on which nothing
// is stored, both kernels are readers: two reads, one in the cut of what
// backward reads, or what its region reads at all, and one in the last. What is
// stored is read in that first cut and written in the last; only what backward
// makes itself is read in the last too. What is stored in every plan costs no
// write, so where a first cut may count its read, the last one counts nothing.
//
// A loop that only backward needs may run in either region, so it counts in
// neither.
//
// Ops that wait for each other across one that is no loop are in different
// kernels, so the longest such chain says how many launches there are at least.
//
// What must be computed again: all that is kept for backward is live between
// the regions. Keeping less than backward reads means running ops again; for
// each price of a byte a minimum cut says which, and the price times the limit
// is taken off. Every price gives a bound; the best of some is used.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/TimeBound.h"

#include "fp8/Analysis/MaxFlow.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/BitVector.h"

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
        hasReaders(graph.values.size(), false), isWritten(numValues, false),
        leastRead(numValues, 0), runsForward(graph.nodes.size(), false) {
    for (const PlanNode &node : graph.nodes) {
      if (node.kind == NodeClass::View)
        continue;
      for (int operand : node.operands) {
        int root = graph.values[operand].root;
        hasReaders[root] = true;
        isWritten[root] = isWritten[root] || node.kind != NodeClass::Loop;
        // A view may be all that is read.
        int64_t bytes = graph.values[operand].bytes;
        leastRead[root] =
            leastRead[root] ? std::min(leastRead[root], bytes) : bytes;
      }
    }
    for (int root = 0; root < numValues; ++root)
      isWritten[root] = isWritten[root] || graph.values[root].escapes;
    findForwardNodes();
  }

  double getOwnKernelSeconds() const;
  int64_t getLoopBytes() const;
  /// Loop kernels that every plan has at least.
  int64_t getLoopKernels() const;
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
  void findForwardNodes();
  bool isReadAgain(int value, const PlanNode &reduction,
                   ArrayRef<SmallVector<int, 4>> readers) const;
  /// Per root, whether a loop of the region reads it again after a reduction.
  BitVector findReadAgain(bool backward) const;
  /// The least cost that parts what no loop makes from the roots `isEnd`, which
  /// loops of forward, and of backward where `throughBackward` is set, make.
  int64_t cutWays(bool throughBackward, const BitVector &isEnd,
                  function_ref<int64_t(int root)> costOf) const;
  int64_t getBackwardReadBytes() const;
  int64_t getReadAgainBytes() const;
  int64_t getLimitBetweenRegions(int64_t limit) const;
  /// The cost of the cheapest choice at `price`, and the bytes it keeps.
  std::pair<int64_t, int64_t> cut(int64_t price) const;

  const PlanGraph &graph;
  Fusion fusion;
  int numValues;
  std::vector<bool> hasReaders;   ///< of roots
  std::vector<bool> isWritten;    ///< of roots: in memory in every plan
  std::vector<int64_t> leastRead; ///< of roots: what a reader reads at least
  std::vector<bool> runsForward;  ///< of nodes: run in forward in every plan
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

/// As forward runs under any selection (Materializer::markDead).
void BoundBuilder::findForwardNodes() {
  std::vector<bool> isNeeded(numValues, false);
  for (int id = graph.firstBackward - 1; id >= 0; --id) {
    const PlanNode &node = graph.nodes[id];
    bool runs = node.recompute == Recompute::Never || node.mustRun;
    for (int result : node.results)
      runs |= isNeeded[result] || graph.rootOf(result).escapes;
    runsForward[id] = runs;
    if (runs)
      for (int operand : node.operands)
        isNeeded[operand] = true;
  }
}

int64_t BoundBuilder::getLoopKernels() const {
  // Of values: the loop kernels on the longest way to it.
  std::vector<int64_t> countOf(numValues, 0);
  int64_t most = 0;
  for (auto [id, node] : llvm::enumerate(graph.nodes)) {
    if (node.kind == NodeClass::Constant)
      continue;
    int64_t count = isLoop(id);
    for (int operand : node.operands)
      count = std::max<int64_t>(
          count, countOf[operand] +
                     (isLoop(id) && !isLoop(graph.rootOf(operand).node)));
    for (int result : node.results)
      countOf[result] = count;
    most = std::max(most, count);
  }
  return most;
}

int64_t BoundBuilder::getLoopBytes() const {
  int64_t bytes = 0;
  // Per region, the least that is read of a root.
  constexpr int64_t kUnread = std::numeric_limits<int64_t>::max();
  std::vector<std::array<int64_t, 2>> readIn(numValues, {kUnread, kUnread});
  for (auto [id, node] : llvm::enumerate(graph.nodes)) {
    if (node.kind != NodeClass::Loop || (!node.backward && !runsForward[id]))
      continue;
    for (int operand : node.operands) {
      int64_t &least = readIn[graph.values[operand].root][node.backward];
      least = std::min(least, graph.values[operand].bytes);
    }
  }
  for (auto [id, value] : llvm::enumerate(graph.values)) {
    int root = id;
    if (value.root != root)
      continue;
    if (isLoop(value.node)) {
      if (isWritten[root])
        bytes += value.bytes;
      continue;
    }
    if (isConstant(root))
      continue;
    for (bool backward : {false, true})
      // What backward reads of forward values is in the cut.
      if (readIn[root][backward] != kUnread &&
          !(backward && (value.node < 0 || !graph.nodes[value.node].backward)))
        bytes += readIn[root][backward];
  }
  return bytes + getBackwardReadBytes() + getReadAgainBytes();
}

int64_t BoundBuilder::cutWays(bool throughBackward, const BitVector &isEnd,
                              function_ref<int64_t(int root)> costOf) const {
  // Values are split into an entry and an exit.
  MaxFlow flow(2 * numValues + 2);
  int source = 2 * numValues, sink = source + 1;
  for (const PlanNode &node : graph.nodes) {
    if (node.kind != NodeClass::Loop || (node.backward && !throughBackward))
      continue;
    for (int operand : node.operands)
      for (int result : node.results)
        flow.addArc(2 * graph.values[operand].root + 1,
                    2 * graph.values[result].root, MaxFlow::kInfinite);
  }
  for (auto [id, value] : llvm::enumerate(graph.values)) {
    int root = id;
    bool backward = value.node >= 0 && graph.nodes[value.node].backward;
    if (value.root != root || (backward && !throughBackward) ||
        isConstant(root))
      continue;
    flow.addArc(2 * root, 2 * root + 1, costOf(root));
    if (!isLoop(value.node))
      flow.addArc(source, 2 * root, MaxFlow::kInfinite);
    if (isEnd[root])
      flow.addArc(2 * root + 1, sink, MaxFlow::kInfinite);
  }
  return flow.run(source, sink);
}

int64_t BoundBuilder::getBackwardReadBytes() const {
  BitVector isRead(numValues);
  for (const PlanNode &node : graph.nodes)
    if (node.kind == NodeClass::Loop && node.backward)
      for (int operand : node.operands)
        isRead.set(graph.values[operand].root);
  return cutWays(/*throughBackward=*/false, isRead,
                 [&](int root) { return leastRead[root]; });
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
          (!node.backward && !runsForward[reader]) ||
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

BitVector BoundBuilder::findReadAgain(bool backward) const {
  std::vector<SmallVector<int, 4>> readers(numValues);
  for (auto [index, node] : llvm::enumerate(graph.nodes))
    for (int operand : node.operands)
      readers[graph.values[operand].root].push_back(index);
  BitVector found(numValues);
  for (const PlanNode &node : graph.nodes)
    if (node.kind == NodeClass::Loop && node.backward == backward &&
        node.locality == Locality::AtEnd)
      for (int operand : node.operands)
        if (graph.values[operand].root == operand && !isConstant(operand) &&
            !found[operand] && isReadAgain(operand, node, readers))
          found.set(operand);
  return found;
}

int64_t BoundBuilder::getReadAgainBytes() const {
  BitVector inForward = findReadAgain(false), inBackward = findReadAgain(true);
  // A value that both cuts may count as stored is written once.
  bool both = inForward.any() && inBackward.any();
  auto isForward = [&](int root) {
    return graph.values[root].node < graph.firstBackward;
  };
  auto writeOf = [&](int root) {
    return isWritten[root] ? 0 : graph.values[root].bytes;
  };
  int64_t bytes = 0;
  if (inForward.any())
    bytes += cutWays(/*throughBackward=*/false, inForward, [&](int root) {
      return leastRead[root] + (isLoop(graph.values[root].node)
                                    ? writeOf(root) / (both ? 2 : 1)
                                    : 0);
    });
  if (inBackward.any())
    bytes += cutWays(/*throughBackward=*/true, inBackward, [&](int root) {
      if (!isLoop(graph.values[root].node))
        return leastRead[root];
      return isForward(root) ? writeOf(root) / (both ? 2 : 1)
                             : leastRead[root] + writeOf(root);
    });
  return bytes;
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
  double loops =
      fusion == Fusion::None
          ? 0
          : double(builder.getLoopBytes()) / graph.target->copyBytesPerSecond +
                builder.getLoopKernels() * graph.target->launchSeconds;
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
