//===- GroupedFacts.cpp - what a plan says of groups of rows ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan has room for the capacity's rows. What a run needs if routing is
// balanced is less: the products take less time, and what holds rows would take
// less room.
//
//===----------------------------------------------------------------------===//

#include "PlanFacts.h"

#include "fp8/Target/Target.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// How many rows of how many.
struct Rows {
  int64_t capacity = 0, balanced = 0;

  int64_t scale(int64_t amount) const {
    return static_cast<int64_t>(
        std::ceil(static_cast<double>(amount) * static_cast<double>(balanced) /
                  static_cast<double>(capacity)));
  }
};

} // namespace

/// Whether `type` holds the capacity's rows, or a scale for each 128 of them:
/// matrices, as far as their shapes tell. Weights have three dimensions.
static bool hasRows(Type type, int64_t capacity) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() > 2)
    return false;
  return llvm::is_contained(tensor.getShape(), capacity) ||
         (capacity > 128 && tensor.getElementType().isF32() &&
          llvm::is_contained(
              tensor.getShape(),
              static_cast<int64_t>(llvm::divideCeil(capacity, 128))));
}

/// The cost of `op` for the balanced rows.
static OpCost getBalancedCost(GroupedMatmulOp op, const Rows &rows) {
  OpCost cost = cast<CostOpInterface>(op.getOperation()).getCost();
  for (int64_t OpCost::*flops :
       {&OpCost::flopsF8, &OpCost::flopsF8Row, &OpCost::flopsF8Block,
        &OpCost::flopsBF16, &OpCost::flopsF32})
    cost.*flops = rows.scale(cost.*flops);
  for (Value operand : op->getOperands())
    if (int64_t bytes = getByteSize(operand.getType());
        hasRows(operand.getType(), rows.capacity))
      cost.bytesRead -= bytes - rows.scale(bytes);
  if (int64_t bytes = getByteSize(op.getResult().getType());
      hasRows(op.getResult().getType(), rows.capacity))
    cost.bytesWritten -= bytes - rows.scale(bytes);
  return cost;
}

void PlanFacts::readGroups() {
  const std::vector<KernelNode> &kernels = planned.kernels.kernels;
  // Of each root that holds rows of groups.
  std::vector<Rows> rowsOf(planned.program->values.size());
  auto spread = [&](const KernelNode &kernel, const Rows &rows) {
    bool changed = false;
    for (ArrayRef<int> roots :
         {ArrayRef<int>(kernel.reads), ArrayRef<int>(kernel.outputs)})
      for (int root : roots)
        if (!rowsOf[root].capacity &&
            hasRows(planned.getEntry(root).value.getType(), rows.capacity)) {
          rowsOf[root] = rows;
          changed = true;
        }
    return changed;
  };
  for (auto [index, kernel] : llvm::enumerate(kernels)) {
    auto kernelOp = dyn_cast<KernelOp>(planned.getOp(index));
    if (!kernelOp)
      continue;
    for (auto op : kernelOp.getBody().getOps<GroupedMatmulOp>()) {
      Rows rows{op.getCapacity(), op.getCapacity()};
      if (std::optional<uint64_t> balanced = op.getBalanced())
        rows.balanced = static_cast<int64_t>(*balanced);
      spread(kernel, rows);
      grouped.push_back({kernelNames[index], op.getNumGroups(),
                         static_cast<int64_t>(op.getAlign()), rows.capacity,
                         rows.balanced, kernel.seconds,
                         estimateSeconds(*target, getBalancedCost(op, rows))});
    }
  }
  // What is computed from rows, and what rows are computed from, row by row.
  bool changed = !grouped.empty();
  while (changed) {
    changed = false;
    for (auto [index, kernel] : llvm::enumerate(kernels)) {
      auto kernelOp = dyn_cast<KernelOp>(planned.getOp(index));
      if (!kernelOp || kernelOp.getKind() != KernelKind::Loop)
        continue;
      for (ArrayRef<int> roots :
           {ArrayRef<int>(kernel.reads), ArrayRef<int>(kernel.outputs)})
        for (int root : roots)
          if (Rows rows = rowsOf[root]; rows.capacity)
            changed |= spread(kernel, rows);
    }
  }
  std::vector<int64_t> live(kernels.size() + 1, 0);
  for (auto [root, range] : llvm::enumerate(planned.ranges)) {
    if (range.first < 0)
      continue;
    int64_t bytes = planned.getEntry(root).bytes;
    if (rowsOf[root].capacity)
      bytes = rowsOf[root].scale(bytes);
    live[range.first] += bytes;
    live[range.second + 1] -= bytes;
  }
  int64_t now = 0;
  for (auto [index, kernel] : llvm::enumerate(kernels)) {
    now += live[index];
    balancedPeak = std::max(balancedPeak, now + kernel.workspace);
  }
}
