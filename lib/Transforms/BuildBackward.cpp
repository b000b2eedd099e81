//===- BuildBackward.cpp - fp8-build-backward -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Differentiates a forward function into an fp8.step.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Signature.h"
#include "fp8/Transforms/Passes.h"
#include "fp8/Transforms/Residuals.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8BUILDBACKWARDPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// True for the tensors that have gradients: bf16 and f32.
bool isDifferentiable(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor &&
         (tensor.getElementType().isBF16() || tensor.getElementType().isF32());
}

/// True for values a gradient can pass through: those, and FP8 tensors.
bool carriesGradient(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return isDifferentiable(type) ||
         (tensor &&
          isa<Float8E4M3FNType, Float8E5M2Type>(tensor.getElementType()));
}

/// The gradient of a value: the contributions of its uses, each with its place
/// in the program, so that they are added in the order of the uses although
/// they are found in reverse.
struct Contribution {
  std::pair<unsigned, unsigned>
      use; ///< position of the user, number of its operand
  Value gradient;
};

/// Differentiates one function.
class Differentiation {
public:
  explicit Differentiation(func::FuncOp function)
      : function(function), signature(getSignature(function)),
        builder(function.getContext()) {}

  LogicalResult run();

private:
  LogicalResult checkInput();
  void findActive();
  void addTangents();
  LogicalResult buildAdjoints();
  LogicalResult buildAdjointOf(Operation *op);
  Value takeGradient(Value value, Location loc);
  void contribute(OpOperand &use, Value gradient) {
    contributions[use.get()].push_back(
        {{positions[use.getOwner()], use.getOperandNumber()}, gradient});
  }

  func::FuncOp function;
  Signature signature;
  OpBuilder builder;
  SmallVector<BlockArgument> wanted; ///< arguments that get a gradient
  DenseSet<Value>
      active; ///< values that depend on them differentiably; only looked up
  DenseMap<Operation *, unsigned> positions; ///< of the ops of the function
  DenseMap<Value, SmallVector<Contribution>> contributions;
  StepOp step;
};

LogicalResult Differentiation::checkInput() {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitError()
           << "expected a straight line to differentiate, but '"
           << function.getName() << "' has "
           << function.getBody().getBlocks().size() << " blocks";
  if (!isa<func::ReturnOp>(function.getBody().front().getTerminator()))
    return function.emitError()
           << "expected '" << function.getName() << "' to end in 'func.return'";
  unsigned position = 0;
  for (Operation &op : function.getBody().front()) {
    if (op.getNumRegions() != 0)
      return op.emitError()
             << "expected a straight line of ops to differentiate, but '"
             << op.getName() << "' has regions";
    positions[&op] = position++;
  }
  if (!SymbolTable::symbolKnownUseEmpty(function,
                                        function->getParentOfType<ModuleOp>()))
    return function.emitError() << "expected '" << function.getName()
                                << "' to have no callers: differentiating it "
                                   "changes its signature; inline it first";
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    Type element = getElementTypeOrSelf(argument.getType());
    if (!isa<FloatType>(element) || element.getIntOrFloatBitWidth() <= 8 ||
        function.getArgAttr(index, kFrozenAttr) ||
        function.getArgAttr(index, kStateAttr))
      continue;
    if (!isDifferentiable(argument.getType()))
      return emitError(argument.getLoc())
             << "expected a bf16 or f32 tensor as argument #" << index
             << " of '" << function.getName()
             << "' to differentiate by, but got " << argument.getType()
             << "; mark it 'fp8.frozen' to leave it out";
    wanted.push_back(argument);
  }
  return success();
}

void Differentiation::findActive() {
  active.insert_range(wanted);
  for (Operation &op : function.getBody().front()) {
    // What is measured on a value is not followed: amax and scale are
    // stop-gradient.
    if (isa<AmaxOp, ScaleOp>(op))
      continue;
    if (llvm::any_of(op.getOperands(),
                     [&](Value operand) { return active.contains(operand); }))
      for (Value result : op.getResults())
        if (carriesGradient(result.getType()))
          active.insert(result);
  }
}

/// Adds an argument for the gradient of each differentiable result, and hands
/// it to the value returned.
void Differentiation::addTangents() {
  auto returnOp =
      cast<func::ReturnOp>(function.getBody().front().getTerminator());
  MLIRContext *context = function.getContext();
  // All at once: the function has a type, which is never freed, for each time
  // that arguments are added.
  const unsigned first = function.getNumArguments();
  SmallVector<OpOperand *> uses;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  SmallVector<Location> locations;
  for (OpOperand &use : returnOp->getOpOperands()) {
    if (!isDifferentiable(use.get().getType()))
      continue;
    std::string name = "d_" + signature.results[use.getOperandNumber()].name;
    // A rank that has a part of a result has that part of its gradient.
    NamedAttrList marks;
    marks.set(kTangentAttr, UnitAttr::get(context));
    if (Attribute shard =
            function.getResultAttr(use.getOperandNumber(), kShardAttr))
      marks.set(kShardAttr, shard);
    uses.push_back(&use);
    types.push_back(use.get().getType());
    attributes.push_back(marks.getDictionary(context));
    locations.push_back(
        NameLoc::get(StringAttr::get(context, name), use.get().getLoc()));
  }
  // Cannot fail: the function has no callers, and arguments may be appended
  // to any function.
  (void)function.insertArguments(SmallVector<unsigned>(uses.size(), first),
                                 types, attributes, locations);
  for (auto [index, use] : llvm::enumerate(uses))
    if (active.contains(use->get()))
      contribute(*use, function.getArgument(first + index));
}

/// The location of what is computed for the adjoint of an op at `loc`: the same
/// place, without the op's name, which is that of another value.
Location adjointLocation(Location loc) {
  auto name = dyn_cast<NameLoc>(loc);
  if (!name)
    return loc;
  if (!isa<UnknownLoc>(name.getChildLoc()))
    return name.getChildLoc();
  return CallSiteLoc::get(UnknownLoc::get(loc.getContext()), loc);
}

/// Names the op of the backward region that makes `gradient` after `value`,
/// whose whole gradient it is. What has a name already is the gradient of
/// another value too, or an argument.
void nameGradient(Value gradient, Value value, StringRef suffix) {
  Operation *op = gradient.getDefiningOp();
  auto name = dyn_cast<NameLoc>(value.getLoc());
  if (op && name && !isa<NameLoc>(op->getLoc()))
    op->setLoc(
        NameLoc::get(StringAttr::get(op->getContext(),
                                     "d_" + name.getName().getValue() + suffix),
                     op->getLoc()));
}

/// The sum of the contributions to the gradient of `value`, or null where there
/// are none.
Value Differentiation::takeGradient(Value value, Location loc) {
  auto it = contributions.find(value);
  if (it == contributions.end())
    return {};
  llvm::sort(it->second, [](const Contribution &a, const Contribution &b) {
    return a.use < b.use;
  });
  Value sum;
  for (const Contribution &contribution : it->second)
    sum = sum ? Value(arith::AddFOp::create(builder, adjointLocation(loc), sum,
                                            contribution.gradient))
              : contribution.gradient;
  // The plain name is that of the tangent where there is one.
  bool hasTangent = isa<BlockArgument>(it->second.back().gradient);
  nameGradient(sum, value, hasTangent ? ".sum" : "");
  return sum;
}

LogicalResult Differentiation::buildAdjointOf(Operation *op) {
  SmallVector<Value> resultGrads;
  bool reached = false;
  SmallVector<bool> needed;
  for (Value operand : op->getOperands())
    needed.push_back(active.contains(operand));
  if (!llvm::is_contained(needed, true))
    return success();
  for (Value result : op->getResults()) {
    resultGrads.push_back(
        active.contains(result) ? takeGradient(result, op->getLoc()) : Value());
    reached |= resultGrads.back() != nullptr;
  }
  if (!reached)
    return success();
  auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
  if (!differentiable)
    return op->emitError() << "expected an op with an adjoint where a gradient "
                              "passes through, but '"
                           << op->getName()
                           << "' has none; mark the arguments it depends on "
                              "'fp8.frozen', or write it with other ops";
  SmallVector<Value> operandGrads(op->getNumOperands());
  Block &backward = step.getBackward().front();
  Operation *last = backward.empty() ? nullptr : &backward.back();
  if (failed(differentiable.buildAdjoint(builder, resultGrads, needed,
                                         operandGrads)))
    return failure();
  auto built = last ? std::next(last->getIterator()) : backward.begin();
  for (; built != backward.end(); ++built)
    built->setLoc(adjointLocation(op->getLoc()));
  for (OpOperand &operand : op->getOpOperands()) {
    Value gradient = operandGrads[operand.getOperandNumber()];
    if (!gradient || !needed[operand.getOperandNumber()])
      continue;
    if (isDifferentiable(operand.get().getType()) &&
        gradient.getType() != operand.get().getType())
      return op->emitError()
             << "expected a gradient of type " << operand.get().getType()
             << " for operand #" << operand.getOperandNumber()
             << ", but its adjoint gives " << gradient.getType();
    contribute(operand, gradient);
  }
  return success();
}

LogicalResult Differentiation::buildAdjoints() {
  Block &body = step.getForward().front(),
        &backward = step.getBackward().front();
  builder.setInsertionPointToEnd(&backward);
  for (Operation &op : llvm::reverse(body.without_terminator()))
    if (failed(buildAdjointOf(&op)))
      return failure();
  SmallVector<Value> gradients;
  for (BlockArgument argument : wanted) {
    Value gradient = takeGradient(argument, function.getLoc());
    // Nothing returned depends on it.
    if (!gradient)
      gradient = arith::ConstantOp::create(
          builder, argument.getLoc(),
          cast<TypedAttr>(builder.getZeroAttr(argument.getType())));
    gradients.push_back(gradient);
  }
  YieldOp::create(builder, function.getLoc(), gradients);
  return success();
}

LogicalResult Differentiation::run() {
  if (failed(checkInput()))
    return failure();
  findActive();
  addTangents();

  // The old body becomes the forward region.
  Block &entry = function.getBody().front();
  auto returnOp = cast<func::ReturnOp>(entry.getTerminator());
  SmallVector<Type> types(returnOp.getOperandTypes());
  for (BlockArgument argument : wanted)
    types.push_back(argument.getType());
  SmallVector<Value> results(returnOp.getOperands());
  Location returnLoc = returnOp.getLoc();
  builder.setInsertionPointToEnd(&entry);
  step = StepOp::create(builder, function.getLoc(), types);
  Block &forward = step.getForward().emplaceBlock();
  step.getBackward().emplaceBlock();
  forward.getOperations().splice(forward.end(), entry.getOperations(),
                                 entry.begin(), step->getIterator());
  builder.setInsertionPointToEnd(&forward);
  YieldOp::create(builder, returnLoc, results);
  returnOp->erase();
  if (failed(buildAdjoints()))
    return failure();
  formResiduals(step);

  builder.setInsertionPointToEnd(&entry);
  func::ReturnOp::create(builder, returnLoc, step.getResults());

  // Gradients are results named after their argument; the old results keep the
  // names they had.
  MLIRContext *context = function.getContext();
  SmallVector<DictionaryAttr> attributes;
  auto addAttributes = [&](NamedAttrList marks, const std::string &name) {
    marks.set(kNameAttr, StringAttr::get(context, name));
    attributes.push_back(marks.getDictionary(context));
  };
  for (auto [index, result] : llvm::enumerate(signature.results))
    addAttributes(NamedAttrList(function.getResultAttrDict(index)),
                  result.name);
  SmallVector<Type> gradientTypes;
  for (BlockArgument argument : wanted) {
    NamedAttrList marks;
    if (Attribute shard =
            function.getArgAttr(argument.getArgNumber(), kShardAttr))
      marks.set(kShardAttr, shard);
    addAttributes(std::move(marks),
                  "d_" + signature.arguments[argument.getArgNumber()].name);
    gradientTypes.push_back(argument.getType());
  }
  // At once, as arguments are.
  (void)function.insertResults(
      SmallVector<unsigned>(wanted.size(), function.getNumResults()),
      gradientTypes, SmallVector<DictionaryAttr>(wanted.size()));
  function.setAllResultAttrs(attributes);
  return success();
}

/// True for a function that has nothing to differentiate (`end_of_step`), or
/// whose gradients are written out.
bool isLeftAlone(func::FuncOp function) {
  bool hasStep = function.walk([](StepOp) { return WalkResult::interrupt(); })
                     .wasInterrupted();
  bool hasTangent =
      llvm::any_of(llvm::seq(function.getNumArguments()), [&](unsigned index) {
        return function.getArgAttr(index, kTangentAttr) != nullptr;
      });
  return hasStep || hasTangent ||
         llvm::none_of(function.getResultTypes(), isDifferentiable);
}

/// One scale that the end of a step updates, and from which history.
struct ScaleUpdate {
  Type format;
  Pow2 pow2;
  std::string history;
  Type historyType, scaleType;
  Location historyLoc, scaleLoc;
};

/// Collects the scales of the delayed recipes of `function`, by name, in the
/// order of the linears. Fails where a scale is updated in two ways.
LogicalResult collectUpdates(func::FuncOp function,
                             llvm::MapVector<StringRef, ScaleUpdate> &updates,
                             llvm::StringSet<> &names) {
  Signature signature = getSignature(function);
  WalkResult result = function.walk([&](LinearOp op) {
    RecipeAttr recipe = op.getRecipe();
    if (recipe.getKind() != RecipeKind::Delayed)
      return WalkResult::advance();
    if (op.getState().size() != 6) {
      op.emitError() << "expected six state operands, but got "
                     << op.getState().size();
      return WalkResult::interrupt();
    }
    Type formats[] = {recipe.getXFormat(), recipe.getWFormat(),
                      recipe.getDyFormat()};
    for (unsigned role = 0; role < 3; ++role) {
      auto history = dyn_cast<BlockArgument>(op.getState()[2 * role]);
      auto scale = dyn_cast<BlockArgument>(op.getState()[2 * role + 1]);
      if (!history || !scale ||
          history.getOwner() != &function.getBody().front() ||
          scale.getOwner() != &function.getBody().front()) {
        op.emitError() << "expected the state operands of a delayed recipe to "
                          "be arguments of '"
                       << function.getName() << "'";
        return WalkResult::interrupt();
      }
      const std::string &historyName =
          signature.arguments[history.getArgNumber()].name;
      auto name = names.insert(signature.arguments[scale.getArgNumber()].name)
                      .first->getKey();
      ScaleUpdate update{formats[role],     recipe.getPow2(), historyName,
                         history.getType(), scale.getType(),  history.getLoc(),
                         scale.getLoc()};
      auto [it, inserted] = updates.insert({name, update});
      if (!inserted && (it->second.format != update.format ||
                        it->second.pow2 != update.pow2 ||
                        it->second.history != update.history ||
                        it->second.historyType != update.historyType ||
                        it->second.scaleType != update.scaleType)) {
        op.emitError() << "expected the scale '" << name
                       << "' to have one history, one format and one "
                          "power-of-two rule, but another linear uses it "
                          "otherwise";
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Adds `@end_of_step`, which updates each scale from its history. Its
/// arguments are the state arguments of the steps, by name: buffers of one name
/// are one buffer.
void addEndOfStep(ModuleOp module,
                  const llvm::MapVector<StringRef, ScaleUpdate> &updates) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  MLIRContext *context = module.getContext();
  auto named = [&](StringRef name, Location loc) -> Location {
    return isa<NameLoc>(loc)
               ? loc
               : Location(NameLoc::get(StringAttr::get(context, name), loc));
  };
  llvm::MapVector<StringRef, std::pair<Type, Location>> arguments;
  for (auto &[name, update] : updates) {
    arguments.insert(
        {update.history,
         {update.historyType, named(update.history, update.historyLoc)}});
    arguments.insert({name, {update.scaleType, named(name, update.scaleLoc)}});
  }
  SmallVector<Type> types;
  for (auto &[name, argument] : arguments)
    types.push_back(argument.first);
  auto function =
      func::FuncOp::create(builder, module.getLoc(), kEndOfStepName,
                           builder.getFunctionType(types, TypeRange()));
  Block *entry = function.addEntryBlock();
  llvm::StringMap<Value> values;
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    entry->getArgument(index).setLoc(argument.second.second);
    function.setArgAttr(index, kStateAttr, builder.getUnitAttr());
    values[argument.first] = entry->getArgument(index);
  }
  builder.setInsertionPointToStart(entry);
  for (auto &[name, update] : updates)
    UpdateScaleOp::create(builder, update.scaleLoc,
                          values.lookup(update.history), values.lookup(name),
                          update.format, update.pow2);
  func::ReturnOp::create(builder, module.getLoc());
}

struct BuildBackwardPass
    : fp8::impl::FP8BuildBackwardPassBase<BuildBackwardPass> {
  using FP8BuildBackwardPassBase::FP8BuildBackwardPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> functions;
    for (func::FuncOp candidate : module.getOps<func::FuncOp>()) {
      bool isNamed = candidate.getName() == function;
      if (!function.empty() && !isNamed)
        continue;
      if (candidate.isExternal()) {
        if (isNamed) {
          candidate.emitError() << "expected a body to differentiate, but '"
                                << function << "' is a declaration";
          return signalPassFailure();
        }
        continue;
      }
      if (isLeftAlone(candidate))
        continue;
      functions.push_back(candidate);
    }
    if (!function.empty() && functions.empty() &&
        !module.lookupSymbol<func::FuncOp>(function)) {
      module.emitError() << "expected a function '" << function
                         << "' to differentiate, but the module has none";
      return signalPassFailure();
    }

    llvm::MapVector<StringRef, ScaleUpdate> updates;
    llvm::StringSet<> names; // owns the keys of `updates`
    for (func::FuncOp candidate : functions)
      if (failed(collectUpdates(candidate, updates, names)))
        return signalPassFailure();
    for (func::FuncOp candidate : functions)
      if (failed(Differentiation(candidate).run()))
        return signalPassFailure();
    if (!updates.empty() && !module.lookupSymbol(kEndOfStepName))
      addEndOfStep(module, updates);
  }
};

} // namespace
