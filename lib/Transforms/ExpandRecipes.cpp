//===- ExpandRecipes.cpp - fp8-expand-recipes -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes linears and their gradients out as amax, scale, cast and matmul. Which
// groups, formats and rules a recipe stands for is in `Role` and
// `Expander::cast`; everything else is the algebra of the three products.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/ValueNames.h"
#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Transforms/Passes.h"
#include "fp8/Transforms/Residuals.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <map>
#include <set>
#include <tuple>

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8EXPANDRECIPESPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// Along which axis of a tensor a product sums: the axis that the groups of its
/// cast run along.
enum class Axis { Rows = 0, Columns = 1 };

/// What an operand is to its linear.
enum class Role { X = 0, W = 1, DY = 2 };

/// An FP8 tensor and the multiplier it was cast with.
struct Scaled {
  Value data, scale;
};

Type getFormat(RecipeAttr recipe, Role role) {
  return role == Role::X   ? recipe.getXFormat()
         : role == Role::W ? recipe.getWFormat()
                           : recipe.getDyFormat();
}

/// The rows that groups of rows begin at multiples of.
int64_t getAlignment(RecipeAttr recipe) {
  return recipe.getKind() == RecipeKind::Block128 ? 128 : 16;
}

/// The group of the cast of a [rows, columns] operand that a product sums along
/// `axis`.
SmallVector<int64_t> getMatrixGroup(RecipeAttr recipe, Role role, Axis axis) {
  switch (recipe.getKind()) {
  case RecipeKind::Tensorwise:
  case RecipeKind::Delayed:
    return {0, 0};
  case RecipeKind::Rowwise:
    return axis == Axis::Columns ? SmallVector<int64_t>{1, 0}
                                 : SmallVector<int64_t>{0, 1};
  case RecipeKind::Block128:
    if (role == Role::W)
      return {128, 128};
    return axis == Axis::Columns ? SmallVector<int64_t>{1, 128}
                                 : SmallVector<int64_t>{128, 1};
  }
  return {};
}

/// The same for an operand of any rank: what stands before the matrix has
/// scales of its own.
SmallVector<int64_t> getGroup(RecipeAttr recipe, Role role, Axis axis,
                              int64_t rank) {
  SmallVector<int64_t> group(rank - 2, 1);
  group.append(getMatrixGroup(recipe, role, axis));
  return group;
}

/// What a group is called in the names of values.
StringRef getGroupName(ArrayRef<int64_t> group) {
  group = group.take_back(2);
  if (group[0] == 0 && group[1] == 0)
    return "";
  if (group[0] == group[1])
    return ".block";
  if (group[0] == 1)
    return group[1] == 0 ? ".row" : ".row128";
  return group[0] == 0 ? ".col" : ".col128";
}

StringRef getFormatName(Type format) {
  return isa<Float8E5M2Type>(format) ? ".e5m2" : ".e4m3";
}

/// Expands the linears of one straight line of ops: a function, or the forward
/// and then the backward region of a step. What was cast once is reused further
/// down the line.
class Expander {
public:
  Expander(MLIRContext *context, bool isTraining)
      : builder(context), isTraining(isTraining) {}

  /// `step` is the step that `block` is a region of, if it is.
  void expand(Block &block, StepOp step = {});

private:
  /// A cast is the same if value, group, format and rule are: the recipe's kind
  /// and power-of-two option give the rule, with delayed scaling the scale
  /// does.
  using Key = std::tuple<const void *, std::vector<int64_t>, const void *, int,
                         int, const void *>;

  Value product(Operation *op, bool fast, Scaled a, Scaled b);
  template <typename OpT>
  Value groupedProduct(OpT op, Scaled a, Scaled b);
  Value expandGrouped(Operation &op);
  Scaled cast(Operation *op, RecipeAttr recipe, ValueRange state, Role role,
              Value value, Axis axis);
  Value amax(Location loc, Value value, ArrayRef<int64_t> group);
  Scaled transposed(Scaled tensor);
  Value permute(Value value);
  Value firstAlike(Value value);
  Location named(Value value, Operation *op, const Twine &suffix);
  /// Moves the builder from the backward region to where `value` is at hand in
  /// the forward region; returns whether there is such a place.
  bool moveToForward(Value value);

  OpBuilder builder;
  bool isTraining;
  StepOp step;
  std::map<Key, Scaled> casts; // only looked up
  using ViewKey =
      std::tuple<const void *, const void *, const void *, const void *>;
  std::map<ViewKey, Value> views; // only looked up
  std::map<std::pair<void *, std::vector<int64_t>>, Value>
      maxima;                                 // only looked up
  std::set<std::pair<void *, void *>> pushed; // (amax, history)
};

/// A location that names what is made of `value` for `op`.
Location Expander::named(Value value, Operation *op, const Twine &suffix) {
  auto name = dyn_cast<NameLoc>(value.getLoc());
  auto opName = dyn_cast<NameLoc>(op->getLoc());
  Location place = opName && !isa<UnknownLoc>(opName.getChildLoc())
                       ? Location(opName.getChildLoc())
                       : op->getLoc();
  if (name)
    return NameLoc::get(builder.getStringAttr(getOwnName(value) + suffix),
                        place);
  // Keeps the place, drops the name: it is that of the product.
  return opName
             ? Location(CallSiteLoc::get(builder.getUnknownLoc(), op->getLoc()))
             : place;
}

/// The last two dimensions exchanged, as a view.
Value Expander::permute(Value value) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  Location loc = getDerivedLocation(value, ".t");
  SmallVector<int64_t> perm =
      llvm::to_vector(llvm::seq<int64_t>(type.getRank()));
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  return PermuteOp::create(builder, loc, exchangeDimensions(type), value, perm);
}

/// A scale of one element belongs to both orders of the dimensions.
Scaled Expander::transposed(Scaled tensor) {
  auto scaleType = llvm::cast<RankedTensorType>(tensor.scale.getType());
  return {permute(tensor.data), scaleType.getNumElements() == 1
                                    ? tensor.scale
                                    : permute(tensor.scale)};
}

/// The first value down the line that is the same view of the same value as
/// `value`: differentiation writes a view of the forward region a second time
/// in the backward region, and what is cast must not be cast twice for that.
Value Expander::firstAlike(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isa<PermuteOp, SliceOp, ReshapeOp, BitcastOp>(op))
    return value;
  ViewKey key{op->getName().getAsOpaquePointer(),
              op->getAttrDictionary().getAsOpaquePointer(),
              value.getType().getAsOpaquePointer(),
              firstAlike(op->getOperand(0)).getAsOpaquePointer()};
  return views.try_emplace(key, value).first->second;
}

bool Expander::moveToForward(Value value) {
  if (!step)
    return false;
  Block &forward = step.getForward().front();
  if (builder.getInsertionBlock() == &forward)
    return false;
  if (Operation *producer = value.getDefiningOp()) {
    if (producer->getBlock() != &forward)
      return false;
    builder.setInsertionPointAfter(producer);
    return true;
  }
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (!function || function.getArgAttr(argument.getArgNumber(), kTangentAttr))
    return false;
  // Before what reads it first.
  Operation *first = forward.getTerminator();
  for (Operation *user : value.getUsers())
    if (user->getBlock() == &forward && user->isBeforeInBlock(first))
      first = user;
  builder.setInsertionPoint(first);
  return true;
}

Value Expander::amax(Location loc, Value value, ArrayRef<int64_t> group) {
  Value &memo = maxima[{value.getAsOpaquePointer(), group.vec()}];
  if (!memo) {
    OpBuilder::InsertionGuard guard(builder);
    moveToForward(value);
    auto type = llvm::cast<RankedTensorType>(value.getType());
    memo = AmaxOp::create(
        builder, loc,
        RankedTensorType::get(getScaleShape(type.getShape(), group),
                              builder.getF32Type()),
        value, group);
  }
  return memo;
}

Scaled Expander::cast(Operation *op, RecipeAttr recipe, ValueRange state,
                      Role role, Value value, Axis axis) {
  value = firstAlike(value);
  bool isDelayed = recipe.getKind() == RecipeKind::Delayed;
  SmallVector<int64_t> group =
      getGroup(recipe, role, axis,
               llvm::cast<RankedTensorType>(value.getType()).getRank());
  Type format = getFormat(recipe, role);
  Value stateScale = isDelayed ? state[2 * unsigned(role) + 1] : Value();
  StringRef groupName = getGroupName(group);

  if (isDelayed && isTraining) {
    Value history = state[2 * unsigned(role)];
    Value maximum = amax(named(value, op, groupName + ".amax"), value, group);
    if (pushed
            .insert(
                {maximum.getAsOpaquePointer(), history.getAsOpaquePointer()})
            .second)
      PushAmaxOp::create(builder, op->getLoc(), maximum, history);
  }

  Key key{value.getAsOpaquePointer(),
          std::vector<int64_t>(group.begin(), group.end()),
          format.getAsOpaquePointer(),
          int(recipe.getKind()),
          int(recipe.getPow2()),
          stateScale.getAsOpaquePointer()};
  Scaled &memo = casts[key];
  if (memo.data)
    return memo;
  memo.scale = stateScale;
  if (!isDelayed) {
    Value maximum = amax(named(value, op, groupName + ".amax"), value, group);
    // torchao's rule for rowwise, TransformerEngine's for the others.
    bool isRowwise = recipe.getKind() == RecipeKind::Rowwise;
    OpBuilder::InsertionGuard guard(builder);
    if (moveToForward(value))
      builder.setInsertionPointAfterValue(maximum);
    memo.scale = ScaleOp::create(
        builder, named(value, op, groupName + ".scale"), maximum.getType(),
        maximum, format, APFloat(isRowwise ? 1e-12 : 0.0),
        isRowwise ? Division::F64 : Division::F32, recipe.getPow2());
  }
  // Several delayed scales may cast one value: there the scale tells them
  // apart.
  Location loc = isDelayed
                     ? named(stateScale, op, getFormatName(format))
                     : named(value, op, groupName + getFormatName(format));
  auto encoding =
      TensorEncodingAttr::get(builder.getContext(), group,
                              !isDelayed && recipe.getPow2() != Pow2::None);
  auto type = RankedTensorType::get(
      llvm::cast<RankedTensorType>(value.getType()).getShape(), format,
      encoding);
  memo.data = CastOp::create(builder, loc, type, value, memo.scale);
  return memo;
}

/// Replaces `op` by the product of `a` and `b`.
Value Expander::product(Operation *op, bool fast, Scaled a, Scaled b) {
  auto matmul =
      MatmulOp::create(builder, op->getLoc(), op->getResult(0).getType(),
                       a.data, b.data, a.scale, b.scale, Value(), fast);
  matmul->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  return matmul;
}

template <typename OpT>
Value Expander::groupedProduct(OpT op, Scaled a, Scaled b) {
  auto matmul = GroupedMatmulOp::create(
      builder, op.getLoc(), op.getResult().getType(), a.data, b.data,
      op.getOffsets(), a.scale, b.scale,
      builder.getI64IntegerAttr(getAlignment(op.getRecipe())),
      op.getBalancedAttr());
  matmul->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  return matmul;
}

/// What stands for a linear of groups or one of its gradients; nothing for
/// another op.
Value Expander::expandGrouped(Operation &op) {
  auto cast = [&](auto linear, Role role, Value value, Axis axis) {
    return this->cast(&op, linear.getRecipe(), {}, role, value, axis);
  };
  if (auto linear = dyn_cast<GroupedLinearOp>(op)) {
    // y [C, N] = x [C, K] * w[g]^T [K, N]
    Scaled x = cast(linear, Role::X, linear.getX(), Axis::Columns);
    Scaled w = cast(linear, Role::W, linear.getW(), Axis::Columns);
    return groupedProduct(linear, x, transposed(w));
  }
  if (auto dgrad = dyn_cast<GroupedLinearDgradOp>(op)) {
    // dx [C, K] = dy [C, N] * w[g] [N, K]
    Scaled dy = cast(dgrad, Role::DY, dgrad.getDy(), Axis::Columns);
    Scaled w = cast(dgrad, Role::W, dgrad.getW(), Axis::Rows);
    return groupedProduct(dgrad, dy, w);
  }
  if (auto wgrad = dyn_cast<GroupedLinearWgradOp>(op)) {
    // dw[g] [N, K] = dy^T [N, C] * x [C, K] over the rows of g
    Scaled dy = cast(wgrad, Role::DY, wgrad.getDy(), Axis::Rows);
    Scaled x = cast(wgrad, Role::X, wgrad.getX(), Axis::Rows);
    return groupedProduct(wgrad, transposed(dy), x);
  }
  return {};
}

void Expander::expand(Block &block, StepOp step) {
  this->step = step;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    builder.setInsertionPoint(&op);
    Value result;
    if (auto linear = dyn_cast<LinearOp>(op)) {
      // y [N, M] = x [N, K] * w^T [K, M]
      RecipeAttr recipe = linear.getRecipe();
      Scaled x = cast(&op, recipe, linear.getState(), Role::X, linear.getX(),
                      Axis::Columns);
      Scaled w = cast(&op, recipe, linear.getState(), Role::W, linear.getW(),
                      Axis::Columns);
      result = product(&op, recipe.getFastFprop(), x, transposed(w));
    } else if (auto dgrad = dyn_cast<LinearDgradOp>(op)) {
      // dx [N, K] = dy [N, M] * w [M, K]
      RecipeAttr recipe = dgrad.getRecipe();
      Scaled dy = cast(&op, recipe, dgrad.getState(), Role::DY, dgrad.getDy(),
                       Axis::Columns);
      Scaled w = cast(&op, recipe, dgrad.getState(), Role::W, dgrad.getW(),
                      Axis::Rows);
      result = product(&op, recipe.getFastDgrad(), dy, w);
    } else if (auto wgrad = dyn_cast<LinearWgradOp>(op)) {
      // dw [M, K] = dy^T [M, N] * x [N, K]
      RecipeAttr recipe = wgrad.getRecipe();
      Scaled dy = cast(&op, recipe, wgrad.getState(), Role::DY, wgrad.getDy(),
                       Axis::Rows);
      Scaled x = cast(&op, recipe, wgrad.getState(), Role::X, wgrad.getX(),
                      Axis::Rows);
      result = product(&op, recipe.getFastWgrad(), transposed(dy), x);
    } else {
      result = expandGrouped(op);
      if (!result)
        continue;
    }
    op.getResult(0).replaceAllUsesWith(result);
    op.erase();
  }
}

struct ExpandRecipesPass
    : fp8::impl::FP8ExpandRecipesPassBase<ExpandRecipesPass> {
  using FP8ExpandRecipesPassBase::FP8ExpandRecipesPassBase;

  void runOnOperation() override {
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      for (Block &block : function.getBody()) {
        // Evaluation: nothing is pushed.
        Expander(&getContext(), /*isTraining=*/false).expand(block);
        for (StepOp step : block.getOps<StepOp>()) {
          inlineResiduals(step);
          Expander expander(&getContext(), /*isTraining=*/true);
          expander.expand(step.getForward().front(), step);
          expander.expand(step.getBackward().front(), step);
          formResiduals(step);
        }
      }
    }
  }
};

} // namespace
