//===- VectorEvaluator.cpp --------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic on pairs of bf16 is used where it rounds as the definition does:
// a sum, difference or product of two bf16 values, rounded to f32 and then to
// bf16, is the one rounded to bf16 (24 >= 2 * 8 + 2; no product of two 8-bit
// significands lies so near to a subnormal midpoint that f32 moves it there).
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCUDA/VectorEvaluator.h"

#include "fp8/Conversion/Common/Evaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fp8;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static Type elementOf(Value value) { return typeOf(value).getElementType(); }

static bool isByte(Type element) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(element) || element.isInteger(8);
}

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

ArrayRef<Value> VectorEvaluator::floatsOf(Lanes &lanes, OpBuilder &at) {
  if (!lanes.floats.empty())
    return lanes.floats;
  Device d(lanes.hoisted ? outside : at, loc);
  Type f32 = at.getF32Type();
  bool lone = lanes.pairs.size() == 1;
  for (Value pair : lanes.pairs) {
    lanes.floats.push_back(d.bitcast(d.shiftLeft(pair, 16), f32));
    if (!lone)
      lanes.floats.push_back(
          d.bitcast(d.bitAnd(pair, int32_t(0xFFFF0000)), f32));
  }
  return lanes.floats;
}

ArrayRef<Value> VectorEvaluator::pairsOf(Lanes &lanes, OpBuilder &at) {
  if (!lanes.pairs.empty())
    return lanes.pairs;
  Device d(lanes.hoisted ? outside : at, loc);
  ArrayRef<Value> x = lanes.floats;
  if (x.size() == 1)
    lanes.pairs.push_back(d.packBF16(x[0], x[0]));
  else
    for (size_t i = 0; i < x.size(); i += 2)
      lanes.pairs.push_back(d.packBF16(x[i + 1], x[i]));
  return lanes.pairs;
}

ArrayRef<Value> VectorEvaluator::floatsOf(Lanes &lanes) {
  return floatsOf(lanes, body);
}
ArrayRef<Value> VectorEvaluator::pairsOf(Lanes &lanes) {
  return pairsOf(lanes, body);
}

/// Element i, or the lone one.
static Value pick(ArrayRef<Value> values, size_t i) {
  return values[values.size() == 1 ? 0 : i];
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value VectorEvaluator::positionOf(Value value, bool flip, const Slot &slot,
                                  int64_t offset, int64_t pitch,
                                  OpBuilder &at) {
  Extent extent = *rules.extentOf(value, flip);
  Device d(at, loc);
  auto index = [&](Value position, int64_t divisor) {
    return divisor == 0 ? d.i64(0) : d.div(position, divisor);
  };
  Value row = index(slot.row, extent.row), col = index(slot.col, extent.col);
  if (flip)
    std::swap(row, col);
  Value outer = d.mul(row, pitch);
  return d.add(d.add(outer, col), offset);
}

/// f32 come in two pieces of 16 bytes, `stride` bytes from each other.
Lanes VectorEvaluator::loadElements(Value pointer, Type element, bool vector,
                                    Value position, OpBuilder &at,
                                    int64_t stride) {
  Device d(at, loc);
  Type i32 = at.getI32Type(), f32 = at.getF32Type();
  Lanes lanes;
  if (isa<E5M6Type>(element)) {
    Value from =
        d.address(pointer, d.mul(d.div(position, 2), 3), at.getI8Type());
    for (int64_t word = 0; word < 3; ++word)
      lanes.codes.push_back(d.load(d.address(from, d.i32(word), i32), i32, 4));
  } else if (isByte(element)) {
    Value from = d.address(pointer, position, at.getI8Type());
    lanes.codes.append(d.unpack(d.load(from, VectorType::get({2}, i32), 8)));
  } else if (element.isBF16() && vector) {
    Value from = d.address(pointer, position, at.getI16Type());
    lanes.pairs.append(d.unpack(d.load(from, VectorType::get({4}, i32), 16)));
  } else if (element.isBF16()) {
    Value from = d.address(pointer, position, at.getI16Type());
    Value code = d.toInt(d.load(from, at.getI16Type(), 2), 32);
    lanes.floats.push_back(d.bitcast(d.shiftLeft(code, 16), f32));
  } else if (vector) {
    for (int64_t half : {int64_t(0), stride / 4}) {
      Value from = d.address(pointer, d.add(position, half), f32);
      lanes.floats.append(
          d.unpack(d.load(from, VectorType::get({4}, f32), 16)));
    }
  } else {
    lanes.floats.push_back(d.load(d.address(pointer, position, f32), f32, 4));
  }
  return lanes;
}

Value VectorEvaluator::leafAddress(Value value, const Slot &slot) {
  Leaf leaf = *getLeaf(value);
  Device d(body, loc);
  Type element = elementOf(value);
  Value position =
      positionOf(value, false, slot, leaf.offset, leaf.pitch, body);
  return d.address(pointers[leaf.argument.getArgNumber()], position,
                   body.getIntegerType(element.getIntOrFloatBitWidth()));
}

void VectorEvaluator::readLeaf(Value value, const Slot &slot, Value pointer,
                               int64_t stride) {
  setLanes(value, false, slot,
           loadElements(pointer, elementOf(value), /*vector=*/true,
                        Device(body, loc).i32(0), body, stride));
}

void VectorEvaluator::prepareStore(Value value, bool flip, const Slot &slot) {
  Lanes &lanes = evaluate(value, flip, slot);
  if (elementOf(value).isBF16())
    (void)pairsOf(lanes);
  else if (elementOf(value).isF32())
    (void)floatsOf(lanes);
}

void VectorEvaluator::store(Value value, bool flip, const Slot &slot,
                            Value pointer) {
  Lanes &lanes = evaluate(value, flip, slot);
  Device d(body, loc);
  Type element = elementOf(value);
  ArrayRef<int64_t> shape = typeOf(value).getShape();
  Value position =
      positionOf(value, flip, slot, 0, shape.empty() ? 1 : shape.back(), body);
  bool vector = rules.extentOf(value, flip)->col == 1;
  auto write = [&](Type type, int64_t offset, ArrayRef<Value> values) {
    Value to = d.address(pointer, d.add(position, offset), type);
    int64_t bytes = values.size() * 4;
    d.store(to, values.size() == 1 ? values[0] : d.pack(values), bytes);
  };
  if (isa<E5M6Type>(element)) {
    Value to =
        d.address(pointer, d.mul(d.div(position, 2), 3), body.getI8Type());
    for (auto [word, code] : llvm::enumerate(lanes.codes))
      d.store(d.address(to, d.i32(word), body.getI32Type()), code, 4);
  } else if (isByte(element)) {
    write(body.getI8Type(), 0, lanes.codes);
  } else if (element.isBF16() && vector) {
    SmallVector<Value> pairs(pairsOf(lanes));
    if (pairs.size() == 1)
      pairs.assign(4, pairs[0]);
    write(body.getI16Type(), 0, pairs);
  } else if (element.isBF16()) {
    Value code = d.toInt(pairsOf(lanes)[0], 16);
    d.store(d.address(pointer, position, body.getI16Type()), code, 2);
  } else {
    SmallVector<Value> floats(floatsOf(lanes));
    if (vector && floats.size() == 1)
      floats.assign(kVector, floats[0]);
    if (floats.size() == 1)
      return write(body.getF32Type(), 0, floats);
    if (flip && shape.back() != 1) {
      for (auto [j, x] : llvm::enumerate(floats))
        write(body.getF32Type(), j * shape.back(), {x});
      return;
    }
    write(body.getF32Type(), 0, ArrayRef(floats).take_front(4));
    write(body.getF32Type(), 4, ArrayRef(floats).drop_front(4));
  }
}

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

VectorEvaluator::Key VectorEvaluator::keyOf(Value value, bool flip,
                                            const Slot &slot,
                                            Extent extent) const {
  auto id = [](int64_t divisor, int one, int block) {
    return divisor == 0 ? -1 : divisor == 1 ? one : block;
  };
  return {value.getAsOpaquePointer(), flip,
          id(extent.row, slot.rowId, slot.rowBlockId),
          id(extent.col, slot.colId, slot.colBlockId)};
}

Lanes &VectorEvaluator::evaluate(Value value, bool flip, const Slot &slot) {
  Extent extent = *rules.extentOf(value, flip);
  Key key = keyOf(value, flip, slot, extent);
  if (auto it = cache.find(key); it != cache.end())
    return it->second;
  bool hoist = extent.row == 0 && !rules.dependsOnLocal(value);
  Lanes lanes = compute(value, flip, slot, hoist ? outside : body);
  lanes.hoisted = hoist;
  return remember(key, std::move(lanes));
}

Lanes &VectorEvaluator::remember(const Key &key, Lanes lanes) {
  Lanes &known = cache[key] = std::move(lanes);
  if (key.row != -1)
    perRow.push_back(&known);
  return known;
}

void VectorEvaluator::setLanes(Value value, bool flip, const Slot &slot,
                               Lanes lanes) {
  remember(keyOf(value, flip, slot, *rules.extentOf(value, flip)),
           std::move(lanes));
}

void VectorEvaluator::shrink() {
  Device d(body, loc);
  for (Lanes *lanes : perRow) {
    if (lanes->pairs.size() != 4 || lanes->hoisted)
      continue;
    lanes->floats.clear();
    for (Value &pair : lanes->pairs)
      pair = d.hide(pair);
  }
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Packed arithmetic of two bf16 pairs, or null.
static Value computePair(Operation *op, ArrayRef<Value> operands, OpBuilder &at,
                         Location loc) {
  Device d(at, loc);
  if (isa<math::AbsFOp>(op))
    return d.bitAnd(operands[0], 0x7FFF7FFF);
  if (isa<arith::NegFOp>(op))
    return arith::XOrIOp::create(at, loc, operands[0],
                                 d.i32(int32_t(0x80008000)));
  Type type = VectorType::get({2}, at.getBF16Type());
  Value x = d.bitcast(operands[0], type), y = d.bitcast(operands[1], type);
  Value result =
      TypeSwitch<Operation *, Value>(op)
          .Case<arith::AddFOp, arith::SubFOp, arith::MulFOp>([&](auto binary) {
            return decltype(binary)::create(at, loc, x, y);
          });
  return d.bitcast(result, at.getI32Type());
}

static Value computeOne(Operation *op, ArrayRef<Value> x, OpBuilder &at,
                        Location loc) {
  Numerics n(at, loc, /*minimumPropagatesNaN=*/true);
  return TypeSwitch<Operation *, Value>(op)
      .Case<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp>(
          [&](auto binary) -> Value {
            return decltype(binary)::create(at, loc, x[0], x[1]);
          })
      .Case([&](arith::NegFOp) { return n.neg(x[0]); })
      .Case([&](arith::MaximumFOp) { return n.maximum(x[0], x[1]); })
      .Case([&](arith::MinimumFOp) { return n.minimum(x[0], x[1]); })
      .Case([&](arith::CmpFOp compare) -> Value {
        return arith::CmpFOp::create(at, loc, compare.getPredicate(), x[0],
                                     x[1]);
      })
      .Case([&](arith::SelectOp) -> Value {
        return arith::SelectOp::create(at, loc, x[0], x[1], x[2]);
      })
      .Case([&](math::AbsFOp) { return n.abs(x[0]); })
      .Case([&](math::ExpOp) { return n.exp(x[0]); })
      .Case([&](math::LogOp) { return n.log(x[0]); })
      .Case([&](math::SqrtOp) { return n.sqrt(x[0]); })
      .Case([&](math::RsqrtOp) { return n.rsqrt(x[0]); })
      .Case([&](math::TanhOp) { return n.tanh(x[0]); })
      .Case([&](math::ErfOp) { return n.erf(x[0]); })
      .Default([](Operation *) { return Value(); });
}

/// 1 / x of each, rounded to nearest, with one branch for all. The
/// approximation and one Newton step give it, as in the code that ptxas makes
/// of a division, unless the approximation is zero, infinite or NaN: then the
/// error of its product with x is 1 or NaN, else it is below 2^-22.
static SmallVector<Value> reciprocals(ArrayRef<Value> x, OpBuilder &at,
                                      Location loc) {
  Device d(at, loc);
  Value minusOne = d.f32(-1.0f), errors;
  SmallVector<Value> results;
  Type f32 = at.getF32Type();
  for (Value value : x) {
    Value r = d.approximateReciprocal(value);
    Value e = LLVM::FMAOp::create(at, loc, f32, value, r, minusOne);
    Value correction = arith::NegFOp::create(at, loc, e);
    results.push_back(LLVM::FMAOp::create(at, loc, f32, r, correction, r));
    Value error = LLVM::FAbsOp::create(at, loc, e);
    errors =
        errors ? Value(arith::AddFOp::create(at, loc, errors, error)) : error;
  }
  Value near = arith::CmpFOp::create(at, loc, arith::CmpFPredicate::OLT, errors,
                                     d.f32(0.5f));
  return d.reciprocalsUnless(near, results, x);
}

Lanes VectorEvaluator::computeElementwise(Operation *op, bool flip,
                                          const Slot &slot, OpBuilder &at) {
  SmallVector<Lanes *> operands;
  for (Value operand : op->getOperands())
    operands.push_back(&evaluate(operand, flip, slot));
  Type element = elementOf(op->getResult(0));
  Lanes result;
  if (isa<arith::ExtFOp>(op)) {
    result.floats.append(floatsOf(*operands[0], at).begin(),
                         floatsOf(*operands[0], at).end());
    return result;
  }
  if (isa<arith::TruncFOp>(op)) {
    // A value of its own: the floats of the operand are not rounded.
    Lanes unrounded;
    unrounded.floats = operands[0]->floats;
    if (unrounded.floats.empty())
      unrounded.pairs = operands[0]->pairs;
    ArrayRef<Value> pairs = pairsOf(unrounded, at);
    result.pairs.append(pairs.begin(), pairs.end());
    return result;
  }
  bool paired =
      element.isBF16() && isa<arith::AddFOp, arith::SubFOp, arith::MulFOp,
                              math::AbsFOp, arith::NegFOp>(op);
  size_t count = 1;
  SmallVector<SmallVector<Value>> parts;
  for (auto [i, lanes] : llvm::enumerate(operands)) {
    ArrayRef<Value> part;
    if (!lanes->flags.empty())
      part = lanes->flags;
    else
      part = paired ? pairsOf(*lanes, at) : floatsOf(*lanes, at);
    parts.emplace_back(part);
    count = std::max(count, part.size());
  }
  Lanes computed;
  bool inverse = isa<arith::DivFOp>(op) && count > 1 && parts[0].size() == 1 &&
                 matchPattern(parts[0][0], m_OneFloat());
  if (inverse)
    computed.floats.append(reciprocals(parts[1], at, loc));
  for (size_t i = 0; i < count && !inverse; ++i) {
    SmallVector<Value> x;
    for (ArrayRef<Value> part : parts)
      x.push_back(pick(part, i));
    if (paired)
      result.pairs.push_back(computePair(op, x, at, loc));
    else
      computed.floats.push_back(computeOne(op, x, at, loc));
  }
  if (paired)
    return result;
  if (element.isInteger(1))
    result.flags = computed.floats;
  else if (element.isBF16())
    result.pairs.append(pairsOf(computed, at).begin(),
                        pairsOf(computed, at).end());
  else
    result.floats = computed.floats;
  return result;
}

SmallVector<Value> VectorEvaluator::products(Lanes &x, Lanes &scale,
                                             OpBuilder &at) {
  ArrayRef<Value> values = floatsOf(x, at), scales = floatsOf(scale, at);
  SmallVector<Value> result;
  for (int64_t i = 0; i < kVector; ++i)
    result.push_back(
        arith::MulFOp::create(at, loc, pick(values, i), pick(scales, i)));
  return result;
}

SmallVector<Value> VectorEvaluator::castProducts(CastOp cast, bool flip,
                                                 const Slot &slot) {
  Lanes &x = evaluate(cast.getX(), flip, slot);
  Lanes &scale = evaluate(cast.getScale(), flip, slot);
  return products(x, scale, body);
}

/// Four i8 or two i16 codes, the lowest first, as i32.
static SmallVector<Value> packWords(Device d, ArrayRef<Value> codes) {
  unsigned width = codes.front().getType().getIntOrFloatBitWidth();
  size_t perWord = 32 / width;
  SmallVector<Value> words;
  for (size_t i = 0; i < codes.size(); i += perWord) {
    Value word = d.toInt(codes[i], 32);
    for (size_t j = 1; j < perWord; ++j)
      word = d.bitOr(word, d.shiftLeft(d.toInt(codes[i + j], 32), j * width));
    words.push_back(word);
  }
  return words;
}

/// Eight codes of 12 bits, as three i32.
static SmallVector<Value> packE5M6(Device d, ArrayRef<Value> codes) {
  SmallVector<Value> words(3);
  for (auto [i, code] : llvm::enumerate(codes)) {
    size_t word = i * 12 / 32, bit = i * 12 % 32;
    Value part = bit ? d.shiftLeft(code, bit) : code;
    words[word] = words[word] ? d.bitOr(words[word], part) : part;
    if (bit > 20)
      words[word + 1] = d.shiftRight(code, 32 - bit);
  }
  return words;
}

/// The eight codes in three i32, as i32.
static SmallVector<Value> unpackE5M6(Device d, ArrayRef<Value> words) {
  SmallVector<Value> codes;
  for (size_t i = 0; i < size_t(kVector); ++i) {
    size_t word = i * 12 / 32, bit = i * 12 % 32;
    Value code = bit ? d.shiftRight(words[word], bit) : words[word];
    if (bit > 20)
      code = d.bitOr(code, d.shiftLeft(words[word + 1], 32 - bit));
    codes.push_back(d.bitAnd(code, 0xFFF));
  }
  return codes;
}

Lanes VectorEvaluator::compute(Value value, bool flip, const Slot &slot,
                               OpBuilder &at) {
  Device d(at, loc);
  bool vector = rules.extentOf(value, flip)->col == 1;
  if (auto it = memory.find(value); it != memory.end()) {
    ArrayRef<int64_t> shape = typeOf(value).getShape();
    Value position =
        positionOf(value, flip, slot, 0, shape.empty() ? 1 : shape.back(), at);
    Lanes lanes =
        loadElements(it->second, at.getF32Type(), vector, position, at);
    return lanes;
  }
  if (std::optional<Leaf> leaf = getLeaf(value)) {
    Value position =
        positionOf(value, flip, slot, leaf->offset, leaf->pitch, at);
    return loadElements(pointers[leaf->argument.getArgNumber()],
                        elementOf(value), vector, position, at);
  }
  Operation *op = value.getDefiningOp();
  Lanes lanes;
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto splat = cast<SplatElementsAttr>(constant.getValue());
    lanes.floats.push_back(
        d.f32(float(splat.getSplatValue<APFloat>().convertToDouble())));
    return lanes;
  }
  if (isa<PermuteOp, TransposeOp>(op)) {
    ArrayRef<int64_t> perm = isa<PermuteOp>(op)
                                 ? cast<PermuteOp>(op).getPerm()
                                 : cast<TransposeOp>(op).getPerm();
    return evaluate(op->getOperand(0), llvm::is_sorted(perm) ? flip : !flip,
                    slot);
  }
  if (isa<BroadcastOp, ReshapeOp>(op))
    return evaluate(op->getOperand(0), flip, slot);
  if (auto scale = dyn_cast<ScaleOp>(op)) {
    ScaleRule rule{scale.getFormat(),          scale.getEps().convertToDouble(),
                   scale.getDivision(),        scale.getPow2(),
                   int64_t(scale.getMargin()), scale.getNonfinite()};
    Lanes &amax = evaluate(scale.getAmax(), flip, slot);
    for (Value x : floatsOf(amax, at))
      lanes.floats.push_back(Numerics(at, loc).scale(x, rule));
    return lanes;
  }
  if (auto cast = dyn_cast<CastOp>(op)) {
    Lanes &x = evaluate(cast.getX(), flip, slot);
    Lanes &scale = evaluate(cast.getScale(), flip, slot);
    SmallVector<Value> values = products(x, scale, at), codes;
    Type format = elementOf(value);
    if (isa<E5M6Type>(format)) {
      for (Value x : values)
        codes.push_back(d.toInt(
            Numerics(at, loc).encodeScaled(x, format, cast.getSaturate()), 32));
      lanes.codes.append(packE5M6(d, codes));
      return lanes;
    }
    if (cast.getSaturate()) {
      for (int64_t i = 0; i < kVector; i += 2)
        codes.push_back(d.packF8(values[i + 1], values[i], format));
    } else {
      for (Value x : values)
        codes.push_back(Numerics(at, loc).encodeScaled(x, format, false));
    }
    lanes.codes.append(packWords(d, codes));
    return lanes;
  }
  if (auto dequantize = dyn_cast<DequantizeOp>(op)) {
    Lanes &q = evaluate(dequantize.getQ(), flip, slot);
    Lanes &scale = evaluate(dequantize.getScale(), flip, slot);
    Lanes factors, values;
    for (Value s : floatsOf(scale, at))
      factors.floats.push_back(arith::DivFOp::create(at, loc, d.f32(1.0f), s));
    Type format = elementOf(dequantize.getQ());
    if (isa<E5M6Type>(format))
      for (Value code : unpackE5M6(d, q.codes))
        values.floats.push_back(
            Numerics(at, loc).decodeScaled(d.toInt(code, 16), format));
    else
      for (Value word : q.codes)
        for (int64_t half : {0, 16}) {
          Value codes = word;
          if (half)
            codes = arith::ShRUIOp::create(at, loc, word, d.i32(half));
          auto [low, high] = d.unpackF8(d.toInt(codes, 16), format);
          values.floats.append({low, high});
        }
    Lanes product;
    product.floats.append(products(values, factors, at));
    if (!elementOf(value).isBF16())
      return product;
    lanes.pairs.append(pairsOf(product, at).begin(),
                       pairsOf(product, at).end());
    return lanes;
  }
  if (isa<AmaxOp, ReduceOp>(op)) {
    // Groups of one element.
    Numerics n(at, loc);
    auto reduce = dyn_cast<ReduceOp>(op);
    Lanes computed;
    for (Value x : floatsOf(evaluate(op->getOperand(0), flip, slot), at)) {
      if (isa<AmaxOp>(op))
        x = n.abs(x);
      if (reduce && reduce.getKind() == ReduceKind::Sum)
        x = arith::AddFOp::create(at, loc, d.f32(0.0f), x);
      else
        x = n.fromMaxKey(n.toMaxKey(x));
      computed.floats.push_back(x);
    }
    if (!elementOf(value).isBF16())
      return computed;
    lanes.pairs.append(pairsOf(computed, at).begin(),
                       pairsOf(computed, at).end());
    return lanes;
  }
  return computeElementwise(op, flip, slot, at);
}
