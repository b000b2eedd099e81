//===- CastWeightsOnce.cpp - fp8-cast-weights-once --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves what depends on parameters only out of the function of a microbatch,
// into one that runs at the start of a step.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Policies.h"
#include "fp8/Analysis/ValueNames.h"
#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Support/ByteSize.h"
#include "fp8/Target/Signature.h"
#include "fp8/Transforms/Passes.h"
#include "fp8/Transforms/Residuals.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8CASTWEIGHTSONCEPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// True for what is worth a buffer over the whole step: an FP8 tensor, or the
/// maximum or scale that belongs to one.
bool isKept(Value value) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(
             getElementTypeOrSelf(value.getType())) ||
         isa_and_nonnull<AmaxOp, ScaleOp>(value.getDefiningOp());
}

/// Collects the function of the start of a step.
class StartOfStep {
public:
  explicit StartOfStep(ModuleOp module)
      : module(module), builder(module.getContext()) {}

  /// Moves the casts of the weights of `function`, which has a step. Fails
  /// where what has one name in several functions cannot be one buffer.
  LogicalResult take(func::FuncOp function, StepOp step);
  /// Adds the function, if it has anything to do.
  void finish();

private:
  /// The argument of the new function that stands for `argument`.
  FailureOr<Value> getArgument(func::FuncOp function, BlockArgument argument,
                               StringRef name);
  /// Copies the op that makes `value`, and what it reads, to the new function.
  LogicalResult copy(Value value, func::FuncOp function,
                     const Signature &signature);
  std::string makeName(Value value);

  ModuleOp module;
  OpBuilder builder;
  func::FuncOp created;
  IRMapping mapping;
  llvm::StringMap<Value> arguments; // Looked up only.
  llvm::StringMap<unsigned> names;  // Looked up only.
  SmallVector<std::pair<std::string, Value>> results;
};

} // namespace

/// True for an argument that is the same in every microbatch of a step: a
/// parameter, and state that `function` only reads, such as a delayed scale.
static bool isFixedArgument(func::FuncOp function, BlockArgument argument) {
  unsigned index = argument.getArgNumber();
  return function.getArgAttr(index, kParameterAttr) ||
         (function.getArgAttr(index, kStateAttr) &&
          llvm::all_of(argument.getUsers(), [](Operation *user) {
            return isMemoryEffectFree(user);
          }));
}

FailureOr<Value> StartOfStep::getArgument(func::FuncOp function,
                                          BlockArgument argument,
                                          StringRef name) {
  Value &known = arguments[name];
  if (known && !isa<NameLoc>(argument.getLoc()))
    return function.emitError("expected a name (a location) of each parameter "
                              "where several functions have a step, but '")
           << name << "' has none";
  if (known && known.getType() != argument.getType())
    return function.emitError("expected the parameter '")
           << name << "' to have the same type in all functions, "
           << known.getType() << ", but got " << argument.getType();
  if (known)
    return known;
  unsigned index = created.getNumArguments();
  (void)created.insertArgument(
      index, argument.getType(),
      function.getArgAttrDict(argument.getArgNumber()),
      NameLoc::get(builder.getStringAttr(name), argument.getLoc()));
  return known = created.getArgument(index);
}

LogicalResult StartOfStep::copy(Value value, func::FuncOp function,
                                const Signature &signature) {
  // Operands first, without recursion: a chain may be long.
  SmallVector<Operation *> pending{value.getDefiningOp()};
  while (!pending.empty()) {
    Operation *op = pending.back();
    bool isReady = true;
    for (Value operand : op->getOperands()) {
      if (mapping.contains(operand))
        continue;
      if (auto argument = dyn_cast<BlockArgument>(operand)) {
        const std::string &name =
            signature.arguments[argument.getArgNumber()].name;
        FailureOr<Value> found = getArgument(function, argument, name);
        if (failed(found))
          return failure();
        mapping.map(operand, *found);
        continue;
      }
      pending.push_back(operand.getDefiningOp());
      isReady = false;
    }
    if (!isReady)
      continue;
    pending.pop_back();
    if (!mapping.contains(op->getResult(0)))
      builder.clone(*op, mapping);
  }
  return success();
}

std::string StartOfStep::makeName(Value value) {
  std::string name = getOwnName(value);
  if (name.empty())
    name = "weight_cast";
  if (unsigned count = names[name]++)
    name += "#" + std::to_string(count);
  return name;
}

LogicalResult StartOfStep::take(func::FuncOp function, StepOp step) {
  if (!created) {
    OpBuilder atStart = OpBuilder::atBlockBegin(module.getBody());
    created = func::FuncOp::create(atStart, module.getLoc(), kStartOfStepName,
                                   atStart.getFunctionType({}, {}));
    builder.setInsertionPointToEnd(created.addEntryBlock());
  }
  inlineResiduals(step);
  Block &forward = step.getForward().front(),
        &backward = step.getBackward().front();

  // What depends on fixed arguments and constants only.
  Signature signature = getSignature(function);
  DenseSet<Value> fixed; // Looked up only.
  for (BlockArgument argument : function.getArguments())
    if (isFixedArgument(function, argument))
      fixed.insert(argument);
  auto isFixed = [&](Operation &op) {
    return op.getNumRegions() == 0 && op.getNumResults() > 0 &&
           isMemoryEffectFree(&op) && !isa<OpaqueOp>(op) &&
           (op.getNumOperands() > 0 || matchPattern(&op, m_Constant())) &&
           llvm::all_of(op.getOperands(),
                        [&](Value operand) { return fixed.contains(operand); });
  };
  SmallVector<Value> candidates;
  for (Block *block : {&forward, &backward})
    for (Operation &op : *block)
      if (isFixed(op)) {
        fixed.insert_range(op.getResults());
        if (!isView(&op) && isKept(op.getResult(0)))
          candidates.push_back(op.getResult(0));
      }

  // Of those, what something else reads, through views too.
  std::function<bool(Value)> isReadOutside = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (!llvm::all_of(user->getResults(),
                        [&](Value result) { return fixed.contains(result); }) ||
          user->getNumResults() == 0)
        return true;
      if (isView(user))
        return isReadOutside(user->getResult(0));
      return !isKept(user->getResult(0));
    });
  };
  SmallVector<Value> kept;
  for (Value candidate : candidates)
    if (isReadOutside(candidate))
      kept.push_back(candidate);

  auto mark = DictionaryAttr::get(
      module.getContext(),
      builder.getNamedAttr(kParameterAttr, builder.getUnitAttr()));
  // All copies first: what is copied still reads what is replaced.
  for (Value value : kept)
    if (failed(copy(value, function, signature)))
      return failure();
  for (Value value : kept) {
    std::string name = makeName(value);
    results.push_back({name, mapping.lookup(value)});
    unsigned index = function.getNumArguments();
    (void)function.insertArgument(
        index, value.getType(), mark,
        NameLoc::get(builder.getStringAttr(name), value.getLoc()));
    value.replaceAllUsesWith(function.getArgument(index));
  }
  formResiduals(step);
  dropUnread(function);
  return success();
}

void StartOfStep::finish() {
  if (!created)
    return;
  if (results.empty()) {
    created.erase();
    return;
  }
  SmallVector<Value> values;
  for (auto &[name, value] : results)
    values.push_back(value);
  func::ReturnOp::create(builder, module.getLoc(), values);
  for (auto &[name, value] : results) {
    unsigned index = created.getNumResults();
    auto placement = DictionaryAttr::get(
        module.getContext(),
        builder.getNamedAttr(kPlacementAttr, builder.getStringAttr("caller")));
    (void)created.insertResult(index, value.getType(), placement);
    setResultName(created, index, name);
  }
}

namespace {

struct CastWeightsOncePass
    : fp8::impl::FP8CastWeightsOncePassBase<CastWeightsOncePass> {
  using FP8CastWeightsOncePassBase::FP8CastWeightsOncePassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (microbatches < 1) {
      module.emitError() << "expected 'microbatches' of at least 1, but got "
                         << int(microbatches);
      return signalPassFailure();
    }
    if (weightCasts != "step" && weightCasts != "microbatch" &&
        weightCasts != "auto") {
      module.emitError() << "expected 'weight-casts' to be step, microbatch or "
                            "auto, but got '"
                         << weightCasts << "'";
      return signalPassFailure();
    }
    Limits limits;
    auto emitError = [&] { return module.emitError(); };
    if (failed(parseByteOption("budget", budget, limits.peak, emitError)) ||
        failed(parseByteOption("device-memory", deviceMemory, limits.device,
                               emitError)))
      return signalPassFailure();
    if (weightCasts == "microbatch")
      return;
    if (module.lookupSymbol(kStartOfStepName)) {
      module.emitError() << "expected a module without a function '"
                         << kStartOfStepName
                         << "', which fp8-cast-weights-once adds";
      return signalPassFailure();
    }
    if (weightCasts == "auto" && (limits.peak || limits.device)) {
      const Target *target = getTargetOf(module);
      if (!target)
        return signalPassFailure();
      OwningOpRef<ModuleOp> once = module.clone();
      if (failed(castOnce(*once)))
        return signalPassFailure();
      FailureOr<StepCost> often = getStepCost(module, *target, limits),
                          rarely = getStepCost(*once, *target, limits);
      if (failed(often) || failed(rarely))
        return signalPassFailure();
      if (*often <= *rarely)
        return;
    }
    if (failed(castOnce(module)))
      signalPassFailure();
  }

private:
  static LogicalResult castOnce(ModuleOp module) {
    StartOfStep start(module);
    for (func::FuncOp function :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (!function.isExternal())
        for (StepOp step : function.getBody().front().getOps<StepOp>())
          if (failed(start.take(function, step)))
            return failure();
    start.finish();
    return success();
  }

  /// What fp8-select-saved will keep to.
  struct Limits {
    std::optional<int64_t> peak;   ///< of the peak beside the casts kept
    std::optional<int64_t> device; ///< of the peak beside all arguments
  };

  /// The time of a step, its microbatches and what runs before them, with the
  /// fastest plans within `limits`, infinite where there are none, and how many
  /// bytes the smallest plans are above them, below 0 where they fit.
  using StepCost = std::pair<double, int64_t>;
  FailureOr<StepCost> getStepCost(ModuleOp module, const Target &target,
                                  const Limits &limits) {
    // Gradients are added in f32, by functions that hold no more at once than
    // that of the first microbatch.
    OwningOpRef<ModuleOp> added = module.clone();
    PassManager manager(module.getContext());
    manager.addPass(createFP8AccumulateGradientsPass());
    if (failed(manager.run(*added)))
      return failure();
    int64_t kept = getStepBytes(module);
    StepCost cost{0, std::numeric_limits<int64_t>::min()};
    for (auto function : added->getOps<func::FuncOp>()) {
      if (function.isExternal() || function.getName() == kEndOfStepName ||
          function.getName().ends_with(kAccumulateSuffix))
        continue;
      bool isStart = function.getName() == kStartOfStepName;
      FailureOr<PlanGraph> graph = PlanGraph::build(function, target);
      if (failed(graph))
        return failure();
      PlanSearch search(*graph,
                        fuse == "none" ? Fusion::None : Fusion::Default);
      int64_t limit = std::numeric_limits<int64_t>::max();
      if (limits.peak)
        limit = *limits.peak - (isStart ? 0 : kept);
      if (limits.device)
        limit = std::min(limit, *limits.device - graph->getResidentBytes());
      double fastest = std::numeric_limits<double>::infinity();
      int64_t smallest = std::numeric_limits<int64_t>::max();
      for (const PlanOption *option : search.findFrontier()) {
        smallest = std::min(smallest, option->peak);
        if (option->peak <= limit)
          fastest = std::min(fastest, option->seconds);
      }
      cost.first += fastest * (isStart ? 1 : microbatches);
      cost.second = std::max(cost.second, smallest - limit);
    }
    return cost;
  }
};

} // namespace
