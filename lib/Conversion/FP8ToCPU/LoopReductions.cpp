//===- LoopReductions.cpp - maxima and sums in a loop kernel ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maxima are kept as integer keys, sums as the 256 partial sums of
// docs/architecture.md.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCPU/LoopEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8;

//===----------------------------------------------------------------------===//
// Maxima
//===----------------------------------------------------------------------===//

MaxState LoopEmitter::makeMax(const KernelItem &item, const Space &space,
                              const KernelNest &nest) {
  MaxState state;
  state.item = &item;
  state.group = groupOf(item, nest.flat);
  bool local = nest.tile && item.local;
  for (auto [dim, size, group] : llvm::enumerate(space.shape, state.group)) {
    int64_t extent = group == 0 ? 1 : llvm::divideCeil(size, group);
    if (dim == 0 && local)
      extent = nest.tile / group;
    state.extents.push_back(extent);
  }
  state.strides = rowMajorStrides(state.extents);
  if (local)
    state.origin = e.div(tileLow, state.group[0]);
  if (space.lane >= 0 && state.group[space.lane] != 1)
    state.width = kLanes;
  state.perRow = isRowLocal(item, space);
  int64_t count = 1;
  for (int64_t extent : state.extents)
    count *= extent;
  state.values = e.stackArray(e.here().getF32Type(), count);
  state.keys = e.stackArray(e.here().getI32Type(),
                            (state.perRow ? 1 : count) * state.width);
  return state;
}

void LoopEmitter::initMax(const MaxState &state) {
  int64_t count = state.width;
  if (!state.perRow)
    for (int64_t extent : state.extents)
      count *= extent;
  int64_t vectors = count - count % kLanes;
  Value like = e.constant(0);
  e.loop(0, vectors, kLanes, [&](Value i) {
    Value lowest = e.numerics().i32(Numerics::kLowestKey, like);
    e.write(state.keys, i, e.numerics().splat(lowest, kLanes));
  });
  e.loop(vectors, count, 1, [&](Value i) {
    e.write(state.keys, i, e.numerics().i32(Numerics::kLowestKey, like));
  });
}

void LoopEmitter::accumulateMax(const MaxState &state, const Space &space,
                                ArrayRef<Index> indices, Element x) {
  Numerics n = e.numerics();
  Value key =
      n.toMaxKey(isa<AmaxOp>(state.item->reduction) ? n.abs(x.value) : x.value);
  Value position = e.constant(0);
  if (!state.perRow) {
    for (auto [dim, index] : llvm::enumerate(indices)) {
      if (state.group[dim] == 0)
        continue;
      Value base = e.div(index.base, state.group[dim]);
      if (dim == 0 && state.origin)
        base = e.sub(base, state.origin);
      position = e.add(position, e.mul(base, state.strides[dim]));
    }
    position = e.mul(position, state.width);
  }
  Value old = e.load(state.keys, position, key.getType());
  e.write(state.keys, position,
          arith::MaxSIOp::create(e.here(), e.getLoc(), old, key));
}

/// Reads the keys at group `position`, and writes the value.
void LoopEmitter::finishOneMax(const MaxState &state, Value position) {
  Type i32 = e.here().getI32Type();
  Value key;
  if (state.width == 1) {
    key = e.load(state.keys, position, i32);
  } else {
    Value from = state.perRow ? e.constant(0) : e.mul(position, state.width);
    Value keys = e.load(state.keys, from, VectorType::get({kLanes}, i32));
    key = LLVM::vector_reduce_smax::create(e.here(), e.getLoc(), i32, keys);
  }
  Value value = e.numerics().fromMaxKey(key);
  Type element =
      cast<RankedTensorType>(state.item->reduction->getResult(0).getType())
          .getElementType();
  if (element.isBF16())
    value = e.numerics().roundToBF16(value);
  e.write(state.values, position, value);
}

void LoopEmitter::finishMax(const MaxState &state) {
  int64_t count = 1;
  for (int64_t extent : state.extents)
    count *= extent;
  e.loop(0, count, 1, [&](Value i) { finishOneMax(state, i); });
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

int64_t LoopEmitter::partialsFor(int64_t count) {
  return std::min<int64_t>(kPartials,
                           llvm::PowerOf2Ceil(std::max<int64_t>(count, 1)));
}

void LoopEmitter::zeroPartials(Value sums, int64_t count, int64_t width) {
  Type f32 = e.here().getF32Type();
  int64_t total = count * width;
  bool vectors = total % kLanes == 0;
  e.loop(0, total, vectors ? kLanes : 1, [&](Value i) {
    Type type = vectors ? Type(VectorType::get({kLanes}, f32)) : f32;
    OpBuilder &b = e.here();
    Attribute zero = b.getF32FloatAttr(0.0f);
    if (vectors)
      zero = DenseElementsAttr::get(cast<ShapedType>(type), zero);
    e.write(sums, i,
            arith::ConstantOp::create(b, e.getLoc(), cast<TypedAttr>(zero)));
  });
}

/// Adds `count` partial sums of `width` neighbours each, halves on halves; the
/// first holds the sum at the end.
void LoopEmitter::foldPartials(Value sums, int64_t count, int64_t width) {
  Type f32 = e.here().getF32Type();
  for (int64_t half = count / 2; half >= 1; half /= 2) {
    int64_t total = half * width;
    bool vectors = total % kLanes == 0;
    e.loop(0, total, vectors ? kLanes : 1, [&](Value i) {
      Type type = vectors ? Type(VectorType::get({kLanes}, f32)) : f32;
      Value low = e.load(sums, i, type);
      Value high = e.load(sums, e.add(i, e.constant(total)), type);
      e.write(sums, i, arith::AddFOp::create(e.here(), e.getLoc(), low, high));
    });
  }
}

Value LoopEmitter::treeSum(Value sums, int64_t count) {
  foldPartials(sums, count, 1);
  return e.load(sums, e.constant(0), e.here().getF32Type());
}

void LoopEmitter::writeSum(const KernelItem &item, Value sum,
                           const ValueBuffer &buffer, ArrayRef<Index> indices) {
  Type element = cast<RankedTensorType>(item.reduction->getResult(0).getType())
                     .getElementType();
  if (element.isBF16())
    sum = e.numerics().roundToBF16(sum);
  e.write(buffer.pointer, positionIn(buffer, indices), sum);
}

void LoopEmitter::emitSum(const KernelItem &item, const Space &space,
                          const KernelNest &nest) {
  SmallVector<int64_t> group = groupOf(item, nest.flat);
  ValueBuffer buffer = valueBuffer(item, nest);
  SmallVector<int64_t> outer, inner; // dimensions
  // The number of an element among those that its group adds up.
  SmallVector<int64_t> numbering(space.shape.size(), 0);
  int64_t count = 1;
  for (size_t dim = space.shape.size(); dim-- > 0;) {
    if (group[dim] != 0)
      continue;
    numbering[dim] = count;
    count *= space.shape[dim];
  }
  for (auto [dim, size] : llvm::enumerate(space.shape))
    if (int64_t(dim) != space.lane && size > 1)
      (group[dim] == 0 ? inner : outer).push_back(dim);
  int64_t partials = partialsFor(count);
  SmallVector<Index> indices(space.shape.size(),
                             Index{e.constant(0), 0, false});
  auto number = [&]() {
    Value sum = e.constant(0);
    for (auto [dim, index] : llvm::enumerate(indices))
      sum = e.add(sum, e.mul(index.base, numbering[dim]));
    return e.rem(sum, kPartials);
  };
  bool lanesReduced = space.lane >= 0 && group[space.lane] == 0;
  Type f32 = e.here().getF32Type();

  if (space.lane < 0 || lanesReduced) {
    Value sums = e.stackArray(f32, std::max(partials, kLanes));
    // Vectors have to start at multiples of kLanes in the numbering.
    bool vectors = space.lane >= 0;
    for (int64_t dim : inner)
      vectors &= numbering[dim] % kLanes == 0;
    auto accumulate = [&]() {
      Element x = e.evaluate(item.value, indices);
      if (indices.empty() || space.lane < 0 || indices[space.lane].step == 0) {
        Value at = number();
        Value old = e.load(sums, at, f32);
        e.write(sums, at,
                arith::AddFOp::create(e.here(), e.getLoc(), old, x.value));
        return;
      }
      x = e.widen(x);
      Value at = number();
      Value old = e.load(sums, at, x.value.getType());
      e.write(sums, at,
              arith::AddFOp::create(e.here(), e.getLoc(), old, x.value));
    };
    loopOver(outer, space, 1, indices, [&] {
      zeroPartials(sums, std::max(partials, kLanes), 1);
      loopOver(inner, space, 1, indices, [&] {
        if (space.lane < 0)
          return accumulate();
        int64_t size = space.shape[space.lane];
        int64_t whole = vectors ? size - size % kLanes : 0;
        e.loop(0, whole, kLanes, [&](Value i) {
          indices[space.lane] = {i, 1, true};
          accumulate();
        });
        e.loop(whole, size, 1, [&](Value i) {
          indices[space.lane] = {i, 0, false};
          accumulate();
        });
        indices[space.lane] = {e.constant(0), 0, false};
      });
      SmallVector<Index> position(indices);
      for (auto [dim, index] : llvm::enumerate(position))
        if (group[dim] == 0)
          index = {e.constant(0), 0, false};
      writeSum(item, treeSum(sums, partials), buffer, position);
    });
  } else {
    // Columns: a panel of them at a time, whose partial sums stay in the cache
    // while rows go by.
    constexpr int64_t kPanel = 512;
    int64_t size = space.shape[space.lane];
    int64_t width = std::min<int64_t>(kPanel, llvm::alignTo(size, kLanes));
    Value sums = e.stackArray(f32, partials * width);
    Value panelLow;
    auto forLanes = [&](function_ref<void(Index)> body) {
      Value high = e.min(e.add(panelLow, e.constant(width)), size);
      Value whole = e.sub(high, e.rem(high, kLanes));
      e.loop(panelLow, whole, kLanes, [&](Value i) { body({i, 1, true}); });
      if (size % kLanes != 0)
        e.loop(whole, high, 1, [&](Value i) { body({i, 0, false}); });
    };
    loopOver(outer, space, 1, indices, [&] {
      e.loop(0, size, width, [&](Value low) {
        panelLow = low;
        zeroPartials(sums, partials, width);
        loopOver(inner, space, 1, indices, [&] {
          Value row = e.mul(number(), width);
          forLanes([&](Index lanes) {
            indices[space.lane] = lanes;
            Element x = e.evaluate(item.value, indices);
            if (lanes.step)
              x = e.widen(x);
            Value at = e.add(row, e.sub(lanes.base, panelLow));
            Value old = e.load(sums, at, x.value.getType());
            e.write(sums, at,
                    arith::AddFOp::create(e.here(), e.getLoc(), old, x.value));
          });
          indices[space.lane] = {e.constant(0), 0, false};
        });
        foldPartials(sums, partials, width);
        forLanes([&](Index lanes) {
          SmallVector<Index> position(indices);
          for (auto [dim, index] : llvm::enumerate(position))
            if (group[dim] == 0)
              index = {e.constant(0), 0, false};
          position[space.lane] = lanes;
          Type type = lanes.step ? Type(VectorType::get({kLanes}, f32)) : f32;
          Value sum = e.load(sums, e.sub(lanes.base, panelLow), type);
          writeSum(item, sum, buffer, position);
        });
      });
    });
  }
  e.materialize(item.reduction->getResult(0), buffer);
}
