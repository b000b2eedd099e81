//===- GenericKernel.cpp - a thread an element ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the fast schedules do not do: any rank and shape. Results go in strides
// of the grid; a reduction takes a block for each of its results, thread t of
// which takes the elements t, t + 256, ..., so that a sum has the partial sums
// of docs/architecture.md.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCUDA/Emit.h"

#include "fp8/Conversion/Common/Evaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8;

static constexpr int64_t kThreads = 256;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Indices of the element at row-major `position` of `shape`.
static SmallVector<Index> unflatten(Evaluator &e, Value position,
                                    ArrayRef<int64_t> shape) {
  SmallVector<Index> indices;
  for (int64_t stride : rowMajorStrides(shape)) {
    indices.push_back({e.div(position, stride), 0, false});
    position = e.rem(position, stride);
  }
  return indices;
}

static int64_t countOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

static Geometry emitStores(const LaunchContext &c, Evaluator &e, Value thread) {
  ArrayRef<LaunchItem> items = c.launch().items;
  int64_t count = countOf(items.front().value);
  int64_t grid = std::min(llvm::divideCeilSigned(count, kThreads),
                          16 * c.chip.multiprocessors);
  auto visit = [&](Value position) {
    // A result may hold what another is computed from: read everything first.
    SmallVector<std::pair<SmallVector<Index>, Element>> elements;
    for (const LaunchItem &item : items) {
      SmallVector<Index> indices = unflatten(e, position, shapeOf(item.value));
      elements.push_back({indices, e.evaluate(item.value, indices)});
    }
    for (auto [item, element] : llvm::zip_equal(items, elements))
      e.store(item.result, element.first, element.second);
  };
  OpBuilder start(c.entry().getTerminator());
  Device d(start, c.loc());
  Value first = d.add(d.mul(d.extend(d.blockId()), kThreads), thread);
  e.loop(first, e.constant(count), grid * kThreads, visit);
  return {grid, kThreads, 4};
}

static Geometry emitReduction(const LaunchContext &c, Evaluator &e,
                              Value thread, Value pointer) {
  const LaunchItem &item = c.launch().items.front();
  auto reduce = dyn_cast<ReduceOp>(item.reduction);
  bool sum = reduce && reduce.getKind() == ReduceKind::Sum;
  ArrayRef<int64_t> shape = shapeOf(item.value);
  Value result = item.reduction->getResult(0);
  ArrayRef<int64_t> outer = shapeOf(result);
  SmallVector<int64_t> group = reductionGroup(item.reduction);
  // The dimensions of one group: what of the shape one result stands for.
  SmallVector<int64_t> inner;
  int64_t elements = 1;
  for (auto [size, entry] : llvm::zip_equal(shape, group)) {
    inner.push_back(entry == 0 ? size : std::min(entry, size));
    elements *= inner.back();
  }
  int64_t count = countOf(result);
  int64_t grid = std::min(count, 16 * c.chip.multiprocessors);
  Location loc = c.loc();
  Type f32 = e.here().getF32Type(), i32 = e.here().getI32Type();
  Type kept = sum ? f32 : i32;
  Value scratch = c.shared.allocate(kThreads * 4, c.entry(), loc);
  Value accumulator = e.stackArray(kept, 1), zero = e.constant(0);
  OpBuilder start(c.entry().getTerminator());
  Value block = Device(start, loc).extend(Device(start, loc).blockId());

  e.loop(block, e.constant(count), grid, [&](Value number) {
    SmallVector<Index> place = unflatten(e, number, outer);
    Value initial = sum ? e.numerics().f32(0.0f, zero)
                        : e.numerics().i32(Numerics::kLowestKey, zero);
    e.write(accumulator, zero, initial);
    e.loop(thread, e.constant(elements), kThreads, [&](Value element) {
      SmallVector<Index> indices = unflatten(e, element, inner);
      for (auto [dim, index] : llvm::enumerate(indices)) {
        if (group[dim] == 0)
          continue;
        index.base = e.add(index.base, e.mul(place[dim].base, inner[dim]));
        if (shape[dim] % inner[dim] == 0)
          continue;
        // Beyond the end of the last group the last element is read again,
        // which changes no maximum; sums have whole groups.
        index.base = e.min(index.base, shape[dim] - 1);
      }
      Element x = e.evaluate(item.value, indices);
      Numerics n = e.numerics();
      Value old = e.load(accumulator, zero, kept);
      Value next;
      if (sum) {
        next = arith::AddFOp::create(e.here(), loc, old, x.value);
      } else {
        Value y = isa<AmaxOp>(item.reduction) ? n.abs(x.value) : x.value;
        next = arith::MaxSIOp::create(e.here(), loc, old, n.toMaxKey(y));
      }
      e.write(accumulator, zero, next);
    });
    OpBuilder &b = e.here();
    Device d(b, loc);
    // What is left of the result before: everybody has read it.
    d.barrier();
    Value mine = e.load(accumulator, zero, kept);
    d.store(d.address(scratch, thread, kept), mine, 4);
    for (int64_t half = kThreads / 2; half >= 1; half /= 2) {
      d.barrier();
      auto ifOp = scf::IfOp::create(b, loc, d.below(thread, half),
                                    /*withElseRegion=*/false);
      OpBuilder then(ifOp.thenBlock()->getTerminator());
      Device w(then, loc);
      Value low = w.load(w.address(scratch, thread, kept), kept, 4);
      Value high =
          w.load(w.address(scratch, w.add(thread, half), kept), kept, 4);
      Value next = sum ? Value(arith::AddFOp::create(then, loc, low, high))
                       : Value(arith::MaxSIOp::create(then, loc, low, high));
      w.store(w.address(scratch, thread, kept), next, 4);
    }
    auto first = scf::IfOp::create(b, loc, d.equals(thread, 0),
                                   /*withElseRegion=*/false);
    OpBuilder then(first.thenBlock()->getTerminator());
    Device w(then, loc);
    Value total = w.load(scratch, kept, 4);
    Numerics n(then, loc);
    if (!sum)
      total = n.fromMaxKey(total);
    if (cast<RankedTensorType>(result.getType()).getElementType().isBF16())
      total = n.roundToBF16(total);
    w.store(w.address(pointer, number, f32), total, 4);
  });
  return {grid, kThreads, 2};
}

Geometry mlir::fp8::emitGenericLaunch(const LaunchContext &context) {
  Location loc = context.loc();
  OpBuilder start(context.entry().getTerminator());
  Evaluator e(context.entry(), context.body, context.pointers, loc);
  context.forEachStored(start, [&](Value value, Value pointer) {
    e.materialize(value, {pointer, rowMajorStrides(shapeOf(value)), Value()});
  });
  Value thread = Device(start, loc).extend(Device(start, loc).threadId());
  const LaunchItem &first = context.launch().items.front();
  if (!first.reduction)
    return emitStores(context, e, thread);
  Value pointer = context.reductionPointer(first.reduction, start);
  return emitReduction(context, e, thread, pointer);
}
