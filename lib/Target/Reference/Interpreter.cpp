//===- Interpreter.cpp - the reference interpreter --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Control, storage and state: functions, steps, kernels, views, barriers,
// frees, and collectives over ranks that run in step. Every value has its
// elements as a tensor of its own, views too; which storage a value names is
// tracked beside them, so that a use after its free is found.
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::reference;

std::optional<size_t> mlir::fp8::getHostBytes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return std::nullopt;
  Type element = tensor.getElementType();
  if (!reference::getFormat(element) &&
      !(isa<IntegerType>(element) && element.getIntOrFloatBitWidth() <= 64))
    return std::nullopt;
  size_t bytes = llvm::divideCeil(getElementBits(element), 8);
  for (int64_t dim : tensor.getShape())
    if (__builtin_mul_overflow(bytes, size_t(dim), &bytes) || bytes > size_t(1)
                                                                          << 46)
      return std::nullopt;
  return bytes;
}

LogicalResult mlir::fp8::checkHostSize(func::FuncOp function,
                                       int64_t numRanks) {
  constexpr size_t limit = size_t(32) << 30;
  size_t total = 0;
  auto add = [&](Type type, Location loc) -> LogicalResult {
    if (isa<TokenType>(type))
      return success();
    if (auto host = dyn_cast<HostType>(type))
      type = host.getTensor();
    std::optional<size_t> bytes = getHostBytes(type);
    if (!bytes)
      return emitError(loc) << "expected tensors of bf16, f32, FP8 or integers "
                               "to interpret, but got "
                            << type;
    total += *bytes;
    if (total > limit / numRanks)
      return emitError(loc)
             << "expected a program whose values take at most "
             << limit / numRanks << " bytes in all to interpret, but '"
             << function.getName() << "' takes more";
    return success();
  };
  for (BlockArgument argument : function.getArguments())
    if (failed(add(argument.getType(), argument.getLoc())))
      return failure();
  WalkResult result = function.getBody().walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (failed(add(type, op->getLoc())))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

HostTensor HostTensor::zeros(RankedTensorType type) {
  return {type, std::vector<uint8_t>(*getHostBytes(type), uint8_t(0))};
}

namespace {

/// The storage of a root and of the views of it.
struct Storage {
  Operation *freedBy = nullptr;
};

/// What a value stands for.
struct Slot {
  std::shared_ptr<HostTensor> tensor;
  std::shared_ptr<Storage> storage;
};

/// What the ops of one rank have computed.
class Rank {
public:
  void bind(Value value, Slot slot) {
    slots[value] = {std::move(slot), countUses(value)};
  }
  void bindNew(Value value, HostTensor tensor) {
    bind(value, {std::make_shared<HostTensor>(std::move(tensor)),
                 std::make_shared<Storage>()});
  }
  /// Names the storage of `result`, bound already, after that of another slot.
  void shareStorage(Value result, const Slot &slot) {
    slots.find(result)->second.slot.storage = slot.storage;
  }

  /// The operands of `op`; what it was the last to use is dropped.
  FailureOr<SmallVector<Slot>> read(Operation *op);
  /// Runs an op that needs no other rank and has no regions.
  LogicalResult run(Operation *op, ArrayRef<Slot> operands);

private:
  struct Entry {
    Slot slot;
    unsigned usesLeft;
  };

  static unsigned countUses(Value value) {
    return std::distance(value.use_begin(), value.use_end());
  }
  LogicalResult checkUsable(Operation *op, unsigned operand, const Slot &slot);

  DenseMap<Value, Entry> slots;
};

/// All ranks, which run op by op in step.
class Interpreter {
public:
  /// Slots of values, one list a rank.
  using Slots = std::vector<SmallVector<Slot>>;

  explicit Interpreter(size_t numRanks) : ranks(numRanks) {}

  LogicalResult runBlock(Block &block, Slots &yielded, Slots &residuals);

  std::vector<Rank> ranks;

private:
  LogicalResult runOp(Operation *op);
  LogicalResult runStep(StepOp step);
  LogicalResult runKernel(KernelOp kernel, const Slots &inputs);
  LogicalResult runCollective(Operation *op, const Slots &operands);
  FailureOr<Slots> readAll(Operation *op);
};

LogicalResult Rank::checkUsable(Operation *op, unsigned operand,
                                const Slot &slot) {
  if (!slot.storage->freedBy)
    return success();
  InFlightDiagnostic diagnostic = op->emitError()
                                  << "reads operand #" << operand
                                  << " after its storage was freed";
  diagnostic.attachNote(slot.storage->freedBy->getLoc()) << "freed here";
  return failure();
}

FailureOr<SmallVector<Slot>> Rank::read(Operation *op) {
  SmallVector<Slot> operands;
  for (OpOperand &operand : op->getOpOperands()) {
    auto it = slots.find(operand.get());
    if (it == slots.end())
      return op->emitError()
             << "expected operand #" << operand.getOperandNumber()
             << " to be computed before it is read";
    operands.push_back(it->second.slot);
    // A barrier only waits for what stands in `after`.
    bool isRead = !isa<RematBarrierOp>(op) || operand.getOperandNumber() == 0;
    if (isRead &&
        failed(checkUsable(op, operand.getOperandNumber(), it->second.slot)))
      return failure();
    if (--it->second.usesLeft == 0)
      slots.erase(it);
  }
  return operands;
}

LogicalResult Rank::run(Operation *op, ArrayRef<Slot> operands) {
  if (isa<FreeOp>(op)) {
    for (const Slot &slot : operands)
      slot.storage->freedBy = op;
    return success();
  }
  if (isa<RematBarrierOp, WaitOp>(op)) {
    bind(op->getResult(0), operands.front());
    return success();
  }
  // A copy: what it reads may be freed after the wait.
  if (isHostCopy(op)) {
    bindNew(op->getResult(0), *operands.front().tensor);
    bind(op->getResult(1), {nullptr, std::make_shared<Storage>()});
    return success();
  }
  if (isa<PushAmaxOp>(op)) {
    pushAmax(*operands[0].tensor, *operands[1].tensor);
    return success();
  }
  if (auto update = dyn_cast<UpdateScaleOp>(op)) {
    updateScale(update, *operands[0].tensor, *operands[1].tensor);
    return success();
  }

  SmallVector<const HostTensor *> tensors;
  for (auto [index, slot] : llvm::enumerate(operands)) {
    if (!slot.tensor)
      return op->emitError() << "expected operand #" << index
                             << " to be a tensor, but got a token";
    tensors.push_back(slot.tensor.get());
  }
  if (op->getNumResults() != 1 || op->getNumRegions() != 0)
    return op->emitError()
           << "expected an op with known arithmetic to interpret, but got '"
           << op->getName() << "'";
  FailureOr<HostTensor> result = evaluate(op, tensors);
  if (failed(result))
    return failure();
  bindNew(op->getResult(0), std::move(*result));
  if (Value over = getAliasedOperand(op->getResult(0)))
    shareStorage(
        op->getResult(0),
        operands[llvm::find(op->getOperands(), over) - op->operand_begin()]);
  return success();
}

FailureOr<Interpreter::Slots> Interpreter::readAll(Operation *op) {
  Slots operands;
  for (Rank &rank : ranks) {
    FailureOr<SmallVector<Slot>> slots = rank.read(op);
    if (failed(slots))
      return failure();
    operands.push_back(std::move(*slots));
  }
  return operands;
}

LogicalResult Interpreter::runKernel(KernelOp kernel, const Slots &inputs) {
  for (auto [rank, slots] : llvm::zip_equal(ranks, inputs))
    for (auto [argument, slot] :
         llvm::zip_equal(kernel.getBody().getArguments(), slots))
      rank.bind(argument, slot);
  Slots results(ranks.size()), residuals(ranks.size());
  if (failed(runBlock(kernel.getBody().front(), results, residuals)))
    return failure();
  // Results are buffers of the kernel, whatever it computed them from, but for
  // those that it hands through.
  for (auto [rank, slots, mine] : llvm::zip_equal(ranks, results, inputs))
    for (auto [result, slot] : llvm::zip_equal(kernel.getResults(), slots)) {
      if (slot.tensor)
        rank.bindNew(result, *slot.tensor);
      else
        rank.bind(result, slot); // A token.
      if (Value over = getAliasedOperand(result))
        rank.shareStorage(result, mine[llvm::find(kernel.getInputs(), over) -
                                       kernel.getInputs().begin()]);
    }
  return success();
}

LogicalResult Interpreter::runStep(StepOp step) {
  Slots forward(ranks.size()), backward(ranks.size()), residuals(ranks.size()),
      none(ranks.size());
  if (failed(runBlock(step.getForward().front(), forward, residuals)))
    return failure();
  for (auto [rank, slots] : llvm::zip_equal(ranks, residuals))
    for (auto [argument, slot] :
         llvm::zip_equal(step.getBackward().front().getArguments(), slots))
      rank.bind(argument, slot);
  if (failed(runBlock(step.getBackward().front(), backward, none)))
    return failure();
  for (auto [rank, first, second] : llvm::zip_equal(ranks, forward, backward)) {
    first.append(second);
    for (auto [index, slot] : llvm::enumerate(first)) {
      if (slot.storage->freedBy)
        return step.emitError()
               << "gives result #" << index << ", whose storage was freed";
      rank.bind(step.getResult(index), slot);
    }
  }
  return success();
}

/// One group of ranks after the other: those that differ in the coordinate
/// along the axis alone.
LogicalResult Interpreter::runCollective(Operation *op, const Slots &operands) {
  Collective collective = *getCollective(op);
  int64_t size = collective.getSize(), stride = 1;
  // Neighbours along an axis are as far apart as the axes after it are large.
  for (auto [axis, length] : llvm::reverse(getGrid(op))) {
    if (axis == collective.axis)
      break;
    stride *= length;
  }
  int64_t numRanks = ranks.size();
  if (size > 1 && numRanks != getNumRanks(op))
    return op->emitError() << "expected the " << getNumRanks(op)
                           << " ranks of the grid to interpret '"
                           << op->getName() << "', but got " << numRanks;
  for (int64_t first = 0; first < numRanks; ++first) {
    if (size > 1 && first / stride % size != 0)
      continue;
    SmallVector<const HostTensor *> tensors;
    for (int64_t member = 0; member < size; ++member)
      tensors.push_back(operands[first + member * stride][0].tensor.get());
    for (int64_t member = 0; member < size; ++member)
      ranks[first + member * stride].bindNew(
          collective.result, evaluateCollective(collective, tensors, member));
  }
  // A token carries nothing.
  if (isCollectiveStart(op))
    for (Rank &rank : ranks)
      rank.bind(op->getResult(1), {nullptr, std::make_shared<Storage>()});
  return success();
}

LogicalResult Interpreter::runOp(Operation *op) {
  if (auto step = dyn_cast<StepOp>(op))
    return runStep(step);
  FailureOr<Slots> operands = readAll(op);
  if (failed(operands))
    return failure();
  if (auto kernel = dyn_cast<KernelOp>(op))
    return runKernel(kernel, *operands);
  if (getCollective(op))
    return runCollective(op, *operands);
  for (auto [rank, slots] : llvm::zip_equal(ranks, *operands))
    if (failed(rank.run(op, slots)))
      return failure();
  return success();
}

LogicalResult Interpreter::runBlock(Block &block, Slots &yielded,
                                    Slots &residuals) {
  for (Operation &op : block.without_terminator())
    if (failed(runOp(&op)))
      return failure();
  Operation *terminator = block.getTerminator();
  auto yield = dyn_cast<YieldOp>(terminator);
  if (!yield && !isa<func::ReturnOp>(terminator))
    return terminator->emitError()
           << "expected 'fp8.yield' or 'func.return' to interpret, but got '"
           << terminator->getName() << "'";
  FailureOr<Slots> operands = readAll(terminator);
  if (failed(operands))
    return failure();
  unsigned numValues =
      yield ? yield.getValues().size() : terminator->getNumOperands();
  for (auto [slots, values, kept] :
       llvm::zip_equal(*operands, yielded, residuals)) {
    values.append(slots.begin(), slots.begin() + numValues);
    kept.append(slots.begin() + numValues, slots.end());
  }
  return success();
}

} // namespace

FailureOr<std::vector<std::vector<HostTensor>>>
mlir::fp8::interpretRanks(func::FuncOp function,
                          MutableArrayRef<std::vector<HostTensor>> arguments) {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitError()
           << "expected a function of one block to interpret, but '"
           << function.getName() << "' has "
           << function.getBody().getBlocks().size();
  if (failed(checkHostSize(function, arguments.size())))
    return failure();
  Interpreter interpreter(arguments.size());
  std::vector<SmallVector<std::shared_ptr<HostTensor>>> storage(
      arguments.size());
  for (auto [rank, own, held] :
       llvm::zip_equal(interpreter.ranks, arguments, storage))
    for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
      held.push_back(std::make_shared<HostTensor>(own[index]));
      rank.bind(argument, {held.back(), std::make_shared<Storage>()});
    }
  Interpreter::Slots results(arguments.size()), residuals(arguments.size());
  if (failed(
          interpreter.runBlock(function.getBody().front(), results, residuals)))
    return failure();
  std::vector<std::vector<HostTensor>> outputs(arguments.size());
  for (auto [slots, tensors] : llvm::zip_equal(results, outputs))
    for (Slot &slot : slots)
      tensors.push_back(*slot.tensor);
  for (auto [held, own] : llvm::zip_equal(storage, arguments))
    for (auto [index, tensor] : llvm::enumerate(held))
      if (function.getArgAttr(index, kStateAttr))
        own[index] = *tensor;
  return outputs;
}

FailureOr<std::vector<HostTensor>>
mlir::fp8::interpret(func::FuncOp function,
                     MutableArrayRef<HostTensor> arguments) {
  std::vector<std::vector<HostTensor>> ranks = {
      {arguments.begin(), arguments.end()}};
  FailureOr<std::vector<std::vector<HostTensor>>> results =
      interpretRanks(function, ranks);
  if (failed(results))
    return failure();
  llvm::copy(ranks.front(), arguments.begin());
  return std::move(results->front());
}
