//===- FP8DialectAttrs.cpp --------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifies the attributes whose names start with `fp8.`: where each may stand
// and what it holds. The table is in the dialect's description.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::fp8;

using EmitError = function_ref<InFlightDiagnostic()>;

static LogicalResult refuseUnknown(EmitError emitError,
                                   NamedAttribute attribute, StringRef place,
                                   ArrayRef<StringRef> known) {
  InFlightDiagnostic diagnostic =
      emitError() << "expected an attribute of the fp8 dialect that " << place
                  << " may have (";
  llvm::interleaveComma(known, diagnostic, [&](StringRef name) {
    diagnostic << "'" << name << "'";
  });
  return diagnostic << "), but got '" << attribute.getName().getValue() << "'";
}

static LogicalResult verifyUnit(EmitError emitError, NamedAttribute attribute) {
  if (isa<UnitAttr>(attribute.getValue()))
    return success();
  return emitError() << "expected '" << attribute.getName().getValue()
                     << "' to be a unit attribute, but got "
                     << attribute.getValue();
}

/// An i64 of at least `minimum`.
static bool isI64(Attribute attribute, int64_t minimum) {
  auto integer = dyn_cast_or_null<IntegerAttr>(attribute);
  return integer && integer.getType().isSignlessInteger(64) &&
         integer.getInt() >= minimum;
}

static LogicalResult verifyPolicy(Operation *op, Attribute value) {
  auto isChoice = [](Attribute attribute) {
    auto choice = dyn_cast<StringAttr>(attribute);
    return choice && llvm::is_contained({"save", "recompute", "offload"},
                                        choice.getValue());
  };
  if (auto choices = dyn_cast<ArrayAttr>(value)) {
    if (choices.size() != op->getNumResults())
      return op->emitOpError()
             << "expected '" << kPolicyAttr << "' with one entry per result ("
             << op->getNumResults() << "), but got " << choices.size();
    if (llvm::all_of(choices, isChoice))
      return success();
  } else if (isChoice(value)) {
    return success();
  }
  return op->emitOpError()
         << "expected '" << kPolicyAttr
         << "' to be \"save\", \"recompute\", \"offload\" or an array of them, "
            "but got "
         << value;
}

static LogicalResult verifyGrid(Operation *op, Attribute value) {
  auto grid = dyn_cast<DictionaryAttr>(value);
  if (!grid)
    return op->emitOpError()
           << "expected '" << kGridAttr
           << "' to be a dictionary of axis sizes, but got " << value;
  for (NamedAttribute axis : grid)
    if (!isI64(axis.getValue(), 1))
      return op->emitOpError()
             << "expected grid axis '" << axis.getName().getValue()
             << "' to have an i64 size of at least 1, but got "
             << axis.getValue();
  return success();
}

/// One axis of the grid or "" for each dimension of `type`, no axis twice.
static LogicalResult verifyShard(EmitError emitError, Operation *op, Type type,
                                 Attribute value) {
  auto axes = dyn_cast<ArrayAttr>(value);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!axes || !tensor || int64_t(axes.size()) != tensor.getRank())
    return emitError() << "expected '" << kShardAttr
                       << "' to be an array of strings, one for each dimension "
                          "of "
                       << type << ", but got " << value;
  auto grid = getGrid(op);
  for (auto [index, entry] : llvm::enumerate(axes)) {
    auto axis = dyn_cast<StringAttr>(entry);
    if (!axis)
      return emitError() << "expected '" << kShardAttr
                         << "' to be an array of strings, but got " << value;
    if (axis.empty())
      continue;
    if (llvm::none_of(grid, [&](auto &known) { return known.first == axis; }))
      return emitError() << "expected the axes of '" << kShardAttr
                         << "' in the '" << kGridAttr
                         << "' of the module, but got " << axis;
    if (llvm::is_contained(axes.getValue().take_front(index), entry))
      return emitError() << "expected each axis once in '" << kShardAttr
                         << "', but got " << value;
  }
  return success();
}

/// An axis of the grid, on a tensor that holds one number.
static LogicalResult verifyCoordinate(EmitError emitError, Operation *op,
                                      Type type, Attribute value) {
  auto axis = dyn_cast<StringAttr>(value);
  auto known = [&](auto &entry) { return entry.first == axis; };
  if (!axis || llvm::none_of(getGrid(op), known))
    return emitError() << "expected '" << kCoordinateAttr
                       << "' to be an axis in the '" << kGridAttr
                       << "' of the module, but got " << value;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && tensor.hasStaticShape() && tensor.getNumElements() == 1 &&
      tensor.getElementType().isInteger(32))
    return success();
  return emitError() << "expected '" << kCoordinateAttr
                     << "' on an i32 tensor of one element, but got it on "
                     << type;
}

/// A number of rows, on a tensor that holds where groups begin.
static LogicalResult verifyRowsPerGroup(EmitError emitError, Type type,
                                        Attribute value) {
  if (!isI64(value, 0))
    return emitError() << "expected '" << kRowsPerGroupAttr
                       << "' to be an i64 that is not negative, but got "
                       << value;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && tensor.getRank() == 1 && tensor.getElementType().isInteger(32))
    return success();
  return emitError() << "expected '" << kRowsPerGroupAttr
                     << "' on an i32 tensor of rank 1, but got it on " << type;
}

/// Attributes that the annotating passes write, for tests.
static LogicalResult verifyAnnotation(Operation *op, StringRef name,
                                      Attribute value) {
  auto isNumber = [](Attribute attribute) { return isI64(attribute, 0); };
  bool good = name == kIndexAttr ? isNumber(value)
              : name == kCostAttr
                  ? isa<DictionaryAttr>(value)
                  : isNumber(value) || isa<ArrayAttr, DenseI64ArrayAttr>(value);
  if (good)
    return success();
  return op->emitOpError() << "expected '" << name
                           << "' as its pass writes it ("
                           << (name == kIndexAttr
                                   ? "an i64 that is not negative"
                               : name == kCostAttr
                                   ? "a dictionary"
                                   : "an i64 that is not negative, or an array")
                           << "), but got " << value;
}

LogicalResult FP8Dialect::verifyOperationAttribute(Operation *op,
                                                   NamedAttribute attribute) {
  StringRef name = attribute.getName().getValue();
  Attribute value = attribute.getValue();
  auto emitError = [&] { return op->emitOpError(); };
  auto expectOn = [&](bool right, StringRef place) -> LogicalResult {
    if (right)
      return success();
    return emitError() << "expected '" << name << "' on " << place
                       << ", but got it on '" << op->getName() << "'";
  };
  if (name == kCheckpointAttr || name == kPolicyAttr) {
    if (failed(expectOn(op->getNumResults() != 0, "an op with results")))
      return failure();
    return name == kPolicyAttr ? verifyPolicy(op, value)
                               : verifyUnit(emitError, attribute);
  }
  if (name == kPiecesAttr) {
    if (failed(expectOn(isa<MatmulOp, AllGatherOp>(op),
                        "an 'fp8.matmul' or an 'fp8.all_gather'")))
      return failure();
    if (isI64(value, 1))
      return success();
    return emitError() << "expected '" << name
                       << "' to be an i64 of at least 1, but got " << value;
  }
  if (name == kOffloadAttr) {
    if (failed(expectOn(op->getNumResults() != 0, "an op with results")))
      return failure();
    auto results = dyn_cast<DenseI64ArrayAttr>(value);
    if (results && llvm::all_of(results.asArrayRef(), [&](int64_t result) {
          return result >= 0 && result < op->getNumResults();
        }))
      return success();
    return emitError() << "expected '" << name
                       << "' to be an array of numbers of results, but got "
                       << value;
  }
  if (name == kLossyAttr) {
    if (failed(expectOn(isa<DequantizeOp>(op), "an 'fp8.dequantize'")))
      return failure();
    auto facts = dyn_cast<DictionaryAttr>(value);
    if (facts && facts.getAs<StringAttr>("value") &&
        facts.getAs<StringAttr>("form") && isI64(facts.get("bytes"), 0) &&
        isI64(facts.get("exact_bytes"), 0))
      return success();
    return emitError() << "expected '" << name
                       << "' to be a dictionary with the strings 'value' and "
                          "'form' and the i64 'bytes' and 'exact_bytes', but "
                          "got "
                       << value;
  }
  if (name == kGridAttr)
    return failed(expectOn(isa<ModuleOp>(op), "a module"))
               ? failure()
               : verifyGrid(op, value);
  if (name == kTargetAttr) {
    if (failed(expectOn(isa<ModuleOp>(op), "a module")))
      return failure();
    auto target = dyn_cast<StringAttr>(value);
    if (target && !target.empty())
      return success();
    return emitError() << "expected '" << name
                       << "' to be the name of a target, but got " << value;
  }
  if (name == kPartOfAttr) {
    if (failed(expectOn(isa<FunctionOpInterface>(op), "a function")))
      return failure();
    auto whole = dyn_cast<StringAttr>(value);
    if (whole && !whole.empty())
      return success();
    return emitError() << "expected '" << name
                       << "' to be the name of a function, but got " << value;
  }
  if (name == kArenaBytesAttr || name == kHostBytesAttr) {
    if (failed(expectOn(isa<FunctionOpInterface>(op), "a function")))
      return failure();
    if (isI64(value, 0))
      return success();
    return emitError() << "expected '" << name
                       << "' to be an i64 that is not negative, but got "
                       << value;
  }
  if (name == kDecisionsAttr) {
    if (failed(expectOn(isa<FunctionOpInterface>(op), "a function")))
      return failure();
    if (isa<DictionaryAttr>(value))
      return success();
    return emitError() << "expected '" << name
                       << "' to be a dictionary, but got " << value;
  }
  if (llvm::is_contained({kIndexAttr, kLiveAttr, kBytesAttr, kCostAttr}, name))
    return verifyAnnotation(op, name, value);
  return refuseUnknown(emitError, attribute, "an op",
                       {kCheckpointAttr, kPolicyAttr, kPiecesAttr, kOffloadAttr,
                        kLossyAttr, kGridAttr, kTargetAttr, kPartOfAttr,
                        kArenaBytesAttr, kHostBytesAttr, kDecisionsAttr,
                        kIndexAttr, kLiveAttr, kBytesAttr, kCostAttr});
}

/// The segment of what crosses between parts of a step.
static LogicalResult verifySegment(EmitError emitError, Attribute value) {
  auto text = dyn_cast<StringAttr>(value);
  if (text && (text.getValue() == "saved" || text.getValue() == "deferred"))
    return success();
  return emitError() << "expected '" << kSegmentAttr
                     << "' to be \"saved\" or \"deferred\", but got " << value;
}

LogicalResult FP8Dialect::verifyRegionArgAttribute(Operation *op,
                                                   unsigned region,
                                                   unsigned arg,
                                                   NamedAttribute attribute) {
  StringRef name = attribute.getName().getValue();
  auto emitError = [&] {
    return op->emitOpError() << "argument " << arg << ": ";
  };
  if (name == kSegmentAttr)
    return verifySegment(emitError, attribute.getValue());
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (name == kShardAttr && function && arg < function.getNumArguments())
    return verifyShard(emitError, op, function.getArgumentTypes()[arg],
                       attribute.getValue());
  if (name == kCoordinateAttr && function && arg < function.getNumArguments())
    return verifyCoordinate(emitError, op, function.getArgumentTypes()[arg],
                            attribute.getValue());
  if (name == kRowsPerGroupAttr && function && arg < function.getNumArguments())
    return verifyRowsPerGroup(emitError, function.getArgumentTypes()[arg],
                              attribute.getValue());
  if (!llvm::is_contained(
          {kParameterAttr, kTangentAttr, kStateAttr, kDonatedAttr, kFrozenAttr},
          name))
    return refuseUnknown(emitError, attribute, "an argument",
                         {kParameterAttr, kTangentAttr, kStateAttr,
                          kDonatedAttr, kFrozenAttr, kSegmentAttr, kShardAttr,
                          kCoordinateAttr, kRowsPerGroupAttr});
  if (failed(verifyUnit(emitError, attribute)))
    return failure();
  if (name != kStateAttr || !function || arg >= function.getNumArguments())
    return success();
  Type type = function.getArgumentTypes()[arg];
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && tensor.getElementType().isF32())
    return success();
  return emitError() << "expected '" << kStateAttr
                     << "' on an f32 tensor, but got it on " << type;
}

LogicalResult FP8Dialect::verifyRegionResultAttribute(
    Operation *op, unsigned region, unsigned result, NamedAttribute attribute) {
  auto emitError = [&] {
    return op->emitOpError() << "result " << result << ": ";
  };
  auto text = dyn_cast<StringAttr>(attribute.getValue());
  if (attribute.getName() == kSegmentAttr)
    return verifySegment(emitError, attribute.getValue());
  if (attribute.getName() == kNameAttr) {
    if (text && !text.empty())
      return success();
    return emitError() << "expected '" << kNameAttr
                       << "' to be a string that is not empty, but got "
                       << attribute.getValue();
  }
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (attribute.getName() == kCounterAttr) {
    if (!text || text.empty())
      return emitError() << "expected '" << kCounterAttr
                         << "' to be a string that is not empty, but got "
                         << attribute.getValue();
    if (!function || result >= function.getNumResults())
      return success();
    Type type = function.getResultTypes()[result];
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && tensor.hasStaticShape() && tensor.getNumElements() == 1 &&
        tensor.getElementType().isF32())
      return success();
    return emitError() << "expected '" << kCounterAttr
                       << "' on an f32 tensor of one element, but got it on "
                       << type;
  }
  if (attribute.getName() == kShardAttr && function &&
      result < function.getNumResults())
    return verifyShard(emitError, op, function.getResultTypes()[result],
                       attribute.getValue());
  if (attribute.getName() != kPlacementAttr)
    return refuseUnknown(
        emitError, attribute, "a result",
        {kPlacementAttr, kNameAttr, kCounterAttr, kSegmentAttr, kShardAttr});
  if (text && (text.getValue() == "arena" || text.getValue() == "caller"))
    return success();
  return emitError() << "expected '" << kPlacementAttr
                     << "' to be \"arena\" or \"caller\", but got "
                     << attribute.getValue();
}
