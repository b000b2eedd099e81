//===- FP8Adjoints.cpp - adjoints of the fp8 ops ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DifferentiableOpInterface of the fp8 ops. The gradient of an FP8 value is the
// gradient of what it stands for: a bf16 or f32 tensor of its shape without
// encoding.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::fp8;

/// `value` with element type `element`, both bf16 or f32.
static Value convertElements(OpBuilder &builder, Location loc, Value value,
                             Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  Type result = type.clone(element);
  if (element.isF32())
    return arith::ExtFOp::create(builder, loc, result, value);
  return arith::TruncFOp::create(builder, loc, result, value);
}

/// `type` with the dimensions in the order `perm`, without encoding.
static RankedTensorType permuted(RankedTensorType type,
                                 ArrayRef<int64_t> perm) {
  SmallVector<int64_t> shape;
  for (int64_t dim : perm)
    shape.push_back(type.getDimSize(dim));
  return RankedTensorType::get(shape, type.getElementType());
}

static SmallVector<int64_t> inverse(ArrayRef<int64_t> perm) {
  SmallVector<int64_t> result(perm.size());
  for (auto [index, dim] : llvm::enumerate(perm))
    result[dim] = index;
  return result;
}

/// The shape of `type` with the elements of `gradient`: the type of the
/// gradient of a value of `type`.
static RankedTensorType gradientType(Type type, Value gradient) {
  return RankedTensorType::get(
      cast<RankedTensorType>(type).getShape(),
      cast<RankedTensorType>(gradient.getType()).getElementType());
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

/// Stop-gradient: an amax is a measurement, not a function to follow.
LogicalResult AmaxOp::buildAdjoint(OpBuilder &builder,
                                   ArrayRef<Value> resultGrads,
                                   ArrayRef<bool> needed,
                                   MutableArrayRef<Value> operandGrads) {
  return success();
}

LogicalResult ScaleOp::buildAdjoint(OpBuilder &builder,
                                    ArrayRef<Value> resultGrads,
                                    ArrayRef<bool> needed,
                                    MutableArrayRef<Value> operandGrads) {
  return success();
}

/// Straight through, clipped elements too.
LogicalResult CastOp::buildAdjoint(OpBuilder &builder,
                                   ArrayRef<Value> resultGrads,
                                   ArrayRef<bool> needed,
                                   MutableArrayRef<Value> operandGrads) {
  if (needed[0])
    operandGrads[0] = convertElements(builder, getLoc(), resultGrads[0],
                                      getX().getType().getElementType());
  return success();
}

LogicalResult DequantizeOp::buildAdjoint(OpBuilder &builder,
                                         ArrayRef<Value> resultGrads,
                                         ArrayRef<bool> needed,
                                         MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = resultGrads[0];
  return success();
}

//===----------------------------------------------------------------------===//
// Matmul and linear
//===----------------------------------------------------------------------===//

/// da = dy * b^T, db = a^T * dy, each product in the operands' element type (dy
/// is rounded to it where it is wider).
LogicalResult MatmulOp::buildAdjoint(OpBuilder &builder,
                                     ArrayRef<Value> resultGrads,
                                     ArrayRef<bool> needed,
                                     MutableArrayRef<Value> operandGrads) {
  Value dy = resultGrads[0];
  auto aType = cast<RankedTensorType>(getA().getType()),
       bType = cast<RankedTensorType>(getB().getType());
  if (needed[0] || needed[1]) {
    Type element = aType.getElementType();
    if (!element.isF32() && !element.isBF16())
      return emitOpError()
             << "expected bf16 or f32 operands where a gradient passes "
                "through, but got "
             << element << "; write the product as 'fp8.linear' with a recipe";
    Value product = convertElements(builder, getLoc(), dy, element);
    auto transposed = [&](Value value) -> Value {
      return PermuteOp::create(
          builder, getLoc(),
          permuted(cast<RankedTensorType>(value.getType()), {1, 0}), value,
          ArrayRef<int64_t>{1, 0});
    };
    auto matmul = [&](RankedTensorType type, Value a, Value b) -> Value {
      return MatmulOp::create(builder, getLoc(), type, a, b, Value(), Value(),
                              Value(), false);
    };
    if (needed[0])
      operandGrads[0] = matmul(aType, product, transposed(getB()));
    if (needed[1])
      operandGrads[1] = matmul(bType, transposed(getA()), product);
  }
  if (Value acc = getAcc()) {
    unsigned index = getAccMutable().begin()->getOperandNumber();
    if (needed[index])
      operandGrads[index] = convertElements(
          builder, getLoc(), dy,
          cast<RankedTensorType>(acc.getType()).getElementType());
  }
  return success();
}

LogicalResult LinearOp::buildAdjoint(OpBuilder &builder,
                                     ArrayRef<Value> resultGrads,
                                     ArrayRef<bool> needed,
                                     MutableArrayRef<Value> operandGrads) {
  Value dy = resultGrads[0];
  if (needed[0])
    operandGrads[0] =
        LinearDgradOp::create(builder, getLoc(), getX().getType(), dy, getW(),
                              getState(), getRecipe());
  if (needed[1])
    operandGrads[1] =
        LinearWgradOp::create(builder, getLoc(), getW().getType(), dy, getX(),
                              getState(), getRecipe());
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions and broadcasts
//===----------------------------------------------------------------------===//

/// A sum hands its gradient to every element, a maximum to every element that
/// equals it.
LogicalResult ReduceOp::buildAdjoint(OpBuilder &builder,
                                     ArrayRef<Value> resultGrads,
                                     ArrayRef<bool> needed,
                                     MutableArrayRef<Value> operandGrads) {
  Location loc = getLoc();
  auto type = cast<RankedTensorType>(getX().getType());
  Value dy =
      convertElements(builder, loc, resultGrads[0], type.getElementType());
  Value spread = BroadcastOp::create(builder, loc, type, dy);
  if (getKind() == ReduceKind::Max) {
    // A result that was rounded to a narrower type equals no element: take the
    // maximum in the operand's type.
    Value maximum = getResult();
    auto resultType = cast<RankedTensorType>(maximum.getType());
    if (type.getElementType().isF32() && !resultType.getElementType().isF32())
      maximum = ReduceOp::create(builder, loc,
                                 resultType.clone(type.getElementType()),
                                 ReduceKind::Max, getX(), getAxes());
    maximum = convertElements(builder, loc, maximum, type.getElementType());
    Value equal =
        arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, getX(),
                              BroadcastOp::create(builder, loc, type, maximum));
    Value zero = arith::ConstantOp::create(
        builder, loc, cast<TypedAttr>(builder.getZeroAttr(type)));
    spread = arith::SelectOp::create(builder, loc, equal, spread, zero);
  }
  operandGrads[0] = spread;
  return success();
}

LogicalResult BroadcastOp::buildAdjoint(OpBuilder &builder,
                                        ArrayRef<Value> resultGrads,
                                        ArrayRef<bool> needed,
                                        MutableArrayRef<Value> operandGrads) {
  auto type = cast<RankedTensorType>(getX().getType());
  auto resultType = cast<RankedTensorType>(getResult().getType());
  SmallVector<int64_t> axes;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.getDimSize(dim) != resultType.getDimSize(dim))
      axes.push_back(dim);
  operandGrads[0] =
      axes.empty() ? resultGrads[0]
                   : ReduceOp::create(builder, getLoc(), type, ReduceKind::Sum,
                                      resultGrads[0], axes);
  return success();
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

LogicalResult PermuteOp::buildAdjoint(OpBuilder &builder,
                                      ArrayRef<Value> resultGrads,
                                      ArrayRef<bool> needed,
                                      MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = PermuteOp::create(
      builder, getLoc(), gradientType(getX().getType(), resultGrads[0]),
      resultGrads[0], inverse(getPerm()));
  return success();
}

LogicalResult TransposeOp::buildAdjoint(OpBuilder &builder,
                                        ArrayRef<Value> resultGrads,
                                        ArrayRef<bool> needed,
                                        MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = TransposeOp::create(
      builder, getLoc(), gradientType(getX().getType(), resultGrads[0]),
      resultGrads[0], inverse(getPerm()));
  return success();
}

LogicalResult SliceOp::buildAdjoint(OpBuilder &builder,
                                    ArrayRef<Value> resultGrads,
                                    ArrayRef<bool> needed,
                                    MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = PadOp::create(
      builder, getLoc(), gradientType(getX().getType(), resultGrads[0]),
      resultGrads[0], getOffsets());
  return success();
}

LogicalResult PadOp::buildAdjoint(OpBuilder &builder,
                                  ArrayRef<Value> resultGrads,
                                  ArrayRef<bool> needed,
                                  MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = SliceOp::create(builder, getLoc(), getX().getType(),
                                    resultGrads[0], getOffsets());
  return success();
}

/// A reshape needs its operand in row-major order. A gradient that is a
/// permuted view is moved there; one that is a slice cannot be, short of a copy
/// that folds away.
LogicalResult ReshapeOp::buildAdjoint(OpBuilder &builder,
                                      ArrayRef<Value> resultGrads,
                                      ArrayRef<bool> needed,
                                      MutableArrayRef<Value> operandGrads) {
  Value gradient = resultGrads[0];
  SmallVector<int64_t> perm = llvm::to_vector(
      llvm::seq<int64_t>(cast<RankedTensorType>(gradient.getType()).getRank()));
  Value source = gradient;
  while (auto permute = source.getDefiningOp<PermuteOp>()) {
    for (int64_t &dim : perm)
      dim = permute.getPerm()[dim];
    source = permute.getX();
  }
  if (!llvm::is_sorted(perm))
    gradient = TransposeOp::create(builder, getLoc(), gradient.getType(),
                                   source, perm);
  else
    gradient = source;
  if (gradient.getDefiningOp<SliceOp>())
    return emitOpError() << "expected a gradient in row-major order, but got a "
                            "slice of one (the adjoint of 'fp8.pad'); "
                            "reshape before the pad instead";
  operandGrads[0] = ReshapeOp::create(
      builder, getLoc(), gradientType(getX().getType(), gradient), gradient);
  return success();
}

//===----------------------------------------------------------------------===//
// Opaque
//===----------------------------------------------------------------------===//

/// The opaque that `adjoint` declares.
LogicalResult OpaqueOp::buildAdjoint(OpBuilder &builder,
                                     ArrayRef<Value> resultGrads,
                                     ArrayRef<bool> needed,
                                     MutableArrayRef<Value> operandGrads) {
  DictionaryAttr adjoint = getAdjointAttr();
  if (!adjoint)
    return emitOpError()
           << "expected an 'adjoint' where a gradient passes through \""
           << getName()
           << "\", but got none; declare one, or mark the arguments it depends "
              "on 'fp8.frozen'";
  SmallVector<Value> inputs;
  auto append = [&](StringRef key, ValueRange values) {
    if (auto indices = adjoint.getAs<ArrayAttr>(key))
      for (IntegerAttr index : indices.getAsRange<IntegerAttr>())
        inputs.push_back(values[index.getInt()]);
  };
  append("operands", getInputs());
  append("results", getOutputs());
  for (auto [result, gradient] : llvm::zip_equal(getOutputs(), resultGrads)) {
    auto type = cast<RankedTensorType>(result.getType());
    if (!type.getElementType().isF32() && !type.getElementType().isBF16())
      continue;
    inputs.push_back(gradient
                         ? gradient
                         : arith::ConstantOp::create(
                               builder, getLoc(),
                               cast<TypedAttr>(builder.getZeroAttr(type))));
  }
  SmallVector<Type> types;
  SmallVector<unsigned> positions;
  for (auto [index, input] : llvm::enumerate(getInputs())) {
    Type element = cast<RankedTensorType>(input.getType()).getElementType();
    if (!element.isF32() && !element.isBF16())
      continue;
    types.push_back(input.getType());
    positions.push_back(index);
  }
  auto number = [&](StringRef key) {
    auto attribute = adjoint.getAs<IntegerAttr>(key);
    return attribute ? attribute.getInt() : 0;
  };
  auto op = OpaqueOp::create(
      builder, getLoc(), types, adjoint.getAs<StringAttr>("name").getValue(),
      inputs, number("scratch_bytes"), number("flops"), number("bytes"), "yes",
      false, ArrayAttr(), DictionaryAttr());
  for (auto [position, result] : llvm::zip_equal(positions, op.getOutputs()))
    operandGrads[position] = result;
  return success();
}
