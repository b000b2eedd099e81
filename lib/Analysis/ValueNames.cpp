//===- ValueNames.cpp - what plans call values and kernels ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names are found in program order, those of views last: a view mostly has the
// name of what it shows, and is in no plan by itself.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/ValueNames.h"

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::fp8;

StringRef mlir::fp8::getLocationName(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().getValue();
  if (auto callSite = dyn_cast<CallSiteLoc>(loc))
    return getLocationName(callSite.getCallee());
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (StringRef name = getLocationName(part); !name.empty())
        return name;
  return {};
}

std::string mlir::fp8::getLocationString(Location loc) {
  if (auto file = dyn_cast<FileLineColLoc>(loc))
    return llvm::formatv("{0}:{1}:{2}", llvm::json::fixUTF8(file.getFilename()),
                         file.getLine(), file.getColumn());
  if (auto name = dyn_cast<NameLoc>(loc))
    return getLocationString(name.getChildLoc());
  if (auto callSite = dyn_cast<CallSiteLoc>(loc))
    return getLocationString(callSite.getCallee());
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (std::string text = getLocationString(part); !text.empty())
        return text;
  return {};
}

/// The name of one result of an op called `name`.
static std::string nameResult(StringRef name, OpResult result) {
  if (llvm::count_if(result.getOwner()->getResultTypes(),
                     [](Type type) { return !isa<TokenType>(type); }) < 2)
    return name.str();
  // Before what says that it is computed again, which is of the whole op.
  auto [base, suffix] = name.split(kCloneSuffix);
  std::string text = (base + "#" + Twine(result.getResultNumber())).str();
  if (base.size() < name.size())
    text += (kCloneSuffix + suffix).str();
  return text;
}

std::string mlir::fp8::getOwnName(Value value) {
  StringRef name = getLocationName(value.getLoc());
  auto result = dyn_cast<OpResult>(value);
  return name.empty() || !result ? name.str() : nameResult(name, result);
}

/// `loc` with another name.
static Location rename(Location loc, const Twine &name) {
  auto named = dyn_cast<NameLoc>(loc);
  return NameLoc::get(StringAttr::get(loc.getContext(), name),
                      named ? named.getChildLoc() : loc);
}

Location mlir::fp8::getDerivedLocation(Value value, const Twine &suffix) {
  std::string name = getOwnName(value);
  return name.empty() ? value.getLoc() : rename(value.getLoc(), name + suffix);
}

/// The value that a name is that of: what a kernel yields for its result.
static Value getNamed(Value value) {
  auto result = dyn_cast<OpResult>(value);
  auto kernel = result ? dyn_cast<KernelOp>(result.getOwner()) : KernelOp();
  return kernel ? kernel.getBody().front().getTerminator()->getOperand(
                      result.getResultNumber())
                : value;
}

/// True for a wait that has the name of the start that it belongs to.
static bool sharesName(WaitOp wait) {
  std::string name = getOwnName(wait.getResult());
  return name.empty() || name == getOwnName(getNamed(wait.getX()));
}

ValueNames::ValueNames(func::FuncOp func) {
  llvm::StringMap<unsigned> counts;
  std::vector<Operation *> ops, views;
  func.walk<WalkOrder::PreOrder>([&](Operation *op) {
    ordinals[op] = counts[op->getName().getStringRef()]++;
    // What is in a kernel is there for it alone.
    auto wait = dyn_cast<WaitOp>(op);
    if ((wait && sharesName(wait)) || op->getParentOfType<KernelOp>())
      return;
    (isView(op) ? views : ops).push_back(op);
  });
  for (Operation *op : ops)
    add(op);
  for (Operation *op : views)
    add(op);
}

void ValueNames::add(Operation *op) {
  std::vector<std::pair<Value, std::string>> found; // named
  auto findFree = [&](ArrayRef<Value> values,
                      function_ref<std::string(Value, StringRef)> name) {
    // Ops of one name are many: each goes on where the last one stopped.
    std::string key;
    for (Value value : values)
      key += name(value, "") + '\n';
    for (unsigned &number = next.try_emplace(key, 1).first->second;; ++number) {
      std::string mark = number > 1 ? "'" + std::to_string(number) : "";
      found.clear();
      for (Value value : values)
        found.emplace_back(value, llvm::json::fixUTF8(name(value, mark)));
      if (llvm::none_of(
              found, [&](auto &entry) { return taken.contains(entry.second); }))
        break;
    }
    for (auto &[value, text] : found) {
      taken.insert(text);
      names[value] = text;
    }
  };
  SmallVector<Value> values;
  for (OpResult result : op->getResults())
    if (!isa<TokenType>(result.getType()))
      values.push_back(result);
  if (isa<KernelOp>(op)) {
    for (Value value : values) {
      Value inside = getNamed(value);
      if (isa_and_nonnull<WaitOp>(inside.getDefiningOp()))
        continue; // It has the name of what it waits for.
      if (std::string own = getOwnName(inside); !own.empty())
        findFree(value,
                 [&](Value, StringRef mark) { return own + mark.str(); });
    }
    return;
  }
  StringRef name = getLocationName(op->getLoc());
  if (name.empty() || values.empty())
    return;
  std::string base;
  findFree(values, [&](Value value, StringRef mark) {
    base = (name + mark).str();
    return nameResult(base, cast<OpResult>(value));
  });
  if (base != name)
    renamed.emplace_back(op, base);
}

void ValueNames::applyToLocations() const {
  for (const auto &[op, name] : renamed)
    op->setLoc(rename(op->getLoc(), name));
}

std::string ValueNames::getName(Value value) const {
  if (auto it = names.find(value); it != names.end())
    return it->second;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto step = dyn_cast<StepOp>(argument.getOwner()->getParentOp());
    if (step && argument.getOwner() == &step.getBackward().front())
      return getName(
          step.getForwardYield().getResiduals()[argument.getArgNumber()]);
    if (auto kernel = dyn_cast<KernelOp>(argument.getOwner()->getParentOp()))
      return getName(kernel.getInputs()[argument.getArgNumber()]);
    std::string name = getOwnName(value);
    return name.empty() ? "arg#" + std::to_string(argument.getArgNumber())
                        : llvm::json::fixUTF8(name);
  }
  auto result = cast<OpResult>(value);
  if (auto wait = dyn_cast<WaitOp>(result.getOwner()))
    return getName(wait.getX());
  if (Value inside = getNamed(value); inside != value)
    return getName(inside);
  if (std::string name = getOwnName(value); !name.empty())
    return llvm::json::fixUTF8(name);
  return llvm::formatv(
      "{0}#{1}.{2}", result.getOwner()->getName().getStringRef(),
      ordinals.lookup(result.getOwner()), result.getResultNumber());
}

std::string ValueNames::getName(Operation *op) const {
  if (op->getNumResults())
    return getName(op->getResult(0));
  if (auto kernel = dyn_cast<KernelOp>(op))
    op = &kernel.getBody().front().front();
  return llvm::formatv("{0}#{1}", op->getName().getStringRef(),
                       ordinals.lookup(op));
}
