//===- GenericColumns.cpp - reductions over outer dimensions ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block takes 32 results that follow each other, so that the lanes of a warp
// read neighbours. Warp w takes the partial results w, w + 16, ... of the 256
// of docs/architecture.md, all of them at once, which keeps as many loads on
// their way. They meet in shared memory.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCUDA/GenericEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8;

static constexpr int64_t kPartials = 256;
static constexpr int64_t kWarps = 16;

bool mlir::fp8::takesColumns(const GenericReduction &reduction) {
  int64_t last = lastDimension(reduction.shape);
  int64_t count =
      cast<RankedTensorType>(reduction.result.getType()).getNumElements();
  return last >= 0 && reduction.group[last] == 1 &&
         reduction.shape[last] >= 8 && count >= kWarp;
}

Geometry mlir::fp8::emitColumns(const LaunchContext &c, Evaluator &e,
                                const GenericReduction &reduction,
                                Value pointer) {
  auto type = cast<RankedTensorType>(reduction.result.getType());
  int64_t count = type.getNumElements();
  int64_t elements = reduction.elements;
  // Partial results that no element belongs to change nothing.
  int64_t partials =
      std::clamp<int64_t>(llvm::PowerOf2Ceil(elements), kWarps, kPartials);
  int64_t perWarp = partials / kWarps;
  int64_t grid = llvm::divideCeilSigned(count, kWarp);
  Location loc = c.loc();
  Type kept = reduction.keptType(e);
  Value scratch = c.shared.allocate(partials * kWarp * 4, c.entry(), loc);
  Value accumulators = e.stackArray(kept, perWarp);
  OpBuilder start(c.entry().getTerminator());
  Device s(start, loc);
  Value id = s.threadId();
  Value lane = s.extend(s.bitAnd(id, kWarp - 1));
  Value warp = s.extend(s.div(id, kWarp));
  Value number = s.add(s.mul(s.extend(s.blockId()), kWarp), lane);
  // Lanes beyond the last result read what belongs to it, and store nothing.
  SmallVector<Index> place =
      unflatten(e, e.min(number, count - 1), type.getShape());

  for (int64_t i = 0; i < perWarp; ++i)
    e.write(accumulators, e.constant(i), reduction.lowest(e));
  // Partial result warp + i * kWarps, of the elements from `base` on; `inside`
  // of them where that is fewer than there are partial results.
  auto take = [&](Value base, int64_t inside) {
    for (int64_t i = 0; i < perWarp && i * kWarps < inside; ++i) {
      Value element = e.add(base, e.add(warp, e.constant(i * kWarps)));
      bool some = (i + 1) * kWarps > inside;
      Value clamped = some ? e.min(element, elements - 1) : element;
      Value x = reduction.read(e, place, clamped);
      OpBuilder &b = e.here();
      Value old = e.load(accumulators, e.constant(i), kept);
      Value next = reduction.combine(b, loc, old, x);
      if (some) {
        Device d(b, loc);
        next = d.select(d.below(element, elements), next, old);
      }
      e.write(accumulators, e.constant(i), next);
    }
  };
  int64_t whole = elements - elements % partials;
  e.loop(0, whole, partials, [&](Value base) { take(base, partials); });
  if (elements > whole)
    take(e.constant(whole), elements - whole);

  OpBuilder &b = e.here();
  Device d(b, loc);
  auto at = [&](Device &d, Value partial) {
    return d.address(scratch, d.add(d.mul(partial, kWarp), lane), kept);
  };
  for (int64_t i = 0; i < perWarp; ++i) {
    Value mine = e.load(accumulators, e.constant(i), kept);
    d.store(at(d, d.add(warp, i * kWarps)), mine, 4);
  }
  for (int64_t half = partials / 2; half >= 1; half /= 2) {
    d.barrier();
    auto merge = [&](Device &w, Value low) {
      Value x = w.load(at(w, low), kept, 4);
      Value y = w.load(at(w, w.add(low, half)), kept, 4);
      w.store(at(w, low), reduction.combine(w.builder(), loc, x, y), 4);
    };
    for (int64_t low = 0; low + kWarps <= half; low += kWarps)
      merge(d, d.add(warp, low));
    if (half >= kWarps)
      continue;
    auto ifOp = scf::IfOp::create(b, loc, d.below(warp, half),
                                  /*withElseRegion=*/false);
    OpBuilder then(ifOp.thenBlock()->getTerminator());
    Device w(then, loc);
    merge(w, warp);
  }
  // The warp that merged last has what it wrote.
  Value mine =
      arith::AndIOp::create(b, loc, d.equals(warp, 0), d.below(number, count));
  auto ifOp = scf::IfOp::create(b, loc, mine, /*withElseRegion=*/false);
  OpBuilder then(ifOp.thenBlock()->getTerminator());
  Device w(then, loc);
  Value total = reduction.finish(then, loc, w.load(at(w, warp), kept, 4));
  w.store(w.address(pointer, number, then.getF32Type()), total, 4);
  return {grid, kWarps * kWarp, 1};
}
