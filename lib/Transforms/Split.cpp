//===- Split.cpp - fp8-split ------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Outlines the regions of a step. Each part is the list of the ops that it
// runs; what a part reads and does not compute is an argument of it, and a
// result of the part that does.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Decisions.h"
#include "fp8/Analysis/ValueNames.h"
#include "fp8/Target/Signature.h"
#include "fp8/Transforms/Passes.h"
#include "fp8/Transforms/Residuals.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8SPLITPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

struct PartResult {
  Value value;
  std::string name;
  NamedAttrList attributes;
  /// Its bytes are copied: its storage is another result's too.
  bool isCopied = false;
};

/// A function to be made.
struct Part {
  std::string name;
  /// What its results are to the parts after it: "saved" or "deferred".
  StringRef segment;
  SetVector<Operation *> ops; ///< what it runs
  SmallVector<PartResult> results;
  /// Arguments of the whole function, and results of parts before this one,
  /// that it reads.
  SetVector<Value> arguments, crossing;
};

/// Splits one function.
class Splitter {
public:
  Splitter(func::FuncOp function, StepOp step, bool isWgradApart)
      : function(function), step(step), isWgradApart(isWgradApart),
        signature(getSignature(function)), names(function) {}

  LogicalResult run();

private:
  void makeParts();
  LogicalResult splitBackward(Part &dgrad, Part &wgrad);
  LogicalResult addReturned();
  void nameReturned();
  void findReads(Part &part);
  void read(Part &part, Value value);
  void passOn(Part &part);
  void copyShared(Part &part);
  func::FuncOp build(const Part &part, OpBuilder &builder);
  void record(const Part &part, func::FuncOp built);

  /// The value that a residual of the backward region is.
  Value resolve(Value value);
  /// The value whose storage `value` lies in, whatever part makes it.
  Value getStorage(Value value);
  /// The name of a value that crosses from part to part.
  std::string getCrossingName(Value value);
  bool isParameterGradient(StringRef resultName) const;
  Part &getPartOf(Operation *op);
  /// Where in the program the result of an op is made.
  std::pair<unsigned, unsigned> getPlace(Value value) const {
    auto result = cast<OpResult>(value);
    return {positions.lookup(result.getOwner()), result.getResultNumber()};
  }

  func::FuncOp function;
  StepOp step;
  bool isWgradApart;
  Signature signature;
  ValueNames names;
  std::vector<Part> parts;
  DenseMap<Value, std::string> crossingNames; // Looked up only.
  llvm::StringSet<> takenNames;
  DenseMap<Operation *, unsigned> positions; // Looked up only.
};

/// True for what is there once more in each part that reads it.
bool isRepeated(Operation *op) {
  return op->hasTrait<OpTrait::ConstantLike>() ||
         (isView(op) && !isa<WaitOp>(op));
}

/// What an op computes from; what a barrier stands after is an order within
/// one part.
OperandRange getSources(Operation *op) {
  return isa<RematBarrierOp>(op) ? op->getOperands().take_front(1)
                                 : op->getOperands();
}

/// True for ops that run for what they do, not for what they give.
bool isEffect(Operation *op) {
  auto opaque = dyn_cast<OpaqueOp>(op);
  return isa<PushAmaxOp, UpdateScaleOp>(op) || (opaque && opaque.getStateful());
}

} // namespace

Value Splitter::resolve(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument && argument.getOwner() == &step.getBackward().front())
    return step.getForwardYield().getResiduals()[argument.getArgNumber()];
  return value;
}

Value Splitter::getStorage(Value value) {
  Value storage = value;
  do {
    value = storage;
    storage = resolve(getRoot(value));
  } while (storage != value);
  return storage;
}

std::string Splitter::getCrossingName(Value value) {
  std::string &name = crossingNames[value];
  if (!name.empty())
    return name;
  std::string base = names.getName(value), candidate = base;
  for (unsigned number = 1; !takenNames.insert(candidate).second; ++number)
    candidate = base + "#" + std::to_string(number);
  return name = candidate;
}

bool Splitter::isParameterGradient(StringRef resultName) const {
  StringRef name = resultName;
  if (!name.consume_front("d_") && !name.consume_back(".main_grad"))
    return false;
  return llvm::any_of(signature.arguments, [&](const SignatureArgument &entry) {
    return entry.role == ArgumentRole::Parameter && entry.name == name;
  });
}

Part &Splitter::getPartOf(Operation *op) {
  for (Part &part : parts)
    if (part.ops.contains(op))
      return part;
  return parts.front();
}

void Splitter::makeParts() {
  std::string name = function.getName().str();
  parts.push_back({name + ".forward", "saved", {}, {}, {}, {}});
  if (isWgradApart) {
    parts.push_back({name + ".dgrad", "deferred", {}, {}, {}, {}});
    parts.push_back({name + ".wgrad", "", {}, {}, {}, {}});
  } else {
    parts.push_back({name + ".backward", "", {}, {}, {}, {}});
  }
  unsigned position = 0;
  for (Block *block : {&step.getForward().front(), &step.getBackward().front()})
    for (Operation &op : block->without_terminator())
      positions[&op] = position++;
  for (Operation &op : step.getForward().front().without_terminator())
    parts[0].ops.insert(&op);
  if (!isWgradApart)
    for (Operation &op : step.getBackward().front().without_terminator())
      parts[1].ops.insert(&op);
}

/// Gives `dgrad` what its results need and what has effects, and `wgrad` what
/// its results need besides.
LogicalResult Splitter::splitBackward(Part &dgrad, Part &wgrad) {
  Block &backward = step.getBackward().front();
  auto close = [&](Part &part, SmallVector<Operation *> pending) {
    DenseSet<Operation *> needed;
    while (!pending.empty()) {
      Operation *op = pending.pop_back_val();
      if (!op || op->getBlock() != &backward || dgrad.ops.contains(op) ||
          !needed.insert(op).second)
        continue;
      for (Value operand : getSources(op))
        pending.push_back(operand.getDefiningOp());
      // A collective and the wait for it stay together.
      for (Value result : op->getResults())
        if (isa<TokenType>(result.getType()))
          llvm::append_range(pending, result.getUsers());
    }
    for (Operation &op : backward.without_terminator())
      if (needed.contains(&op))
        part.ops.insert(&op);
  };
  auto producers = [&](const Part &part) {
    SmallVector<Operation *> found;
    for (const PartResult &result : part.results)
      found.push_back(result.value.getDefiningOp());
    return found;
  };
  SmallVector<Operation *> first = producers(dgrad);
  for (Operation &op : backward.without_terminator())
    if (isEffect(&op))
      first.push_back(&op);
  close(dgrad, std::move(first));
  close(wgrad, producers(wgrad));
  if (wgrad.results.empty())
    return function.emitError()
           << "expected the gradient of a parameter to split off, named "
              "'d_NAME' after an argument marked 'fp8.parameter', but '"
           << function.getName() << "' returns none";
  return success();
}

LogicalResult Splitter::addReturned() {
  unsigned numForward = step.getForwardYield().getValues().size();
  auto returnOp =
      cast<func::ReturnOp>(function.getBody().front().getTerminator());
  llvm::StringSet<> donated;
  for (auto [index, argument] : llvm::enumerate(signature.arguments))
    if (function.getArgAttr(index, kDonatedAttr))
      donated.insert(argument.name);
  for (OpOperand &use : returnOp->getOpOperands()) {
    unsigned index = use.getOperandNumber();
    PartResult result{use.get(), signature.results[index].name,
                      NamedAttrList(function.getResultAttrs(index))};
    unsigned part = 0;
    if (auto of = dyn_cast<OpResult>(use.get()); of && of.getOwner() == step) {
      unsigned number = of.getResultNumber();
      bool isBackward = number >= numForward;
      result.value = resolve(
          isBackward ? step.getBackwardYield().getValues()[number - numForward]
                     : step.getForwardYield().getValues()[number]);
      part = !isBackward                                        ? 0
             : isWgradApart && isParameterGradient(result.name) ? 2
                                                                : 1;
    }
    result.attributes.set(kNameAttr,
                          StringAttr::get(function.getContext(), result.name));
    // What lives beyond the part lies in the caller's buffer, unless it is
    // written over an argument of the same name.
    if (!donated.contains(result.name) &&
        getStorage(result.value).getDefiningOp())
      result.attributes.set(kPlacementAttr,
                            StringAttr::get(function.getContext(), "caller"));
    takenNames.insert(result.name);
    parts[part].results.push_back(std::move(result));
  }
  for (const SignatureArgument &argument : signature.arguments)
    takenNames.insert(argument.name);
  return success();
}

/// What the part that makes it returns anyway crosses under its own name.
void Splitter::nameReturned() {
  for (const Part &part : parts)
    for (const PartResult &result : part.results)
      if (part.ops.contains(result.value.getDefiningOp()))
        crossingNames.try_emplace(result.value, result.name);
}

void Splitter::read(Part &part, Value value) {
  value = resolve(value);
  Operation *op = value.getDefiningOp();
  if (!op) {
    part.arguments.insert(value);
  } else if (!part.ops.contains(op)) {
    if (!isRepeated(op)) {
      part.crossing.insert(value);
      return;
    }
    for (Value operand : getSources(op))
      read(part, operand);
  }
}

void Splitter::findReads(Part &part) {
  for (Operation *op : part.ops)
    for (Value operand : getSources(op))
      read(part, operand);
  for (const PartResult &result : part.results)
    read(part, result.value);
  // As the function has its arguments, and in program order.
  SmallVector<Value> arguments = part.arguments.takeVector(),
                     crossing = part.crossing.takeVector();
  llvm::sort(arguments, [](Value a, Value b) {
    return cast<BlockArgument>(a).getArgNumber() <
           cast<BlockArgument>(b).getArgNumber();
  });
  llvm::sort(crossing,
             [&](Value a, Value b) { return getPlace(a) < getPlace(b); });
  part.arguments.insert(arguments.begin(), arguments.end());
  part.crossing.insert(crossing.begin(), crossing.end());
}

/// Makes what `part` reads of the parts before it results of theirs.
void Splitter::passOn(Part &part) {
  MLIRContext *context = function.getContext();
  for (Value value : part.crossing) {
    Part &maker = getPartOf(value.getDefiningOp());
    if (llvm::any_of(maker.results, [&](const PartResult &result) {
          return result.value == value;
        }))
      continue;
    PartResult result{value, getCrossingName(value), {}};
    result.attributes.set(kNameAttr, StringAttr::get(context, result.name));
    result.attributes.set(kPlacementAttr, StringAttr::get(context, "caller"));
    result.attributes.set(kSegmentAttr,
                          StringAttr::get(context, maker.segment));
    maker.results.push_back(std::move(result));
  }
}

/// In the caller's buffers each result has storage of its own. What is, or is a
/// view of, what another result is or what an earlier part made is copied.
void Splitter::copyShared(Part &part) {
  DenseMap<Value, PartResult *> owners; // Looked up only.
  for (bool wholes : {true, false})
    for (PartResult &result : part.results) {
      Value storage = getStorage(result.value);
      Operation *maker = storage.getDefiningOp();
      if (!maker || (storage == result.value) != wholes)
        continue;
      result.isCopied = (!part.ops.contains(maker) && !isRepeated(maker)) ||
                        !owners.try_emplace(storage, &result).second;
    }
}

func::FuncOp Splitter::build(const Part &part, OpBuilder &builder) {
  MLIRContext *context = function.getContext();
  SmallVector<Type> inputs, outputs;
  SmallVector<DictionaryAttr> inputAttributes, outputAttributes;
  // Who reads last may write over it, and nobody before.
  auto isReadLater = [&](Value value) {
    return std::any_of(parts.begin() + (&part - parts.data()) + 1, parts.end(),
                       [&](const Part &later) {
                         return later.arguments.contains(value) ||
                                later.crossing.contains(value);
                       });
  };
  for (Value argument : part.arguments) {
    inputs.push_back(argument.getType());
    NamedAttrList attributes(mlir::function_interface_impl::getArgAttrs(
        function, cast<BlockArgument>(argument).getArgNumber()));
    if (isReadLater(argument))
      attributes.erase(kDonatedAttr);
    inputAttributes.push_back(attributes.getDictionary(context));
  }
  for (Value value : part.crossing) {
    inputs.push_back(value.getType());
    // A result of the whole function has no segment: it lives longer.
    NamedAttrList attributes;
    for (const PartResult &result : getPartOf(value.getDefiningOp()).results)
      if (Attribute segment = result.attributes.get(kSegmentAttr);
          segment && result.value == value) {
        attributes.set(kSegmentAttr, segment);
        if (!isReadLater(value))
          attributes.set(kDonatedAttr, builder.getUnitAttr());
      }
    inputAttributes.push_back(attributes.getDictionary(context));
  }
  for (const PartResult &result : part.results) {
    outputs.push_back(result.value.getType());
    outputAttributes.push_back(result.attributes.getDictionary(context));
  }
  auto built = func::FuncOp::create(builder, function.getLoc(), part.name,
                                    builder.getFunctionType(inputs, outputs));
  built.setAllArgAttrs(inputAttributes);
  built.setAllResultAttrs(outputAttributes);
  Block *entry = built.addEntryBlock();
  IRMapping mapping;
  unsigned number = 0;
  for (Value argument : part.arguments) {
    entry->getArgument(number).setLoc(argument.getLoc());
    mapping.map(argument, entry->getArgument(number++));
  }
  for (Value value : part.crossing) {
    Location loc = value.getLoc();
    if (auto named = dyn_cast<NameLoc>(loc))
      loc = named.getChildLoc();
    entry->getArgument(number).setLoc(
        NameLoc::get(builder.getStringAttr(getCrossingName(value)), loc));
    mapping.map(value, entry->getArgument(number++));
  }

  OpBuilder body = OpBuilder::atBlockEnd(entry);
  std::function<Value(Value)> take = [&](Value value) -> Value {
    value = resolve(value);
    if (Value known = mapping.lookupOrNull(value))
      return known;
    // A constant or a view of another part.
    Operation *op = value.getDefiningOp();
    for (Value operand : getSources(op))
      (void)take(operand);
    Operation *clone = body.clone(*op, mapping);
    if (auto barrier = dyn_cast<RematBarrierOp>(clone))
      barrier.getAfterMutable().clear();
    return mapping.lookup(value);
  };
  for (Operation *op : part.ops) {
    for (Value operand : getSources(op))
      mapping.map(operand, take(operand));
    Operation *clone = body.clone(*op, mapping);
    if (auto barrier = dyn_cast<RematBarrierOp>(clone))
      barrier.getAfterMutable().clear();
  }
  SmallVector<Value> returned;
  for (const PartResult &result : part.results) {
    if (result.isCopied) {
      auto rank = cast<RankedTensorType>(result.value.getType()).getRank();
      auto inOrder = llvm::to_vector(llvm::seq<int64_t>(rank));
      returned.push_back(TransposeOp::create(
          body, result.value.getLoc(), result.value.getType(),
          take(result.value), body.getDenseI64ArrayAttr(inOrder)));
    } else {
      returned.push_back(take(result.value));
    }
  }
  func::ReturnOp::create(body, function.getLoc(), returned);
  return built;
}

/// Leaves with each part what was decided about it.
void Splitter::record(const Part &part, func::FuncOp built) {
  MLIRContext *context = function.getContext();
  built->setAttr(kPartOfAttr, StringAttr::get(context, function.getName()));
  std::optional<Decisions> whole = Decisions::read(function);
  if (!whole)
    return;
  Decisions decisions = *whole;
  decisions.saved.clear();
  OperandRange residuals = step.getForwardYield().getResiduals();
  if (&part == &parts.front()) {
    decisions.recomputed.clear();
    decisions.recomputeSeconds = 0;
    for (const PartResult &result : part.results)
      if (auto segment = result.attributes.get(kSegmentAttr))
        for (auto [index, residual] : llvm::enumerate(residuals))
          if (residual == result.value && index < whole->saved.size()) {
            decisions.saved.push_back(whole->saved[index]);
            break;
          }
  } else if (&part != &parts[1]) {
    decisions.recomputed.clear();
    decisions.recomputeSeconds = 0;
  }
  built->setAttr(kDecisionsAttr, decisions.toAttribute(context));
}

LogicalResult Splitter::run() {
  makeParts();
  for (const Part &part : parts)
    if (function->getParentOfType<ModuleOp>().lookupSymbol(part.name))
      return function.emitError()
             << "expected no function '" << part.name
             << "', which fp8-split makes of '" << function.getName() << "'";
  if (failed(addReturned()))
    return failure();
  if (isWgradApart && failed(splitBackward(parts[1], parts[2])))
    return failure();
  nameReturned();
  // A part's results are complete when those after it have been looked at.
  for (Part &part : llvm::reverse(parts)) {
    findReads(part);
    passOn(part);
  }
  // What is returned comes first, as it was; then what crosses, in program
  // order.
  for (Part &part : parts)
    llvm::stable_sort(
        part.results, [&](const PartResult &a, const PartResult &b) {
          auto key = [&](const PartResult &result) {
            bool crosses = bool(result.attributes.get(kSegmentAttr));
            return std::pair(crosses, crosses ? getPlace(result.value)
                                              : std::pair(0u, 0u));
          };
          return key(a) < key(b);
        });
  for (Part &part : parts)
    copyShared(part);
  OpBuilder builder(function);
  for (const Part &part : parts)
    record(part, build(part, builder));
  function.erase();
  return success();
}

namespace {

struct SplitPass : fp8::impl::FP8SplitPassBase<SplitPass> {
  using FP8SplitPassBase::FP8SplitPassBase;

  void runOnOperation() override {
    if (apart != "backward" && apart != "wgrad") {
      getOperation().emitError(
          "expected 'apart' to be 'backward' or 'wgrad', but got '")
          << apart << "'";
      return signalPassFailure();
    }
    SmallVector<std::pair<func::FuncOp, StepOp>> steps;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal())
        for (auto step : function.getBody().front().getOps<StepOp>())
          steps.push_back({function, step});
    for (auto [function, step] : steps) {
      if (!step.getForward().front().getOps<KernelOp>().empty() ||
          !step.getBackward().front().getOps<KernelOp>().empty()) {
        function.emitError("expected ops that are not in kernels yet, but got "
                           "an 'fp8.kernel'; run 'fp8-split' before "
                           "'fp8-form-kernels'");
        return signalPassFailure();
      }
      // What a part leaves for another is in buffers of the caller, and each of
      // several microbatches in flight has its own.
      WalkResult marked = step.walk([](Operation *op) {
        if (!op->hasAttr(kOffloadAttr))
          return WalkResult::advance();
        op->emitOpError("is to wait in host memory, which no function of a "
                        "split step hands to another; compile with split=none, "
                        "or without 'host-memory' and 'fp8.policy' "
                        "\"offload\"");
        return WalkResult::interrupt();
      });
      if (marked.wasInterrupted())
        return signalPassFailure();
      dropUnread(function);
      if (failed(Splitter(function, step, apart == "wgrad").run()))
        return signalPassFailure();
    }
  }
};

} // namespace
