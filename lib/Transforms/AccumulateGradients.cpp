//===- AccumulateGradients.cpp - fp8-accumulate-gradients -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits a step function into the one of the first microbatch, which writes
// f32 gradients of its parameters, and the one of the others, which adds.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Signature.h"
#include "fp8/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8ACCUMULATEGRADIENTSPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// A gradient of a parameter: which result of the function it is, and which
/// operand of the backward region's yield.
struct MainGrad {
  unsigned result = 0, yielded = 0;
  std::string name;
};

/// The gradients of the parameters of `function`, in the order of its results.
SmallVector<MainGrad> findMainGrads(func::FuncOp function, StepOp step) {
  Signature signature = getSignature(function);
  llvm::StringSet<> parameters;
  for (const SignatureArgument &argument : signature.arguments)
    if (argument.role == ArgumentRole::Parameter)
      parameters.insert(argument.name);
  unsigned forwardResults = step.getForwardYield().getValues().size();
  SmallVector<MainGrad> found;
  Operation *returnOp = function.getBody().front().getTerminator();
  for (OpOperand &use : returnOp->getOpOperands()) {
    StringRef name = signature.results[use.getOperandNumber()].name;
    auto result = dyn_cast<OpResult>(use.get());
    if (!name.consume_front("d_") || !parameters.contains(name) || !result ||
        result.getOwner() != step || result.getResultNumber() < forwardResults)
      continue;
    found.push_back({use.getOperandNumber(),
                     result.getResultNumber() - forwardResults,
                     name.str() + ".main_grad"});
  }
  return found;
}

/// Makes the gradient a tensor of f32: the matmul that computes it gives one,
/// anything else is widened.
void widen(func::FuncOp function, StepOp step, const MainGrad &grad) {
  Operation *yield = step.getBackward().front().getTerminator();
  Value value = yield->getOperand(grad.yielded);
  auto type = cast<RankedTensorType>(value.getType());
  Type wide = type.clone(Float32Type::get(function.getContext()));
  if (type.getElementType().isBF16()) {
    Operation *producer = value.getDefiningOp();
    auto matmul = dyn_cast_or_null<MatmulOp>(producer);
    bool isProduct =
        matmul ? !matmul.getAcc() : isa_and_nonnull<GroupedMatmulOp>(producer);
    if (isProduct && value.hasOneUse()) {
      value.setType(wide);
    } else {
      OpBuilder builder(yield);
      value = arith::ExtFOp::create(builder, value.getLoc(), wide, value);
      yield->setOperand(grad.yielded, value);
    }
    unsigned forwardResults = step.getForwardYield().getValues().size();
    step->getResult(forwardResults + grad.yielded).setType(wide);
    SmallVector<Type> results(function.getResultTypes());
    results[grad.result] = wide;
    function.setFunctionType(FunctionType::get(
        function.getContext(), function.getArgumentTypes(), results));
  }
  setResultName(function, grad.result, grad.name);
  function.setResultAttr(grad.result, kPlacementAttr,
                         StringAttr::get(function.getContext(), "caller"));
}

/// Adds the gradient of the microbatches before, an argument that the sum is
/// written over.
void accumulate(func::FuncOp function, StepOp step, const MainGrad &grad) {
  MLIRContext *context = function.getContext();
  Operation *yield = step.getBackward().front().getTerminator();
  Value value = yield->getOperand(grad.yielded);
  unsigned index = function.getNumArguments();
  auto mark = DictionaryAttr::get(
      context, NamedAttribute(StringAttr::get(context, kDonatedAttr),
                              UnitAttr::get(context)));
  (void)function.insertArgument(
      index, value.getType(), mark,
      NameLoc::get(StringAttr::get(context, grad.name), value.getLoc()));
  Value before = function.getArgument(index);
  // It lies where the argument does.
  function.removeResultAttr(grad.result,
                            StringAttr::get(context, kPlacementAttr));
  auto matmul = value.getDefiningOp<MatmulOp>();
  if (matmul && value.hasOneUse() && !matmul.getAcc()) {
    matmul.getAccMutable().assign(before);
    return;
  }
  OpBuilder builder(yield);
  yield->setOperand(grad.yielded, arith::AddFOp::create(builder, value.getLoc(),
                                                        value, before));
}

struct AccumulateGradientsPass
    : fp8::impl::FP8AccumulateGradientsPassBase<AccumulateGradientsPass> {
  using FP8AccumulateGradientsPassBase::FP8AccumulateGradientsPassBase;

  LogicalResult split(func::FuncOp function) {
    auto steps = function.getBody().front().getOps<StepOp>();
    if (steps.empty())
      return success();
    SmallVector<MainGrad> grads = findMainGrads(function, *steps.begin());
    if (grads.empty())
      return success();
    std::string name = function.getName().str() + kAccumulateSuffix.str();
    if (getOperation().lookupSymbol(name))
      return function.emitError()
             << "expected no function '" << name
             << "', which fp8-accumulate-gradients adds for the microbatches "
                "after the first";
    for (const MainGrad &grad : grads)
      widen(function, *steps.begin(), grad);
    OpBuilder builder(function->getContext());
    builder.setInsertionPointAfter(function);
    auto next = cast<func::FuncOp>(builder.clone(*function));
    next.setName(name);
    auto nextSteps = next.getBody().front().getOps<StepOp>();
    for (const MainGrad &grad : grads)
      accumulate(next, *nextSteps.begin(), grad);
    return success();
  }

  void runOnOperation() override {
    SmallVector<func::FuncOp> functions;
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal())
        functions.push_back(function);
    for (func::FuncOp function : functions)
      if (failed(split(function)))
        return signalPassFailure();
  }
};

} // namespace
