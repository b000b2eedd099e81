//===- Signature.cpp - what a function takes and gives ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Signature.h.
//
//===----------------------------------------------------------------------===//

#include "fp8/Target/Signature.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"
#include <cmath>

using namespace mlir;
using namespace mlir::fp8;

StringRef mlir::fp8::stringifyArgumentRole(ArgumentRole role) {
  switch (role) {
  case ArgumentRole::Input:
    return "input";
  case ArgumentRole::Parameter:
    return "parameter";
  case ArgumentRole::Tangent:
    return "tangent";
  case ArgumentRole::State:
    return "state";
  case ArgumentRole::Donated:
    return "donated";
  }
  return "";
}

StringRef mlir::fp8::stringifyArgumentInit(ArgumentInit init) {
  switch (init) {
  case ArgumentInit::Normal:
    return "normal";
  case ArgumentInit::Zero:
    return "zero";
  case ArgumentInit::Position:
    return "position";
  case ArgumentInit::One:
    return "one";
  }
  return "";
}

/// `name`, or `name#number` with the first number from `number` on that makes
/// it unlike all of `taken`.
static std::string makeUnique(std::string name, unsigned number,
                              llvm::StringSet<> &taken) {
  // What is no UTF-8 stands in no manifest.
  name = llvm::json::fixUTF8(name);
  std::string candidate = name;
  while (!taken.insert(candidate).second)
    candidate = name + "#" + std::to_string(number++);
  return candidate;
}

static ArgumentRole getRole(func::FuncOp function, unsigned index) {
  if (function.getArgAttr(index, kStateAttr))
    return ArgumentRole::State;
  if (function.getArgAttr(index, kParameterAttr))
    return ArgumentRole::Parameter;
  if (function.getArgAttr(index, kTangentAttr))
    return ArgumentRole::Tangent;
  if (function.getArgAttr(index, kDonatedAttr))
    return ArgumentRole::Donated;
  return ArgumentRole::Input;
}

static int64_t getAxisSize(Operation *op, StringRef axis) {
  for (auto [name, size] : getGrid(op))
    if (name == axis)
      return size;
  return 1;
}

/// The shape of the tensor that all ranks' parts make.
static SmallVector<int64_t> getWholeShape(Operation *op,
                                          const SignatureArgument &argument) {
  SmallVector<int64_t> shape(cast<RankedTensorType>(argument.type).getShape());
  for (auto [size, axis] : llvm::zip(shape, argument.shard))
    size *= getAxisSize(op, axis);
  return shape;
}

ShardLayout mlir::fp8::getShardLayout(Operation *op,
                                      const SignatureArgument &argument,
                                      int64_t rank) {
  ShardLayout layout;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(argument.type).getShape();
  SmallVector<int64_t> whole = getWholeShape(op, argument);
  layout.strides.assign(shape.size(), 1);
  for (size_t dim = shape.size(); dim > 1; --dim)
    layout.strides[dim - 2] = layout.strides[dim - 1] * whole[dim - 1];
  // The coordinate along an axis; the last axis of the grid is the fastest.
  for (auto [axis, size] : llvm::reverse(getGrid(op))) {
    int64_t coordinate = rank % size;
    rank /= size;
    for (auto [dim, name] : llvm::enumerate(argument.shard))
      if (name == axis)
        layout.offset += coordinate * shape[dim] * layout.strides[dim];
  }
  return layout;
}

Signature mlir::fp8::getSignature(func::FuncOp function) {
  Signature signature;
  llvm::StringSet<> argumentNames, resultNames;
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    SignatureArgument argument;
    auto loc = function.isExternal()
                   ? NameLoc()
                   : dyn_cast<NameLoc>(function.getArgument(index).getLoc());
    argument.name =
        makeUnique(loc ? loc.getName().str() : "arg#" + std::to_string(index),
                   index, argumentNames);
    argument.type = type;
    argument.role = getRole(function, index);
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (argument.role == ArgumentRole::State)
      argument.init = tensor && tensor.getRank() == 1 ? ArgumentInit::Zero
                                                      : ArgumentInit::One;
    // A mask in memory is a byte, 0 or 1.
    if (tensor && tensor.getElementType().isInteger(1))
      argument.init = ArgumentInit::One;
    if (auto axes = function.getArgAttrOfType<ArrayAttr>(index, kShardAttr))
      for (StringAttr axis : axes.getAsRange<StringAttr>())
        argument.shard.push_back(axis.str());
    // All ranks' coordinates along an axis, one behind the other, are the
    // positions of a tensor of which each has its part.
    if (auto axis =
            function.getArgAttrOfType<StringAttr>(index, kCoordinateAttr);
        axis && tensor && tensor.getRank() > 0) {
      argument.init = ArgumentInit::Position;
      argument.shard.assign(tensor.getRank(), "");
      argument.shard.front() = axis.str();
    }
    if (auto rows =
            function.getArgAttrOfType<IntegerAttr>(index, kRowsPerGroupAttr)) {
      argument.init = ArgumentInit::Position;
      argument.initScale = static_cast<double>(rows.getInt());
    }
    if (argument.role == ArgumentRole::Parameter && tensor &&
        tensor.getRank() > 0 && tensor.getShape().back() > 0)
      argument.initScale =
          1.0 / std::sqrt(double(getWholeShape(function, argument).back()));
    signature.arguments.push_back(std::move(argument));
  }

  Operation *terminator = function.isExternal()
                              ? nullptr
                              : function.getBody().back().getTerminator();
  for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
    SignatureResult result;
    auto name = function.getResultAttrOfType<StringAttr>(index, kNameAttr);
    auto loc = terminator && index < terminator->getNumOperands()
                   ? dyn_cast<NameLoc>(terminator->getOperand(index).getLoc())
                   : NameLoc();
    result.name = makeUnique(name  ? name.getValue().str()
                             : loc ? loc.getName().str()
                                   : "result#" + std::to_string(index),
                             index, resultNames);
    result.type = type;
    auto placement =
        function.getResultAttrOfType<StringAttr>(index, kPlacementAttr);
    result.isCallerPlaced = placement && placement.getValue() == "caller";
    signature.results.push_back(std::move(result));
  }
  return signature;
}

void mlir::fp8::setResultName(func::FuncOp function, unsigned index,
                              StringRef name) {
  function.setResultAttr(index, kNameAttr,
                         StringAttr::get(function.getContext(), name));
}

int64_t mlir::fp8::getStepBytes(ModuleOp module) {
  auto start = module.lookupSymbol<func::FuncOp>(kStartOfStepName);
  int64_t bytes = 0;
  if (start)
    for (Type type : start.getResultTypes())
      bytes += getByteSize(type);
  return bytes;
}

bool mlir::fp8::runsOnceAStep(func::FuncOp function) {
  return function.getName() == kStartOfStepName ||
         function.getName() == kEndOfStepName;
}
