//===- DifferentiableExternalModels.cpp -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each adjoint is written with ops that have a reference semantics of their own
// (docs/numerics.md), one rounding an op, and prefers the result of the op to
// its operands where both would do: the result is often kept anyway.
//
//===----------------------------------------------------------------------===//

#include "fp8/Interfaces/DifferentiableExternalModels.h"

#include "fp8/Interfaces/DifferentiableOpInterface.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// What an adjoint is built with: the op's location, and the ops as functions.
struct Adjoint {
  OpBuilder &builder;
  Location loc;

  Value constant(double value, Type type) const {
    auto shaped = dyn_cast<ShapedType>(type);
    FloatAttr element = builder.getFloatAttr(getElementTypeOrSelf(type), value);
    TypedAttr attribute = element;
    if (shaped)
      attribute = DenseElementsAttr::get(shaped, element);
    return arith::ConstantOp::create(builder, loc, attribute);
  }
  Value add(Value a, Value b) const {
    return arith::AddFOp::create(builder, loc, a, b);
  }
  Value sub(Value a, Value b) const {
    return arith::SubFOp::create(builder, loc, a, b);
  }
  Value mul(Value a, Value b) const {
    return arith::MulFOp::create(builder, loc, a, b);
  }
  Value div(Value a, Value b) const {
    return arith::DivFOp::create(builder, loc, a, b);
  }
  Value neg(Value a) const { return arith::NegFOp::create(builder, loc, a); }
  Value compare(arith::CmpFPredicate predicate, Value a, Value b) const {
    return arith::CmpFOp::create(builder, loc, predicate, a, b);
  }
  Value select(Value condition, Value a, Value b) const {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  }
};

/// The model of `OpT`, whose adjoint `build(op, adjoint, dy, needed, grads)`
/// builds. `dy` is never null: an op without a gradient is not asked.
template <typename OpT, void (*build)(OpT, const Adjoint &, Value,
                                      ArrayRef<bool>, MutableArrayRef<Value>)>
struct Model
    : DifferentiableOpInterface::ExternalModel<Model<OpT, build>, OpT> {
  LogicalResult buildAdjoint(Operation *op, OpBuilder &builder,
                             ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
                             MutableArrayRef<Value> operandGrads) const {
    build(cast<OpT>(op), Adjoint{builder, op->getLoc()}, resultGrads[0], needed,
          operandGrads);
    return success();
  }
};

void addAdjoint(arith::AddFOp op, const Adjoint &a, Value dy,
                ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  grads[0] = grads[1] = dy;
}

void subAdjoint(arith::SubFOp op, const Adjoint &a, Value dy,
                ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  grads[0] = dy;
  if (needed[1])
    grads[1] = a.neg(dy);
}

void mulAdjoint(arith::MulFOp op, const Adjoint &a, Value dy,
                ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  if (needed[0])
    grads[0] = a.mul(dy, op.getRhs());
  if (needed[1])
    grads[1] = a.mul(dy, op.getLhs());
}

/// y = l / r: dl = dy / r, dr = -(dl * y). Of a reciprocal, y = 1 / r:
/// dr = -((dy * y) * y), without a second division.
void divAdjoint(arith::DivFOp op, const Adjoint &a, Value dy,
                ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  Value y = op.getResult();
  if (!needed[0] && matchPattern(op.getLhs(), m_OneFloat())) {
    if (needed[1])
      grads[1] = a.neg(a.mul(a.mul(dy, y), y));
    return;
  }
  Value quotient = a.div(dy, op.getRhs());
  if (needed[0])
    grads[0] = quotient;
  if (needed[1])
    grads[1] = a.neg(a.mul(quotient, y));
}

void negAdjoint(arith::NegFOp op, const Adjoint &a, Value dy,
                ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  if (needed[0])
    grads[0] = a.neg(dy);
}

void extAdjoint(arith::ExtFOp op, const Adjoint &a, Value dy,
                ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  if (needed[0])
    grads[0] =
        arith::TruncFOp::create(a.builder, a.loc, op.getIn().getType(), dy);
}

void truncAdjoint(arith::TruncFOp op, const Adjoint &a, Value dy,
                  ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  if (needed[0])
    grads[0] =
        arith::ExtFOp::create(a.builder, a.loc, op.getIn().getType(), dy);
}

/// The whole gradient goes to the operand that was taken; where both are equal,
/// to the first.
void extremumAdjoint(arith::CmpFPredicate firstTaken, Value lhs, Value rhs,
                     const Adjoint &a, Value dy, ArrayRef<bool> needed,
                     MutableArrayRef<Value> grads) {
  Value mask = a.compare(firstTaken, lhs, rhs);
  Value zero = a.constant(0.0, dy.getType());
  if (needed[0])
    grads[0] = a.select(mask, dy, zero);
  if (needed[1])
    grads[1] = a.select(mask, zero, dy);
}

void maximumAdjoint(arith::MaximumFOp op, const Adjoint &a, Value dy,
                    ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  extremumAdjoint(arith::CmpFPredicate::OGE, op.getLhs(), op.getRhs(), a, dy,
                  needed, grads);
}

void minimumAdjoint(arith::MinimumFOp op, const Adjoint &a, Value dy,
                    ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  extremumAdjoint(arith::CmpFPredicate::OLE, op.getLhs(), op.getRhs(), a, dy,
                  needed, grads);
}

void selectAdjoint(arith::SelectOp op, const Adjoint &a, Value dy,
                   ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  Value zero = a.constant(0.0, dy.getType());
  if (needed[1])
    grads[1] = a.select(op.getCondition(), dy, zero);
  if (needed[2])
    grads[2] = a.select(op.getCondition(), zero, dy);
}

/// The gradient at 0 is 0.
void absAdjoint(math::AbsFOp op, const Adjoint &a, Value dy,
                ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  Value zero = a.constant(0.0, dy.getType());
  Value positive = a.compare(arith::CmpFPredicate::OGT, op.getOperand(), zero);
  Value negative = a.compare(arith::CmpFPredicate::OLT, op.getOperand(), zero);
  grads[0] = a.select(positive, dy, a.select(negative, a.neg(dy), zero));
}

void expAdjoint(math::ExpOp op, const Adjoint &a, Value dy,
                ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  grads[0] = a.mul(dy, op.getResult());
}

void logAdjoint(math::LogOp op, const Adjoint &a, Value dy,
                ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  grads[0] = a.div(dy, op.getOperand());
}

/// y = sqrt(x): dx = dy / (y + y).
void sqrtAdjoint(math::SqrtOp op, const Adjoint &a, Value dy,
                 ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  grads[0] = a.div(dy, a.add(op.getResult(), op.getResult()));
}

/// y = x^(-1/2): dx = dy * (-1/2 * y^3).
void rsqrtAdjoint(math::RsqrtOp op, const Adjoint &a, Value dy,
                  ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  Value y = op.getResult();
  Value cube = a.mul(a.mul(y, y), y);
  grads[0] = a.mul(dy, a.mul(cube, a.constant(-0.5, dy.getType())));
}

/// dx = dy * (1 - y^2).
void tanhAdjoint(math::TanhOp op, const Adjoint &a, Value dy,
                 ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  Value y = op.getResult();
  grads[0] = a.mul(dy, a.sub(a.constant(1.0, dy.getType()), a.mul(y, y)));
}

/// dx = dy * (2 / sqrt(pi) * exp(-x^2)).
void erfAdjoint(math::ErfOp op, const Adjoint &a, Value dy,
                ArrayRef<bool> needed, MutableArrayRef<Value> grads) {
  Value x = op.getOperand();
  Value bell = math::ExpOp::create(a.builder, a.loc, a.neg(a.mul(x, x)));
  grads[0] =
      a.mul(dy, a.mul(bell, a.constant(0x1.20dd750429b6dp+0, dy.getType())));
}

} // namespace

void mlir::fp8::registerDifferentiableExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    arith::AddFOp::attachInterface<Model<arith::AddFOp, addAdjoint>>(*context);
    arith::SubFOp::attachInterface<Model<arith::SubFOp, subAdjoint>>(*context);
    arith::MulFOp::attachInterface<Model<arith::MulFOp, mulAdjoint>>(*context);
    arith::DivFOp::attachInterface<Model<arith::DivFOp, divAdjoint>>(*context);
    arith::NegFOp::attachInterface<Model<arith::NegFOp, negAdjoint>>(*context);
    arith::ExtFOp::attachInterface<Model<arith::ExtFOp, extAdjoint>>(*context);
    arith::TruncFOp::attachInterface<Model<arith::TruncFOp, truncAdjoint>>(
        *context);
    arith::MaximumFOp::attachInterface<
        Model<arith::MaximumFOp, maximumAdjoint>>(*context);
    arith::MinimumFOp::attachInterface<
        Model<arith::MinimumFOp, minimumAdjoint>>(*context);
    arith::SelectOp::attachInterface<Model<arith::SelectOp, selectAdjoint>>(
        *context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    math::AbsFOp::attachInterface<Model<math::AbsFOp, absAdjoint>>(*context);
    math::ExpOp::attachInterface<Model<math::ExpOp, expAdjoint>>(*context);
    math::LogOp::attachInterface<Model<math::LogOp, logAdjoint>>(*context);
    math::SqrtOp::attachInterface<Model<math::SqrtOp, sqrtAdjoint>>(*context);
    math::RsqrtOp::attachInterface<Model<math::RsqrtOp, rsqrtAdjoint>>(
        *context);
    math::TanhOp::attachInterface<Model<math::TanhOp, tanhAdjoint>>(*context);
    math::ErfOp::attachInterface<Model<math::ErfOp, erfAdjoint>>(*context);
  });
}
