//===- FormKernels.cpp - greedy kernel formation ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each loop op joins the kernel of a producer where one pass over memory can
// do both:
//
//  * they iterate over the same space, or one of them over a part of it that
//    is broadcast (a row, a column, a block of scales);
//  * what it reads inside the kernel is available there: an elementwise value,
//    or a reduction within the rows the kernel holds; a reduction over rows is
//    known only after the loop, so only ops on the reduced shape may follow it;
//  * the kernel does not depend on itself through another one, and has no more
//    than `kMaxKernelOps` ops;
//  * on a target of thread blocks, what the block must hold for one op is not
//    at odds with what it must hold for another: whole rows, or tiles.
//
//===----------------------------------------------------------------------===//

#include "Former.h"

#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace mlir::fp8;

/// A kernel that is this far from clear of a cycle is not made: the time to
/// form kernels stays linear where a program has no narrow points.
static constexpr int kMaxVisits = 2000;

bool Former::fitsSpace(ArrayRef<int64_t> part, ArrayRef<int64_t> space) const {
  if (part.size() != space.size())
    return false;
  for (auto [dim, whole] : llvm::zip(part, space))
    if (dim != whole && dim != 1 &&
        dim != static_cast<int64_t>(llvm::divideCeil(whole, 128)))
      return false;
  return true;
}

bool Former::readsAsItLies(int operand) const {
  while (operand != program.values[operand].root) {
    const Instance &view = program.instances[program.values[operand].instance];
    if (!program.node(view).isBarrier)
      return false;
    operand = view.operands.front();
  }
  return true;
}

int Former::findBorder(int id) {
  int border = id;
  while (nextBorder[border] != border)
    border = nextBorder[border] = nextBorder[nextBorder[border]];
  return border;
}

void Former::coverStretch(const Group &group) {
  for (int border = findBorder(group.first + 1); border <= group.last;
       border = findBorder(border))
    nextBorder[border] = border + 1;
}

bool Former::reaches(int group, int target, int self) {
  SmallVector<int, 16> stack = {group};
  while (!stack.empty()) {
    int current = stack.pop_back_val();
    if (current == target)
      return true;
    // Kernels wait only for what lies before the next border, since none of
    // them crosses it. Their own end is no such limit: what they read may lie
    // in a kernel with later members.
    if (current == self || stamp[current] == currentStamp ||
        findBorder(groups[current].last + 1) <= groups[target].first)
      continue;
    stamp[current] = currentStamp;
    for (int member : groups[current].members)
      for (int operand : program.instances[member].operands) {
        if (++visits > kMaxVisits)
          return true;
        forEachProducer(operand, [&](int producer) {
          if (producer != current)
            stack.push_back(producer);
        });
      }
  }
  return false;
}

bool Former::hasPathThroughOthers(int from, int to) {
  startSearch();
  // From the side with fewer members: one of the two is often a long chain.
  if (groups[from].members.size() < groups[to].members.size())
    return leadsTo(from, to);
  for (int member : groups[to].members)
    for (int operand : program.instances[member].operands) {
      if (++visits > kMaxVisits)
        return true;
      bool found = false;
      forEachProducer(operand, [&](int producer) {
        found |=
            producer != to && producer != from && reaches(producer, from, to);
      });
      if (found)
        return true;
    }
  return false;
}

bool Former::leadsTo(int from, int to) {
  // No kernel crosses this border, so what starts behind it does not lead back.
  int border = findBorder(groups[to].last + 1);
  SmallVector<int, 16> stack = {from};
  while (!stack.empty()) {
    int current = stack.pop_back_val();
    for (int member : groups[current].members)
      for (auto [reader, operand] : readers[member]) {
        if (++visits > kMaxVisits)
          return true;
        int next = groupOf[reader];
        if (next < 0 || next == current || next == from)
          continue;
        if (next == to) {
          if (current != from)
            return true;
          continue;
        }
        if (groups[next].first >= border || stamp[next] == currentStamp)
          continue;
        stamp[next] = currentStamp;
        stack.push_back(next);
      }
  }
  return false;
}

std::optional<Locality> Former::localityIn(int id, int group) {
  const Instance &instance = program.instances[id];
  const PlanNode &node = program.node(instance);
  const Group &target = groups[group];
  if (target.kind != NodeClass::Loop || target.alone ||
      target.size() >= kMaxKernelOps || target.backward != instance.backward ||
      isa<PadOp>(node.op) || !combine(target.blockShape, node.blockShape))
    return std::nullopt;
  // A piece is stored where it is made, in whatever order it lies.
  if (node.writesPiece) {
    int piece = instance.operands[0];
    return program.values[piece].root == piece &&
                   producerGroup(piece) == group && !writesPieceOf(group, id)
               ? std::optional(Locality::Moved)
               : std::nullopt;
  }
  bool sameSpace =
      ArrayRef<int64_t>(node.space) == ArrayRef<int64_t>(target.space);
  bool grows =
      !sameSpace && !target.reduces && fitsSpace(target.space, node.space);
  if (!sameSpace && !grows && !fitsSpace(node.space, target.space))
    return std::nullopt;
  bool anyAtEnd = false, anyInLoop = false;
  for (int operand : instance.operands) {
    int root = program.values[operand].root;
    if (program.values[root].instance < 0 ||
        groupOf[program.values[root].instance] != group)
      continue;
    if (!readsAsItLies(operand) || locality[root] == Locality::Moved)
      return std::nullopt; // A view of a value that is never stored, or a value
                           // stored in another order.
    (locality[root] == Locality::AtEnd ? anyAtEnd : anyInLoop) = true;
  }
  if (anyAtEnd)
    // After the loop: only ops on the reduced shape, reading nothing of the
    // loop.
    return !anyInLoop && !sameSpace && !grows &&
                   node.locality == Locality::Elementwise
               ? std::optional(Locality::AtEnd)
               : std::nullopt;
  // A reduction of a part of the space would have to run at another pace than
  // the loop.
  if (node.locality != Locality::Elementwise && !sameSpace && !grows)
    return std::nullopt;
  return node.locality == Locality::Elementwise ? Locality::Elementwise
                                                : node.locality;
}

void Former::join(int id, int group, Locality where) {
  Group &target = groups[group];
  const PlanNode &node = program.node(program.instances[id]);
  groupOf[id] = group;
  target.members.push_back(id);
  target.last = std::max(target.last, id);
  coverStretch(target);
  if (!node.writesPiece) {
    if (!fitsSpace(node.space, target.space))
      target.space = node.space;
    target.blockShape = *combine(target.blockShape, node.blockShape);
    target.reduces |= node.locality != Locality::Elementwise;
  }
  for (int result : program.instances[id].results)
    locality[result] = where;
}

bool Former::readsStored(int reader, int producer) const {
  auto isStored = [&](int operand) {
    Locality where = locality[program.values[operand].root];
    return !readsAsItLies(operand) || where == Locality::AtEnd ||
           where == Locality::Moved;
  };
  // From the side with fewer members: one of the two is often a long chain.
  if (groups[reader].members.size() <= groups[producer].members.size())
    return llvm::any_of(groups[reader].members, [&](int member) {
      return llvm::any_of(program.instances[member].operands, [&](int operand) {
        return producerGroup(operand) == producer && isStored(operand);
      });
    });
  return llvm::any_of(groups[producer].members, [&](int member) {
    return llvm::any_of(readers[member], [&](auto read) {
      return groupOf[read.first] == reader && isStored(read.second);
    });
  });
}

bool Former::writesPieceOf(int group, int id) const {
  auto rootOf = [&](int instance) {
    return program.values[program.instances[instance].results[0]].root;
  };
  return llvm::any_of(groups[group].members, [&](int member) {
    return program.node(program.instances[member]).writesPiece &&
           rootOf(member) == rootOf(id);
  });
}

bool Former::canMerge(int group, int other) {
  const Group &into = groups[group], &from = groups[other];
  if (other == group || into.kind != NodeClass::Loop || into.alone ||
      from.kind != NodeClass::Loop || from.alone ||
      from.backward != into.backward ||
      from.size() + into.size() > kMaxKernelOps ||
      !combine(from.blockShape, into.blockShape))
    return false;
  if (ArrayRef<int64_t>(from.space) != ArrayRef<int64_t>(into.space) &&
      (from.reduces || !fitsSpace(from.space, into.space)))
    return false;
  // Members may read each other's kernel only through values available in the
  // loop.
  if (readsStored(group, other) || readsStored(other, group))
    return false;
  if (llvm::any_of(from.members, [&](int member) {
        return program.node(program.instances[member]).writesPiece &&
               writesPieceOf(group, member);
      }))
    return false;
  return !hasPathThroughOthers(other, group) &&
         !hasPathThroughOthers(group, other);
}

int Former::merge(int group, int other) {
  Group &into = groups[group], &from = groups[other];
  // The longer one takes the members of the shorter one.
  bool swapped = from.members.size() > into.members.size();
  Group &keep = swapped ? from : into, &gone = swapped ? into : from;
  for (int member : gone.members)
    groupOf[member] = swapped ? other : group;
  keep.members.append(gone.members);
  keep.space = into.space;
  keep.blockShape = *combine(into.blockShape, from.blockShape);
  keep.first = std::min(into.first, from.first);
  keep.last = std::max(into.last, from.last);
  keep.reduces |= gone.reduces;
  coverStretch(keep);
  gone.members.clear();
  return swapped ? other : group;
}

bool Former::joinMatmul(int id) {
  const Instance &instance = program.instances[id];
  int piece = instance.operands[0];
  int group = producerGroup(piece);
  if (group < 0 || groups[group].kind != NodeClass::Matmul ||
      program.values[piece].root != piece ||
      readers[program.values[piece].instance].size() != 1)
    return false;
  startSearch();
  bool cyclic = false;
  for (int operand : ArrayRef(instance.operands).drop_front())
    forEachProducer(
        operand, [&](int producer) { cyclic |= reaches(producer, group, -1); });
  if (cyclic)
    return false;
  groupOf[id] = group;
  groups[group].members.push_back(id);
  groups[group].last = id;
  coverStretch(groups[group]);
  locality[instance.results[0]] = Locality::Moved;
  return true;
}

bool Former::tryJoin(int id) {
  const Instance &instance = program.instances[id];
  SmallVector<int, 4> candidates;
  for (int operand : instance.operands)
    if (int group = producerGroup(operand);
        group >= 0 && !llvm::is_contained(candidates, group))
      candidates.push_back(group);
  // The kernel that made the largest operand saves the most traffic.
  auto bytesFrom = [&](int group) {
    int64_t bytes = 0;
    for (int operand : instance.operands)
      if (producerGroup(operand) == group)
        bytes = std::max(bytes, program.graphValue(operand).bytes);
    return bytes;
  };
  llvm::stable_sort(candidates,
                    [&](int a, int b) { return bytesFrom(a) > bytesFrom(b); });
  bool joined = false;
  for (int group : candidates) {
    if (joined) {
      if (!groups[group].members.empty() && canMerge(groupOf[id], group))
        merge(groupOf[id], group);
      continue;
    }
    std::optional<Locality> where = localityIn(id, group);
    if (!where)
      continue;
    // The other operands must not come from a kernel that itself waits for this
    // one.
    startSearch();
    bool cyclic = false;
    for (int operand : instance.operands)
      forEachProducer(operand, [&](int producer) {
        cyclic |= producer != group && reaches(producer, group, -1);
      });
    if (cyclic)
      continue;
    join(id, group, *where);
    joined = true;
  }
  return joined;
}

KernelGraph Former::run() {
  for (auto [index, instance] : llvm::enumerate(program.instances)) {
    if (!isExecuted(instance))
      continue;
    int id = index;
    const PlanNode &node = program.node(instance);
    bool alone = node.kind != NodeClass::Loop || node.chain != Chain::None;
    if (node.writesPiece && joinMatmul(id))
      continue;
    if (fusion == Fusion::Default && !alone && tryJoin(id))
      continue;
    Group group;
    group.kind = node.kind;
    group.alone = alone;
    group.backward = instance.backward;
    group.members.push_back(id);
    group.space = node.space;
    group.blockShape = node.blockShape;
    group.first = group.last = id;
    group.reduces = node.locality != Locality::Elementwise;
    groupOf[id] = groups.size();
    for (int result : instance.results)
      locality[result] = node.locality;
    groups.push_back(std::move(group));
  }
  if (fusion == Fusion::Default &&
      program.graph->target->kernelModel == KernelModel::ThreadBlocks)
    shareReads();
  return build();
}

KernelGraph Former::build() {
  // Merging leaves the members of a kernel out of order.
  for (Group &group : groups) {
    group.members.append(group.repeated);
    llvm::sort(group.members);
  }
  // Who reads what.
  std::vector<bool> readOutside(program.values.size(), false);
  std::vector<SmallVector<int, 4>> preds(groups.size());
  int lastOrdered[2] = {-1,
                        -1}; // Collectives and state updates keep their order.
  for (auto [index, group] : llvm::enumerate(groups))
    for (int member : group.members)
      for (int operand : program.instances[member].operands) {
        int root = program.values[operand].root;
        int producer = producerGroup(operand);
        if (producer < 0 || holds(index, program.values[root].instance))
          continue;
        readOutside[root] = true;
        preds[index].push_back(producer);
        // A name that a wait or an opaque op gives is there after that op.
        if (int by = namingGroup(operand); by >= 0 && by != int(index))
          preds[index].push_back(by);
      }
  for (auto [index, instance] : llvm::enumerate(program.instances)) {
    Chain chain = program.node(instance).chain;
    if (int group = groupOf[index]; group >= 0 && chain != Chain::None) {
      int &last = lastOrdered[chain == Chain::State];
      if (last >= 0 && last != group)
        preds[group].push_back(last);
      last = group;
    }
  }
  for (SmallVector<int, 4> &list : preds) {
    llvm::sort(list);
    list.erase(llvm::unique(list), list.end());
  }
  const PlanGraph &graph = *program.graph;
  // Order by dependence, ties by the position of the last member.
  SmallVector<int> ready, remaining(groups.size(), 0), order;
  std::vector<SmallVector<int, 4>> successors(groups.size());
  auto later = [&](int a, int b) { return groups[a].last > groups[b].last; };
  for (auto [index, group] : llvm::enumerate(groups)) {
    if (group.members.empty())
      continue;
    remaining[index] = preds[index].size();
    for (int pred : preds[index])
      successors[pred].push_back(index);
    if (preds[index].empty())
      ready.push_back(index);
  }
  std::make_heap(ready.begin(), ready.end(), later);
  auto popReady = [&] {
    std::pop_heap(ready.begin(), ready.end(), later);
    return ready.pop_back_val();
  };
  while (!ready.empty()) {
    int group = popReady();
    order.push_back(group);
    for (int successor : successors[group])
      if (--remaining[successor] == 0) {
        ready.push_back(successor);
        std::push_heap(ready.begin(), ready.end(), later);
      }
  }
  // Collectives keep their order and waits stand between; a fusion across them
  // may wait for itself, which kernels of one op never do.
  if (static_cast<int64_t>(order.size()) !=
      llvm::count_if(groups,
                     [](const Group &group) { return !group.members.empty(); }))
    return Former(program, Fusion::None).run();
  std::stable_partition(order.begin(), order.end(),
                        [&](int group) { return !groups[group].backward; });

  KernelGraph result;
  result.program = &program;
  result.kernels.reserve(order.size());
  SmallVector<int> position(groups.size(), -1);
  for (auto [index, group] : llvm::enumerate(order))
    position[group] = index;
  // Of roots: the last kernel that reads it, and its place in the list of
  // reads.
  std::vector<std::pair<int, int>> readBy(program.values.size(), {-1, -1});
  for (int id : order) {
    const Group &group = groups[id];
    KernelNode &kernel = result.kernels.emplace_back();
    kernel.members = group.members;
    kernel.kind = group.kind;
    kernel.backward = group.backward;
    result.firstBackward += !group.backward;
    for (int pred : preds[id])
      kernel.preds.push_back(position[pred]);
    llvm::sort(kernel.preds);
    OpCost cost;
    // A kernel across the border of two layers counts as often as the first.
    int64_t copies =
        program.node(program.instances[group.members.front()]).copies;
    SmallVector<int64_t, 4> readBytes;
    for (int member : group.members) {
      const Instance &instance = program.instances[member];
      const PlanNode &node = program.node(instance);
      kernel.workspace += node.workspace;
      cost.flopsF32 += node.cost.flopsF32;
      for (auto [number, operand] : llvm::enumerate(instance.operands)) {
        int root = program.values[operand].root;
        int producer = program.values[root].instance;
        bool constant =
            producer >= 0 && program.node(program.instances[producer]).kind ==
                                 NodeClass::Constant;
        if (constant || (producer >= 0 && holds(id, producer)))
          continue;
        // A root is read once, however many of its views are.
        int64_t bytes = node.writesPiece && number != 0
                            ? 0
                            : program.graphValue(operand).bytes;
        auto &[reader, slot] = readBy[root];
        if (reader != id) {
          reader = id;
          slot = kernel.reads.size();
          kernel.reads.push_back(root);
          readBytes.push_back(bytes);
        } else {
          readBytes[slot] = std::max(readBytes[slot], bytes);
        }
      }
      if (groupOf[member] != id)
        continue; // Computed again: stored, if at all, by another.
      for (int value : instance.results) {
        const PlanValue &entry = program.graphValue(value);
        bool isPiece = node.writesPiece;
        if (isPiece)
          cost.bytesWritten += program.graphValue(instance.operands[0]).bytes;
        if (program.values[value].root != value)
          continue; // Handed through: the storage of an operand.
        bool isKept = !instance.backward && kept[value];
        // A kernel that is formed already keeps its results, read or not; so
        // does an op of another kind than a loop, but for a matmul that writes
        // its result as a piece of another.
        if (!readOutside[value] && !entry.escapes && !isKept &&
            (group.kind == NodeClass::Loop || group.members.size() > 1))
          continue;
        kernel.outputs.push_back(value);
        if (!isPiece)
          cost.bytesWritten += entry.bytes;
      }
      // While a collective runs, its source stays.
      if (auto wait = dyn_cast<WaitOp>(node.op)) {
        const Instance &start =
            program.instances[program.values[instance.operands[1]].instance];
        kernel.holds.push_back(program.values[start.operands[0]].root);
      }
    }
    cost.bytesRead =
        std::accumulate(readBytes.begin(), readBytes.end(), int64_t(0));
    bool fused = group.kind == NodeClass::Loop;
    kernel.seconds =
        fused ? estimateSeconds(*graph.target, cost)
              : program.node(program.instances[group.members.front()]).seconds;
    kernel.seconds *= copies;
  }
  return result;
}

KernelGraph mlir::fp8::formKernels(const Program &program, Fusion fusion) {
  return Former(program, fusion).run();
}

double KernelGraph::getSeconds() const {
  double seconds = 0;
  for (const KernelNode &kernel : kernels)
    seconds += kernel.seconds;
  return seconds;
}
