//===- RowReductions.cpp - maxima and sums along a row ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A warp combines by shuffles, a block through shared memory.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Evaluator.h"
#include "fp8/Conversion/FP8ToCUDA/RowEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8;

static constexpr int64_t kPartials = 256;

void RowEmitter::setRowResult(Operation *reduction, VectorEvaluator &e,
                              Value result, OpBuilder &body) {
  Lanes lanes;
  Value value = reduction->getResult(0);
  if (cast<RankedTensorType>(value.getType()).getElementType().isBF16())
    lanes.pairs.push_back(Device(body, loc).packBF16(result, result));
  else
    lanes.floats.push_back(result);
  e.setLanes(value, flipOf(reduction), slots.front(), lanes);
}

/// Maxima along rows: all of a stage meet at one barrier.
void RowEmitter::reduceMaxima(ArrayRef<Operation *> reductions,
                              VectorEvaluator &e, OpBuilder &body,
                              Value parity) {
  Device d(body, loc);
  MaxEmitter m(body, loc);
  Type i32 = body.getI32Type();
  SmallVector<Value> words;
  for (Operation *op : reductions) {
    MaxForm form = MaxEmitter::formOf(op);
    SmallVector<Value> all;
    for (auto [u, slot] : llvm::enumerate(slots))
      m.combine(form, all, m.wordsOf(e, op, flipOf(op), slot, valid[u]));
    words.push_back(m.acrossWarp(form, m.fold(form, all)));
  }
  if (shape.warps() > 1) {
    SmallVector<Value> rows;
    for (Operation *op : reductions) {
      Value base = scratch[op];
      if (parity)
        base = d.address(base, d.mul(parity, shape.warps()), i32);
      rows.push_back(base);
    }
    auto first = scf::IfOp::create(body, loc, d.equals(lane, 0),
                                   /*withElseRegion=*/false);
    OpBuilder then(first.thenBlock()->getTerminator());
    Device writer(then, loc);
    for (auto [base, word] : llvm::zip_equal(rows, words))
      writer.store(writer.address(base, warp, i32), word, 4);
    d.barrier();
    for (auto [op, base, word] : llvm::zip_equal(reductions, rows, words)) {
      MaxForm form = MaxEmitter::formOf(op);
      // Lanes beyond the last warp read the first one's again.
      Value from = lane;
      if (shape.warps() < kWarp)
        from = d.select(d.below(lane, shape.warps()), lane, d.i32(0));
      word = m.acrossWarp(form, d.load(d.address(base, from, i32), i32, 4));
    }
  }
  for (auto [op, word] : llvm::zip_equal(reductions, words))
    setRowResult(op, e, m.finish(MaxEmitter::formOf(op), word), body);
}

/// Maxima of 128 columns: 16 lanes hold one group.
void RowEmitter::reduceBlocks(Operation *op, VectorEvaluator &e,
                              OpBuilder &body) {
  Device d(body, loc);
  MaxEmitter m(body, loc);
  MaxForm form = MaxEmitter::formOf(op);
  MaxForm folded = MaxEmitter::foldedForm(form);
  for (auto [u, slot] : llvm::enumerate(slots)) {
    Value word = m.fold(form, m.wordsOf(e, op, flipOf(op), slot, valid[u]));
    for (int64_t mask = kTile / kVector / 2; mask >= 1; mask /= 2)
      word = m.combine(folded, word, d.shuffleXor(word, mask));
    Lanes lanes;
    lanes.floats.push_back(m.finish(form, word));
    e.setLanes(op->getResult(0), flipOf(op), slot, lanes);
  }
}

/// A sum in the order of docs/architecture.md: the partial sum of column i is
/// number i mod 256, so that lane l of any warp holds those of 8 * l and on.
void RowEmitter::reduceSum(Operation *op, VectorEvaluator &e, OpBuilder &body) {
  Device d(body, loc);
  Type f32 = body.getF32Type();
  bool flip = flipOf(op);
  auto plus = [&](Value x, Value y) -> Value {
    return arith::AddFOp::create(body, loc, x, y);
  };
  auto elements = [&](size_t u) {
    SmallVector<Value> x(
        e.floatsOf(e.evaluate(op->getOperand(0), flip, slots[u])));
    if (x.size() == 1)
      x.assign(kVector, x[0]);
    // Adding +0 changes no partial sum: they start from +0.
    if (valid[u])
      for (Value &value : x)
        value = d.select(valid[u], value, d.f32(0.0f));
    return x;
  };
  Value total;
  if (shape.warps() == 1) {
    SmallVector<Value> p(kVector, d.f32(0.0f));
    for (size_t u = 0; u < slots.size(); ++u)
      for (auto [sum, x] : llvm::zip_equal(p, elements(u)))
        sum = plus(sum, x);
    for (int64_t mask = kWarp / 2; mask >= 1; mask /= 2)
      for (Value &sum : p)
        sum = plus(sum, d.shuffleXor(sum, mask));
    for (size_t half = kVector / 2; half >= 1; half /= 2)
      for (size_t j = 0; j < half; ++j)
        p[j] = plus(p[j], p[j + half]);
    total = p[0];
  } else {
    int64_t groups = llvm::divideCeilSigned(shape.vectors, kWarp);
    Value base = scratch[op];
    Value partials = d.address(base, d.i32(groups * kPartials), f32);
    for (size_t u = 0; u < slots.size(); ++u) {
      SmallVector<Value> x = elements(u);
      // Group number u * warps + warp of 256 columns, but only where there is
      // one: the last slot may stand for columns that are none.
      Value group = d.add(warp, u * shape.warps());
      auto write = [&](OpBuilder &at) {
        Device w(at, loc);
        Value to = w.address(
            base, w.add(w.mul(group, kPartials), w.mul(lane, kVector)), f32);
        w.store(to, w.pack(ArrayRef(x).take_front(4)), 16);
        w.store(w.address(to, w.i32(4), f32), w.pack(ArrayRef(x).drop_front(4)),
                16);
      };
      if (int64_t(u + 1) * shape.warps() <= groups) {
        write(body);
        continue;
      }
      auto inside = scf::IfOp::create(body, loc, d.below(group, groups),
                                      /*withElseRegion=*/false);
      OpBuilder then(inside.thenBlock()->getTerminator());
      write(then);
    }
    d.barrier();
    for (int64_t j = 0; j < kPartials; j += shape.threads) {
      Value number = d.add(thread, j);
      auto sum = [&](OpBuilder &at) {
        Device w(at, loc);
        Value p = w.f32(0.0f);
        for (int64_t g = 0; g < groups; ++g) {
          Value from = w.address(base, w.add(number, g * kPartials), f32);
          p = arith::AddFOp::create(at, loc, p, w.load(from, f32, 4));
        }
        w.store(w.address(partials, number, f32), p, 4);
      };
      if (j + shape.threads <= kPartials) {
        sum(body);
        continue;
      }
      auto inside = scf::IfOp::create(body, loc, d.below(number, kPartials),
                                      /*withElseRegion=*/false);
      OpBuilder then(inside.thenBlock()->getTerminator());
      sum(then);
    }
    d.barrier();
    SmallVector<Value> p;
    for (int64_t q = 0; q < kPartials; q += kWarp)
      p.push_back(d.load(d.address(partials, d.add(lane, q), f32), f32, 4));
    for (size_t half = p.size() / 2; half >= 1; half /= 2)
      for (size_t j = 0; j < half; ++j)
        p[j] = plus(p[j], p[j + half]);
    total = p[0];
    for (int64_t mask = kWarp / 2; mask >= 1; mask /= 2)
      total = plus(total, d.shuffleXor(total, mask));
  }
  setRowResult(op, e, total, body);
}
