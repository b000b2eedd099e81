//===- VerifyUtils.cpp - checks that several op families share --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See VerifyUtils.h.
//
//===----------------------------------------------------------------------===//

#include "VerifyUtils.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::fp8;

std::string checks::formatList(ArrayRef<int64_t> values) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << '[';
  llvm::interleaveComma(values, stream);
  stream << ']';
  return text;
}

LogicalResult checks::verifyShape(Operation *op, StringRef name, Value actual,
                                  ArrayRef<int64_t> expected) {
  if (getShape(actual) == expected)
    return success();
  return op->emitOpError() << "expected '" << name << "' of shape "
                           << formatList(expected) << ", but got "
                           << formatList(getShape(actual));
}

LogicalResult checks::verifyFormat(Operation *op, Type format,
                                   bool allowsE5M6) {
  if (isF8(format) || (allowsE5M6 && isa<E5M6Type>(format)))
    return success();
  return op->emitOpError() << (allowsE5M6 ? "expected format f8E4M3FN, f8E5M2 "
                                            "or !fp8.e5m6, but got "
                                          : "expected format f8E4M3FN or "
                                            "f8E5M2, but got ")
                           << format;
}

LogicalResult checks::verifyMargin(Operation *op, int64_t margin) {
  if (margin >= 0 && margin <= 16)
    return success();
  return op->emitOpError() << "expected 'margin' between 0 and 16, but got "
                           << margin;
}

LogicalResult checks::verifyScale(Operation *op, StringRef dataName, Value data,
                                  StringRef scaleName, Value scale) {
  TensorEncodingAttr encoding = getEncoding(data.getType());
  if (!encoding || !encoding.isScaled())
    return op->emitOpError()
           << "expected '" << dataName << "' with a scaled encoding, but got "
           << data.getType();
  return verifyShape(op, scaleName, scale,
                     getScaleShape(getShape(data), encoding.getGroup()));
}

//===----------------------------------------------------------------------===//
// Where a scale comes from
//===----------------------------------------------------------------------===//

/// True for collectives that only move data.
static bool isMove(Operation *op) {
  std::optional<Collective> collective = getCollective(op);
  return collective && !collective->reduce;
}

/// The value before views, transposes, gathers and barriers: what a tensor and
/// its scale go through alike.
static Value skipMoves(Value value) {
  // The bound ends the walk over a cycle, which the dominance check refuses
  // only later.
  for (int steps = 0; steps < 1024; ++steps) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getNumOperands() == 0 ||
        !(isView(op) || isa<TransposeOp>(op) || isMove(op)))
      return value;
    value = op->getOperand(0);
  }
  return value;
}

/// True for an argument of a region that is no function: what it stands for is
/// not looked up.
static bool isHidden(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && !isa_and_nonnull<FunctionOpInterface>(
                         argument.getOwner()->getParentOp());
}

/// True where two values are surely not the same number: different function
/// arguments, or computations that differ. `budget` bounds the ops looked at.
static bool areProvablyDifferent(Value a, Value b, int &budget) {
  a = skipMoves(a);
  b = skipMoves(b);
  if (a == b || isHidden(a) || isHidden(b) || --budget < 0)
    return false;
  auto first = dyn_cast<OpResult>(a), second = dyn_cast<OpResult>(b);
  if (!first || !second)
    return true;
  Operation *left = first.getOwner(), *right = second.getOwner();
  if (left->getNumRegions() != 0 || right->getNumRegions() != 0)
    return false;
  if (left->getName() != right->getName() ||
      first.getResultNumber() != second.getResultNumber() ||
      left->getNumOperands() != right->getNumOperands() ||
      left->getPropertiesAsAttribute() != right->getPropertiesAsAttribute())
    return true;
  for (auto [x, y] : llvm::zip(left->getOperands(), right->getOperands()))
    if (areProvablyDifferent(x, y, budget))
      return true;
  return false;
}

LogicalResult checks::verifySameScale(Operation *op, StringRef dataName,
                                      Value data, StringRef scaleName,
                                      Value scale) {
  Operation *cast = skipMoves(data).getDefiningOp();
  if (!isa_and_nonnull<CastOp>(cast) || cast->getNumOperands() != 2)
    return success();
  int budget = 64;
  if (!areProvablyDifferent(cast->getOperand(1), scale, budget))
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError()
                                  << "expected '" << scaleName
                                  << "' to be the scale that '" << dataName
                                  << "' was cast with, but got another value";
  diagnostic.attachNote(cast->getLoc()) << "'" << dataName << "' was cast here";
  return diagnostic;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Whether the scale groups of [M, K] times [K, N] are a pair that products
/// know.
static bool isKnownPair(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  using Group = std::array<int64_t, 2>;
  static constexpr std::pair<Group, Group> kPairs[] = {
      {{0, 0}, {0, 0}},        // per tensor
      {{1, 0}, {0, 1}},        // rows with columns
      {{1, 128}, {128, 1}},    // 1x128 with 128x1
      {{1, 128}, {128, 128}},  // 1x128 with 128x128
      {{128, 128}, {128, 1}}}; // 128x128 with 128x1
  return llvm::any_of(kPairs, [&](const auto &pair) {
    return a == ArrayRef(pair.first) && b == ArrayRef(pair.second);
  });
}

LogicalResult checks::verifyScales(Operation *op, Value a, Value scaleA,
                                   Value b, Value scaleB) {
  for (auto [dataName, data, scaleName, scale] :
       {std::tuple("a", a, "scale_a", scaleA),
        std::tuple("b", b, "scale_b", scaleB)}) {
    if (!isF8(getElementType(data)) && scale)
      return op->emitOpError() << "expected no '" << scaleName << "' beside "
                               << data.getType() << ", but got one";
    if (isF8(getElementType(data)) && !scale)
      return op->emitOpError() << "expected '" << scaleName << "' beside "
                               << data.getType() << ", but got none";
    if (scale && failed(verifyScale(op, dataName, data, scaleName, scale)))
      return failure();
  }
  Type first = getElementType(a), second = getElementType(b);
  bool isScaled = isF8(first) && isF8(second);
  if (isScaled ? isa<Float8E5M2Type>(first) && isa<Float8E5M2Type>(second)
               : first != second)
    return op->emitOpError() << "expected two FP8 operands that are not both "
                                "f8E5M2, two of bf16 or two of f32, but got "
                             << first << " and " << second;
  if (isScaled &&
      !isKnownPair(getEncoding(a.getType()).getGroup(),
                   getEncoding(b.getType()).getGroup().take_back(2)))
    return op->emitOpError()
           << "expected scales per tensor on both, rows with "
              "columns, 1x128 with 128x1, 1x128 with "
              "128x128 or 128x128 with 128x1, but got "
           << getEncoding(a.getType()) << " and " << getEncoding(b.getType());
  return success();
}

LogicalResult checks::verifySameScales(Operation *op, Value a, Value scaleA,
                                       Value b, Value scaleB) {
  if (scaleA && failed(verifySameScale(op, "a", a, "scale_a", scaleA)))
    return failure();
  return scaleB ? verifySameScale(op, "b", b, "scale_b", scaleB) : success();
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

LogicalResult checks::verifyStateArgument(Operation *op, StringRef name,
                                          Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  while (argument) {
    auto kernel =
        dyn_cast_or_null<KernelOp>(argument.getOwner()->getParentOp());
    if (!kernel || argument.getArgNumber() >= kernel->getNumOperands())
      break;
    value = kernel->getOperand(argument.getArgNumber());
    argument = dyn_cast<BlockArgument>(value);
  }
  auto emitError = [&]() -> InFlightDiagnostic {
    return op->emitOpError()
           << "expected '" << name << "' to be a function argument marked '"
           << kStateAttr << "', but got ";
  };
  if (!argument)
    return emitError() << "a result of '" << value.getDefiningOp()->getName()
                       << "'";
  Operation *parent = argument.getOwner()->getParentOp();
  if (auto function = dyn_cast_or_null<FunctionOpInterface>(parent)) {
    if (argument.getOwner() != &function.getFunctionBody().front())
      return emitError() << "an argument of another block";
    if (!function.getArgAttr(argument.getArgNumber(), kStateAttr))
      return emitError() << "argument " << argument.getArgNumber()
                         << ", which is not";
    return success();
  }
  if (isa_and_nonnull<StepOp, KernelOp>(parent))
    return emitError() << "an argument of '" << parent->getName() << "'";
  return success();
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

static bool isPermutation(ArrayRef<int64_t> perm, size_t rank) {
  SmallVector<bool> seen(rank);
  if (perm.size() != rank)
    return false;
  for (int64_t dim : perm) {
    if (dim < 0 || dim >= static_cast<int64_t>(rank) || seen[dim])
      return false;
    seen[dim] = true;
  }
  return true;
}

static SmallVector<int64_t> permuteList(ArrayRef<int64_t> values,
                                        ArrayRef<int64_t> perm) {
  SmallVector<int64_t> result;
  if (!values.empty())
    for (int64_t dim : perm)
      result.push_back(values[dim]);
  return result;
}

LogicalResult checks::verifyPermuted(Operation *op, Value x,
                                     ArrayRef<int64_t> perm, Value result) {
  // (C1)
  auto type = cast<RankedTensorType>(x.getType());
  if (!isPermutation(perm, type.getRank()))
    return op->emitOpError() << "expected a permutation of " << type.getRank()
                             << " dimensions, but got " << formatList(perm);
  // (C2)
  Attribute encoding = type.getEncoding();
  if (TensorEncodingAttr ours = getEncoding(type))
    encoding = TensorEncodingAttr::get(
        op->getContext(), permuteList(ours.getGroup(), perm), ours.getPow2(),
        ours.getLayout(), permuteList(ours.getBounds(), perm));
  auto expected = RankedTensorType::get(permuteList(type.getShape(), perm),
                                        type.getElementType(), encoding);
  if (result.getType() != expected)
    return op->emitOpError() << "expected result type " << expected
                             << ", but got " << result.getType();
  return success();
}

/// Dimensions other than 1 keep their order.
static bool keepsOrder(ArrayRef<int64_t> shape, ArrayRef<int64_t> perm) {
  int64_t last = -1;
  for (int64_t dim : perm) {
    if (shape[dim] == 1)
      continue;
    if (dim < last)
      return false;
    last = dim;
  }
  return true;
}

bool checks::isContiguousView(Operation *view) {
  if (view->getNumOperands() == 0 || view->getNumResults() == 0)
    return true;
  auto from = dyn_cast<RankedTensorType>(view->getOperand(0).getType());
  auto to = dyn_cast<RankedTensorType>(view->getResult(0).getType());
  if (!from || !to)
    return true;
  if (auto permute = dyn_cast<PermuteOp>(view)) {
    DenseI64ArrayAttr perm = permute.getPermAttr();
    return !perm || !isPermutation(perm, from.getRank()) ||
           keepsOrder(from.getShape(), perm);
  }
  if (isa<SliceOp>(view) && from.getRank() == to.getRank()) {
    // Leading rows: before the last dimension that is cut, every dimension of
    // the part is 1.
    int64_t lastCut = 0;
    for (int64_t dim = 0; dim < from.getRank(); ++dim)
      if (from.getDimSize(dim) != to.getDimSize(dim))
        lastCut = dim;
    return llvm::all_of(to.getShape().take_front(lastCut),
                        [](int64_t dim) { return dim == 1; });
  }
  return true;
}

LogicalResult checks::verifyToken(Operation *op) {
  Value result = op->getResult(0), token = op->getResult(1);
  if (!token.hasOneUse())
    return op->emitOpError()
           << "expected exactly one use of the token, but got "
           << std::distance(token.use_begin(), token.use_end());
  Operation *user = *token.getUsers().begin();
  bool waited = isa<WaitOp>(user) && user->getNumOperands() == 2 &&
                user->getOperand(0) == result;
  if (waited ||
      (isa<YieldOp>(user) && isa_and_nonnull<KernelOp>(user->getParentOp())))
    return success();
  InFlightDiagnostic diagnostic =
      op->emitOpError()
      << "expected the token to be waited for together with the result, but "
         "got a use by '"
      << user->getName() << "'";
  diagnostic.attachNote(user->getLoc()) << "used here";
  return diagnostic;
}
