//===- PeakBound.cpp - what no order of kernels is below --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// While a kernel runs, everything is live that was made by it or by a kernel
// which must run before, and that it or a kernel which must run after holds.
// The sum is a bound on the peak of every order. Of one kernel more is known:
// what has run when its turn comes is a set of kernels that needs no others,
// and a minimum cut finds the set that leaves the least behind.
//
//===----------------------------------------------------------------------===//

#include "OrderSearch.h"

#include "fp8/Analysis/MaxFlow.h"

#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace mlir::fp8;

/// Beyond so many kernels the sets of what must run before each are too large.
static constexpr size_t kMaxKernels = 1024;

namespace {

class PeakBounder {
public:
  explicit PeakBounder(const KernelGraph &graph)
      : graph(graph), program(*graph.program), numKernels(graph.kernels.size()),
        readers(program.values.size()), live(numKernels, 0) {
    for (auto [index, kernel] : llvm::enumerate(graph.kernels)) {
      for (int root : kernel.reads)
        readers[root].push_back(index);
      for (int root : kernel.holds)
        readers[root].push_back(index);
    }
  }

  /// The bound of all kernels, each by itself.
  int64_t run();
  /// The bound of `kernel` by a minimum cut. Adds to `ran`, where it is asked
  /// for, the fewest kernels of its region that have run before it where the
  /// least is live beside it.
  int64_t cutBefore(int kernel, BitVector *ran = nullptr) const;

private:
  void findOrder();
  int64_t getBytes(int root, bool isKept) const {
    const PlanValue &value = program.graphValue(root);
    return value.bytes * (isKept || value.escapes ? value.copies : 1);
  }
  void addRoot(int producer, int root, ArrayRef<int> readers);
  int64_t getOverlap(const KernelNode &kernel) const;

  const KernelGraph &graph;
  const Program &program;
  int numKernels;
  std::vector<SmallVector<int, 4>> readers; ///< kernels that hold a root
  /// Of kernels, with themselves; those of the other region are left out.
  /// Filled by run().
  std::vector<BitVector> before, after;
  std::vector<int64_t> live;
};

} // namespace

void PeakBounder::findOrder() {
  before.resize(numKernels);
  after.resize(numKernels);
  for (int id = 0; id < numKernels; ++id) {
    before[id].resize(numKernels);
    before[id].set(id);
    for (int pred : graph.kernels[id].preds)
      if (graph.kernels[pred].backward == graph.kernels[id].backward)
        before[id] |= before[pred];
  }
  for (int id = numKernels - 1; id >= 0; --id) {
    after[id].resize(numKernels);
    after[id].set(id);
  }
  for (int id = numKernels - 1; id >= 0; --id)
    for (int pred : graph.kernels[id].preds)
      if (graph.kernels[pred].backward == graph.kernels[id].backward)
        after[pred] |= after[id];
}

void PeakBounder::addRoot(int producer, int root, ArrayRef<int> readers) {
  const PlanValue &value = program.graphValue(root);
  bool isForward = producer < graph.firstBackward;
  bool toBackward = value.escapes;
  BitVector inForward(numKernels), inBackward(numKernels);
  for (int reader : readers)
    (reader < graph.firstBackward ? inForward : inBackward) |= before[reader];
  toBackward |= inBackward.any();
  int64_t bytes = getBytes(root, isForward && inBackward.any());
  auto add = [&](int kernel) { live[kernel] += bytes; };
  if (!isForward) {
    if (value.escapes)
      inBackward = after[producer];
    else
      inBackward &= after[producer];
    inBackward.set(producer);
    llvm::for_each(inBackward.set_bits(), add);
    return;
  }
  // All of forward runs before backward.
  if (toBackward)
    inForward = after[producer];
  else
    inForward &= after[producer];
  inForward.set(producer);
  llvm::for_each(inForward.set_bits(), add);
  if (value.escapes)
    inBackward.set(graph.firstBackward, numKernels);
  llvm::for_each(inBackward.set_bits(), add);
}

/// The most that results of `kernel` may share with what it reads.
int64_t PeakBounder::getOverlap(const KernelNode &kernel) const {
  if (kernel.kind != NodeClass::Loop && kernel.kind != NodeClass::Matmul &&
      kernel.kind != NodeClass::Kernel)
    return 0;
  int64_t overlap = 0;
  for (int output : kernel.outputs) {
    const PlanValue &value = program.graphValue(output);
    int64_t shared = 0;
    for (int root : kernel.reads) {
      const PlanValue &read = program.graphValue(root);
      if (read.bytes == value.bytes)
        shared =
            std::max(shared, read.bytes * std::max(read.copies, value.copies));
    }
    overlap += shared;
  }
  return overlap;
}

int64_t PeakBounder::run() {
  findOrder();
  int64_t bound = 0;
  for (auto [index, kernel] : llvm::enumerate(graph.kernels))
    for (int output : kernel.outputs)
      addRoot(index, output, readers[output]);
  for (auto [index, kernel] : llvm::enumerate(graph.kernels))
    bound =
        std::max(bound, live[index] + kernel.workspace - getOverlap(kernel));
  return bound;
}

int64_t PeakBounder::cutBefore(int kernel, BitVector *ran) const {
  const KernelNode &node = graph.kernels[kernel];
  int begin = node.backward ? graph.firstBackward : 0;
  int end = node.backward ? numKernels : graph.firstBackward;
  // What must run before it and after it, with itself.
  BitVector isBefore(numKernels), isAfter(numKernels);
  isBefore.set(kernel);
  isAfter.set(kernel);
  for (int id = kernel; id >= begin; --id)
    if (isBefore[id])
      for (int pred : graph.kernels[id].preds)
        isBefore.set(pred);
  for (int id = kernel + 1; id < end; ++id)
    if (llvm::any_of(graph.kernels[id].preds,
                     [&](int pred) { return isAfter[pred]; }))
      isAfter.set(id);
  // On the side of the source is what has run. Behind the kernels come their
  // outputs, on that side once all that reads them has run.
  int numRoots = 0;
  for (int id = 0; id < end; ++id)
    numRoots += graph.kernels[id].outputs.size();
  MaxFlow flow(end - begin + numRoots + 2);
  int source = end - begin + numRoots, sink = source + 1;
  auto placeOf = [&](int id) {
    return id >= end || isAfter[id]     ? sink
           : id < begin || isBefore[id] ? source
                                        : id - begin;
  };
  int root = end - begin;
  int64_t bound = node.workspace - getOverlap(node);
  for (int id = 0; id < end; ++id) {
    int place = placeOf(id);
    if (place < source)
      for (int pred : graph.kernels[id].preds)
        if (int to = placeOf(pred); to != source)
          flow.addArc(place, to, MaxFlow::kInfinite);
    for (int output : graph.kernels[id].outputs) {
      bool isKept =
          id < graph.firstBackward &&
          llvm::any_of(
              readers[output],
              [&](int reader) { return reader >= graph.firstBackward; });
      int64_t bytes = getBytes(output, isKept);
      bool stays = program.graphValue(output).escapes ||
                   llvm::any_of(readers[output], [&](int reader) {
                     return placeOf(reader) == sink;
                   });
      if (id == kernel) {
        bound += bytes;
      } else if (stays && place == source) {
        bound += bytes;
      } else if (stays) {
        if (place < source)
          flow.addArc(place, sink, bytes);
      } else if (place != sink) {
        // What nothing reads is dead at once, and so is what has been read.
        bool isRead = false;
        for (int reader : readers[output])
          if (int to = placeOf(reader); to != source) {
            flow.addArc(root, to, MaxFlow::kInfinite);
            isRead = true;
          }
        if (isRead)
          flow.addArc(place, root, bytes);
        ++root;
      }
    }
  }
  bound += flow.run(source, sink);
  if (ran) {
    std::vector<bool> side = flow.getSourceSide(source);
    for (int id = begin; id < end; ++id)
      if (side[placeOf(id)])
        ran->set(id);
  }
  return bound;
}

llvm::BitVector mlir::fp8::findLeastBefore(const KernelGraph &graph,
                                           int kernel) {
  llvm::BitVector ran(graph.kernels.size());
  PeakBounder(graph).cutBefore(kernel, &ran);
  return ran;
}

int64_t mlir::fp8::getPeakBound(const KernelGraph &graph, int kernel) {
  // What is written over a donated argument takes no storage.
  if (graph.kernels.size() > kMaxKernels || kernel < 0 ||
      llvm::any_of(
          graph.program->graph->values,
          [](const PlanValue &value) { return value.donated; }))
    return 0;
  PeakBounder bounder(graph);
  return std::max(bounder.run(), bounder.cutBefore(kernel));
}
