//===- Offload.cpp - fp8-offload --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the copies to host memory and back that fp8-select-saved chose.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Offload.h"
#include "fp8/Analysis/PlannedProgram.h"
#include "fp8/Analysis/ValueNames.h"
#include "fp8/Transforms/Passes.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8OFFLOADPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

/// True where the op that makes `value`, the result of a kernel, is marked.
static bool isMarked(Value value) {
  auto result = dyn_cast<OpResult>(value);
  auto kernel = result ? dyn_cast<KernelOp>(result.getOwner()) : KernelOp();
  if (!kernel)
    return false;
  auto inner =
      dyn_cast<OpResult>(kernel.getBody().front().getTerminator()->getOperand(
          result.getResultNumber()));
  auto marks =
      inner ? inner.getOwner()->getAttrOfType<DenseI64ArrayAttr>(kOffloadAttr)
            : DenseI64ArrayAttr();
  return marks &&
         llvm::is_contained(marks.asArrayRef(), inner.getResultNumber());
}

/// The name of candidate `root` under which it is whole: the result of a
/// kernel.
static Value getSource(const PlannedProgram &planned,
                       const Offloader &offloader, int root) {
  const Program &program = *planned.program;
  int residual = program.residuals[offloader.getResidual(root)];
  return program.graphValue(residual).value;
}

namespace {

/// Writes the copies of one step.
class CopyWriter {
public:
  CopyWriter(const PlannedProgram &planned, const Offloader &offloader,
             const OffloadPlan &plan)
      : planned(planned), offloader(offloader), plan(plan),
        step(planned.graph->step), states(plan.copies.size()) {}

  void run();

private:
  /// What is there of a copy so far.
  struct State {
    Value source;  ///< in forward
    Value pending; ///< the value under way, and its token
    Value token;
    unsigned residual = 0;
  };
  void add(const HostEvent &event);
  template <typename StartOp>
  void start(State &state, Value from, Type to, StringRef suffix,
             OpBuilder &builder);
  /// Has backward read `value` instead of the residual argument, and moves
  /// views that stand too early behind it.
  void replaceArgument(BlockArgument argument, Operation *reader, Value value);

  const PlannedProgram &planned;
  const Offloader &offloader;
  const OffloadPlan &plan;
  StepOp step;
  std::vector<State> states;
};

} // namespace

template <typename StartOp>
void CopyWriter::start(State &state, Value from, Type to, StringRef suffix,
                       OpBuilder &builder) {
  Location loc = getDerivedLocation(state.source, suffix);
  Type types[] = {to, TokenType::get(builder.getContext())};
  auto kernel = KernelOp::create(
      builder, loc, TypeRange(types), KernelKind::Copy, ValueRange(from),
      /*workspace=*/0, /*offsets=*/DenseI64ArrayAttr(),
      /*workspace_offset=*/IntegerAttr(), /*in_place=*/DenseI64ArrayAttr(),
      /*symbol=*/StringAttr(), /*launches=*/ArrayAttr(), /*fills=*/ArrayAttr());
  Block &body = kernel.getBody().emplaceBlock();
  OpBuilder inner = OpBuilder::atBlockBegin(&body);
  Value argument = body.addArgument(from.getType(), loc);
  auto copy = StartOp::create(inner, loc, TypeRange(types), argument);
  YieldOp::create(inner, loc, copy->getResults());
  state.pending = kernel.getResult(0);
  state.token = kernel.getResult(1);
}

void CopyWriter::replaceArgument(BlockArgument argument, Operation *reader,
                                 Value value) {
  argument.replaceAllUsesExcept(value, reader);
  // Views of what comes back stand behind its wait.
  SmallVector<Operation *> behind = {value.getDefiningOp()};
  while (!behind.empty()) {
    Operation *op = behind.pop_back_val();
    for (Operation *user : op->getUsers())
      if (user->getBlock() == op->getBlock() && user->isBeforeInBlock(op)) {
        user->moveAfter(op);
        behind.push_back(user);
      }
  }
}

void CopyWriter::add(const HostEvent &event) {
  State &state = states[event.copy];
  bool isForward =
      event.kind == HostEvent::OutStart || event.kind == HostEvent::OutEnd;
  bool isEnd = isForward && event.position == planned.kernels.firstBackward;
  OpBuilder builder(isEnd ? step.getForwardYield().getOperation()
                          : planned.getOp(event.position));
  auto wait = [&] {
    return WaitOp::create(builder, state.pending.getLoc(),
                          state.pending.getType(), state.pending, state.token);
  };
  BlockArgument argument =
      step.getBackward().front().getArgument(state.residual);
  switch (event.kind) {
  case HostEvent::OutStart: {
    auto type = cast<RankedTensorType>(state.source.getType());
    start<OffloadStartOp>(state, state.source,
                          HostType::get(type.getContext(), type), "~host",
                          builder);
    break;
  }
  case HostEvent::OutEnd:
    step.getForwardYield().getResidualsMutable()[state.residual].set(wait());
    argument.setType(state.pending.getType());
    break;
  case HostEvent::InStart:
    start<PrefetchStartOp>(state, argument, state.source.getType(), "~back",
                           builder);
    break;
  case HostEvent::InEnd:
    replaceArgument(argument, state.pending.getDefiningOp(), wait());
    break;
  }
}

void CopyWriter::run() {
  OperandRange residuals = step.getForwardYield().getResiduals();
  for (auto [state, copy] : llvm::zip_equal(states, plan.copies)) {
    state.source = getSource(planned, offloader, copy.root);
    state.residual = llvm::find(residuals, state.source) - residuals.begin();
  }
  for (const HostEvent &event : getEvents(plan.copies))
    add(event);
}

namespace {

struct OffloadPass : fp8::impl::FP8OffloadPassBase<OffloadPass> {
  void runOnOperation() override {
    const Target *target = getTargetOf(getOperation());
    if (!target)
      return signalPassFailure();
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal() && failed(offload(func, *target)))
        return signalPassFailure();
  }

private:
  static LogicalResult offload(func::FuncOp func, const Target &target);
};

LogicalResult OffloadPass::offload(func::FuncOp func, const Target &target) {
  WalkResult marked = func.walk([](Operation *op) {
    return op->hasAttr(kOffloadAttr) ? WalkResult::interrupt()
                                     : WalkResult::advance();
  });
  if (!marked.wasInterrupted())
    return success();
  if (!target.hostBytesPerSecond)
    return func.emitError("expected a target with host memory to offload to, "
                          "but '")
           << target.name << "' has no 'host_bytes_per_second'";
  FailureOr<PlannedProgram> planned =
      PlannedProgram::read(func, target, /*decideReuse=*/true);
  if (failed(planned))
    return failure();
  if (!planned->graph->step)
    return func.emitError("expected an 'fp8.step' to offload values of, but "
                          "got a straight line");
  Offloader offloader(planned->kernels, planned->order);
  SmallVector<int> roots;
  for (int root : offloader.getCandidates())
    if (isMarked(getSource(*planned, offloader, root)))
      roots.push_back(root);
  CopyWriter(*planned, offloader, offloader.plan(roots)).run();
  func.walk([](Operation *op) { op->removeAttr(kOffloadAttr); });
  return success();
}

} // namespace
