//===- EvaluateOps.cpp - what each op inside a kernel computes --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of the evaluator that knows the ops. CheckKernel.cpp refuses
// everything that is not handled here before any code is emitted.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Evaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8;

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

Element Evaluator::compute(Value value, ArrayRef<Index> indices) {
  if (auto it = buffers.find(value); it != buffers.end()) {
    const ValueBuffer &buffer = it->second;
    SmallVector<Index> local(indices);
    if (buffer.origin)
      local.front().base = sub(local.front().base, buffer.origin);
    Index position = linearize(local, buffer.strides);
    if (position.step > 1)
      return computeLanes(
          indices, [&](ArrayRef<Index> one) { return evaluate(value, one); });
    return loadElements(buffer.pointer, builder.getF32Type(), position,
                        buffer.level);
  }
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    RankedTensorType type = tensorType(value);
    SmallVector<int64_t> strides = rowMajorStrides(type.getShape());
    return loadElements(arguments[argument.getArgNumber()],
                        type.getElementType(), linearize(indices, strides));
  }
  return computeOp(value.getDefiningOp(), indices);
}

/// Whether the rounding of a bf16 result is needed: not where the operation
/// only picks an operand or changes its sign.
static bool needsRounding(Operation *op) {
  return !isa<math::AbsFOp, arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp,
              arith::SelectOp>(op);
}

Element Evaluator::computeElementwise(Operation *op, ArrayRef<Index> indices) {
  SmallVector<Element> elements;
  for (Value operand : op->getOperands())
    elements.push_back(evaluate(operand, indices));
  unsigned level;
  int64_t lanes;
  elements = align(elements, level, lanes);
  OpBuilder &b = at(level);
  Numerics n(b, loc);
  auto x = [&](unsigned i) { return elements[i].value; };
  Value result =
      TypeSwitch<Operation *, Value>(op)
          .Case<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp>(
              [&](auto binary) {
                return decltype(binary)::create(b, loc, x(0), x(1));
              })
          .Case([&](arith::NegFOp) { return n.neg(x(0)); })
          .Case([&](arith::MaximumFOp) { return n.maximum(x(0), x(1)); })
          .Case([&](arith::MinimumFOp) { return n.minimum(x(0), x(1)); })
          .Case([&](arith::CmpFOp compare) {
            return arith::CmpFOp::create(b, loc, compare.getPredicate(), x(0),
                                         x(1));
          })
          .Case([&](arith::SelectOp) {
            return arith::SelectOp::create(b, loc, x(0), x(1), x(2));
          })
          .Case<arith::ExtFOp, arith::TruncFOp>([&](auto) { return x(0); })
          .Case([&](math::AbsFOp) { return n.abs(x(0)); })
          .Case([&](math::ExpOp) { return n.exp(x(0)); })
          .Case([&](math::LogOp) { return n.log(x(0)); })
          .Case([&](math::SqrtOp) { return n.sqrt(x(0)); })
          .Case([&](math::RsqrtOp) { return n.rsqrt(x(0)); })
          .Case([&](math::TanhOp) { return n.tanh(x(0)); })
          .Case([&](math::ErfOp) { return n.erf(x(0)); })
          .Default([](Operation *) { return Value(); });
  assert(result && "the kernel was checked before");
  Type element = tensorType(op->getResult(0)).getElementType();
  if (element.isBF16() && needsRounding(op))
    result = n.roundToBF16(result);
  return {result, lanes, level};
}

Element Evaluator::computeOp(Operation *op, ArrayRef<Index> indices) {
  if (auto constantOp = dyn_cast<arith::ConstantOp>(op)) {
    auto splat = cast<SplatElementsAttr>(constantOp.getValue());
    TypedAttr scalar;
    if (auto value = dyn_cast<FloatAttr>(splat.getSplatValue<Attribute>()))
      scalar = builder.getF32FloatAttr(float(value.getValueAsDouble()));
    else
      scalar = cast<TypedAttr>(splat.getSplatValue<Attribute>());
    return {arith::ConstantOp::create(at(0), loc, scalar), 1, 0};
  }
  if (auto scale = dyn_cast<ScaleOp>(op)) {
    Element amax = evaluate(scale.getAmax(), indices);
    ScaleRule rule{scale.getFormat(),          scale.getEps().convertToDouble(),
                   scale.getDivision(),        scale.getPow2(),
                   int64_t(scale.getMargin()), scale.getNonfinite()};
    amax.value = Numerics(at(amax.level), loc).scale(amax.value, rule);
    return amax;
  }
  if (auto cast = dyn_cast<CastOp>(op)) {
    TensorEncodingAttr encoding = getEncoding(cast.getType());
    unsigned level;
    int64_t lanes;
    SmallVector<Element> parts =
        align({evaluate(cast.getX(), indices),
               computeScale(cast.getScale(), encoding.getGroup(), indices)},
              level, lanes);
    OpBuilder &b = at(level);
    Value product =
        arith::MulFOp::create(b, loc, parts[0].value, parts[1].value);
    return {Numerics(b, loc).encodeScaled(
                product, tensorType(op->getResult(0)).getElementType(),
                cast.getSaturate()),
            lanes, level};
  }
  if (auto dequantize = dyn_cast<DequantizeOp>(op)) {
    TensorEncodingAttr encoding = getEncoding(dequantize.getQ().getType());
    Element s =
        computeScale(dequantize.getScale(), encoding.getGroup(), indices);
    OpBuilder &outer = at(s.level);
    Value one = Numerics(outer, loc).f32(1.0f, s.value);
    s.value = arith::DivFOp::create(outer, loc, one, s.value);
    Element q = evaluate(dequantize.getQ(), indices);
    q.value = Numerics(at(q.level), loc)
                  .decodeScaled(q.value,
                                tensorType(dequantize.getQ()).getElementType());
    unsigned level;
    int64_t lanes;
    SmallVector<Element> parts = align({q, s}, level, lanes);
    OpBuilder &b = at(level);
    Value product =
        arith::MulFOp::create(b, loc, parts[0].value, parts[1].value);
    if (tensorType(op->getResult(0)).getElementType().isBF16())
      product = Numerics(b, loc).roundToBF16(product);
    return {product, lanes, level};
  }
  if (isSmallReduction(op))
    return computeSmallReduction(op, indices);
  if (isa<AmaxOp, ReduceOp>(op)) {
    // Groups of one element: an elementwise operation. A reduction of more was
    // materialised before its result may be read.
    Element x = evaluate(op->getOperand(0), indices);
    Numerics n(at(x.level), loc);
    if (isa<AmaxOp>(op))
      x.value = n.abs(x.value);
    auto reduce = dyn_cast<ReduceOp>(op);
    if (reduce && reduce.getKind() == ReduceKind::Sum)
      // The partial sums start from +0, which turns -0 into +0.
      x.value = arith::AddFOp::create(at(x.level), loc, n.f32(0.0f, x.value),
                                      x.value);
    else
      x.value = n.fromMaxKey(n.toMaxKey(x.value));
    if (tensorType(op->getResult(0)).getElementType().isBF16())
      x.value = n.roundToBF16(x.value);
    return x;
  }
  if (auto permutation = dyn_cast<PermuteOp>(op)) {
    SmallVector<Index> inner(indices);
    for (auto [i, dim] : llvm::enumerate(permutation.getPerm()))
      inner[dim] = indices[i];
    return evaluate(permutation.getX(), inner);
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    SmallVector<Index> inner(indices);
    for (auto [i, dim] : llvm::enumerate(transpose.getPerm()))
      inner[dim] = indices[i];
    return evaluate(transpose.getX(), inner);
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    SmallVector<Index> inner(indices);
    for (auto [index, offset] : llvm::zip_equal(inner, slice.getOffsets())) {
      index.base = add(index.base, constant(offset));
      index.aligned &= offset % kLanes == 0;
    }
    return evaluate(slice.getX(), inner);
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    // Indices into dimensions of size 1 become 0 in `evaluate`.
    return evaluate(broadcast.getX(), indices);
  }
  if (isa<ReshapeOp>(op))
    return computeReshape(op, indices);
  if (isa<BitcastOp>(op))
    return computeBitcast(op, indices);
  if (isa<PadOp>(op))
    return computePad(op, indices);
  if (isa<RandomOp>(op))
    return computeRandom(op, indices);
  return computeElementwise(op, indices);
}

Element Evaluator::computeScale(Value scale, ArrayRef<int64_t> group,
                                ArrayRef<Index> indices) {
  SmallVector<Index> inner(indices);
  bool oneVector = true;
  for (auto [size, index] : llvm::zip_equal(group, inner)) {
    if (size == 0)
      index = {constant(0), 0, false};
    else if (size != 1 && index.step == 0)
      index.base = div(index.base, size);
    else if (size != 1 && index.aligned && size % kLanes == 0)
      index = {div(index.base, size), 0, false};
    else if (size != 1)
      oneVector = false;
  }
  if (oneVector)
    return evaluate(scale, inner);
  return computeLanes(indices, [&](ArrayRef<Index> one) {
    return computeScale(scale, group, one);
  });
}

/// A sum of n <= 256 elements is the pairwise sum of partial sums of one
/// element each, of which those beyond n are +0 and change nothing.
Element Evaluator::computeSmallReduction(Operation *op,
                                         ArrayRef<Index> indices) {
  auto reduce = cast<ReduceOp>(op);
  bool sum = reduce.getKind() == ReduceKind::Sum;
  ArrayRef<int64_t> shape = tensorType(reduce.getX()).getShape();
  SmallVector<int64_t> inner(shape.size(), 1);
  for (int64_t axis : reduce.getAxes())
    inner[axis] = shape[axis];
  SmallVector<Element> elements;
  for (int64_t i = 0; i < countReduced(op); ++i) {
    SmallVector<Index> at(indices);
    int64_t rest = i;
    for (auto [dim, stride] : llvm::enumerate(rowMajorStrides(inner))) {
      if (inner[dim] != 1)
        at[dim] = {constant(rest / stride), 0, false};
      rest %= stride;
    }
    elements.push_back(evaluate(reduce.getX(), at));
  }
  unsigned level;
  int64_t lanes;
  elements = align(elements, level, lanes);
  OpBuilder &b = at(level);
  Numerics n(b, loc);
  for (Element &x : elements)
    x.value = sum ? Value(arith::AddFOp::create(b, loc, n.f32(0.0f, x.value),
                                                x.value))
                  : n.toMaxKey(x.value);
  for (size_t half = llvm::PowerOf2Ceil(elements.size()) / 2; half; half /= 2) {
    for (size_t i = 0; i + half < elements.size(); ++i) {
      Value &x = elements[i].value, y = elements[i + half].value;
      x = sum ? Value(arith::AddFOp::create(b, loc, x, y))
              : Value(arith::MaxSIOp::create(b, loc, x, y));
    }
    elements.truncate(half);
  }
  Value result = elements.front().value;
  if (!sum)
    result = n.fromMaxKey(result);
  if (tensorType(reduce.getResult()).getElementType().isBF16())
    result = n.roundToBF16(result);
  return {result, lanes, level};
}

Element Evaluator::computeReshape(Operation *op, ArrayRef<Index> indices) {
  Value x = op->getOperand(0);
  ArrayRef<int64_t> from = tensorType(x).getShape();
  ArrayRef<int64_t> to = tensorType(op->getResult(0)).getShape();
  Index position = linearize(indices, rowMajorStrides(to));
  if (flat) {
    SmallVector<Index> inner(from.size(), Index{constant(0), 0, false});
    if (!inner.empty())
      inner.back() = position;
    return evaluate(x, inner);
  }
  // Straight from memory, the row-major position is all that matters.
  if (auto argument = dyn_cast<BlockArgument>(x))
    return loadElements(arguments[argument.getArgNumber()],
                        tensorType(x).getElementType(), position);
  if (position.step) {
    // One vector only where all lanes stay inside of the last dimension.
    bool lastOnly = !from.empty() && !to.empty() && from.back() == to.back();
    for (const Index &index : indices.drop_back())
      lastOnly &= index.step == 0;
    int64_t last = lastDimension(from);
    if (!lastOnly && position.aligned && last >= 0 &&
        from[last] % kLanes == 0) {
      SmallVector<Index> inner;
      Value rest = position.base;
      for (int64_t stride : rowMajorStrides(from)) {
        inner.push_back({div(rest, stride), 0, false});
        rest = rem(rest, stride);
      }
      inner[last].step = 1;
      inner[last].aligned = true;
      return evaluate(x, inner);
    }
    if (!lastOnly)
      return computeLanes(indices, [&](ArrayRef<Index> one) {
        return computeReshape(op, one);
      });
    SmallVector<Index> outer(indices);
    outer.back() = {constant(0), 0, false};
    Value rest = linearize(outer, rowMajorStrides(to)).base;
    SmallVector<Index> inner;
    for (int64_t stride : rowMajorStrides(from)) {
      inner.push_back({div(rest, stride), 0, false});
      rest = rem(rest, stride);
    }
    inner.back() = indices.back();
    return evaluate(x, inner);
  }
  SmallVector<Index> inner;
  Value rest = position.base;
  for (int64_t stride : rowMajorStrides(from)) {
    inner.push_back({div(rest, stride), 0, false});
    rest = rem(rest, stride);
  }
  return evaluate(x, inner);
}

Element Evaluator::computeBitcast(Operation *op, ArrayRef<Index> indices) {
  Type from = tensorType(op->getOperand(0)).getElementType();
  Type to = tensorType(op->getResult(0)).getElementType();
  Element x = evaluate(op->getOperand(0), indices);
  Numerics n(at(x.level), loc);
  if (from.isBF16() && !to.isBF16())
    x.value = n.encodeBF16(x.value);
  else if (from.isF32() && !to.isF32())
    x.value = n.bitsOf(x.value);
  if (to.isBF16() && !from.isBF16())
    x.value = n.decodeBF16(x.value);
  else if (to.isF32() && !from.isF32())
    x.value = n.floatOf(x.value);
  return x;
}

Element Evaluator::computePad(Operation *op, ArrayRef<Index> indices) {
  auto pad = cast<PadOp>(op);
  ArrayRef<int64_t> from = tensorType(pad.getX()).getShape();
  ArrayRef<int64_t> to = tensorType(op->getResult(0)).getShape();
  SmallVector<Index> inner(indices);
  Value inside;
  for (auto [index, offset, size, padded] :
       llvm::zip_equal(inner, pad.getOffsets(), from, to)) {
    if (size == padded)
      continue;
    // A vector is inside or outside as a whole, or it is taken apart.
    bool whole = index.aligned && offset % kLanes == 0 && size % kLanes == 0;
    if (index.step && !whole)
      return computeLanes(
          indices, [&](ArrayRef<Index> one) { return computePad(op, one); });
    // Outside, the nearest elements are read and not used.
    Value shifted = sub(index.base, constant(offset));
    unsigned level = levelOf(shifted);
    index.base = min(max(shifted, 0), size - (index.step ? kLanes : 1));
    Value same = arith::CmpIOp::create(at(level), loc, arith::CmpIPredicate::eq,
                                       shifted, index.base);
    levels[same] = level;
    if (inside) {
      unsigned both = std::max(level, levelOf(inside));
      same = arith::AndIOp::create(at(both), loc, inside, same);
      levels[same] = both;
    }
    inside = same;
  }
  Element x = evaluate(pad.getX(), inner);
  if (!inside)
    return x;
  unsigned level = std::max(x.level, levelOf(inside));
  OpBuilder &b = at(level);
  Value zero = Numerics(b, loc).f32(0.0f, x.value);
  // A scalar condition selects whole vectors.
  return {arith::SelectOp::create(b, loc, inside, x.value, zero), x.lanes,
          level};
}

Element Evaluator::computeRandom(Operation *op, ArrayRef<Index> indices) {
  auto random = cast<RandomOp>(op);
  SmallVector<int64_t> strides = random.getWholeStrides();
  // Where the element stands in the tensor of all ranks. In flat mode ranks
  // hold parts of dimension 0 at most, so the strides are those of the part.
  Index position = linearize(indices, strides);
  ArrayRef<int64_t> shape = tensorType(random.getResult()).getShape();
  for (auto [dim, value] :
       llvm::zip_equal(random.getShardedDims(), random.getCoordinates())) {
    Element coordinate = evaluate(value, indices);
    OpBuilder &b = at(coordinate.level);
    Value wide =
        arith::ExtSIOp::create(b, loc, b.getI64Type(), coordinate.value);
    position.base = add(position.base, mul(remember(wide, coordinate.level),
                                           shape[dim] * strides[dim]));
  }
  Element seed = evaluate(random.getSeed(), indices),
          offset = evaluate(random.getOffset(), indices);
  unsigned level = std::max({levelOf(position.base), seed.level, offset.level});
  int64_t lanes = 1;
  if (position.step) {
    lanes = kLanes;
    seed = widen(seed);
    offset = widen(offset);
  }
  OpBuilder &b = at(level);
  Numerics n(b, loc);
  Value place = position.base;
  if (position.step) {
    SmallVector<int64_t> steps;
    for (int64_t lane = 0; lane < kLanes; ++lane)
      steps.push_back(lane * position.step);
    auto type = VectorType::get({kLanes}, b.getI64Type());
    Value lanePositions = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(type, ArrayRef(steps)));
    place =
        arith::AddIOp::create(b, loc, n.splat(place, kLanes), lanePositions);
  }
  return {
      n.uniform(place, offset.value, seed.value, uint32_t(random.getStream())),
      lanes, level};
}
