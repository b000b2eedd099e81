//===- ApplyKernels.cpp - ops into kernels, kernels into order --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces ops by the fp8.kernel ops that hold them, and moves kernels.
//
//===----------------------------------------------------------------------===//

#include "fp8/Transforms/ApplyPlan.h"

using namespace mlir;
using namespace mlir::fp8;

/// True for the views that are cloned into the kernels which read through them.
static bool isClonedView(Operation *op) {
  return isView(op) && !isa<WaitOp, RematBarrierOp>(op);
}

/// The value a kernel takes as an operand where a member reads `value`: the
/// root as far as cloned views go.
static Value getKernelOperand(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isClonedView(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// What barriers hide: the same storage, of the same type.
static Value getBarrierSource(Value value) {
  while (auto barrier = value.getDefiningOp<RematBarrierOp>())
    value = barrier.getX();
  return value;
}

static KernelKind getKernelKind(NodeClass kind) {
  switch (kind) {
  case NodeClass::Matmul:
    return KernelKind::Matmul;
  case NodeClass::Collective:
    return KernelKind::Collective;
  case NodeClass::Opaque:
    return KernelKind::Opaque;
  case NodeClass::State:
    return KernelKind::State;
  default:
    return KernelKind::Loop;
  }
}

namespace {

class KernelApplier {
public:
  explicit KernelApplier(const KernelGraph &kernels)
      : kernels(kernels), program(*kernels.program), graph(*program.graph) {}

  void run();

private:
  Operation *opOf(int instance) const {
    return graph.nodes[program.instances[instance].node].op;
  }
  void emitKernel(const KernelNode &kernel, OpBuilder &builder);
  /// The new value outside any kernel for old value `value`; clones views,
  /// moves barriers before the builder.
  Value remap(Value value, OpBuilder &builder);
  void finishBlock(Block &block);

  const KernelGraph &kernels;
  const Program &program;
  const PlanGraph &graph;
  DenseMap<Value, Value> replaced;
  SmallVector<Operation *> old;
};

Value KernelApplier::remap(Value value, OpBuilder &builder) {
  if (auto it = replaced.find(value); it != replaced.end())
    return it->second;
  Operation *op = value.getDefiningOp();
  if (!op || !(isView(op) || op->hasTrait<OpTrait::ConstantLike>()) ||
      isa<WaitOp>(op))
    return value;
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(remap(operand, builder));
  Operation *clone = builder.clone(*op);
  clone->setOperands(operands);
  for (auto [from, to] : llvm::zip(op->getResults(), clone->getResults()))
    replaced[from] = to;
  return replaced[value];
}

void KernelApplier::emitKernel(const KernelNode &kernel, OpBuilder &builder) {
  // A wait stays as it is: it names the storage of its start.
  if (auto wait = dyn_cast<WaitOp>(opOf(kernel.members.front()))) {
    SmallVector<Value> operands = {remap(wait.getX(), builder),
                                   remap(wait.getToken(), builder)};
    Operation *clone = builder.clone(*wait);
    clone->setOperands(operands);
    replaced[wait.getResult()] = clone->getResult(0);
    return;
  }
  // Operands in the order in which members read them.
  DenseSet<Operation *> members;
  for (int member : kernel.members)
    members.insert(opOf(member));
  // One operand a buffer, or what members read through several barriers would
  // be read from memory several times.
  llvm::MapVector<Value, llvm::SetVector<Value>> operands;
  for (int member : kernel.members)
    for (Value operand : opOf(member)->getOperands()) {
      Value root = getKernelOperand(operand);
      // What another member makes is no operand, behind a barrier or not. A
      // constant is one only where a kernel has written it.
      Operation *def = getBarrierSource(root).getDefiningOp();
      if (def &&
          (members.contains(def) || (def->hasTrait<OpTrait::ConstantLike>() &&
                                     !replaced.contains(root))))
        continue;
      operands[getBarrierSource(root)].insert(root);
    }
  SmallVector<Value> inputs;
  for (auto &[source, aliases] : operands)
    inputs.push_back(remap(aliases.front(), builder));
  SmallVector<Value> results;
  for (int output : kernel.outputs)
    results.push_back(graph.values[program.values[output].value].value);
  // A token, and what is handed through, is a result without storage.
  for (int member : kernel.members)
    for (OpResult result : opOf(member)->getResults())
      if ((isa<TokenType>(result.getType()) || getAliasedOperand(result)) &&
          !llvm::is_contained(results, result))
        results.push_back(result);

  Operation *last = opOf(kernel.members.back());
  auto op = KernelOp::create(
      builder, last->getLoc(), TypeRange(ValueRange(results)),
      getKernelKind(kernel.kind), inputs, kernel.workspace,
      /*offsets=*/DenseI64ArrayAttr(), /*workspace_offset=*/IntegerAttr(),
      /*in_place=*/DenseI64ArrayAttr(),
      /*symbol=*/StringAttr(), /*launches=*/ArrayAttr(), /*fills=*/ArrayAttr());
  Block &body = op.getBody().emplaceBlock();
  OpBuilder inner = OpBuilder::atBlockBegin(&body);
  IRMapping mapping;
  for (auto &[source, aliases] : operands) {
    BlockArgument argument =
        body.addArgument(source.getType(), source.getLoc());
    for (Value alias : aliases)
      mapping.map(alias, argument);
  }
  // Views and constants are cloned where a member first needs them.
  std::function<void(Value)> require = [&](Value value) {
    if (mapping.contains(value))
      return;
    Operation *def = value.getDefiningOp();
    for (Value operand : def->getOperands())
      require(operand);
    // Within a kernel a barrier keeps nothing apart.
    if (auto barrier = dyn_cast<RematBarrierOp>(def))
      mapping.map(value, mapping.lookup(barrier.getX()));
    else
      inner.clone(*def, mapping);
  };
  for (int member : kernel.members) {
    Operation *source = opOf(member);
    for (Value operand : source->getOperands())
      require(operand);
    Operation *clone = inner.clone(*source, mapping);
    clone->removeAttr(kCheckpointAttr);
    clone->removeAttr(kPolicyAttr);
  }
  SmallVector<Value> yielded;
  for (auto [index, result] : llvm::enumerate(results)) {
    yielded.push_back(mapping.lookup(result));
    replaced[result] = op.getResult(index);
  }
  YieldOp::create(inner, op.getLoc(), yielded);
}

void KernelApplier::finishBlock(Block &block) {
  OpBuilder builder(block.getTerminator());
  Operation *terminator = block.getTerminator();
  for (OpOperand &operand : terminator->getOpOperands())
    operand.set(remap(operand.get(), builder));
}

void KernelApplier::run() {
  StepOp step = graph.step;
  func::FuncOp func = graph.func;
  Block *forward = step ? &step.getForward().front() : &func.getBody().front();
  Block *backward = step ? &step.getBackward().front() : nullptr;
  auto collect = [&](Block *block) {
    for (Operation &op : block->without_terminator())
      old.push_back(&op);
  };
  collect(forward);
  if (backward)
    collect(backward);
  OpBuilder builder(forward->getTerminator());
  int numKernels = kernels.kernels.size();
  for (int id = 0; id < kernels.firstBackward; ++id)
    emitKernel(kernels.kernels[id], builder);
  finishBlock(*forward);
  if (backward) {
    // A view or constant of the forward region has no meaning here.
    builder.setInsertionPoint(backward->getTerminator());
    for (int id = kernels.firstBackward; id < numKernels; ++id)
      emitKernel(kernels.kernels[id], builder);
    finishBlock(*backward);
  }
  for (Operation *op : llvm::reverse(old)) {
    assert(op->use_empty() && "an op outside every kernel is still used");
    op->erase();
  }
  // Constants beside the step have moved into the kernels.
  if (step)
    for (Operation &op : llvm::make_early_inc_range(func.getBody().front()))
      if (op.hasTrait<OpTrait::ConstantLike>() && op.use_empty())
        op.erase();
}

} // namespace

void mlir::fp8::applyKernels(const KernelGraph &kernels) {
  KernelApplier(kernels).run();
}

void mlir::fp8::applyOrder(const KernelGraph &kernels, ArrayRef<int> order) {
  const Program &program = *kernels.program;
  DenseSet<Operation *> moved;
  std::function<void(Operation *)> moveBeforeTerminator = [&](Operation *op) {
    if (!moved.insert(op).second)
      return;
    // Aliases of operands come along, before the first op that reads them.
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp())
        if (isView(def) && !isa<WaitOp>(def) &&
            def->getBlock() == op->getBlock())
          moveBeforeTerminator(def);
    op->moveBefore(op->getBlock()->getTerminator());
  };
  for (int id : order)
    moveBeforeTerminator(
        program.node(program.instances[kernels.kernels[id].members.front()])
            .op);
  // Views that only a terminator reads, through other such views or not, go
  // last.
  auto moveTrailing = [](Block &block) {
    SmallVector<Operation *> trailing;
    DenseSet<Operation *> isTrailing; // looked up only
    for (Operation &op : llvm::reverse(block.without_terminator()))
      if (isView(&op) && !isa<WaitOp>(op) &&
          llvm::all_of(op.getUsers(), [&](Operation *user) {
            return user == block.getTerminator() || isTrailing.contains(user);
          })) {
        trailing.push_back(&op);
        isTrailing.insert(&op);
      }
    for (Operation *op : llvm::reverse(trailing))
      op->moveBefore(block.getTerminator());
  };
  StepOp step = program.graph->step;
  func::FuncOp func = program.graph->func;
  if (step) {
    moveTrailing(step.getForward().front());
    moveTrailing(step.getBackward().front());
  } else {
    moveTrailing(func.getBody().front());
  }
}
