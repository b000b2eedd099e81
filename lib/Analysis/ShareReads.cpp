//===- ShareReads.cpp - fewer passes over the same tensors ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What growing kernels from producer to reader leaves undone, for targets
// whose kernels are thread blocks:
//
//  * a kernel that only measures (a maximum, a scale) joins one that reads the
//    same tensor anyway;
//  * a value that one kernel would store only for others to read is computed
//    again by its readers where that moves fewer bytes. Readers of several
//    such values become one kernel where they then read the same tensors. So
//    SwiGLU's backward is read twice, once by rows and once by tiles, and none
//    of its intermediate tensors is ever in memory.
//
//===----------------------------------------------------------------------===//

#include "Former.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::fp8;

/// Results this much smaller than a tensor are measurements of it.
static constexpr int64_t kMeasurement = 8;

namespace mlir::fp8 {
/// What it takes to compute a value from what is in memory.
struct Chained {
  llvm::SetVector<int> instances;
  llvm::SetVector<int> leaves; ///< roots that are read
  double flops = 0;
};
} // namespace mlir::fp8

bool Former::isStored(int value) const {
  const InstanceValue &entry = program.values[value];
  const Instance &producer = program.instances[entry.instance];
  if (program.graphValue(value).escapes || program.node(producer).writesPiece ||
      (!producer.backward && kept[value]))
    return true;
  return llvm::any_of(readers[entry.instance], [&](auto read) {
    int group = groupOf[read.first];
    return program.values[read.second].root == value && group >= 0 &&
           !holds(group, entry.instance);
  });
}

//===----------------------------------------------------------------------===//
// Measurements
//===----------------------------------------------------------------------===//

void Former::mergeMeasurements() {
  // Who reads a tensor as it lies.
  std::vector<SmallVector<int, 4>> readersOf(program.values.size());
  for (auto [index, instance] : llvm::enumerate(program.instances)) {
    if (groupOf[index] < 0 || program.node(instance).kind != NodeClass::Loop)
      continue;
    for (int operand : instance.operands)
      if (readsAsItLies(operand) && producerGroup(operand) != groupOf[index])
        readersOf[program.values[operand].root].push_back(index);
  }
  auto measures = [&](int group, int64_t bytes) {
    return llvm::all_of(groups[group].members, [&](int member) {
      return llvm::all_of(program.instances[member].results, [&](int value) {
        return program.graphValue(value).bytes <= bytes / kMeasurement ||
               !isStored(value);
      });
    });
  };
  for (auto [value, list] : llvm::enumerate(readersOf)) {
    int64_t bytes = program.graphValue(value).bytes;
    for (int reader : list) {
      std::optional<bool> isMeasurement; // until kernels merge
      for (int other : list) {
        int group = groupOf[reader], into = groupOf[other];
        if (group == into)
          continue;
        if (!isMeasurement)
          isMeasurement = measures(group, bytes);
        if (*isMeasurement && canMerge(into, group)) {
          merge(into, group);
          isMeasurement.reset();
        }
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Computing again
//===----------------------------------------------------------------------===//

/// Walks from `value` to what is in memory. Fails where a step is no
/// elementwise op in the loop of the kernel that makes `value`.
bool Former::findChain(int value, Chained &chain) const {
  int group = producerGroup(value);
  int64_t bytes = program.graphValue(value).bytes;
  SmallVector<int, 16> stack = {value};
  while (!stack.empty()) {
    int current = stack.pop_back_val();
    int root = program.values[current].root;
    int producer = program.values[root].instance;
    if (producer >= 0 &&
        program.node(program.instances[producer]).kind == NodeClass::Constant)
      continue;
    if (producer < 0 || groupOf[producer] != group ||
        program.graphValue(root).bytes <= bytes / kMeasurement) {
      chain.leaves.insert(root);
      continue;
    }
    const PlanNode &node = program.node(program.instances[producer]);
    if (!readsAsItLies(current) || node.locality != Locality::Elementwise)
      return false;
    if (!chain.instances.insert(producer))
      continue;
    chain.flops += node.cost.flopsF32;
    llvm::append_range(stack, program.instances[producer].operands);
  }
  return true;
}

/// The values of kernel `group` that stand in memory only for loop kernels of
/// the same region to read, and that these can compute.
SmallVector<int> Former::findRepeatable(int group) const {
  SmallVector<int> result;
  for (int member : groups[group].members) {
    const PlanNode &node = program.node(program.instances[member]);
    for (int value : program.instances[member].results) {
      bool isCandidate = node.locality == Locality::Elementwise &&
                         locality[value] == Locality::Elementwise &&
                         ArrayRef<int64_t>(node.space) ==
                             ArrayRef<int64_t>(groups[group].space) &&
                         !program.graphValue(value).escapes &&
                         (groups[group].backward || !kept[value]);
      if (!isCandidate)
        continue;
      bool isRead = false;
      for (auto [reader, operand] : readers[member]) {
        int other = groupOf[reader];
        if (other < 0 || program.values[operand].root != value ||
            holds(other, member))
          continue;
        isRead = true;
        isCandidate &= readsAsItLies(operand) &&
                       groups[other].kind == NodeClass::Loop &&
                       !groups[other].alone &&
                       groups[other].backward == groups[group].backward &&
                       ArrayRef<int64_t>(groups[other].space) ==
                           ArrayRef<int64_t>(groups[group].space);
      }
      Chained chain;
      if (isRead && isCandidate && findChain(value, chain))
        result.push_back(value);
    }
  }
  return result;
}

/// The kernels that read one of `values` from memory, in program order.
SmallVector<int> Former::getReadingGroups(ArrayRef<int> values) const {
  llvm::SetVector<int> result;
  for (int value : values)
    for (auto [reader, operand] : readers[program.values[value].instance])
      if (int group = groupOf[reader];
          group >= 0 && program.values[operand].root == value &&
          readsAsItLies(operand) &&
          !holds(group, program.values[value].instance))
        result.insert(group);
  SmallVector<int> sorted = result.takeVector();
  llvm::sort(sorted,
             [&](int a, int b) { return groups[a].first < groups[b].first; });
  return sorted;
}

/// Seconds won when the kernels `readingGroups` compute `values` themselves, as
/// one kernel or each for itself: the bytes that need not move any more, less
/// the arithmetic that the bytes left do not hide.
double Former::getGain(ArrayRef<int> values, ArrayRef<int> readingGroups,
                       bool asOne) const {
  const Target &target = *program.graph->target;
  int64_t saved = 0;
  for (int value : values)
    saved += program.graphValue(value).bytes;
  double exposed = 0;
  auto evaluate = [&](ArrayRef<int> together) {
    llvm::SetVector<int> reads, needed;
    int64_t moved = 0;
    Chained chain;
    for (int group : together)
      for (int member : groups[group].members) {
        const Instance &instance = program.instances[member];
        bool isPiece = program.node(instance).writesPiece;
        chain.flops += program.node(instance).cost.flopsF32;
        for (auto [number, operand] : llvm::enumerate(instance.operands)) {
          int root = program.values[operand].root;
          if (isPiece && number != 0)
            continue;
          if (llvm::is_contained(values, root))
            needed.insert(root);
          else if (producerGroup(operand) != group)
            reads.insert(root);
        }
        for (int value : instance.results)
          if (isPiece)
            moved += program.graphValue(instance.operands[0]).bytes;
          else if (isStored(value))
            moved += program.graphValue(value).bytes;
      }
    for (int value : needed) {
      saved += program.graphValue(value).bytes;
      findChain(value, chain);
    }
    for (int leaf : chain.leaves)
      if (reads.insert(leaf))
        saved -= program.graphValue(leaf).bytes;
    for (int read : reads)
      moved += program.graphValue(read).bytes;
    exposed += std::max(0.0, chain.flops / target.flopsF32 -
                                 moved / target.copyBytesPerSecond);
  };
  if (asOne)
    evaluate(readingGroups);
  else
    for (int group : readingGroups)
      evaluate(group);
  return saved / target.copyBytesPerSecond - exposed;
}

/// Has kernel `reader` compute `value` itself.
void Former::repeat(int value, int reader) {
  Chained chain;
  findChain(value, chain);
  SmallVector<int> missing;
  llvm::copy_if(chain.instances, std::back_inserter(missing),
                [&](int id) { return !holds(reader, id); });
  if (groups[reader].size() + missing.size() > kMaxKernelOps)
    return; // It goes on to read the value.
  groups[reader].repeated.append(missing);
  if (!groups[reader].repeated.empty())
    repeatingGroups.insert(reader);
}

/// Members of `group` that nothing needs any more belong to the kernel that
/// computes them again.
void Former::dropUnused(int group) {
  // Only those that some kernel computes again.
  SmallVector<int, 8> members;
  for (int other : repeatingGroups)
    for (int member : groups[other].repeated)
      if (groupOf[member] == group)
        members.push_back(member);
  llvm::sort(members, std::greater<int>());
  members.erase(llvm::unique(members), members.end());
  for (int member : members) {
    bool isNeeded =
        llvm::any_of(program.instances[member].results, [&](int value) {
          return isStored(value) ||
                 llvm::any_of(readers[member], [&](auto read) {
                   return groupOf[read.first] == group;
                 });
        });
    if (isNeeded)
      continue;
    for (int index : repeatingGroups) {
      Group &other = groups[index];
      auto it = llvm::find(other.repeated, member);
      if (it == other.repeated.end())
        continue;
      other.repeated.erase(it);
      other.members.push_back(member);
      groupOf[member] = index;
      llvm::erase(groups[group].members, member);
      break;
    }
  }
}

void Former::computeAgain(int group) {
  SmallVector<int> values = findRepeatable(group);
  if (values.empty())
    return;
  // All of them together, by one kernel.
  SmallVector<int> reading = getReadingGroups(values);
  bool canJoin =
      llvm::all_of(ArrayRef<int>(reading).drop_front(),
                   [&](int other) { return canMerge(reading.front(), other); });
  if (values.size() > 1 && canJoin && getGain(values, reading, true) > 0) {
    int reader = reading.front();
    for (int other : ArrayRef<int>(reading).drop_front())
      if (canMerge(reader, other))
        reader = merge(reader, other);
    for (int value : values)
      for (int other : getReadingGroups(value))
        repeat(value, other);
    return dropUnused(group);
  }
  // Each for itself.
  for (int value : values) {
    SmallVector<int> readingOne = getReadingGroups(value);
    if (getGain(value, readingOne, false) <= 0)
      continue;
    for (int other : readingOne)
      repeat(value, other);
    dropUnused(group);
  }
}

void Former::shareReads() {
  mergeMeasurements();
  for (size_t group = 0; group < groups.size(); ++group)
    if (groups[group].kind == NodeClass::Loop && !groups[group].members.empty())
      computeAgain(group);
}
