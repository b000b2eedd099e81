//===- Overlap.cpp - fp8-overlap --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Starts collectives before the place where they are needed, and waits for them
// behind it.
//
//===----------------------------------------------------------------------===//

#include "fp8/Transforms/Overlap.h"

#include "fp8/Analysis/InPlace.h"
#include "fp8/Analysis/Replay.h"
#include "fp8/Support/ByteSize.h"
#include "fp8/Target/Signature.h"
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
  if (isHostCopyKernelOrWait(op))
    return false;
  auto kernel = dyn_cast<KernelOp>(op);
  return isa<WaitOp>(op) ||
         (kernel && kernel.getKind() == KernelKind::Collective);
}

/// A collective whose halves stand apart: it starts before the kernel `start`
/// and is waited for behind the kernel `last`; where it stood, `position`, is
/// between.
struct Split {
  int position, start, last;
  /// Seconds that nothing hides yet.
  double left;
};

/// Where the kernels of a function go.
struct Overlap {
  std::vector<Split> splits;
  /// By kernel: the one before which it is moved, itself where it stays.
  std::vector<int> place;
};

/// Decides where the collectives of one function start and are waited for.
class Overlapper {
public:
  /// `limit`: the budget, if there is one.
  Overlapper(const PlannedProgram &planned, std::optional<int64_t> limit)
      : planned(planned),
        limit(limit.value_or(std::numeric_limits<int64_t>::max())),
        live(planned.peak.live), idle(planned.order.size()),
        place(planned.order), movedTo(planned.order.size()),
        doneAfter(planned.order) {
    for (auto [index, kernel] : llvm::enumerate(planned.kernels.kernels)) {
      positions[planned.getOp(index)] = index;
      // What can hide a transfer: anything that is not one itself.
      if (!isCommunication(planned.getOp(index)) &&
          !isHostCopyKernelOrWait(planned.getOp(index)))
        idle[index] = kernel.seconds;
    }
  }

  Overlap run();

private:
  void addProducers(Value value, SmallVectorImpl<int> &producers) const;
  Split chooseStart(int position, int first);
  void move(int kernel, int to);
  void delayWait(Split &split);
  int firstUse(Value value) const;
  bool isLoop(int kernel) const {
    auto op = dyn_cast<KernelOp>(planned.getOp(kernel));
    return op && op.getKind() == KernelKind::Loop &&
           planned.kernels.kernels[kernel].kind == NodeClass::Kernel;
  }
  int64_t outputBytes(int position) const {
    int64_t bytes = 0;
    for (int output : planned.kernels.kernels[position].outputs)
      bytes += planned.getEntry(output).bytes;
    return bytes;
  }

  const PlannedProgram &planned;
  int64_t limit; ///< on bytes
  std::vector<int64_t> live;
  std::vector<double> idle; ///< seconds that hide nothing yet
  /// The kernel before which a kernel runs, or a collective starts.
  std::vector<int> place;
  std::vector<SmallVector<int>> movedTo; ///< the inverse, of moved kernels
  std::vector<int> doneAfter; ///< the kernel behind which its results are there
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

/// Has `kernel`, whose results take storage from there on, run before `to`.
void Overlapper::move(int kernel, int to) {
  for (int between = to; between < place[kernel]; ++between)
    live[between] += outputBytes(kernel);
  if (place[kernel] != kernel)
    llvm::erase(movedTo[place[kernel]], kernel);
  place[kernel] = to;
  if (isLoop(kernel)) {
    movedTo[to].push_back(kernel);
    doneAfter[kernel] = to - 1;
  }
}

/// The latest start that hides the collective at `position` as far as what runs
/// from `first` on can, within the limit on bytes. Loops that make its operands
/// go before it.
Split Overlapper::chooseStart(int position, int first) {
  Split split{position, position, position,
              planned.kernels.kernels[position].seconds};
  double &left = split.left;
  // Of what starts early: its own result, and what moves with it.
  int64_t bytes = outputBytes(position);
  SmallVector<int> needed, pending, moved;
  auto need = [&](int kernel) {
    SmallVector<int> producers;
    for (Value operand : planned.getOp(kernel)->getOperands())
      addProducers(operand, producers);
    for (int producer : producers) {
      if (!isLoop(producer))
        first = std::max(first, doneAfter[producer] + 1);
      else if (!llvm::is_contained(needed, producer))
        needed.push_back(producer);
    }
  };
  need(position);
  for (int at = position; at > first && left > 0; --at) {
    int before = at - 1;
    // What it needs moves only if something is found to be hidden behind above
    // it. What is needed grows with it.
    for (bool grows = true; grows;) {
      grows = false;
      auto consider = [&](int kernel) {
        if (!llvm::is_contained(needed, kernel) ||
            llvm::is_contained(pending, kernel))
          return;
        pending.push_back(kernel);
        need(kernel);
        grows = true;
      };
      llvm::for_each(movedTo[at], consider);
      if (place[before] == before)
        consider(before);
    }
    if (before < first)
      break;
    if (llvm::is_contained(pending, before) || place[before] != before)
      continue;
    int64_t more = 0;
    for (int kernel : pending)
      more += outputBytes(kernel);
    if (live[before] + bytes + more > limit)
      break;
    double hidden = std::min(left, idle[before]);
    if (hidden == 0)
      continue;
    bytes += more;
    moved.append(pending);
    pending.clear();
    split.start = before;
    idle[before] -= hidden;
    left -= hidden;
  }
  move(position, split.start);
  for (int kernel : moved)
    move(kernel, split.start);
  return split;
}

/// The first kernel or wait that uses `value`, views and barriers looked
/// through; the end of its region where none does.
int Overlapper::firstUse(Value value) const {
  int position = positions.lookup(value.getDefiningOp());
  int first = position < planned.kernels.firstBackward
                  ? planned.kernels.firstBackward
                  : static_cast<int>(planned.order.size());
  SmallVector<Value> values = {value};
  while (!values.empty())
    for (Operation *user : values.pop_back_val().getUsers()) {
      if (auto it = positions.find(user); it != positions.end())
        first = std::min(first, place[it->second]);
      else if (isView(user))
        llvm::append_range(values, user->getResults());
    }
  return first;
}

/// Moves the wait down until what runs before it hides the rest of the
/// transfer, within the limit on bytes: what the collective reads stays.
void Overlapper::delayWait(Split &split) {
  const KernelNode &node = planned.kernels.kernels[split.position];
  int end = firstUse(planned.getOp(split.position)->getResult(0));
  SmallVector<std::pair<int, int64_t>> held; // last use and bytes
  for (int root : node.reads) {
    const LiveRange &range = planned.ranges[root];
    if (range.first < 0) {
      // An argument that a later kernel updates.
      for (int kernel = split.position + 1; kernel < end; ++kernel)
        if (auto op = dyn_cast<KernelOp>(planned.getOp(kernel));
            op && op.getKind() == KernelKind::State)
          end = kernel;
      continue;
    }
    // What is written over it is written after the wait.
    if (range.successor >= 0)
      end = std::min(end, range.getLastUse());
    held.push_back({range.getLastUse(), planned.getEntry(root).bytes});
  }
  auto heldAt = [&](int kernel) {
    int64_t bytes = 0;
    for (auto [last, size] : held)
      bytes += last < kernel ? size : 0;
    return bytes;
  };
  double left = split.left;
  SmallVector<double> hidden;
  for (int kernel = split.position + 1; kernel < end && left > 0; ++kernel) {
    if (live[kernel] + heldAt(kernel) > limit)
      break;
    hidden.push_back(std::min(left, idle[kernel]));
    left -= hidden.back();
    if (hidden.back() > 0)
      split.last = kernel;
  }
  for (int kernel = split.position + 1; kernel <= split.last; ++kernel) {
    idle[kernel] -= hidden[kernel - split.position - 1];
    live[kernel] += heldAt(kernel);
  }
  split.left = left;
  doneAfter[split.position] = split.last;
}

Overlap Overlapper::run() {
  Overlap overlap;
  int numKernels = planned.order.size();
  int first = 0;
  for (int position = 0; position < numKernels; ++position) {
    if (position == planned.kernels.firstBackward)
      first = position;
    if (!getWholeCollective(planned.getOp(position))) {
      if (isCommunication(planned.getOp(position)))
        first = position + 1; // Halves that were written so.
      continue;
    }
    Split split = chooseStart(position, first);
    if (split.left > 0)
      delayWait(split);
    if (split.start < position || split.last > position)
      overlap.splits.push_back(split);
  }
  overlap.place = place;
  return overlap;
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
                           const Overlap &overlap) {
  int numKernels = planned.order.size();
  std::vector<SmallVector<Operation *>> before(numKernels), after(numKernels);
  std::vector<Operation *> ops;
  for (int position = 0; position < numKernels; ++position)
    ops.push_back(planned.getOp(position));
  std::vector<bool> isHere(numKernels, true);
  for (const Split &split : overlap.splits)
    isHere[split.position] = false;
  // Moved kernels go before starts, which need them.
  for (int position = 0; position < numKernels; ++position)
    if (int to = overlap.place[position]; to != position && isHere[position]) {
      before[to].push_back(ops[position]);
      isHere[position] = false;
    }
  for (const Split &split : overlap.splits) {
    auto kernel = cast<KernelOp>(ops[split.position]);
    KernelOp started = splitInPlace(kernel);
    before[split.start].push_back(started);
    OpBuilder builder(kernel);
    auto wait =
        WaitOp::create(builder, kernel.getLoc(), started.getResult(0).getType(),
                       started.getResult(0), started.getResult(1));
    kernel.getResult(0).replaceAllUsesWith(wait.getResult());
    kernel.erase();
    after[split.last].push_back(wait);
  }
  std::vector<Operation *> order;
  for (int position = 0; position < numKernels; ++position) {
    llvm::append_range(order, before[position]);
    if (isHere[position])
      order.push_back(ops[position]);
    llvm::append_range(order, after[position]);
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

LogicalResult mlir::fp8::overlapTransfers(func::FuncOp func,
                                          const Target &target,
                                          std::optional<int64_t> limit) {
  FailureOr<PlannedProgram> planned =
      PlannedProgram::read(func, target, /*decideReuse=*/true);
  if (failed(planned))
    return failure();
  Overlap overlap = Overlapper(*planned, limit).run();
  return overlap.splits.empty() ? success()
                                : apply(func, target, *planned, overlap);
}

PlanCost mlir::fp8::evaluateOverlapped(func::FuncOp func, const Target &target,
                                       Fusion fusion,
                                       std::optional<int64_t> limit) {
  FailureOr<PlanGraph> graph = PlanGraph::build(func, target);
  assert(succeeded(graph) && "the original has a graph");
  Program program = materialize(*graph, selectSaveAll(*graph));
  applyKernels(formKernels(program, fusion));
  FailureOr<PlannedProgram> planned =
      PlannedProgram::read(func, target, /*decideReuse=*/true);
  assert(succeeded(planned) && "kernels were formed");
  applyOrder(planned->kernels, schedule(planned->kernels));
  [[maybe_unused]] LogicalResult overlapped =
      overlapTransfers(func, target, limit);
  assert(succeeded(overlapped) && "kernels were formed");
  planned = PlannedProgram::read(func, target, /*decideReuse=*/true);
  assert(succeeded(planned) && "kernels were formed");
  // As fp8-insert-frees has it.
  gatherInPlace(planned->kernels, planned->order, planned->ranges,
                planned->peak);
  const std::vector<int64_t> &live = planned->peak.live;
  return {live.empty() ? 0 : *llvm::max_element(live),
          replay(*planned).seconds};
}

namespace {

struct OverlapPass : fp8::impl::FP8OverlapPassBase<OverlapPass> {
  using FP8OverlapPassBase::FP8OverlapPassBase;

  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }

private:
  LogicalResult run();
};

LogicalResult OverlapPass::run() {
  ModuleOp module = getOperation();
  if (overlap != "default" && overlap != "none")
    return module.emitError()
           << "expected 'overlap' to be default or none, but got '" << overlap
           << "'";
  std::optional<int64_t> budgetBytes, deviceBytes;
  auto emitError = [&] { return module.emitError(); };
  if (failed(parseByteOption("budget", budget, budgetBytes, emitError)) ||
      failed(parseByteOption("device-memory", deviceMemory, deviceBytes,
                             emitError)))
    return failure();
  const Target *target = getTargetOf(module);
  if (!target)
    return failure();
  if (overlap == "none" || getNumRanks(module) == 1)
    return success();
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.isExternal())
      continue;
    std::optional<int64_t> limit = budgetBytes;
    // What is kept for all microbatches is alive beside this one.
    if (limit && !runsOnceAStep(func))
      *limit -= getStepBytes(module);
    if (deviceBytes) {
      int64_t resident = 0;
      for (Type type : func.getArgumentTypes())
        resident += getByteSize(type);
      limit = std::min(limit.value_or(std::numeric_limits<int64_t>::max()),
                       *deviceBytes - resident);
    }
    if (failed(overlapTransfers(func, *target, limit)))
      return failure();
  }
  return success();
}

} // namespace
