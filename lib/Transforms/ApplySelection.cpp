//===- ApplySelection.cpp - residuals and clones ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rewrites a step so that its backward region reads forward values only as
// residuals, arguments, or recomputations.
//
//===----------------------------------------------------------------------===//

#include "fp8/Transforms/ApplyPlan.h"

using namespace mlir;
using namespace mlir::fp8;

namespace {

class SelectionApplier {
public:
  SelectionApplier(const PlanGraph &graph, const Program &program)
      : graph(graph), program(program), step(graph.step),
        ir(program.values.size()) {}

  void run();

private:
  /// The IR value that a backward op reads for instance value `id`. A
  /// recomputation reads what stands outside it through a barrier of its own.
  Value read(int id, bool throughBarrier, OpBuilder &builder);
  void addResiduals();

  const PlanGraph &graph;
  const Program &program;
  StepOp step;
  std::vector<Value> ir; ///< instance value -> what the backward region reads
  int64_t nextBarrier = 0;
  unsigned numOldArguments =
      0; ///< residuals of the joint IR, replaced by what is kept
};

void SelectionApplier::addResiduals() {
  Block &backward = step.getBackward().front();
  YieldOp yield = step.getForwardYield();
  yield.getResidualsMutable().clear();
  numOldArguments = backward.getNumArguments();
  DenseMap<int, Value> residualOf;
  for (int value : program.residuals) {
    Value source = graph.values[value].value;
    yield.getResidualsMutable().append(source);
    residualOf[value] = backward.addArgument(source.getType(), source.getLoc());
  }
  for (auto [id, entry] : llvm::enumerate(program.values)) {
    bool backwardInstance =
        entry.instance >= 0 && program.instances[entry.instance].backward;
    if (backwardInstance)
      continue;
    ir[id] = graph.values[entry.value].resident
                 ? graph.values[entry.value].value
                 : residualOf.lookup(entry.value);
  }
}

Value SelectionApplier::read(int id, bool throughBarrier, OpBuilder &builder) {
  Value value = ir[id];
  int producer = program.values[id].instance;
  if (!throughBarrier ||
      (producer >= 0 && program.instances[producer].backward))
    return value;
  return RematBarrierOp::create(builder, value.getLoc(), value.getType(), value,
                                ValueRange(), nextBarrier++);
}

/// The location of a recomputation: its value's name with a suffix, so that
/// plans tell the two apart.
static Location getCloneLocation(Location loc) {
  StringRef name = getLocationName(loc);
  if (name.empty())
    return loc;
  auto child = dyn_cast<NameLoc>(loc);
  return NameLoc::get(StringAttr::get(loc.getContext(), name + kCloneSuffix),
                      child ? child.getChildLoc() : loc);
}

void SelectionApplier::run() {
  addResiduals();
  Block &backward = step.getBackward().front();
  OpBuilder builder(&backward, backward.begin());
  int numInstances = program.instances.size();
  for (int id = program.firstBackward; id < numInstances; ++id) {
    const Instance &instance = program.instances[id];
    const PlanNode &node = program.node(instance);
    if (node.backward) {
      for (auto [index, operand] : llvm::enumerate(instance.operands))
        node.op->setOperand(index,
                            read(operand, /*throughBarrier=*/false, builder));
      for (auto [result, value] :
           llvm::zip(node.op->getResults(), instance.results))
        ir[value] = result;
      builder.setInsertionPointAfter(node.op);
      continue;
    }
    SmallVector<Value> operands;
    for (int operand : instance.operands)
      operands.push_back(read(operand, /*throughBarrier=*/true, builder));
    Operation *clone = builder.clone(*node.op);
    clone->setOperands(operands);
    clone->removeAttr(kCheckpointAttr);
    clone->removeAttr(kPolicyAttr);
    clone->setLoc(getCloneLocation(clone->getLoc()));
    for (auto [result, value] :
         llvm::zip(clone->getResults(), instance.results))
      ir[value] = result;
  }
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
