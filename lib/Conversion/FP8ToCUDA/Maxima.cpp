//===- Maxima.cpp - maxima in registers -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The magnitude of a bf16 or f32 number orders as its bits do, without the
// sign, and every NaN lies above infinity. Pairs carry signs that mean nothing
// until they are taken apart.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Evaluator.h"
#include "fp8/Conversion/FP8ToCUDA/Emit.h"

using namespace mlir;
using namespace mlir::fp8;

MaxForm MaxEmitter::formOf(Operation *reduction) {
  if (!isa<AmaxOp>(reduction))
    return MaxForm::Keys;
  auto type = cast<RankedTensorType>(reduction->getOperand(0).getType());
  return type.getElementType().isBF16() ? MaxForm::Pairs : MaxForm::Bits;
}

Value MaxEmitter::lowest(MaxForm form) {
  return d.i32(form == MaxForm::Keys ? Numerics::kLowestKey : 0);
}

SmallVector<Value> MaxEmitter::wordsOf(VectorEvaluator &evaluator,
                                       Operation *reduction, bool flip,
                                       const Slot &slot, Value valid) {
  MaxForm form = formOf(reduction);
  Lanes &lanes = evaluator.evaluate(reduction->getOperand(0), flip, slot);
  SmallVector<Value> words;
  if (form == MaxForm::Pairs)
    llvm::append_range(words, evaluator.pairsOf(lanes));
  else
    for (Value x : evaluator.floatsOf(lanes)) {
      if (form == MaxForm::Bits)
        words.push_back(
            d.bitAnd(d.bitcast(x, d.builder().getI32Type()), 0x7FFFFFFF));
      else
        words.push_back(Numerics(d.builder(), d.getLoc()).toMaxKey(x));
    }
  if (words.size() == 1)
    words.assign(form == MaxForm::Pairs ? kVector / 2 : kVector, words[0]);
  if (valid)
    for (Value &word : words)
      word = d.select(valid, word, lowest(form));
  return words;
}

Value MaxEmitter::combine(MaxForm form, Value x, Value y) {
  if (form == MaxForm::Bits)
    return d.umax(x, y);
  if (form == MaxForm::Keys)
    return d.smax(x, y);
  return d.maxMagnitudes(x, y);
}

void MaxEmitter::combine(MaxForm form, SmallVector<Value> &into,
                         ArrayRef<Value> words) {
  if (into.empty()) {
    into.append(words.begin(), words.end());
    return;
  }
  for (auto [x, y] : llvm::zip_equal(into, words))
    x = combine(form, x, y);
}

Value MaxEmitter::fold(MaxForm form, ArrayRef<Value> words) {
  SmallVector<Value> level(words);
  while (level.size() > 1) {
    size_t half = level.size() / 2;
    for (size_t i = 0; i < half; ++i)
      level[i] = combine(form, level[i], level[i + half]);
    level.resize(half);
  }
  if (form != MaxForm::Pairs)
    return level[0];
  return d.umax(upperMagnitude(d.shiftLeft(level[0], 16)),
                upperMagnitude(level[0]));
}

/// The magnitude of the upper bf16 of a pair, as bits of an f32.
Value MaxEmitter::upperMagnitude(Value pair) {
  return d.bitAnd(pair, 0x7FFF0000);
}

SmallVector<Value> MaxEmitter::columns(MaxForm form, ArrayRef<Value> words) {
  if (form != MaxForm::Pairs)
    return SmallVector<Value>(words);
  SmallVector<Value> result;
  for (Value word : words) {
    result.push_back(upperMagnitude(d.shiftLeft(word, 16)));
    result.push_back(upperMagnitude(word));
  }
  return result;
}

Value MaxEmitter::acrossWarp(MaxForm form, Value word) {
  return form == MaxForm::Keys ? d.warpMaxSigned(word)
                               : d.warpMaxUnsigned(word);
}

Value MaxEmitter::finishBits(MaxForm form, Value word) {
  if (form == MaxForm::Keys)
    return d.bitcast(finish(form, word), d.builder().getI32Type());
  return d.select(d.below(word, 0x7F800001), word, d.i32(0x7FC00000));
}

Value MaxEmitter::finish(MaxForm form, Value word) {
  if (form == MaxForm::Keys)
    return Numerics(d.builder(), d.getLoc()).fromMaxKey(word);
  return d.bitcast(finishBits(form, word), d.builder().getF32Type());
}

Value LaunchContext::reductionPointer(Operation *reduction,
                                      OpBuilder &builder) const {
  for (const StoredValue &stored : plan.stored)
    if (stored.value == reduction->getResult(0)) {
      Device d(builder, loc());
      return d.address(pointers[stored.argument], d.i64(stored.offset),
                       builder.getI8Type());
    }
  llvm_unreachable("every reduction was placed");
}

void LaunchContext::collectNeeded(SpaceRules &rules,
                                  SmallVectorImpl<Value> &leaves,
                                  SmallVectorImpl<Operation *> &local) const {
  SetVector<Value> seen;
  SmallVector<Value> work;
  for (const LaunchItem &item : launch().items)
    work.push_back(item.value);
  DenseSet<Value> stored; // looked up only
  for (const StoredValue &value : plan.stored)
    if (value.from <= number)
      stored.insert(value.value);
  DenseSet<Operation *> needed; // looked up only
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (stored.contains(value) || !seen.insert(value))
      continue;
    std::optional<bool> flip = rules.flipOf(value);
    if (getLeaf(value)) {
      if (flip && rules.extentOf(value, *flip)->isFull())
        leaves.push_back(value);
      continue;
    }
    needed.insert(value.getDefiningOp());
    llvm::append_range(work, value.getDefiningOp()->getOperands());
  }
  for (Operation &op : body.without_terminator())
    if (needed.contains(&op) && isReduction(&op) &&
        rules.placeOf(&op) == ReductionPlace::Local)
      local.push_back(&op);
}

void LaunchContext::forEachStored(
    OpBuilder &builder,
    function_ref<void(Value value, Value pointer)> use) const {
  Device d(builder, loc());
  for (const StoredValue &stored : plan.stored)
    if (stored.from <= number)
      use(stored.value, d.address(pointers[stored.argument],
                                  d.i64(stored.offset), builder.getI8Type()));
}
