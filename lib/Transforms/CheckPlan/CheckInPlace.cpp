//===- CheckInPlace.cpp - results over operands -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows the uses of an operand that a result is written over, from the
// kernel's block argument to what is yielded.
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::check;

namespace {

class InPlaceChecker {
public:
  explicit InPlaceChecker(const PlanLine &line) : line(line) {}

  LogicalResult run();

private:
  void checkResult(KernelOp kernel, int made, int position);
  void checkLoop(KernelOp kernel, int made, BlockArgument argument);
  void checkMatmul(KernelOp kernel, int made, BlockArgument argument);
  void checkGather(KernelOp kernel, int made, BlockArgument argument,
                   int position);

  /// "writes 'y' over 'x', ".
  std::string describe(int made) const {
    return "writes '" + line.getName(made) + "' over '" +
           line.getName(line.storages[made].over) + "', ";
  }
  InFlightDiagnostic error(Operation *op) {
    failed = true;
    return op->emitOpError();
  }

  const PlanLine &line;
  bool failed = false;
};

} // namespace

/// True where `value` is all of the storage it names, in its order.
static bool isWhole(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<KernelOp, StepOp>(op))
      return true;
    if (!isa<RematBarrierOp, WaitOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return true;
}

/// True where the kernel uses what a reduction gives, beyond yielding it.
static bool readsReduction(Block &body) {
  for (Operation &op : body)
    if (isa<AmaxOp, ReduceOp>(op) &&
        llvm::any_of(op.getUsers(),
                     [](Operation *user) { return !isa<YieldOp>(user); }))
      return true;
  return false;
}

void InPlaceChecker::checkLoop(KernelOp kernel, int made,
                               BlockArgument argument) {
  unsigned result = line.storages[made].result;
  bool inPasses = readsReduction(kernel.getBody().front());
  SmallVector<Value> work = {argument};
  llvm::SmallPtrSet<Operation *, 16> seen;
  auto shapeOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  while (!work.empty()) {
    Value value = work.pop_back_val();
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isa<YieldOp>(user)) {
        if (inPasses && use.getOperandNumber() != result) {
          error(kernel) << describe(made) << "but computes result "
                        << use.getOperandNumber()
                        << " from it too, in a later pass perhaps: it reads "
                           "back a reduction";
          return;
        }
        continue;
      }
      bool data =
          isa<CastOp, DequantizeOp>(user) && use.getOperandNumber() == 0;
      bool elementwise = user->hasTrait<OpTrait::Elementwise>() || data;
      if (!elementwise || user->getNumResults() != 1 ||
          shapeOf(user->getResult(0)) != shapeOf(argument)) {
        error(kernel)
                .append(describe(made), "but reads it in '", user->getName(),
                        "' at other elements than it writes")
                .attachNote(user->getLoc())
            << "read here";
        return;
      }
      if (seen.insert(user).second)
        work.push_back(user->getResult(0));
    }
  }
}

void InPlaceChecker::checkMatmul(KernelOp kernel, int made,
                                 BlockArgument argument) {
  auto matmuls = kernel.getBody().front().getOps<MatmulOp>();
  // A product of groups has no accumulator.
  MatmulOp matmul = matmuls.empty() ? MatmulOp() : *matmuls.begin();
  if (!matmul || matmul.getAcc() != argument || !argument.hasOneUse())
    error(kernel) << describe(made)
                  << "which is not its accumulator and nothing else";
  else if (argument.getType() != matmul.getResult().getType())
    error(kernel) << describe(made) << "an accumulator of type "
                  << argument.getType() << ", but the result is "
                  << matmul.getResult().getType();
}

/// Slots start at multiples of this many bytes, as kernels may rely on.
static constexpr int64_t kSlotAlignment = 256;

/// The storage written over is this rank's part of the result, which all ranks
/// write into theirs: one stretch of it, made for that by a loop kernel.
void InPlaceChecker::checkGather(KernelOp kernel, int made,
                                 BlockArgument argument, int position) {
  const Storage &storage = line.storages[made];
  const Storage &part = line.storages[storage.over];
  std::optional<Collective> gather =
      getCollective(&kernel.getBody().front().front());
  if (!gather || gather->kind != Collective::Kind::AllGather ||
      gather->x != argument) {
    error(kernel) << describe(made) << "which it does not gather as it is";
    return;
  }
  auto type = cast<RankedTensorType>(argument.getType());
  for (int64_t dim = 0; dim < gather->concat; ++dim)
    if (type.getDimSize(dim) != 1)
      error(kernel) << describe(made) << "but the parts along dimension "
                    << gather->concat
                    << " are no stretches of memory: expected a size of 1 in "
                       "dimension "
                    << dim << ", but got " << type.getDimSize(dim);
  if (part.bytes * gather->getSize() != storage.bytes)
    error(kernel) << describe(made) << "but " << gather->getSize()
                  << " parts of " << part.bytes << " bytes are not its "
                  << storage.bytes << " bytes";
  if (part.bytes % kSlotAlignment != 0)
    error(kernel) << describe(made) << "whose " << part.bytes
                  << " bytes are no multiple of " << kSlotAlignment;
  auto maker = part.isArgument()
                   ? KernelOp()
                   : dyn_cast<KernelOp>(line.ops[part.producer].op);
  if (!maker || maker.getKind() != KernelKind::Loop || part.over >= 0 ||
      part.numPieces > 0)
    error(kernel) << describe(made)
                  << "which is not made whole and apart by a loop kernel";
  else if ((part.producer < line.firstBackward) !=
           (position < line.firstBackward))
    error(kernel) << describe(made) << "which is made in the other region";
}

void InPlaceChecker::checkResult(KernelOp kernel, int made, int position) {
  const Storage &storage = line.storages[made];
  const Storage &over = line.storages[storage.over];
  int64_t operand = (*kernel.getInPlace())[storage.result];
  Value input = kernel.getInputs()[operand];
  if (over.isArgument()) {
    auto argument = cast<BlockArgument>(over.root);
    if (!func::FuncOp(line.func).getArgAttr(argument.getArgNumber(),
                                            kDonatedAttr))
      error(kernel) << describe(made) << "an argument that is not marked '"
                    << kDonatedAttr << "'";
  }
  if (over.escapes)
    error(kernel) << describe(made) << "which is a result of the function";
  if (storage.inCaller)
    error(kernel) << describe(made)
                  << "but it is a result in the caller's buffer";
  if (over.residual && position < line.firstBackward)
    error(kernel) << describe(made) << "which is kept for backward";
  if (over.overwriter != made)
    error(kernel) << describe(made) << "but '" << line.getName(over.overwriter)
                  << "' is written over it before";
  if (!isWhole(input))
    error(kernel) << describe(made) << "which it reads as a view";
  if (llvm::count_if(kernel.getInputs(), [&](Value other) {
        return line.getStorage(other) == storage.over;
      }) != 1)
    error(kernel) << describe(made) << "which another operand names too";
  Block &body = kernel.getBody().front();
  if (kernel.getKind() == KernelKind::Collective)
    return checkGather(kernel, made, body.getArgument(operand), position);
  if (kernel.getKind() == KernelKind::Loop)
    checkLoop(kernel, made, body.getArgument(operand));
  else
    checkMatmul(kernel, made, body.getArgument(operand));
  // Element by element, a result of another shape is another element.
  auto type = cast<RankedTensorType>(storage.root.getType());
  auto source = cast<RankedTensorType>(input.getType());
  if (type.getShape() != source.getShape() || storage.bytes != over.bytes)
    error(kernel) << describe(made) << "of another layout: " << type << " and "
                  << source;
}

LogicalResult InPlaceChecker::run() {
  for (auto [position, lineOp] : llvm::enumerate(line.ops))
    if (auto kernel = dyn_cast<KernelOp>(lineOp.op))
      for (int made : lineOp.makes)
        if (line.storages[made].over >= 0)
          checkResult(kernel, made, static_cast<int>(position));
  return success(!failed);
}

LogicalResult check::checkInPlace(const PlanLine &line) {
  return InPlaceChecker(line).run();
}
