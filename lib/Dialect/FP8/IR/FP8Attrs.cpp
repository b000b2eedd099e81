//===- FP8Attrs.cpp - attributes and types of the fp8 dialect ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parsing, printing and verification of the tensor encoding and the recipe.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8;

#define GET_ATTRDEF_CLASSES
#include "fp8/Dialect/FP8/IR/FP8Attrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "fp8/Dialect/FP8/IR/FP8Types.cpp.inc"

void FP8Dialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fp8/Dialect/FP8/IR/FP8Attrs.cpp.inc"
      >();
}

void FP8Dialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "fp8/Dialect/FP8/IR/FP8Types.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// TensorEncodingAttr
//===----------------------------------------------------------------------===//

/// Parses `[1, all]`: integers, with `word` standing for `wordValue`.
static ParseResult parseExtents(AsmParser &parser, StringRef word,
                                int64_t wordValue,
                                SmallVectorImpl<int64_t> &extents) {
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Square, [&]() -> ParseResult {
        if (succeeded(parser.parseOptionalKeyword(word))) {
          extents.push_back(wordValue);
          return success();
        }
        SMLoc loc = parser.getCurrentLocation();
        int64_t value = 0;
        if (parser.parseInteger(value))
          return failure();
        if (value < 1)
          return parser.emitError(loc)
                 << "expected '" << word
                 << "' or a number of at least 1, but got " << value;
        extents.push_back(value);
        return success();
      });
}

static void printExtents(AsmPrinter &printer, StringRef word, int64_t wordValue,
                         ArrayRef<int64_t> extents) {
  printer << '[';
  llvm::interleaveComma(extents, printer, [&](int64_t value) {
    if (value == wordValue)
      printer << word;
    else
      printer << value;
  });
  printer << ']';
}

Attribute TensorEncodingAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> group, bounds;
  bool pow2 = false;
  ScaleLayout layout = ScaleLayout::Compact;
  auto parseField = [&]() -> ParseResult {
    StringRef key;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&key))
      return failure();
    if (key == "pow2") {
      pow2 = true;
      return success();
    }
    if (parser.parseEqual())
      return failure();
    if (key == "scale")
      return parseExtents(parser, "all", 0, group);
    if (key == "bounds")
      return parseExtents(parser, "none", -1, bounds);
    if (key == "layout") {
      StringRef name;
      SMLoc nameLoc = parser.getCurrentLocation();
      if (parser.parseKeyword(&name))
        return failure();
      std::optional<ScaleLayout> value = symbolizeScaleLayout(name);
      if (!value)
        return parser.emitError(nameLoc)
               << "expected 'compact' or 'gemm_ready', but got '" << name
               << "'";
      layout = *value;
      return success();
    }
    return parser.emitError(loc)
           << "expected 'scale', 'pow2', 'layout' or 'bounds', but got '" << key
           << "'";
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseField))
    return {};
  if (group.empty() && bounds.empty()) {
    parser.emitError(loc) << "expected a scale or bounds";
    return {};
  }
  return TensorEncodingAttr::get(parser.getContext(), group, pow2, layout,
                                 bounds);
}

void TensorEncodingAttr::print(AsmPrinter &printer) const {
  printer << '<';
  llvm::ListSeparator separator;
  if (isScaled()) {
    printer.getStream() << StringRef(separator);
    printer << "scale = ";
    printExtents(printer, "all", 0, getGroup());
  }
  if (getPow2())
    printer.getStream() << StringRef(separator) << "pow2";
  if (getLayout() != ScaleLayout::Compact)
    printer.getStream() << StringRef(separator)
                        << "layout = " << stringifyScaleLayout(getLayout());
  if (!getBounds().empty()) {
    printer.getStream() << StringRef(separator) << "bounds = ";
    printExtents(printer, "none", -1, getBounds());
  }
  printer << '>';
}

LogicalResult TensorEncodingAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type elementType,
    function_ref<InFlightDiagnostic()> emitError) const {
  // The parser asks about a type it could not read, and has said so.
  if (!elementType)
    return failure();
  // (C1)
  if (isScaled() &&
      !isa<Float8E4M3FNType, Float8E5M2Type, E5M6Type>(elementType))
    return emitError() << "expected element type f8E4M3FN, f8E5M2 or "
                          "!fp8.e5m6 under a scale, but got "
                       << elementType;
  // (C2)
  if (isScaled() && getGroup().size() != shape.size())
    return emitError() << "expected a scale with one entry per dimension ("
                       << shape.size() << "), but got " << getGroup().size();
  // (C3)
  for (int64_t size : getGroup())
    if (size < 0)
      return emitError()
             << "expected scale entries of 'all' or at least 1, but got "
             << size;
  // (C4)
  if (!getBounds().empty() && getBounds().size() != shape.size())
    return emitError() << "expected bounds with one entry per dimension ("
                       << shape.size() << "), but got " << getBounds().size();
  for (auto [bound, dim] : llvm::zip(getBounds(), shape))
    if (bound != -1 && (bound < 1 || bound < dim))
      return emitError()
             << "expected bounds of 'none' or at least the dimension " << dim
             << ", but got " << bound;
  // (C5)
  if (!isScaled() && getPow2())
    return emitError() << "expected a scale beside 'pow2', but got none";
  if (getLayout() == ScaleLayout::GemmReady) {
    if (!isScaled())
      return emitError() << "expected a scale beside 'layout', but got none";
    if (llvm::all_of(getGroup(), [](int64_t size) { return size <= 1; }))
      return emitError() << "expected a scale in blocks for 'layout = "
                            "gemm_ready', but got entries of 1 and 'all' only";
  }
  // (C6)
  if (isa<E5M6Type>(elementType)) {
    if (shape.empty() || shape.back() % 2 != 0)
      return emitError() << "expected an even last dimension of !fp8.e5m6, two "
                            "of which take three bytes, but got "
                         << (shape.empty() ? 0 : shape.back());
    if (isScaled() && getGroup().back() % 2 != 0)
      return emitError() << "expected a last scale entry of !fp8.e5m6 that is "
                            "'all' or even, but got "
                         << getGroup().back();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// RecipeAttr
//===----------------------------------------------------------------------===//

RecipeAttr RecipeAttr::getDefault(MLIRContext *context, RecipeKind kind) {
  Type e4m3 = Float8E4M3FNType::get(context),
       e5m2 = Float8E5M2Type::get(context);
  bool perTensor =
      kind == RecipeKind::Tensorwise || kind == RecipeKind::Delayed;
  bool rowwise = kind == RecipeKind::Rowwise;
  return RecipeAttr::get(context, kind, e4m3, e4m3, perTensor ? e5m2 : e4m3,
                         kind == RecipeKind::Block128 ? Pow2::Floor
                                                      : Pow2::None,
                         perTensor || rowwise, rowwise, rowwise);
}

LogicalResult LaunchAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringRef symbol, ArrayRef<int64_t> grid,
                                 ArrayRef<int64_t> block, int64_t shared) {
  // (C1)
  for (auto [sizes, name] :
       {std::pair(grid, "grid"), std::pair(block, "block")})
    if (sizes.size() != 3 ||
        llvm::any_of(sizes, [](int64_t n) { return n < 1; }))
      return emitError() << "expected '" << name
                         << "' of a launch to have 3 entries of at least 1";
  constexpr int64_t kMaxThreads = 1024;
  if (block[0] > kMaxThreads || block[1] > kMaxThreads ||
      block[2] > kMaxThreads || block[0] * block[1] * block[2] > kMaxThreads)
    return emitError() << "expected a block of at most " << kMaxThreads
                       << " threads";
  // (C2)
  if (shared < 0)
    return emitError() << "expected 'shared' of a launch not to be negative, "
                          "but got "
                       << shared;
  return success();
}

LogicalResult FillAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t buffer, int64_t bytes) {
  // (C1)
  if (buffer < 0 || bytes < 1)
    return emitError() << "expected a fill of at least 1 byte of buffer 0 or "
                          "above, but got "
                       << bytes << " of " << buffer;
  return success();
}

LogicalResult RecipeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 RecipeKind kind, Type xFormat, Type wFormat,
                                 Type dyFormat, Pow2 pow2, bool fastFprop,
                                 bool fastDgrad, bool fastWgrad) {
  // (C1)
  auto isFormat = [](Type type) {
    return isa_and_nonnull<Float8E4M3FNType, Float8E5M2Type>(type);
  };
  for (auto [name, format] : {std::pair("x", xFormat), std::pair("w", wFormat),
                              std::pair("dy", dyFormat)})
    if (!isFormat(format))
      return emitError() << "expected format f8E4M3FN or f8E5M2 for '" << name
                         << "', but got " << format;
  // (C2)
  auto isE5M2 = [](Type type) { return isa<Float8E5M2Type>(type); };
  if (isE5M2(xFormat) + isE5M2(wFormat) + isE5M2(dyFormat) > 1)
    return emitError() << "expected at most one of 'x', 'w' and 'dy' in "
                          "f8E5M2, since no matmul takes two, but got "
                       << xFormat << ", " << wFormat << ", " << dyFormat;
  // (C3)
  if (kind == RecipeKind::Block128 && (fastFprop || fastDgrad || fastWgrad))
    return emitError()
           << "expected no fast accumulation with 'block128', but got 'fast'";
  return success();
}

Attribute RecipeAttr::parse(AsmParser &parser, Type) {
  StringRef kindName;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&kindName))
    return {};
  std::optional<RecipeKind> kind = symbolizeRecipeKind(kindName);
  if (!kind) {
    parser.emitError(loc) << "expected 'tensorwise', 'delayed', 'rowwise' or "
                             "'block128', but got '"
                          << kindName << "'";
    return {};
  }
  RecipeAttr base = getDefault(parser.getContext(), *kind);
  Type x = base.getXFormat(), w = base.getWFormat(), dy = base.getDyFormat();
  Pow2 pow2 = base.getPow2();
  bool fprop = base.getFastFprop(), dgrad = base.getFastDgrad(),
       wgrad = base.getFastWgrad();
  auto parseFast = [&]() -> ParseResult {
    StringRef pass;
    SMLoc passLoc = parser.getCurrentLocation();
    if (parser.parseKeyword(&pass))
      return failure();
    if (pass == "fprop")
      fprop = true;
    else if (pass == "dgrad")
      dgrad = true;
    else if (pass == "wgrad")
      wgrad = true;
    else
      return parser.emitError(passLoc)
             << "expected 'fprop', 'dgrad' or 'wgrad', but got '" << pass
             << "'";
    return success();
  };
  while (succeeded(parser.parseOptionalComma())) {
    StringRef key;
    SMLoc keyLoc = parser.getCurrentLocation();
    if (parser.parseKeyword(&key) || parser.parseEqual())
      return {};
    if (key == "x" || key == "w" || key == "dy") {
      Type type;
      if (parser.parseType(type))
        return {};
      (key == "x" ? x : key == "w" ? w : dy) = type;
    } else if (key == "pow2") {
      StringRef name;
      if (parser.parseKeyword(&name))
        return {};
      std::optional<Pow2> value = symbolizePow2(name);
      if (!value) {
        parser.emitError(keyLoc)
            << "expected 'none', 'floor' or 'ceil', but got '" << name << "'";
        return {};
      }
      pow2 = *value;
    } else if (key == "fast") {
      fprop = dgrad = wgrad = false;
      if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                         parseFast))
        return {};
    } else {
      parser.emitError(keyLoc)
          << "expected 'x', 'w', 'dy', 'pow2' or 'fast', but got '" << key
          << "'";
      return {};
    }
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<RecipeAttr>(loc, parser.getContext(), *kind, x, w,
                                       dy, pow2, fprop, dgrad, wgrad);
}

void RecipeAttr::print(AsmPrinter &printer) const {
  RecipeAttr base = getDefault(getContext(), getKind());
  printer << '<' << stringifyRecipeKind(getKind());
  if (getXFormat() != base.getXFormat())
    printer << ", x = " << getXFormat();
  if (getWFormat() != base.getWFormat())
    printer << ", w = " << getWFormat();
  if (getDyFormat() != base.getDyFormat())
    printer << ", dy = " << getDyFormat();
  if (getPow2() != base.getPow2())
    printer << ", pow2 = " << stringifyPow2(getPow2());
  if (getFastFprop() != base.getFastFprop() ||
      getFastDgrad() != base.getFastDgrad() ||
      getFastWgrad() != base.getFastWgrad()) {
    SmallVector<StringRef> passes;
    if (getFastFprop())
      passes.push_back("fprop");
    if (getFastDgrad())
      passes.push_back("dgrad");
    if (getFastWgrad())
      passes.push_back("wgrad");
    printer << ", fast = [";
    llvm::interleaveComma(passes, printer);
    printer << ']';
  }
  printer << '>';
}
