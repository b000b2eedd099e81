//===- LoopKernel.cpp - the loops of a loop kernel --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns the nests of KernelSchedule into loops, with vectors of kLanes
// elements along the last dimension and a scalar loop for the rest.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCPU/KernelFunctions.h"
#include "fp8/Conversion/FP8ToCPU/LoopEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8;

Space LoopEmitter::spaceOf(const KernelItem &item,
                           const KernelNest &nest) const {
  Space space;
  space.shape.assign(shapeOf(item.value).begin(), shapeOf(item.value).end());
  space.tiled = nest.tile != 0;
  if (nest.flat) {
    int64_t count = 1;
    for (int64_t &dim : space.shape) {
      count *= dim;
      dim = 1;
    }
    if (!space.shape.empty())
      space.shape.back() = count;
  }
  for (int64_t dim = space.tiled ? 1 : 0; dim < int64_t(space.shape.size());
       ++dim)
    if (space.shape[dim] > 1)
      space.lane = dim;
  return space;
}

SmallVector<int64_t> LoopEmitter::groupOf(const KernelItem &item, bool flat) {
  SmallVector<int64_t> group = reductionGroup(item.reduction);
  if (flat)
    group.assign(group.size(), 0);
  return group;
}

bool LoopEmitter::vectorizes(const KernelItem &item, const Space &space) const {
  if (space.lane < 0)
    return false;
  if (item.kind != KernelItem::Max)
    return true;
  int64_t group = reductionGroup(item.reduction)[space.lane];
  return group <= 1 || group >= space.shape[space.lane] || group % kLanes == 0;
}

/// Whether each row along the lanes is one group.
bool LoopEmitter::isRowLocal(const KernelItem &item, const Space &space) const {
  if (space.lane < 0)
    return false;
  SmallVector<int64_t> group = reductionGroup(item.reduction);
  for (auto [dim, size] : llvm::enumerate(space.shape)) {
    bool all = group[dim] == 0 || group[dim] >= size;
    if (int64_t(dim) == space.lane ? !all : size > 1 && group[dim] != 1)
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Buffers of finished values
//===----------------------------------------------------------------------===//

ValueBuffer LoopEmitter::valueBuffer(const KernelItem &item,
                                     const KernelNest &nest) {
  bool hold = item.kind == KernelItem::Hold;
  SmallVector<int64_t> extents(
      shapeOf(hold ? item.value : item.reduction->getResult(0)));
  ValueBuffer buffer;
  if (nest.tile && (hold || item.local)) {
    int64_t group = hold ? item.rowFactor : reductionGroup(item.reduction)[0];
    extents[0] = nest.tile / group;
    buffer.origin = e.div(tileLow, group);
  }
  int64_t count = 1;
  for (int64_t extent : extents)
    count *= extent;
  buffer.strides = rowMajorStrides(extents);
  buffer.pointer = e.stackArray(e.here().getF32Type(), count);
  return buffer;
}

Value LoopEmitter::positionIn(const ValueBuffer &buffer,
                              ArrayRef<Index> indices) {
  Value position = e.constant(0);
  for (auto [dim, pair] :
       llvm::enumerate(llvm::zip_equal(indices, buffer.strides))) {
    auto [index, stride] = pair;
    Value base = index.base;
    if (dim == 0 && buffer.origin)
      base = e.sub(base, buffer.origin);
    position = e.add(position, e.mul(base, stride));
  }
  return position;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

void LoopEmitter::loopOver(ArrayRef<int64_t> dims, const Space &space,
                           int64_t rowFactor, SmallVector<Index> &indices,
                           function_ref<void()> inner) {
  if (dims.empty())
    return inner();
  int64_t dim = dims.front();
  auto next = [&](Value i) {
    indices[dim] = {i, 0, false};
    loopOver(dims.drop_front(), space, rowFactor, indices, inner);
    indices[dim] = {e.constant(0), 0, false};
  };
  if (dim != 0 || !space.tiled)
    return e.loop(0, space.shape[dim], 1, next);
  Value low = e.div(tileLow, rowFactor);
  int64_t rows = tileRows / rowFactor;
  if (rows == 1)
    return next(low);
  Value high = e.add(low, e.constant(rows));
  if (space.shape[0] % rows != 0)
    high = e.min(high, space.shape[0]);
  e.loop(low, high, 1, next);
}

/// Whether computing `value` reads an argument with neighbours along dimension
/// `dim` lying apart.
static bool readsAcross(Value value, int64_t dim) {
  ArrayRef<int64_t> shape = shapeOf(value);
  if (dim >= int64_t(shape.size()) || shape[dim] == 1)
    return false;
  Operation *op = value.getDefiningOp();
  if (!op)
    return rowMajorStrides(shape)[dim] != 1;
  if (isReduction(op) || isa<ReshapeOp>(op))
    return false;
  if (auto permute = dyn_cast<PermuteOp>(op))
    return readsAcross(permute.getX(), permute.getPerm()[dim]);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return readsAcross(transpose.getX(), transpose.getPerm()[dim]);
  return llvm::any_of(op->getOperands(),
                      [&](Value operand) { return readsAcross(operand, dim); });
}

/// Visits blocks of some rows, each vector by vector: what lies apart along
/// the lanes lies close along the rows, and is still in the cache when the next
/// row wants it.
void LoopEmitter::visitBlocked(ArrayRef<int64_t> outer, const Space &space,
                               SmallVector<Index> &indices,
                               function_ref<void()> visit) {
  constexpr int64_t kRows = 64;
  int64_t dim = outer.back(), rows = space.shape[dim];
  int64_t size = space.shape[space.lane], whole = size - size % kLanes;
  loopOver(outer.drop_back(), space, 1, indices, [&] {
    e.loop(0, rows, kRows, [&](Value low) {
      Value high = e.min(e.add(low, e.constant(kRows)), rows);
      auto column = [&](Index lanes) {
        indices[space.lane] = lanes;
        e.loop(low, high, 1, [&](Value row) {
          indices[dim] = {row, 0, false};
          visit();
        });
      };
      e.loop(0, whole, kLanes, [&](Value i) { column({i, 1, true}); });
      e.loop(whole, size, 1, [&](Value i) { column({i, 0, false}); });
    });
  });
}

void LoopEmitter::emitLoops(ArrayRef<const KernelItem *> items,
                            const Space &space, bool vectors,
                            const KernelNest &nest) {
  SmallVector<MaxState> maxima;
  SmallVector<RowSumState> sums;
  SmallVector<ValueBuffer> held;
  for (const KernelItem *item : items) {
    if (item->kind == KernelItem::Store)
      continue;
    if (item->kind == KernelItem::Hold) {
      held.push_back(valueBuffer(*item, nest));
    } else if (item->kind == KernelItem::Sum) {
      ValueBuffer buffer = valueBuffer(*item, nest);
      int64_t partials = std::max(partialsFor(space.shape[space.lane]), kLanes);
      sums.push_back({item, partials,
                      e.stackArray(e.here().getF32Type(), partials), buffer});
    } else if (auto it = crossTile.find(item->reduction);
               it != crossTile.end()) {
      maxima.push_back(it->second);
    } else {
      maxima.push_back(makeMax(*item, space, nest));
      if (!maxima.back().perRow)
        initMax(maxima.back());
    }
  }

  SmallVector<Index> indices(space.shape.size(),
                             Index{e.constant(0), 0, false});
  auto visit = [&]() {
    bool lanes = space.lane >= 0 && indices[space.lane].step;
    SmallVector<Element> elements;
    // A result may lie where an operand lies: read everything first.
    for (const KernelItem *item : items) {
      Element element = e.evaluate(item->value, indices);
      elements.push_back(lanes ? e.widen(element) : element);
    }
    size_t nextMax = 0, nextSum = 0, nextHeld = 0;
    for (auto [item, element] : llvm::zip_equal(items, elements)) {
      if (item->kind == KernelItem::Store) {
        e.store(item->result, indices, element);
      } else if (item->kind == KernelItem::Hold) {
        const ValueBuffer &buffer = held[nextHeld++];
        e.write(buffer.pointer, positionIn(buffer, indices), element.value);
      } else if (item->kind == KernelItem::Max) {
        accumulateMax(maxima[nextMax++], space, indices, element);
      } else {
        RowSumState &sum = sums[nextSum++];
        Value at = e.rem(indices[space.lane].base, kPartials);
        Value old = e.load(sum.sums, at, element.value.getType());
        e.write(
            sum.sums, at,
            arith::AddFOp::create(e.here(), e.getLoc(), old, element.value));
      }
    }
  };

  SmallVector<int64_t> outer;
  for (auto [dim, size] : llvm::enumerate(space.shape))
    if (int64_t(dim) != space.lane && (size > 1 || (dim == 0 && space.tiled)))
      outer.push_back(dim);
  if (vectors && !space.tiled && maxima.empty() && sums.empty() &&
      !outer.empty() && llvm::any_of(items, [&](const KernelItem *item) {
        return readsAcross(item->value, space.lane);
      })) {
    visitBlocked(outer, space, indices, visit);
    return;
  }
  loopOver(outer, space, items.front()->rowFactor, indices, [&] {
    for (const MaxState &state : maxima)
      if (state.perRow)
        initMax(state);
    for (const RowSumState &sum : sums)
      zeroPartials(sum.sums, sum.partials, 1);
    if (space.lane < 0) {
      visit();
    } else {
      int64_t size = space.shape[space.lane];
      int64_t whole = vectors ? size - size % kLanes : 0;
      e.loop(0, whole, kLanes, [&](Value i) {
        indices[space.lane] = {i, 1, true};
        visit();
      });
      e.loop(whole, size, 1, [&](Value i) {
        indices[space.lane] = {i, 0, false};
        visit();
      });
      indices[space.lane] = {e.constant(0), 0, false};
    }
    for (const MaxState &state : maxima)
      if (state.perRow) {
        ValueBuffer buffer{state.values, state.strides, state.origin};
        finishOneMax(state, positionIn(buffer, indices));
      }
    for (const RowSumState &sum : sums)
      writeSum(*sum.item, treeSum(sum.sums, sum.partials), sum.buffer, indices);
  });

  for (const MaxState &state : maxima) {
    if (crossTile.count(state.item->reduction))
      continue;
    if (!state.perRow)
      finishMax(state);
    e.materialize(state.item->reduction->getResult(0),
                  {state.values, state.strides, state.origin});
  }
  for (const RowSumState &sum : sums)
    e.materialize(sum.item->reduction->getResult(0), sum.buffer);
  size_t nextHeld = 0;
  for (const KernelItem *item : items)
    if (item->kind == KernelItem::Hold)
      e.materialize(item->value, held[nextHeld++]);
}

/// Items of one stage: those of one shape share their loops.
void LoopEmitter::emitStage(ArrayRef<const KernelItem *> items,
                            const KernelNest &nest) {
  using Key = std::tuple<SmallVector<int64_t>, bool, int64_t>;
  SmallVector<std::pair<Key, SmallVector<const KernelItem *>>> groups;
  // Held scales first: what follows reads them.
  auto isHeldScale = [](const KernelItem *item) {
    return item->kind == KernelItem::Hold &&
           isa<ScaleOp>(item->value.getDefiningOp());
  };
  SmallVector<const KernelItem *> ordered;
  llvm::copy_if(items, std::back_inserter(ordered), isHeldScale);
  llvm::copy_if(items, std::back_inserter(ordered),
                [&](const KernelItem *item) { return !isHeldScale(item); });
  for (const KernelItem *item : ordered) {
    Space space = spaceOf(*item, nest);
    if (item->kind == KernelItem::Sum &&
        (nest.flat || !isRowLocal(*item, space))) {
      emitSum(*item, space, nest);
      continue;
    }
    Key key{space.shape, vectorizes(*item, space), item->rowFactor};
    auto it =
        llvm::find_if(groups, [&](auto &group) { return group.first == key; });
    if (it == groups.end()) {
      groups.push_back({key, {}});
      it = std::prev(groups.end());
    }
    it->second.push_back(item);
  }
  for (auto &[key, members] : groups)
    emitLoops(members, spaceOf(*members.front(), nest), std::get<1>(key), nest);
}

void LoopEmitter::emit(const KernelNest &nest) {
  e.setFlat(nest.flat);
  unsigned last = 0;
  for (const KernelItem &item : nest.items)
    last = std::max(last, item.stage);
  auto stages = [&]() {
    for (unsigned stage = 0; stage <= last; ++stage) {
      SmallVector<const KernelItem *> items;
      for (const KernelItem &item : nest.items)
        if (item.stage == stage)
          items.push_back(&item);
      emitStage(items, nest);
    }
  };
  if (!nest.tile) {
    stages();
    e.setFlat(false);
    return;
  }
  tileRows = nest.tile;
  for (const KernelItem &item : nest.items)
    if (item.kind == KernelItem::Max && !item.local) {
      MaxState state = makeMax(item, spaceOf(item, nest), nest);
      initMax(state);
      crossTile[item.reduction] = state;
    }
  e.loop(0, nest.rows, nest.tile, [&](Value low) {
    tileLow = low;
    stages();
  });
  // What a later nest reads of a held value it computes again.
  for (const KernelItem &item : nest.items)
    if (item.kind == KernelItem::Hold)
      e.forget(item.value);
  for (const KernelItem &item : nest.items)
    if (auto it = crossTile.find(item.reduction); it != crossTile.end()) {
      finishMax(it->second);
      e.materialize(item.reduction->getResult(0),
                    {it->second.values, it->second.strides, Value()});
    }
  crossTile.clear();
}

LogicalResult mlir::fp8::emitLoopKernel(KernelOp kernel,
                                        LLVM::LLVMFuncOp function) {
  Block &body = kernel.getBody().front();
  Evaluator evaluator(function.getBody().front(), body, kernel.getNumResults(),
                      function.getLoc());
  LoopEmitter emitter(evaluator);
  for (const KernelNest &nest : scheduleKernel(body))
    emitter.emit(nest);
  if (evaluator.stackBytes() > kMaxStackBytes)
    return kernel.emitError()
           << "expected a kernel that needs at most " << kMaxStackBytes
           << " bytes of stack, but got one that needs "
           << evaluator.stackBytes() << "; split it, or plan with 'fuse=none'";
  return success();
}
