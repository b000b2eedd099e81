//===- Overlap.cpp - fp8-overlap --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Starts collectives before the place where they are needed.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/PlannedProgram.h"
#include "fp8/Support/ByteSize.h"
#include "fp8/Transforms/ApplyPlan.h"
#include "fp8/Transforms/Passes.h"

#include <limits>

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8OVERLAPPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// The whole collective in a kernel, or null.
Operation *getWholeCollective(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel || kernel.getKind() != KernelKind::Collective)
    return nullptr;
  for (Operation &inner : kernel.getBody().front())
    if (getCollective(&inner) && !isCollectiveStart(&inner))
      return &inner;
  return nullptr;
}

bool isCommunication(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  return isa<WaitOp>(op) ||
         (kernel && kernel.getKind() == KernelKind::Collective);
}

/// A collective that starts before the place where it stood.
struct Split {
  int position, start;
  /// What makes its operands and moves with it, in order.
  SmallVector<int> moved;
};

/// Decides where the collectives of one function start.
class Overlapper {
public:
  Overlapper(const PlannedProgram &planned, int64_t limit)
      : planned(planned), limit(limit), live(planned.peak.live),
        idle(planned.order.size()), movedTo(planned.order.size(), -1) {
    for (auto [index, kernel] : llvm::enumerate(planned.kernels.kernels)) {
      positions[planned.getOp(index)] = index;
      // What can hide a transfer: anything that is not one itself.
      if (!isCommunication(planned.getOp(index)))
        idle[index] = kernel.seconds;
    }
  }

  std::vector<Split> run();

private:
  void addProducers(Value value, SmallVectorImpl<int> &producers) const;
  Split chooseStart(int position, int first);
  int64_t outputBytes(int position) const {
    int64_t bytes = 0;
    for (int output : planned.kernels.kernels[position].outputs)
      bytes += planned.getEntry(output).bytes;
    return bytes;
  }

  const PlannedProgram &planned;
  int64_t limit;
  std::vector<int64_t> live;
  std::vector<double> idle;             ///< seconds that hide nothing yet
  std::vector<int> movedTo;             ///< of what moves with a collective
  DenseMap<Operation *, int> positions; // looked up only
};

} // namespace

/// The kernels and waits that make `value`, views and barriers looked through.
void Overlapper::addProducers(Value value,
                              SmallVectorImpl<int> &producers) const {
  Operation *op = value.getDefiningOp();
  if (!op)
    return;
  if (auto it = positions.find(op); it != positions.end())
    producers.push_back(it->second);
  else if (isView(op))
    for (Value operand : op->getOperands())
      addProducers(operand, producers);
}

/// The latest start that hides the collective at `position` as far as what runs
/// from `first` on can, within the limit on bytes. Loops that make its operands
/// go before it.
Split Overlapper::chooseStart(int position, int first) {
  Split split{position, position, {}};
  double left = planned.kernels.kernels[position].seconds;
  // Of what starts early: its own result, and what moves with it.
  int64_t bytes = outputBytes(position);
  SmallVector<int> needed, pending;
  auto need = [&](int kernel) {
    SmallVector<int> producers;
    for (Value operand : planned.getOp(kernel)->getOperands())
      addProducers(operand, producers);
    for (int producer : producers) {
      if (movedTo[producer] >= 0)
        first = std::max(first, movedTo[producer]);
      else if (!llvm::is_contained(needed, producer))
        needed.push_back(producer);
    }
  };
  need(position);
  int at = position;
  while (at > first && left > 0) {
    int before = at - 1;
    if (llvm::is_contained(needed, before)) {
      if (planned.kernels.kernels[before].kind != NodeClass::Kernel ||
          cast<KernelOp>(planned.getOp(before)).getKind() != KernelKind::Loop)
        break;
      // It moves only if something is found to be hidden behind above it.
      pending.push_back(before);
      need(before);
      at = before;
      continue;
    }
    int64_t more = 0;
    for (int kernel : pending)
      more += outputBytes(kernel);
    if (live[before] + bytes + more > limit)
      break;
    bytes += more;
    split.moved.append(pending);
    pending.clear();
    at = split.start = before;
    double hidden = std::min(left, idle[before]);
    idle[before] -= hidden;
    left -= hidden;
  }
  llvm::sort(split.moved);
  for (int kernel : split.moved)
    movedTo[kernel] = split.start;
  auto extend = [&](int kernel) {
    for (int between = split.start; between < kernel; ++between)
      live[between] += outputBytes(kernel);
  };
  extend(position);
  llvm::for_each(split.moved, extend);
  return split;
}

std::vector<Split> Overlapper::run() {
  std::vector<Split> splits;
  int numKernels = planned.order.size();
  // Collectives start in their order, so that it is the same on all ranks.
  int last = 0;
  for (int position = 0; position < numKernels; ++position) {
    if (position == planned.kernels.firstBackward)
      last = position;
    if (!getWholeCollective(planned.getOp(position))) {
      if (isCommunication(planned.getOp(position)))
        last = position + 1; // Halves that were written so.
      continue;
    }
    Split split = chooseStart(position, last);
    last = split.start;
    if (split.start < position)
      splits.push_back(std::move(split));
  }
  return splits;
}

/// Makes the whole collective in `kernel` two halves, one after the other, and
/// returns that of the start.
static KernelOp splitInPlace(KernelOp kernel) {
  Operation *whole = getWholeCollective(kernel);
  OpBuilder builder(whole);
  OperationState state(
      whole->getLoc(), (whole->getName().getStringRef() + "_start").str(),
      whole->getOperands(),
      {whole->getResult(0).getType(), TokenType::get(builder.getContext())},
      whole->getAttrs());
  Operation *half = builder.create(state);
  Operation *yield = kernel.getBody().front().getTerminator();
  builder.setInsertionPoint(yield);
  YieldOp::create(builder, yield->getLoc(), half->getResults());
  yield->erase();
  whole->erase();
  builder.setInsertionPoint(kernel);
  auto started = KernelOp::create(
      builder, kernel.getLoc(), TypeRange(half->getResultTypes()),
      KernelKind::Collective, kernel.getInputs(), kernel.getWorkspace(),
      /*offsets=*/DenseI64ArrayAttr(), /*workspace_offset=*/IntegerAttr(),
      /*in_place=*/DenseI64ArrayAttr(), /*symbol=*/StringAttr(),
      /*launches=*/ArrayAttr(), /*fills=*/ArrayAttr());
  started.getBody().takeBody(kernel.getBody());
  return started;
}

/// Splits the collectives and brings everything into the new order. Fails where
/// the function cannot be read again.
static LogicalResult apply(func::FuncOp func, const Target &target,
                           const PlannedProgram &planned,
                           ArrayRef<Split> splits) {
  int numKernels = planned.order.size();
  std::vector<bool> isMoved(numKernels, false);
  std::vector<SmallVector<Operation *>> before(numKernels);
  std::vector<Operation *> ops;
  for (int position = 0; position < numKernels; ++position)
    ops.push_back(planned.getOp(position));
  for (const Split &split : splits) {
    auto kernel = cast<KernelOp>(ops[split.position]);
    for (int moved : split.moved) {
      before[split.start].push_back(ops[moved]);
      isMoved[moved] = true;
    }
    KernelOp started = splitInPlace(kernel);
    before[split.start].push_back(started);
    OpBuilder builder(kernel);
    auto wait =
        WaitOp::create(builder, kernel.getLoc(), started.getResult(0).getType(),
                       started.getResult(0), started.getResult(1));
    kernel.getResult(0).replaceAllUsesWith(wait.getResult());
    kernel.erase();
    ops[split.position] = wait;
  }
  std::vector<Operation *> order;
  for (int position = 0; position < numKernels; ++position) {
    llvm::append_range(order, before[position]);
    if (!isMoved[position])
      order.push_back(ops[position]);
  }
  FailureOr<PlannedProgram> halved = PlannedProgram::read(func, target);
  if (failed(halved))
    return failure();
  DenseMap<Operation *, int> numbers; // looked up only
  for (size_t kernel = 0; kernel < halved->order.size(); ++kernel)
    numbers[halved->getOp(kernel)] = kernel;
  std::vector<int> permutation;
  for (Operation *op : order)
    permutation.push_back(numbers.lookup(op));
  applyOrder(halved->kernels, permutation);
  return success();
}

namespace {

struct OverlapPass : fp8::impl::FP8OverlapPassBase<OverlapPass> {
  using FP8OverlapPassBase::FP8OverlapPassBase;

  void runOnOperation() override {
    if (overlap != "default" && overlap != "none") {
      getOperation().emitError()
          << "expected 'overlap' to be default or none, but got '" << overlap
          << "'";
      return signalPassFailure();
    }
    int64_t limit = std::numeric_limits<int64_t>::max();
    if (!budget.empty()) {
      std::optional<int64_t> bytes = parseByteSize(budget);
      if (!bytes) {
        getOperation().emitError()
            << "expected 'budget' to be bytes such as 40GiB or 1000000, but "
               "got '"
            << budget << "'";
        return signalPassFailure();
      }
      limit = *bytes;
    }
    const Target *target = getTargetOf(getOperation());
    if (!target)
      return signalPassFailure();
    if (overlap == "none" || getNumRanks(getOperation()) == 1)
      return;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      FailureOr<PlannedProgram> planned =
          PlannedProgram::read(func, *target, /*decideReuse=*/true);
      if (failed(planned))
        return signalPassFailure();
      std::vector<Split> splits = Overlapper(*planned, limit).run();
      if (!splits.empty() && failed(apply(func, *target, *planned, splits)))
        return signalPassFailure();
    }
  }
};

} // namespace
