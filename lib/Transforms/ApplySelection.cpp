//===- ApplySelection.cpp - residuals and clones ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rewrites a step so that its backward region reads forward values only as
// residuals, arguments, or recomputations, and so that what is dropped within a
// region is computed again there.
//
//===----------------------------------------------------------------------===//

#include "fp8/Transforms/ApplyPlan.h"

#include "fp8/Analysis/ValueNames.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::fp8;

namespace {

class SelectionApplier {
public:
  SelectionApplier(const PlanGraph &graph, const Program &program)
      : graph(graph), program(program), step(graph.step),
        ir(program.values.size()), numCopies(graph.nodes.size(), 0) {
    int last = -1;
    for (const Instance &instance : program.instances)
      if (!instance.copy) {
        keepsOrder &= instance.node > last;
        last = instance.node;
      }
  }

  void run();

private:
  /// The IR value that an op reads for instance value `id`, through a barrier
  /// of its own where asked for.
  Value read(int id, bool throughBarrier, OpBuilder &builder);
  bool needsBarrier(const Instance &instance, int operand) const;
  void applyInstance(const Instance &instance, OpBuilder &builder);
  void addResiduals();

  const PlanGraph &graph;
  const Program &program;
  StepOp step;
  std::vector<Value> ir;      ///< instance value -> what its region reads
  std::vector<int> numCopies; ///< of nodes
  int64_t nextBarrier = 0;
  bool keepsOrder = true; ///< whether ops have their turns as they stand
  unsigned numOldArguments =
      0; ///< residuals of the joint IR, replaced by what is kept
};

void SelectionApplier::addResiduals() {
  Block &backward = step.getBackward().front();
  YieldOp yield = step.getForwardYield();
  yield.getResidualsMutable().clear();
  numOldArguments = backward.getNumArguments();
  for (int value : program.residuals) {
    yield.getResidualsMutable().append(ir[value]);
    Value source = graph.values[program.values[value].value].value;
    ir[value] = backward.addArgument(source.getType(), source.getLoc());
  }
}

Value SelectionApplier::read(int id, bool throughBarrier, OpBuilder &builder) {
  Value value = ir[id];
  if (!throughBarrier)
    return value;
  // Kernels read through views, so the barrier stands before those.
  SmallVector<Operation *> views;
  for (Operation *def = value.getDefiningOp();
       def && isView(def) && !isa<RematBarrierOp, WaitOp>(def);
       def = value.getDefiningOp()) {
    views.push_back(def);
    value = def->getOperand(0);
  }
  value = RematBarrierOp::create(builder, value.getLoc(), value.getType(),
                                 value, ValueRange(), nextBarrier++);
  for (Operation *view : llvm::reverse(views)) {
    IRMapping mapping;
    mapping.map(view->getOperand(0), value);
    value = builder.clone(*view, mapping)->getResult(0);
  }
  return value;
}

/// A recomputation reads what stands outside it through a barrier: what is
/// kept, arguments, and in the forward region what the op itself reads. What
/// another recomputation has made can be as it is, until a second one of this
/// op might read it too.
bool SelectionApplier::needsBarrier(const Instance &instance,
                                    int operand) const {
  if (!instance.copy)
    return false;
  int producer = program.values[operand].instance;
  if (producer < 0 || !program.instances[producer].copy ||
      program.instances[producer].backward != instance.backward)
    return true;
  return instance.clone &&
         (!instance.backward || numCopies[instance.node] > 0) &&
         isMemoryEffectFree(program.node(instance).op);
}

/// The location of a recomputation: its value's name with a suffix, so that
/// plans tell them apart.
static Location getCloneLocation(Location loc, int number) {
  StringRef name = getLocationName(loc);
  if (name.empty())
    return loc;
  std::string text = (name + kCloneSuffix).str();
  if (number > 0)
    text += "." + std::to_string(number + 1);
  auto child = dyn_cast<NameLoc>(loc);
  return NameLoc::get(StringAttr::get(loc.getContext(), text),
                      child ? child.getChildLoc() : loc);
}

void SelectionApplier::applyInstance(const Instance &instance,
                                     OpBuilder &builder) {
  Operation *op = program.node(instance).op;
  for (auto [result, value] : llvm::zip(op->getResults(), instance.results))
    ir[value] = result;
  if (instance.dead)
    return; // It stays as it is, or is not there.
  SmallVector<Value> operands;
  for (int operand : instance.operands)
    operands.push_back(read(operand, needsBarrier(instance, operand), builder));
  if (instance.copy) {
    op = builder.clone(*op);
    op->removeAttr(kCheckpointAttr);
    op->removeAttr(kPolicyAttr);
    op->setLoc(getCloneLocation(op->getLoc(), numCopies[instance.node]));
    numCopies[instance.node] += instance.clone;
  }
  op->setOperands(operands);
  for (auto [result, value] : llvm::zip(op->getResults(), instance.results))
    ir[value] = result;
}

void SelectionApplier::run() {
  for (auto [id, entry] : llvm::enumerate(program.values))
    if (entry.instance < 0)
      ir[id] = graph.values[entry.value].value;
  Block &forward = step.getForward().front(),
        &backward = step.getBackward().front();
  OpBuilder builder(&forward, forward.begin());
  int numInstances = program.instances.size();
  for (int id = 0; id < numInstances; ++id) {
    if (id == program.firstBackward) {
      addResiduals();
      builder.setInsertionPointToStart(&backward);
    }
    const Instance &instance = program.instances[id];
    // Constants may stand beside the step.
    Operation *op = program.node(instance).op;
    applyInstance(instance, builder);
    if (!instance.copy && op->getParentOp() == step) {
      // Its turn may come later than in the program, or earlier.
      if (!keepsOrder)
        op->moveBefore(builder.getInsertionBlock(),
                       builder.getInsertionPoint());
      builder.setInsertionPointAfter(op);
    }
  }
  if (program.firstBackward == numInstances)
    addResiduals();
  builder.setInsertionPoint(step.getBackwardYield());
  for (auto [index, value] : llvm::enumerate(program.backwardResults))
    step.getBackwardYield().getValuesMutable()[index].assign(
        read(value, /*throughBarrier=*/false, builder));
  backward.eraseArguments(0, numOldArguments);
}

} // namespace

void mlir::fp8::applySelection(const PlanGraph &graph, const Program &program) {
  SelectionApplier(graph, program).run();
}
