//===- StateSearch.cpp - the shortest step of a small program ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A shortest path (A*) over states. The length of a path is the time of
// what runs again; what it takes at least to make again what is needed and not
// live is the estimate of the rest. Without loss of an optimum:
//
//  * a result is dropped where nothing can need it any more, else only where
//    the next kernel does not fit, and then no more than must be;
//  * of two ways to run the same kernels, the one that is no longer and has all
//    that the other one has live is enough: it can drop the rest at any time;
//  * a backward kernel that fits, and whose results are no larger than what it
//    frees and nothing could make again, runs at once: what runs before it
//    could as well run after.
//
//===----------------------------------------------------------------------===//

#include "StateSearch.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::fp8;

/// Comparisons of two states that take as long as the rest that a state takes.
static constexpr int64_t kCompared = 64;

StateSearch::StateSearch(const KernelGraph &graph, ArrayRef<int> mustStay)
    : graph(graph), numForward(graph.firstBackward) {
  const Program &program = *graph.program;
  if (graph.kernels.size() > kMaxKernels || numForward == 0 ||
      numForward == static_cast<int>(graph.kernels.size()) ||
      llvm::any_of(graph.kernels, [](const KernelNode &kernel) {
        return kernel.members.size() > 1;
      }))
    return;
  // Results by root; of constants and arguments none.
  std::vector<int> place(program.values.size(), -1);
  for (auto [id, kernel] : llvm::enumerate(graph.kernels)) {
    Kernel &entry = kernels.emplace_back();
    entry.workspace = kernel.workspace;
    entry.time = std::llround(kernel.seconds * 1e12);
    entry.mayRunAgain = !kernel.backward;
    for (int member : kernel.members)
      entry.mayRunAgain &=
          program.node(program.instances[member]).recompute != Recompute::Never;
    for (int pred : kernel.preds)
      entry.preds |= only(pred);
    for (int root : kernel.outputs) {
      const PlanValue &value = program.graphValue(root);
      std::vector<Result> &list = kernel.backward ? gradients : results;
      place[root] = list.size();
      Result &result = list.emplace_back();
      result.root = root;
      result.kernel = id;
      result.bytes = value.bytes;
      result.escapes = value.escapes;
      int stored = program.values[root].value;
      result.mayGo = entry.mayRunAgain && isChoice(*program.graph, stored) &&
                     !llvm::is_contained(mustStay, stored);
      entry.bytes += value.bytes;
      if (kernel.backward)
        continue;
      if (results.size() > kMaxResults)
        return;
      Set bit = only(place[root]);
      entry.makes |= bit;
      movable |= result.mayGo ? bit : 0;
    }
  }
  for (auto [id, kernel] : llvm::enumerate(graph.kernels))
    for (int root : llvm::concat<const int>(kernel.reads, kernel.holds)) {
      if (place[root] < 0)
        continue;
      bool backward = program.instances[program.values[root].instance].backward;
      (backward ? gradients : results)[place[root]].readers |= only(id);
      if (!backward)
        kernels[id].reads |= only(place[root]);
    }
  possible = movable != 0;
}

int64_t StateSearch::getBytes(Set set) const {
  int64_t bytes = 0;
  for (; set; set &= set - 1)
    bytes += results[llvm::countr_zero(set)].bytes;
  return bytes;
}

int StateSearch::getDone(Set set) {
  auto [it, inserted] = doneOf.try_emplace(set, dones.size());
  if (!inserted)
    return it->second;
  Done done;
  done.set = set;
  for (auto [index, result] : llvm::enumerate(results))
    if (result.escapes || (result.readers & ~set))
      done.required |= only(index);
  done.useful = done.required;
  for (int id = numForward - 1; id >= 0; --id)
    if (kernels[id].mayRunAgain && (kernels[id].makes & done.useful & movable))
      done.useful |= kernels[id].reads;
  for (const Result &gradient : gradients)
    if ((set & only(gradient.kernel)) &&
        (gradient.escapes || (gradient.readers & ~set)))
      done.backwardBytes += gradient.bytes;
  dones.push_back(std::move(done));
  return dones.size() - 1;
}

int64_t StateSearch::getRest(const Done &done, Set live) const {
  Set again = 0;
  auto need = [&](Set set) {
    for (set &= ~live; set; set &= set - 1)
      again |= only(results[llvm::countr_zero(set)].kernel) & done.set;
  };
  need(done.required);
  int64_t time = 0;
  while (again) {
    int id = 63 - llvm::countl_zero(again);
    again ^= only(id);
    time += kernels[id].time;
    need(kernels[id].reads);
  }
  return time;
}

void StateSearch::step(int id, int kernel, Set live) {
  const Label from = labels[id];
  const Kernel &entry = kernels[kernel];
  Set set = dones[from.done].set;
  Label next;
  next.cost = from.cost + (set & only(kernel) ? entry.time : 0);
  next.done = getDone(set | only(kernel));
  const Done &done = dones[next.done];
  next.live = (live | entry.makes) & done.useful;
  int64_t least = next.cost + getRest(done, next.live);
  if (least >= bound)
    return;
  numCompared += done.known.size();
  for (const Known &other : done.known)
    if (!(next.live & ~other.live) && other.cost <= next.cost)
      return;
  next.bytes = getBytes(next.live) + done.backwardBytes;
  next.parent = id;
  next.run = {kernel, entry.makes & ~live};
  std::vector<Known> &known = dones[next.done].known;
  llvm::erase_if(known, [&](const Known &other) {
    bool beaten = !(other.live & ~next.live) && other.cost >= next.cost;
    labels[other.label].beaten |= beaten;
    return beaten;
  });
  known.push_back({next.live, next.cost, int(labels.size())});
  // The heap has its largest first.
  int64_t first = -least, second = llvm::popcount(done.set);
  if (aim == Aim::Any)
    std::swap(first, second);
  open.push_back({first, second, -int(labels.size())});
  std::push_heap(open.begin(), open.end());
  labels.push_back(next);
}

void StateSearch::runAfterDrops(int id, int kernel, Set live, int64_t excess,
                                ArrayRef<int> candidates, int64_t smallest) {
  if (excess <= 0) {
    // Without the smallest of the drops it would fit as well.
    if (excess + smallest > 0)
      step(id, kernel, live);
    return;
  }
  for (auto [place, result] : llvm::enumerate(candidates))
    runAfterDrops(id, kernel, live & ~only(result),
                  excess - results[result].bytes,
                  candidates.drop_front(place + 1),
                  std::min(smallest, results[result].bytes));
}

bool StateSearch::runsAtOnce(const Done &before, const Done &after,
                             int kernel) const {
  // Only what is not made again is sure to be live until then.
  int64_t freed = before.backwardBytes - after.backwardBytes;
  Set gone = kernels[kernel].reads & before.useful & ~after.useful & ~movable;
  return freed + getBytes(gone) >= 0;
}

void StateSearch::visit(int id) {
  const Label label = labels[id];
  Set set = dones[label.done].set;
  bool isForwardDone = !((only(numForward) - 1) & ~set);
  SmallVector<std::pair<int, int64_t>, 16> ready; // and what is above the limit
  int end = isForwardDone ? kernels.size() : numForward;
  for (int kernel = 0; kernel < end; ++kernel) {
    const Kernel &entry = kernels[kernel];
    bool again = set & only(kernel);
    if ((entry.reads & ~label.live) ||
        (again ? !entry.mayRunAgain || !(entry.makes & movable & ~label.live &
                                         dones[label.done].useful)
               : (entry.preds & ~set) != 0))
      continue;
    int64_t made = again ? getBytes(entry.makes & ~label.live) : entry.bytes;
    int64_t excess = label.bytes + made + entry.workspace - limit;
    if (kernel >= numForward && excess <= 0) {
      int after = getDone(set | only(kernel));
      if (runsAtOnce(dones[label.done], dones[after], kernel)) {
        step(id, kernel, label.live);
        return;
      }
    }
    ready.push_back({kernel, excess});
  }
  for (auto [kernel, excess] : ready) {
    if (excess <= 0) {
      step(id, kernel, label.live);
      continue;
    }
    SmallVector<int, 32> candidates;
    for (Set set = label.live & movable & ~kernels[kernel].reads; set;
         set &= set - 1)
      candidates.push_back(llvm::countr_zero(set));
    runAfterDrops(id, kernel, label.live, excess, candidates,
                  std::numeric_limits<int64_t>::max() / 2);
  }
}

StateSearch::Outcome StateSearch::run(Aim aim, int64_t limit, double seconds,
                                      int64_t &work, std::vector<Run> &runs) {
  this->aim = aim;
  this->limit = limit;
  // Equal times are not less.
  bound = std::isinf(seconds) ? std::numeric_limits<int64_t>::max()
                              : std::llround(seconds * 1e12) - 1;
  dones.clear();
  doneOf.clear();
  labels.clear();
  open.clear();
  Set all = only(kernels.size()) - 1;
  Label start;
  start.done = getDone(0);
  labels.push_back(start);
  open.push_back({0, 0, 0});
  while (!open.empty()) {
    std::pop_heap(open.begin(), open.end());
    int id = -std::get<2>(open.back());
    open.pop_back();
    if (labels[id].beaten)
      continue;
    if (dones[labels[id].done].set == all) {
      runs.clear();
      for (; labels[id].parent >= 0; id = labels[id].parent)
        runs.push_back(labels[id].run);
      std::reverse(runs.begin(), runs.end());
      return Outcome::Found;
    }
    work -= 1 + numCompared / kCompared;
    numCompared %= kCompared;
    if (work < 0)
      return Outcome::Unknown;
    visit(id);
  }
  return Outcome::None;
}
