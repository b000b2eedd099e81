//===- Step.cpp - the fastest step within a budget --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shortest path over what has been computed, how often, and what is live. The
// length of a path is the time spent on computing forward ops again; states are
// visited by that and what it takes at least to make what is needed and not
// live.
//
// What keeps the number of states small, and loses no optimum:
//
//  * a state from which something needed could not be made any more is none;
//  * nor is one where the same ops have run as in another one, which took no
//    longer, has all that is live, and may compute as much again;
//  * a value is dropped when nothing can need it any more;
//  * else only where the next op does not fit, and then no more than must be:
//    any schedule can put off the rest;
//  * a backward op that fits, and whose result is no larger than what it frees
//    for good, runs at once: whatever runs before it could as well run after.
//
//===----------------------------------------------------------------------===//

#include "Graph.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>

using namespace optimum;

namespace {

/// A set of ops.
using Set = uint64_t;
constexpr Set only(int op) { return Set(1) << op; }

/// What has run and what is live. Backward values are live from their op to
/// their last reader, and so follow from what has run.
struct State {
  Set done = 0;       ///< ops that have run
  uint32_t again = 0; ///< forward ops that have run twice
  uint32_t live = 0;  ///< forward values

  bool operator==(const State &) const = default;
};

/// A state and the time to it, where the set of ops that have run is known.
struct Reached {
  uint32_t again = 0, live = 0;
  int cost = 0;

  /// Whether what can follow `other` can follow this, in no more time.
  bool isAsGoodAs(const Reached &other) const {
    return !(other.live & ~live) && !(again & ~other.again) &&
           cost <= other.cost;
  }
  bool operator==(const Reached &) const = default;
};

class Solver {
public:
  Solver(const Graph &graph, int64_t budget)
      : graph(graph), budget(budget), numForward(graph.numForward),
        numOps(graph.ops.size()), forward(only(numForward) - 1),
        readers(numOps, 0), operands(numOps, 0) {
    for (int id = 0; id < numOps; ++id) {
      escaping |= graph.ops[id].escapes ? only(id) : 0;
      for (int operand : graph.ops[id].operands) {
        readers[operand] |= only(id);
        operands[id] |= only(operand);
      }
    }
  }

  int solve(int64_t maxStates);

private:
  /// True where an op that must still run reads `op`, or it is a result.
  bool isRequired(const State &state, int op) const {
    return (escaping & only(op)) || (readers[op] & ~state.done);
  }
  /// The least time to make all that is needed and not live; -1 where it cannot
  /// be made.
  int getRest(const State &state) const;
  /// Forward values that something may still read.
  uint32_t getUseful(const State &state) const;
  /// All values that are live.
  Set getLive(const State &state) const;
  int64_t getBytes(Set values) const;
  void visit(const State &state, int cost);
  /// Runs `op` after dropping no more than must be of `candidates`.
  void runAfterDrops(State state, int op, int64_t excess, int cost,
                     const std::vector<int> &candidates, size_t first,
                     int64_t smallestDropped);
  void run(State state, int op, int cost);
  bool runsAtOnce(const State &state, int op) const;

  const Graph &graph;
  int64_t budget;
  int numForward, numOps;
  Set forward, escaping = 0;
  std::vector<Set> readers, operands;
  /// States to visit and the time to each, by the least time of a step that
  /// goes through it.
  std::vector<std::vector<std::pair<State, int>>> queue;
  /// By the ops that have run: the states that are no worse than another one.
  std::unordered_map<Set, std::vector<Reached>> best;
  bool isSolved = false;
};

uint32_t Solver::getUseful(const State &state) const {
  Set useful = 0;
  for (int op = numForward - 1; op >= 0; --op)
    if (isRequired(state, op) || (readers[op] & useful & ~state.again))
      useful |= only(op);
  return useful;
}

Set Solver::getLive(const State &state) const {
  Set live = state.live;
  for (int op = numForward; op < numOps; ++op)
    if ((state.done & only(op)) && isRequired(state, op))
      live |= only(op);
  return live;
}

int64_t Solver::getBytes(Set values) const {
  int64_t bytes = 0;
  for (; values; values &= values - 1)
    bytes += graph.ops[std::countr_zero(values)].bytes;
  return bytes;
}

void Solver::run(State state, int op, int cost) {
  if (state.done & only(op)) {
    cost += graph.ops[op].time;
    state.again |= only(op);
  }
  state.done |= only(op);
  if (op < numForward)
    state.live |= only(op);
  state.live &= getUseful(state);
  int rest = getRest(state);
  if (rest < 0)
    return;
  Reached reached = {state.again, state.live, cost};
  std::vector<Reached> &others = best[state.done];
  for (const Reached &other : others)
    if (other.isAsGoodAs(reached))
      return;
  std::erase_if(
      others, [&](const Reached &other) { return reached.isAsGoodAs(other); });
  others.push_back(reached);
  if (queue.size() <= static_cast<size_t>(cost + rest))
    queue.resize(cost + rest + 1);
  queue[cost + rest].push_back({state, cost});
}

int Solver::getRest(const State &state) const {
  Set needed = 0;
  for (int op = 0; op < numForward; ++op)
    if ((state.done & only(op)) && isRequired(state, op))
      needed |= only(op);
  int time = 0;
  // An op reads ops before it.
  for (int op = numForward - 1; op >= 0; --op) {
    if (!(needed & ~state.live & only(op)))
      continue;
    if (state.again & only(op))
      return -1;
    time += graph.ops[op].time;
    needed |= operands[op];
  }
  return time;
}

void Solver::runAfterDrops(State state, int op, int64_t excess, int cost,
                           const std::vector<int> &candidates, size_t first,
                           int64_t smallestDropped) {
  if (excess <= 0) {
    // Without the smallest of the drops it would fit as well.
    if (excess + smallestDropped > 0)
      run(state, op, cost);
    return;
  }
  for (size_t place = first; place < candidates.size(); ++place) {
    State next = state;
    int value = candidates[place];
    next.live &= ~only(value);
    int64_t bytes = graph.ops[value].bytes;
    runAfterDrops(next, op, excess - bytes, cost, candidates, place + 1,
                  std::min(smallestDropped, bytes));
  }
}

bool Solver::runsAtOnce(const State &state, int op) const {
  State after = state;
  after.done |= only(op);
  // A forward value that could be made again might not be live here.
  Set kept = getUseful(after) | (forward & ~state.again) | getLive(after);
  return (isRequired(after, op) ? graph.ops[op].bytes : 0) <=
         getBytes(operands[op] & ~kept);
}

void Solver::visit(const State &state, int cost) {
  if (state.done == only(numOps) - 1) {
    isSolved = true;
    return;
  }
  bool isForwardDone = (forward & ~state.done) == 0;
  Set live = getLive(state);
  int64_t liveBytes = getBytes(live);
  uint32_t useful = getUseful(state);
  Set ready = 0;
  for (int op = 0; op < numOps; ++op) {
    if (operands[op] & ~live)
      continue;
    if (op < numForward) {
      // A second run must have been worth a drop.
      if ((state.again | state.live) & only(op) ||
          ((state.done & only(op)) && !(useful & only(op))))
        continue;
    } else if ((state.done & only(op)) || !isForwardDone) {
      continue;
    }
    const Op &node = graph.ops[op];
    if (op >= numForward && liveBytes + node.bytes + node.workspace <= budget &&
        runsAtOnce(state, op)) {
      run(state, op, cost);
      return;
    }
    ready |= only(op);
  }
  for (; ready; ready &= ready - 1) {
    int op = std::countr_zero(ready);
    int64_t excess =
        liveBytes + graph.ops[op].bytes + graph.ops[op].workspace - budget;
    if (excess <= 0) {
      run(state, op, cost);
      continue;
    }
    std::vector<int> candidates;
    for (int value = 0; value < numForward; ++value)
      if ((state.live & ~escaping & ~operands[op] & only(value)) &&
          (!(state.again & only(value)) || !isRequired(state, value)))
        candidates.push_back(value);
    runAfterDrops(state, op, excess, cost, candidates, 0,
                  std::numeric_limits<int64_t>::max() / 2);
  }
}

int Solver::solve(int64_t maxStates) {
  queue.resize(1);
  queue[0].push_back({State(), 0});
  best[0].push_back({});
  for (size_t least = 0; least < queue.size(); ++least)
    while (!queue[least].empty()) {
      auto [state, cost] = queue[least].back();
      queue[least].pop_back();
      const std::vector<Reached> &known = best[state.done];
      if (std::find(known.begin(), known.end(),
                    Reached{state.again, state.live, cost}) == known.end())
        continue;
      if (--maxStates < 0)
        return -2;
      visit(state, cost);
      if (isSolved)
        return cost;
    }
  return -1;
}

} // namespace

int optimum::solveStep(const Graph &graph, int64_t budget, int64_t maxStates) {
  return Solver(graph, budget).solve(maxStates);
}
