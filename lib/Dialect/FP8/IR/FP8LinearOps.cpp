//===- FP8LinearOps.cpp - linears with a recipe -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verification and memory effects of the ops of FP8LinearOps.td.
//
//===----------------------------------------------------------------------===//

#include "VerifyUtils.h"

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::checks;

using Effects =
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

/// Checks the shapes of a linear or one of its gradients. `firstDim` and
/// `secondDim` are the contracted dimensions; the result has the other ones, in
/// that order.
static LogicalResult verifyLinear(Operation *op, StringRef firstName,
                                  Value first, int64_t firstDim,
                                  StringRef secondName, Value second,
                                  int64_t secondDim, ValueRange state,
                                  RecipeAttr recipe) {
  // (C1)
  Value result = op->getResult(0);
  for (auto [name, value] :
       {std::pair(firstName, first), std::pair(secondName, second),
        std::pair(StringRef("result"), result)})
    if (getShape(value).size() != 2)
      return op->emitOpError() << "expected '" << name
                               << "' of rank 2, but got " << value.getType();
  // (C2)
  ArrayRef<int64_t> a = getShape(first), b = getShape(second);
  if (a[firstDim] != b[secondDim])
    return op->emitOpError()
           << "expected dim " << firstDim << " of '" << firstName
           << "' and dim " << secondDim << " of '" << secondName
           << "' to be equal, but got " << a[firstDim] << " and "
           << b[secondDim];
  if (failed(verifyShape(op, "result", result,
                         {a[1 - firstDim], b[1 - secondDim]})))
    return failure();
  // (C3)
  size_t expected = recipe.getKind() == RecipeKind::Delayed ? 6 : 0;
  if (state.size() != expected)
    return op->emitOpError()
           << "expected " << expected << " state operands with a '"
           << stringifyRecipeKind(recipe.getKind()) << "' recipe, but got "
           << state.size();
  // (C4)
  for (auto [index, value] : llvm::enumerate(state)) {
    bool isHistory = index % 2 == 0;
    bool good = isHistory ? getShape(value).size() == 1
                          : getShape(value) == ArrayRef<int64_t>{1, 1};
    if (!good)
      return op->emitOpError()
             << "expected state operand " << index << " to be a "
             << (isHistory ? "history of rank 1" : "scale of shape [1, 1]")
             << ", but got " << value.getType();
  }
  return success();
}

/// With state, a linear pushes its amax; without, it has no effect.
static void getStateEffects(ValueRange state, Effects &effects) {
  if (state.empty())
    return;
  effects.emplace_back(MemoryEffects::Read::get(), StateResource::get());
  effects.emplace_back(MemoryEffects::Write::get(), StateResource::get());
}

LogicalResult LinearOp::verify() {
  return verifyLinear(*this, "x", getX(), 1, "w", getW(), 1, getState(),
                      getRecipe());
}
LogicalResult LinearDgradOp::verify() {
  return verifyLinear(*this, "dy", getDy(), 1, "w", getW(), 0, getState(),
                      getRecipe());
}
LogicalResult LinearWgradOp::verify() {
  return verifyLinear(*this, "dy", getDy(), 0, "x", getX(), 0, getState(),
                      getRecipe());
}

void LinearOp::getEffects(Effects &effects) {
  getStateEffects(getState(), effects);
}
void LinearDgradOp::getEffects(Effects &effects) {
  getStateEffects(getState(), effects);
}
void LinearWgradOp::getEffects(Effects &effects) {
  getStateEffects(getState(), effects);
}
