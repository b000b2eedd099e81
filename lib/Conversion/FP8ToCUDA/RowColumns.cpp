//===- RowColumns.cpp - maxima over the rows of a block ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maxima over columns stay in shared memory, or in registers where there is not
// enough of it, over all rows of a block; atomics combine them at the end.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Evaluator.h"
#include "fp8/Conversion/FP8ToCUDA/RowEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8;

/// Makes room for what is gathered in shared memory, and returns the words that
/// the loop over rows carries in registers.
SmallVector<Value> RowEmitter::startGathering(OpBuilder &outside) {
  Device d(outside, loc);
  SmallVector<Value> initial;
  for (Gathered &max : gathered) {
    Value lowest = MaxEmitter(outside, loc).lowest(max.form);
    if (!max.inShared) {
      int64_t sets = max.columns ? shape.perThread : 1;
      initial.append(sets * max.wordCount(), lowest);
      continue;
    }
    int64_t bytes = shape.threads * shape.perThread * max.wordCount() * 4;
    max.shared = c.shared.allocateDynamic(bytes, c.entry(), loc);
    Value four = d.pack(SmallVector<Value>(4, lowest));
    for (size_t u = 0; u < slots.size(); ++u)
      for (size_t i = 0; i < max.wordCount(); i += 4)
        d.store(d.address(sharedWords(max, u, outside), d.i32(i),
                          outside.getI32Type()),
                four, 16);
  }
  return initial;
}

/// Takes the words that `startGathering` returned for new values of them.
void RowEmitter::takeGathered(ValueRange values) {
  size_t next = 0;
  for (Gathered &max : gathered) {
    if (max.inShared)
      continue;
    max.words.assign(max.columns ? shape.perThread : 1, {});
    for (SmallVector<Value> &words : max.words)
      for (size_t i = 0; i < max.wordCount(); ++i)
        words.push_back(values[next++]);
  }
}

/// Where a thread gathers the maxima of a slot's columns.
Value RowEmitter::sharedWords(const Gathered &max, size_t slot, OpBuilder &at) {
  Device d(at, loc);
  int64_t count = max.wordCount();
  Value offset = d.mul(d.add(thread, int64_t(slot) * shape.threads), count);
  return d.address(max.shared, offset, at.getI32Type());
}

void RowEmitter::gather(Gathered &max, size_t slot, VectorEvaluator &e,
                        OpBuilder &body) {
  MaxEmitter m(body, loc);
  // In shared memory there is room for columns that are none.
  SmallVector<Value> words =
      m.wordsOf(e, max.item->reduction, max.item->flip, slots[slot],
                max.inShared ? Value() : valid[slot]);
  if (!max.inShared) {
    m.combine(max.form, max.words[max.columns ? slot : 0], words);
    return;
  }
  Device d(body, loc);
  Type i32 = body.getI32Type();
  Value base = sharedWords(max, slot, body);
  for (size_t i = 0; i < words.size(); i += 4) {
    Value at = d.address(base, d.i32(i), i32);
    SmallVector<Value> known =
        d.unpack(d.load(at, VectorType::get({4}, i32), 16));
    m.combine(max.form, known, ArrayRef(words).slice(i, 4));
    d.store(at, d.pack(known), 16);
  }
}

/// Combines what a block has gathered, neighbouring threads neighbouring
/// columns.
void RowEmitter::flushShared(const Gathered &max, OpBuilder &after) {
  Device d(after, loc);
  Value base = c.reductionPointer(max.item->reduction, after);
  int64_t cols = rules.getSpace().cols;
  Value low = d.i32(0),
        high = d.i32(llvm::divideCeilSigned(cols, shape.threads));
  auto loop = scf::ForOp::create(after, loc, low, high, d.i32(1));
  OpBuilder body(loc.getContext());
  body.setInsertionPoint(loop.getBody()->getTerminator());
  Device inner(body, loc);
  Value col =
      inner.add(inner.mul(loop.getInductionVar(), shape.threads), thread);
  if (cols % shape.threads != 0) {
    auto inside = scf::IfOp::create(body, loc, inner.below(col, cols),
                                    /*withElseRegion=*/false);
    body.setInsertionPoint(inside.thenBlock()->getTerminator());
  }
  Type i32 = body.getI32Type(), i16 = body.getI16Type();
  Value word;
  MaxEmitter m(body, loc);
  if (max.form == MaxForm::Pairs)
    word = m.upperMagnitude(inner.shiftLeft(
        inner.toInt(inner.load(inner.address(max.shared, col, i16), i16, 2),
                    32),
        16));
  else
    word = inner.load(inner.address(max.shared, col, i32), i32, 4);
  inner.atomicMax(inner.address(base, col, i32),
                  m.finishBits(MaxEmitter::foldedForm(max.form), word));
}

/// Combines what each thread has gathered over its rows.
void RowEmitter::flush(OpBuilder &after) {
  Device d(after, loc);
  MaxEmitter m(after, loc);
  if (llvm::any_of(gathered, [](const Gathered &max) { return max.inShared; }))
    d.barrier();
  for (Gathered &max : gathered) {
    if (max.inShared) {
      flushShared(max, after);
      continue;
    }
    Value base = c.reductionPointer(max.item->reduction, after);
    Type i32 = after.getI32Type();
    if (!max.columns) {
      Value word = m.acrossWarp(max.form, m.fold(max.form, max.words[0]));
      auto first = scf::IfOp::create(after, loc, d.equals(lane, 0),
                                     /*withElseRegion=*/false);
      OpBuilder then(first.thenBlock()->getTerminator());
      Device(then, loc).atomicMax(
          base, MaxEmitter(then, loc).finishBits(max.form, word));
      continue;
    }
    for (auto [u, slot] : llvm::enumerate(slots)) {
      auto write = [&](OpBuilder &at) {
        Device w(at, loc);
        MaxEmitter wm(at, loc);
        Value to = w.address(base, slot.col, i32);
        for (auto [j, word] :
             llvm::enumerate(wm.columns(max.form, max.words[u])))
          w.atomicMax(w.address(to, w.i32(j), i32),
                      wm.finishBits(max.form, word));
      };
      if (!valid[u]) {
        write(after);
        continue;
      }
      auto inside = scf::IfOp::create(after, loc, valid[u],
                                      /*withElseRegion=*/false);
      OpBuilder then(inside.thenBlock()->getTerminator());
      write(then);
    }
  }
}
