//===- Interpreter.cpp - the reference interpreter --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Control, storage and state: functions, steps, kernels, views, barriers,
// frees. Every value has its elements as a tensor of its own, views too; which
// storage a value names is tracked beside them, so that a use after its free is
// found.
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
  size_t bytes = llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
  for (int64_t dim : tensor.getShape())
    if (__builtin_mul_overflow(bytes, size_t(dim), &bytes) || bytes > size_t(1)
                                                                          << 46)
      return std::nullopt;
  return bytes;
}

LogicalResult mlir::fp8::checkHostSize(func::FuncOp function) {
  constexpr size_t limit = size_t(32) << 30;
  size_t total = 0;
  auto add = [&](Type type, Location loc) -> LogicalResult {
    if (isa<TokenType>(type))
      return success();
    std::optional<size_t> bytes = getHostBytes(type);
    if (!bytes)
      return emitError(loc) << "expected tensors of bf16, f32, FP8 or integers "
                               "to interpret, but got "
                            << type;
    total += *bytes;
    if (total > limit)
      return emitError(loc) << "expected a program whose values take at most "
                            << limit << " bytes in all to interpret, but '"
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

class Interpreter {
public:
  LogicalResult runBlock(Block &block, SmallVectorImpl<Slot> &yielded,
                         SmallVectorImpl<Slot> &residuals);
  void bind(Value value, Slot slot) {
    slots[value] = {std::move(slot), countUses(value)};
  }

private:
  struct Entry {
    Slot slot;
    unsigned usesLeft;
  };

  static unsigned countUses(Value value) {
    return std::distance(value.use_begin(), value.use_end());
  }
  LogicalResult checkUsable(Operation *op, unsigned operand, const Slot &slot);
  FailureOr<SmallVector<Slot>> read(Operation *op);
  LogicalResult runOp(Operation *op);
  LogicalResult runStep(StepOp step);
  LogicalResult runKernel(KernelOp kernel, ArrayRef<Slot> inputs);
  LogicalResult runCollective(Operation *op, ArrayRef<Slot> operands);
  void bindNew(Value value, HostTensor tensor) {
    bind(value, {std::make_shared<HostTensor>(std::move(tensor)),
                 std::make_shared<Storage>()});
  }

  DenseMap<Value, Entry> slots;
};

LogicalResult Interpreter::checkUsable(Operation *op, unsigned operand,
                                       const Slot &slot) {
  if (!slot.storage->freedBy)
    return success();
  InFlightDiagnostic diagnostic = op->emitError()
                                  << "reads operand #" << operand
                                  << " after its storage was freed";
  diagnostic.attachNote(slot.storage->freedBy->getLoc()) << "freed here";
  return failure();
}

/// The operands of `op`; what it was the last to use is dropped.
FailureOr<SmallVector<Slot>> Interpreter::read(Operation *op) {
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

LogicalResult Interpreter::runKernel(KernelOp kernel, ArrayRef<Slot> inputs) {
  for (auto [argument, slot] :
       llvm::zip_equal(kernel.getBody().getArguments(), inputs))
    bind(argument, slot);
  SmallVector<Slot> results, residuals;
  if (failed(runBlock(kernel.getBody().front(), results, residuals)))
    return failure();
  // Results are buffers of the kernel, whatever it computed them from, but for
  // those that it hands through.
  for (auto [result, slot] : llvm::zip_equal(kernel.getResults(), results)) {
    bindNew(result, *slot.tensor);
    if (Value over = getAliasedOperand(result))
      slots.find(result)->second.slot.storage =
          inputs[llvm::find(kernel.getInputs(), over) -
                 kernel.getInputs().begin()]
              .storage;
  }
  return success();
}

LogicalResult Interpreter::runStep(StepOp step) {
  SmallVector<Slot> forward, backward, residuals, none;
  if (failed(runBlock(step.getForward().front(), forward, residuals)))
    return failure();
  for (auto [argument, slot] :
       llvm::zip_equal(step.getBackward().front().getArguments(), residuals))
    bind(argument, slot);
  if (failed(runBlock(step.getBackward().front(), backward, none)))
    return failure();
  forward.append(backward);
  for (auto [index, slot] : llvm::enumerate(forward)) {
    if (slot.storage->freedBy)
      return step.emitError()
             << "gives result #" << index << ", whose storage was freed";
    bind(step.getResult(index), slot);
  }
  return success();
}

/// With one rank a gather is the identity.
LogicalResult Interpreter::runCollective(Operation *op,
                                         ArrayRef<Slot> operands) {
  if (!isa<WaitOp>(op) &&
      op->getOperand(0).getType() != op->getResult(0).getType())
    return op->emitError()
           << "expected one rank to interpret '" << op->getName()
           << "', but its result has another shape than its operand";
  if (isa<WaitOp>(op))
    bind(op->getResult(0), operands[0]);
  else
    bindNew(op->getResult(0), *operands[0].tensor);
  // A token carries nothing.
  if (isa<AllGatherStartOp>(op))
    bind(op->getResult(1), {nullptr, std::make_shared<Storage>()});
  return success();
}

LogicalResult Interpreter::runOp(Operation *op) {
  if (auto step = dyn_cast<StepOp>(op))
    return runStep(step);
  FailureOr<SmallVector<Slot>> operands = read(op);
  if (failed(operands))
    return failure();
  if (auto kernel = dyn_cast<KernelOp>(op))
    return runKernel(kernel, *operands);
  if (isa<FreeOp>(op)) {
    for (Slot &slot : *operands)
      slot.storage->freedBy = op;
    return success();
  }
  if (isa<RematBarrierOp>(op)) {
    bind(op->getResult(0), operands->front());
    return success();
  }
  if (isa<AllGatherOp, AllGatherStartOp, WaitOp>(op))
    return runCollective(op, *operands);
  if (isa<PushAmaxOp>(op)) {
    pushAmax(*(*operands)[0].tensor, *(*operands)[1].tensor);
    return success();
  }
  if (auto update = dyn_cast<UpdateScaleOp>(op)) {
    updateScale(update, *(*operands)[0].tensor, *(*operands)[1].tensor);
    return success();
  }

  SmallVector<const HostTensor *> tensors;
  for (auto [index, slot] : llvm::enumerate(*operands)) {
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
  Value over = getAliasedOperand(op->getResult(0));
  if (over)
    bind(op->getResult(0),
         {std::make_shared<HostTensor>(std::move(*result)),
          (*operands)[llvm::find(op->getOperands(), over) - op->operand_begin()]
              .storage});
  else
    bindNew(op->getResult(0), std::move(*result));
  return success();
}

LogicalResult Interpreter::runBlock(Block &block,
                                    SmallVectorImpl<Slot> &yielded,
                                    SmallVectorImpl<Slot> &residuals) {
  for (Operation &op : block.without_terminator())
    if (failed(runOp(&op)))
      return failure();
  Operation *terminator = block.getTerminator();
  auto yield = dyn_cast<YieldOp>(terminator);
  if (!yield && !isa<func::ReturnOp>(terminator))
    return terminator->emitError()
           << "expected 'fp8.yield' or 'func.return' to interpret, but got '"
           << terminator->getName() << "'";
  FailureOr<SmallVector<Slot>> operands = read(terminator);
  if (failed(operands))
    return failure();
  unsigned numValues =
      yield ? yield.getValues().size() : terminator->getNumOperands();
  yielded.append(operands->begin(), operands->begin() + numValues);
  residuals.append(operands->begin() + numValues, operands->end());
  return success();
}

} // namespace

FailureOr<std::vector<HostTensor>>
mlir::fp8::interpret(func::FuncOp function,
                     MutableArrayRef<HostTensor> arguments) {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitError()
           << "expected a function of one block to interpret, but '"
           << function.getName() << "' has "
           << function.getBody().getBlocks().size();
  if (failed(checkHostSize(function)))
    return failure();
  Interpreter interpreter;
  SmallVector<std::shared_ptr<HostTensor>> storage;
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    storage.push_back(std::make_shared<HostTensor>(arguments[index]));
    interpreter.bind(argument, {storage.back(), std::make_shared<Storage>()});
  }
  SmallVector<Slot> results, residuals;
  if (failed(
          interpreter.runBlock(function.getBody().front(), results, residuals)))
    return failure();
  std::vector<HostTensor> outputs;
  for (Slot &slot : results)
    outputs.push_back(*slot.tensor);
  for (auto [index, tensor] : llvm::enumerate(storage))
    if (function.getArgAttr(index, kStateAttr))
      arguments[index] = *tensor;
  return outputs;
}
