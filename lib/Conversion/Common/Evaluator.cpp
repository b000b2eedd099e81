//===- Evaluator.cpp --------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Indices, loops, memory accesses and the cache; what each op computes is in
// EvaluateOps.cpp.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Evaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8;

SmallVector<int64_t> mlir::fp8::rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i)
    strides[i - 2] = strides[i - 1] * shape[i - 1];
  return strides;
}

SmallVector<int64_t> mlir::fp8::reductionGroup(Operation *op) {
  if (auto amax = dyn_cast<AmaxOp>(op))
    return SmallVector<int64_t>(amax.getGroup());
  auto reduce = cast<ReduceOp>(op);
  SmallVector<int64_t> group(reduce.getX().getType().getRank(), 1);
  for (int64_t axis : reduce.getAxes())
    group[axis] = 0;
  return group;
}

bool mlir::fp8::isReduction(Operation *op) {
  if (!op || !isa<AmaxOp, ReduceOp>(op))
    return false;
  auto shape = cast<RankedTensorType>(op->getOperand(0).getType()).getShape();
  for (auto [dim, group] : llvm::zip_equal(shape, reductionGroup(op)))
    if (dim != 1 && group != 1)
      return true;
  return false;
}

int64_t mlir::fp8::lastDimension(ArrayRef<int64_t> shape) {
  for (int64_t dim = shape.size() - 1; dim >= 0; --dim)
    if (shape[dim] != 1)
      return dim;
  return -1;
}

int64_t mlir::fp8::countReduced(Operation *op) {
  auto shape = cast<RankedTensorType>(op->getOperand(0).getType()).getShape();
  int64_t count = 1;
  for (auto [dim, group] : llvm::zip_equal(shape, reductionGroup(op)))
    count *= group == 0 ? dim : std::min(group, dim);
  return count;
}

bool mlir::fp8::isSmallReduction(Operation *op) {
  constexpr int64_t kMostElements = 8;
  return isReduction(op) && isa<ReduceOp>(op) &&
         countReduced(op) <= kMostElements;
}

Evaluator::Evaluator(Block &entry, Block &kernelBody, unsigned numResults,
                     Location loc)
    : builder(entry.getTerminator()), loc(loc), kernelBody(kernelBody),
      entry(entry) {
  scopes.push_back({entry.getTerminator(), {}});
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  for (unsigned i = 0; i < kernelBody.getNumArguments() + numResults; ++i) {
    Value slot = LLVM::GEPOp::create(builder, loc, pointer, pointer,
                                     entry.getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{int32_t(i)});
    arguments.push_back(
        LLVM::LoadOp::create(builder, loc, pointer, slot, /*alignment=*/8));
  }
}

Evaluator::Evaluator(Block &entry, Block &kernelBody, ArrayRef<Value> pointers,
                     Location loc)
    : builder(entry.getTerminator()), loc(loc), kernelBody(kernelBody),
      entry(entry), arguments(pointers) {
  scopes.push_back({entry.getTerminator(), {}});
}

Value Evaluator::argument(unsigned number) { return arguments[number]; }

//===----------------------------------------------------------------------===//
// Loops and insertion points
//===----------------------------------------------------------------------===//

OpBuilder &Evaluator::at(unsigned level) {
  builder.setInsertionPoint(scopes[level].insertBefore);
  return builder;
}

OpBuilder &Evaluator::here() { return at(scopes.size() - 1); }

Value Evaluator::remember(Value value, unsigned level) {
  if (level)
    levels[value] = level;
  return value;
}

unsigned Evaluator::levelOf(ArrayRef<Index> indices) const {
  unsigned level = 0;
  for (const Index &index : indices)
    level = std::max(level, levelOf(index.base));
  return level;
}

void Evaluator::loop(Value low, Value high, int64_t step,
                     function_ref<void(Value)> body) {
  Value stepValue = constant(step);
  auto forOp = scf::ForOp::create(here(), loc, low, high, stepValue);
  Operation *after = scopes.back().insertBefore;
  scopes.back().insertBefore = forOp;
  scopes.push_back({forOp.getBody()->getTerminator(), {}});
  levels[forOp.getInductionVar()] = scopes.size() - 1;
  body(forOp.getInductionVar());
  scopes.pop_back();
  scopes.back().insertBefore = after;
}

void Evaluator::loop(int64_t low, int64_t high, int64_t step,
                     function_ref<void(Value)> body) {
  if (low >= high)
    return;
  if (low + step >= high)
    return body(constant(low));
  loop(constant(low), constant(high), step, body);
}

//===----------------------------------------------------------------------===//
// i64 arithmetic
//===----------------------------------------------------------------------===//

Value Evaluator::constant(int64_t value) {
  Value &known = constants[value];
  if (!known) {
    // At the very start: a constant may be asked for at any depth and is used
    // at every other.
    OpBuilder start = OpBuilder::atBlockBegin(&entry);
    known =
        arith::ConstantOp::create(start, loc, start.getI64IntegerAttr(value));
  }
  return known;
}

static std::optional<int64_t> constantOf(Value value) {
  IntegerAttr attribute;
  if (matchPattern(value, m_Constant(&attribute)))
    return attribute.getInt();
  return std::nullopt;
}

Value Evaluator::add(Value x, Value y) {
  std::optional<int64_t> a = constantOf(x), b = constantOf(y);
  if (a && b)
    return constant(*a + *b);
  if (a == 0)
    return y;
  if (b == 0)
    return x;
  unsigned level = std::max(levelOf(x), levelOf(y));
  return remember(arith::AddIOp::create(at(level), loc, x, y), level);
}

Value Evaluator::sub(Value x, Value y) {
  std::optional<int64_t> a = constantOf(x), b = constantOf(y);
  if (x == y)
    return constant(0);
  if (a && b)
    return constant(*a - *b);
  if (b == 0)
    return x;
  unsigned level = std::max(levelOf(x), levelOf(y));
  return remember(arith::SubIOp::create(at(level), loc, x, y), level);
}

Value Evaluator::mul(Value x, int64_t y) {
  if (std::optional<int64_t> a = constantOf(x))
    return constant(*a * y);
  if (y == 1)
    return x;
  if (y == 0)
    return constant(0);
  unsigned level = levelOf(x);
  Value factor = constant(y);
  return remember(arith::MulIOp::create(at(level), loc, x, factor), level);
}

// Indices are never negative: unsigned division is a shift where it can be.
Value Evaluator::div(Value x, int64_t y) {
  if (std::optional<int64_t> a = constantOf(x))
    return constant(*a / y);
  if (y == 1)
    return x;
  unsigned level = levelOf(x);
  Value divisor = constant(y);
  return remember(arith::DivUIOp::create(at(level), loc, x, divisor), level);
}

Value Evaluator::rem(Value x, int64_t y) {
  if (std::optional<int64_t> a = constantOf(x))
    return constant(*a % y);
  if (y == 1)
    return constant(0);
  unsigned level = levelOf(x);
  Value divisor = constant(y);
  return remember(arith::RemUIOp::create(at(level), loc, x, divisor), level);
}

Value Evaluator::min(Value x, int64_t y) {
  if (std::optional<int64_t> a = constantOf(x))
    return constant(std::min(*a, y));
  unsigned level = levelOf(x);
  Value limit = constant(y);
  return remember(arith::MinSIOp::create(at(level), loc, x, limit), level);
}

Value Evaluator::max(Value x, int64_t y) {
  if (std::optional<int64_t> a = constantOf(x))
    return constant(std::max(*a, y));
  unsigned level = levelOf(x);
  Value limit = constant(y);
  return remember(arith::MaxSIOp::create(at(level), loc, x, limit), level);
}

Index Evaluator::linearize(ArrayRef<Index> indices, ArrayRef<int64_t> strides) {
  // Outer dimensions first, so that what does not change in the inner loop is
  // added up outside of it.
  Index position{constant(0), 0, false};
  bool aligned = true;
  for (auto [index, stride] : llvm::zip_equal(indices, strides)) {
    position.base = add(position.base, mul(index.base, stride));
    position.step += index.step * stride;
    std::optional<int64_t> fixed = constantOf(index.base);
    aligned &= index.aligned || stride % kLanes == 0 ||
               (fixed && *fixed * stride % kLanes == 0);
  }
  position.aligned = aligned && position.step == 1;
  return position;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value Evaluator::stackArray(Type element, int64_t count) {
  OpBuilder start = OpBuilder::atBlockBegin(&entry);
  int64_t bytes = count * llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
  stackSize += bytes;
  Value size = LLVM::ConstantOp::create(start, loc, start.getI64Type(),
                                        start.getI64IntegerAttr(count));
  return LLVM::AllocaOp::create(start, loc,
                                LLVM::LLVMPointerType::get(start.getContext()),
                                element, size, /*alignment=*/64);
}

/// The type an element has in memory: an i1 takes a byte.
static Type storageType(Type element) {
  unsigned width = std::max(element.getIntOrFloatBitWidth(), 8u);
  if (element.isF32())
    return element;
  return IntegerType::get(element.getContext(), width);
}

static Value address(OpBuilder &b, Location loc, Value pointer, Value index,
                     Type element) {
  if (auto vector = dyn_cast<VectorType>(element))
    element = vector.getElementType();
  return LLVM::GEPOp::create(b, loc, pointer.getType(), element, pointer,
                             ArrayRef<LLVM::GEPArg>{index});
}

static unsigned alignmentOf(Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    type = vector.getElementType();
  return type.getIntOrFloatBitWidth() / 8;
}

Value Evaluator::load(Value pointer, Value index, Type type) {
  OpBuilder &b = here();
  return LLVM::LoadOp::create(
      b, loc, type, address(b, loc, pointer, index, type), alignmentOf(type));
}

void Evaluator::write(Value pointer, Value index, Value value) {
  OpBuilder &b = here();
  LLVM::StoreOp::create(b, loc, value,
                        address(b, loc, pointer, index, value.getType()),
                        alignmentOf(value.getType()));
}

Value Evaluator::loadPacked(Value pointer, Value position, bool vector,
                            unsigned level) {
  Value byte = div(mul(position, 3), 2);
  Value odd = rem(position, 2);
  OpBuilder &b = at(level);
  Type i8 = b.getI8Type(), i16 = b.getI16Type();
  Value from = address(b, loc, pointer, byte, i8);
  Value words, shift;
  if (vector) {
    Value bytes = LLVM::LoadOp::create(
        b, loc, VectorType::get({kLanes / 2 * 3}, i8), from, /*alignment=*/1);
    // The two bytes that hold each code, and where in them it starts.
    SmallVector<int64_t> picked;
    SmallVector<int16_t> shifts;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      picked.append({lane * 3 / 2, lane * 3 / 2 + 1});
      shifts.push_back(lane % 2 * 4);
    }
    auto type = VectorType::get({kLanes}, i16);
    words = vector::BitCastOp::create(
        b, loc, type, vector::ShuffleOp::create(b, loc, bytes, bytes, picked));
    shift = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(type, ArrayRef<int16_t>(shifts)));
  } else {
    words = LLVM::LoadOp::create(b, loc, i16, from, /*alignment=*/1);
    shift = arith::TruncIOp::create(
        b, loc, i16,
        arith::MulIOp::create(b, loc, odd, Numerics(b, loc).i64(4)));
  }
  Value mask = arith::ConstantOp::create(b, loc, b.getI16IntegerAttr(0xFFF));
  if (vector)
    mask = Numerics(b, loc).splat(mask, kLanes);
  return arith::AndIOp::create(
      b, loc, arith::ShRUIOp::create(b, loc, words, shift), mask);
}

/// The three bytes of an even code and the odd one after it, in the lower 24
/// bits of i32.
static Value joinCodes(OpBuilder &b, Location loc, Value even, Value odd) {
  Numerics n(b, loc);
  auto vector = dyn_cast<VectorType>(even.getType());
  Type wide = vector ? VectorType::get(vector.getShape(), b.getI32Type())
                     : Type(b.getI32Type());
  even = arith::ExtUIOp::create(b, loc, wide, even);
  odd = arith::ExtUIOp::create(b, loc, wide, odd);
  return arith::OrIOp::create(
      b, loc, even, arith::ShLIOp::create(b, loc, odd, n.i32(12, odd)));
}

void Evaluator::storePacked(Value pointer, Value position, Value codes) {
  Value byte = div(mul(position, 3), 2);
  OpBuilder &b = here();
  SmallVector<int64_t> even, odd, kept;
  for (int64_t pair = 0; pair < kLanes / 2; ++pair) {
    even.push_back(2 * pair);
    odd.push_back(2 * pair + 1);
    kept.append({4 * pair, 4 * pair + 1, 4 * pair + 2});
  }
  Value words =
      joinCodes(b, loc, vector::ShuffleOp::create(b, loc, codes, codes, even),
                vector::ShuffleOp::create(b, loc, codes, codes, odd));
  Value bytes = vector::BitCastOp::create(
      b, loc, VectorType::get({kLanes * 2}, b.getI8Type()), words);
  write(pointer, byte, vector::ShuffleOp::create(b, loc, bytes, bytes, kept));
}

void Evaluator::storePair(Value pointer, Value value, ArrayRef<Index> indices,
                          Index position, Element element) {
  Value odd = rem(position.base, 2);
  SmallVector<Index> other(indices);
  // One further from an even position, one back from an odd one.
  other.back().base = sub(add(other.back().base, constant(1)), mul(odd, 2));
  other.back().aligned = false;
  Value neighbour = evaluate(value, other).value;
  Value byte = mul(div(position.base, 2), 3);
  OpBuilder &b = here();
  Value isOdd =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, odd, constant(0));
  Value low = arith::SelectOp::create(b, loc, isOdd, neighbour, element.value);
  Value high = arith::SelectOp::create(b, loc, isOdd, element.value, neighbour);
  Value word = joinCodes(b, loc, low, high);
  for (int64_t i = 0; i < 3; ++i) {
    Value part = arith::ShRUIOp::create(here(), loc, word,
                                        numerics().i32(int32_t(8 * i), word));
    write(pointer, add(byte, constant(i)),
          arith::TruncIOp::create(here(), loc, builder.getI8Type(), part));
  }
}

Element Evaluator::loadElements(Value pointer, Type element, Index position,
                                unsigned minLevel) {
  unsigned level = std::max(levelOf(position.base), minLevel);
  Value raw;
  if (isa<E5M6Type>(element)) {
    if (position.step <= 1)
      return {loadPacked(pointer, position.base, position.step, level),
              position.step ? kLanes : 1, level};
    SmallVector<Value> parts;
    for (int64_t lane = 0; lane < kLanes; ++lane)
      parts.push_back(loadPacked(
          pointer, add(position.base, constant(lane * position.step)),
          /*vector=*/false, level));
    Type type = VectorType::get({kLanes}, parts.front().getType());
    return {vector::FromElementsOp::create(at(level), loc, type, parts), kLanes,
            level};
  }
  Type storage = storageType(element);
  if (position.step == 0 || position.step == 1) {
    Type type = position.step ? VectorType::get({kLanes}, storage) : storage;
    OpBuilder &b = at(level);
    int64_t bytes = alignmentOf(storage);
    if (position.aligned)
      bytes = std::max(bytes, std::min(alignment, kLanes * bytes));
    raw = LLVM::LoadOp::create(
        b, loc, type, address(b, loc, pointer, position.base, storage), bytes);
  } else {
    SmallVector<Value> parts;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      Value index = add(position.base, constant(lane * position.step));
      OpBuilder &b = at(level);
      parts.push_back(LLVM::LoadOp::create(
          b, loc, storage, address(b, loc, pointer, index, storage),
          alignmentOf(storage)));
    }
    raw = vector::FromElementsOp::create(
        at(level), loc, VectorType::get({kLanes}, storage), parts);
  }
  if (element.isBF16())
    raw = Numerics(at(level), loc).decodeBF16(raw);
  if (element.isInteger(1))
    raw = arith::TruncIOp::create(at(level), loc,
                                  isa<VectorType>(raw.getType())
                                      ? VectorType::get({kLanes}, element)
                                      : element,
                                  raw);
  return {raw, position.step ? kLanes : 1, level};
}

void Evaluator::storeElements(Value pointer, Type type, Index position,
                              Element element) {
  if (position.step)
    element = widen(element);
  OpBuilder &b = here();
  Value raw = element.value;
  if (type.isBF16())
    raw = Numerics(b, loc).encodeBF16(raw);
  if (type.isInteger(1))
    raw = arith::ExtUIOp::create(b, loc,
                                 isa<VectorType>(raw.getType())
                                     ? VectorType::get({kLanes}, b.getI8Type())
                                     : Type(b.getI8Type()),
                                 raw);
  if (position.step <= 1) {
    int64_t bytes = alignmentOf(raw.getType());
    if (position.aligned)
      bytes = std::max(bytes, std::min(alignment, kLanes * bytes));
    LLVM::StoreOp::create(
        b, loc, raw, address(b, loc, pointer, position.base, raw.getType()),
        bytes);
    return;
  }
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    Value index = add(position.base, constant(lane * position.step));
    write(pointer, index, vector::ExtractOp::create(here(), loc, raw, lane));
  }
}

void Evaluator::store(unsigned number, ArrayRef<Index> indices,
                      Element element) {
  Value yielded = kernelBody.getTerminator()->getOperand(number);
  auto type = cast<RankedTensorType>(yielded.getType());
  SmallVector<Index> at(indices);
  if (auto update = yielded.getDefiningOp<UpdateSliceOp>())
    for (auto [index, offset] : llvm::zip_equal(at, update.getOffsets())) {
      index.base = add(index.base, constant(offset));
      index.aligned &= offset % kLanes == 0;
    }
  Value pointer = arguments[kernelBody.getNumArguments() + number];
  Index position = linearize(at, rowMajorStrides(type.getShape()));
  if (!isa<E5M6Type>(type.getElementType()))
    return storeElements(pointer, type.getElementType(), position, element);
  if (position.step == 1)
    return storePacked(pointer, position.base, widen(element).value);
  Value value = getStored(yielded);
  if (position.step == 0)
    return storePair(pointer, value, indices, position, element);
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    SmallVector<Index> single;
    for (const Index &index : indices)
      single.push_back(
          {add(index.base, constant(lane * index.step)), 0, false});
    storePair(pointer, value, single,
              {add(position.base, constant(lane * position.step)), 0, false},
              evaluate(value, single));
  }
}

void Evaluator::storeFloats(Value pointer, Value value, ArrayRef<Index> indices,
                            Element element) {
  auto type = cast<RankedTensorType>(value.getType());
  storeElements(pointer, here().getF32Type(),
                linearize(indices, rowMajorStrides(type.getShape())), element);
}

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

Element Evaluator::widen(Element element) {
  if (element.lanes != 1)
    return element;
  std::vector<std::pair<const void *, int64_t>> key = {
      {element.value.getAsOpaquePointer(), -1}};
  Element &known = scopes[element.level].cache[key];
  if (!known.value)
    known = {Numerics(at(element.level), loc).splat(element.value, kLanes),
             kLanes, element.level};
  return known;
}

SmallVector<Element> Evaluator::align(SmallVector<Element> elements,
                                      unsigned &level, int64_t &lanes) {
  level = 0;
  lanes = 1;
  for (const Element &element : elements) {
    level = std::max(level, element.level);
    lanes = std::max(lanes, element.lanes);
  }
  if (lanes != 1)
    for (Element &element : elements)
      element = widen(element);
  return elements;
}

Element Evaluator::evaluate(Value value, ArrayRef<Index> given) {
  auto type = cast<RankedTensorType>(value.getType());
  // An index into a dimension of size 1 is 0, however it came about.
  SmallVector<Index> indices(given);
  std::vector<std::pair<const void *, int64_t>> key = {
      {value.getAsOpaquePointer(), 0}};
  for (auto [dim, index] : llvm::zip_equal(type.getShape(), indices)) {
    if (flat ? type.getNumElements() == 1 : dim == 1)
      index = {constant(0), 0, false};
    key.push_back({index.base.getAsOpaquePointer(), index.step});
  }
  for (Scope &scope : scopes)
    if (auto it = scope.cache.find(key); it != scope.cache.end())
      return it->second;
  Element element = compute(value, indices);
  scopes[element.level].cache[key] = element;
  return element;
}

Element Evaluator::computeLanes(ArrayRef<Index> indices,
                                function_ref<Element(ArrayRef<Index>)> one) {
  SmallVector<Value> parts;
  unsigned level = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    SmallVector<Index> single;
    for (const Index &index : indices)
      single.push_back(
          {add(index.base, constant(lane * index.step)), 0, false});
    Element element = one(single);
    parts.push_back(element.value);
    level = std::max(level, element.level);
  }
  Type type = VectorType::get({kLanes}, parts.front().getType());
  return {vector::FromElementsOp::create(at(level), loc, type, parts), kLanes,
          level};
}
