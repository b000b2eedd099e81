//===- GenericKernel.cpp - a thread an element ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the fast schedules do not do: any rank and shape. Results go in strides
// of the grid, kLanes neighbours a thread where what is read are neighbours
// too. A reduction takes a block for each of its results, thread t of which
// takes the elements t, t + 256, ..., so that a sum has the partial sums of
// docs/architecture.md; GenericColumns.cpp has those whose results lie closer
// together than what they combine.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCUDA/Emit.h"
#include "fp8/Conversion/FP8ToCUDA/GenericEmitter.h"

#include "fp8/Conversion/Common/Evaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8;

static constexpr int64_t kThreads = 256;
/// Elements from which on threads take vectors.
static constexpr int64_t kLeastForVectors = 16384;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

SmallVector<Index> mlir::fp8::unflatten(Evaluator &e, Value position,
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

/// Whether a thread can take kLanes elements of each value at once: all have
/// one shape. Of a few elements each has a thread, which takes less time.
static bool takesVectors(const LaunchContext &c, ArrayRef<Value> values) {
  ArrayRef<int64_t> shape = shapeOf(values.front());
  int64_t last = lastDimension(shape);
  if (last < 0 || shape[last] % kLanes != 0 ||
      countOf(values.front()) < kLeastForVectors)
    return false;
  VectorReads reads([&](Value value) {
    return llvm::any_of(c.plan.stored, [&](const StoredValue &stored) {
      return stored.from <= c.number && stored.value == value;
    });
  });
  return llvm::all_of(values, [&](Value value) {
    return !isa<E5M6Type>(
               cast<RankedTensorType>(value.getType()).getElementType()) &&
           reads.find(value, last);
  });
}

/// Visits all indices of `shape`, in strides of the grid; kLanes of the last
/// dimension at once with `vectors`.
static Geometry visitAll(const LaunchContext &c, Evaluator &e, Value thread,
                         ArrayRef<int64_t> shape, bool vectors,
                         function_ref<void(ArrayRef<Index>)> visit) {
  int64_t lanes = vectors ? kLanes : 1;
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  count /= lanes;
  int64_t grid = std::min(llvm::divideCeilSigned(count, kThreads),
                          16 * c.chip.multiprocessors);
  OpBuilder start(c.entry().getTerminator());
  Device d(start, c.loc());
  Value first = d.add(d.mul(d.extend(d.blockId()), kThreads), thread);
  e.loop(first, e.constant(count), grid * kThreads, [&](Value number) {
    SmallVector<Index> indices = unflatten(e, e.mul(number, lanes), shape);
    if (vectors) {
      Index &last = indices[lastDimension(shape)];
      last.step = 1;
      last.aligned = true;
    }
    visit(indices);
  });
  return {grid, kThreads, vectors ? 2 : 4};
}

static Geometry emitStores(const LaunchContext &c, Evaluator &e, Value thread) {
  ArrayRef<LaunchItem> items = c.launch().items;
  SmallVector<Value> values;
  for (const LaunchItem &item : items)
    values.push_back(item.value);
  auto visit = [&](ArrayRef<Index> indices) {
    // A result may hold what another is computed from: read everything first.
    SmallVector<Element> elements;
    for (Value value : values)
      elements.push_back(e.evaluate(value, indices));
    for (auto [item, element] : llvm::zip_equal(items, elements))
      e.store(item.result, indices, element);
  };
  return visitAll(c, e, thread, shapeOf(values.front()),
                  takesVectors(c, values), visit);
}

/// A thread, or a lane, combines all elements of a result.
static Geometry emitSmallReduction(const LaunchContext &c, Evaluator &e,
                                   Value thread, Value pointer) {
  Value result = c.launch().items.front().reduction->getResult(0);
  auto visit = [&](ArrayRef<Index> indices) {
    e.storeFloats(pointer, result, indices, e.evaluate(result, indices));
  };
  return visitAll(c, e, thread, shapeOf(result), takesVectors(c, {result}),
                  visit);
}

GenericReduction::GenericReduction(const LaunchItem &item)
    : item(item), result(item.reduction->getResult(0)),
      shape(shapeOf(item.value)), group(reductionGroup(item.reduction)) {
  auto reduce = dyn_cast<ReduceOp>(item.reduction);
  sum = reduce && reduce.getKind() == ReduceKind::Sum;
  for (auto [size, entry] : llvm::zip_equal(shape, group)) {
    inner.push_back(entry == 0 ? size : std::min(entry, size));
    elements *= inner.back();
  }
}

Value GenericReduction::lowest(Evaluator &e) const {
  Value like = e.constant(0);
  return sum ? e.numerics().f32(0.0f, like)
             : e.numerics().i32(Numerics::kLowestKey, like);
}

Value GenericReduction::combine(OpBuilder &b, Location loc, Value x,
                                Value y) const {
  if (sum)
    return arith::AddFOp::create(b, loc, x, y);
  return arith::MaxSIOp::create(b, loc, x, y);
}

Value GenericReduction::read(Evaluator &e, ArrayRef<Index> place,
                             Value element) const {
  SmallVector<Index> indices = unflatten(e, element, inner);
  for (auto [dim, index] : llvm::enumerate(indices)) {
    if (group[dim] == 0)
      continue;
    index.base = e.add(index.base, e.mul(place[dim].base, inner[dim]));
    if (shape[dim] % inner[dim] == 0)
      continue;
    // Beyond the end of the last group the last element is read again, which
    // changes no maximum; sums have whole groups.
    index.base = e.min(index.base, shape[dim] - 1);
  }
  Value x = e.evaluate(item.value, indices).value;
  if (sum)
    return x;
  Numerics n = e.numerics();
  return n.toMaxKey(isa<AmaxOp>(item.reduction) ? n.abs(x) : x);
}

Value GenericReduction::finish(OpBuilder &b, Location loc, Value total) const {
  Numerics n(b, loc);
  if (!sum)
    total = n.fromMaxKey(total);
  if (cast<RankedTensorType>(result.getType()).getElementType().isBF16())
    total = n.roundToBF16(total);
  return total;
}

static Geometry emitReduction(const LaunchContext &c, Evaluator &e,
                              const GenericReduction &reduction, Value thread,
                              Value pointer) {
  ArrayRef<int64_t> outer = shapeOf(reduction.result);
  int64_t count = countOf(reduction.result);
  int64_t grid = std::min(count, 16 * c.chip.multiprocessors);
  Location loc = c.loc();
  Type kept = reduction.keptType(e);
  Value scratch = c.shared.allocate(kThreads * 4, c.entry(), loc);
  Value accumulator = e.stackArray(kept, 1), zero = e.constant(0);
  OpBuilder start(c.entry().getTerminator());
  Value block = Device(start, loc).extend(Device(start, loc).blockId());

  e.loop(block, e.constant(count), grid, [&](Value number) {
    SmallVector<Index> place = unflatten(e, number, outer);
    e.write(accumulator, zero, reduction.lowest(e));
    e.loop(thread, e.constant(reduction.elements), kThreads, [&](Value i) {
      Value x = reduction.read(e, place, i);
      Value old = e.load(accumulator, zero, kept);
      e.write(accumulator, zero, reduction.combine(e.here(), loc, old, x));
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
      w.store(w.address(scratch, thread, kept),
              reduction.combine(then, loc, low, high), 4);
    }
    auto first = scf::IfOp::create(b, loc, d.equals(thread, 0),
                                   /*withElseRegion=*/false);
    OpBuilder then(first.thenBlock()->getTerminator());
    Device w(then, loc);
    Value total = reduction.finish(then, loc, w.load(scratch, kept, 4));
    w.store(w.address(pointer, number, then.getF32Type()), total, 4);
  });
  return {grid, kThreads, 2};
}

Geometry mlir::fp8::emitGenericLaunch(const LaunchContext &context) {
  Location loc = context.loc();
  OpBuilder start(context.entry().getTerminator());
  Evaluator e(context.entry(), context.body, context.pointers, loc);
  e.setAlignment(16);
  context.forEachStored(start, [&](Value value, Value pointer) {
    e.materialize(value, {pointer, rowMajorStrides(shapeOf(value)), Value()});
  });
  Value thread = Device(start, loc).extend(Device(start, loc).threadId());
  const LaunchItem &first = context.launch().items.front();
  if (!first.reduction)
    return emitStores(context, e, thread);
  Value pointer = context.reductionPointer(first.reduction, start);
  if (isSmallReduction(first.reduction))
    return emitSmallReduction(context, e, thread, pointer);
  GenericReduction reduction(first);
  if (takesColumns(reduction))
    return emitColumns(context, e, reduction, pointer);
  return emitReduction(context, e, reduction, thread, pointer);
}
