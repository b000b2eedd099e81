//===- LoopKernel.cpp - the loops of a loop kernel ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns the nests of KernelSchedule into loops, with vectors of kLanes
// elements along the last dimension and a scalar loop for the rest. Maxima are
// kept as integer keys, sums as the 256 partial sums of docs/architecture.md.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCPU/Evaluator.h"
#include "fp8/Conversion/FP8ToCPU/KernelFunctions.h"
#include "fp8/Conversion/FP8ToCPU/KernelSchedule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fp8;

static constexpr int64_t kPartials = 256;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

namespace {

/// The dimensions an item is visited along.
struct Space {
  SmallVector<int64_t> shape;
  /// The dimension that vectors lie along; -1 when there is none.
  int64_t lane = -1;
  /// Whether dimension 0 runs over the rows of a tile.
  bool tiled = false;
};

/// A maximum being taken: keys, `width` a group (kLanes where a vector falls
/// into one group).
struct MaxState {
  const KernelItem *item;
  SmallVector<int64_t> group;
  SmallVector<int64_t> extents; // groups a dimension, of the tile where local
  SmallVector<int64_t> strides;
  int64_t width = 1;
  bool perRow = false; // complete at the end of each row
  Value keys;
  Value values; // where finished values go
  Value origin; // first group of dimension 0 in `values`
};

/// A sum along rows: partial sums of the row at hand.
struct RowSumState {
  const KernelItem *item;
  int64_t partials;
  Value sums;
  Value values;
  Value origin;
};

class LoopEmitter {
public:
  explicit LoopEmitter(Evaluator &e) : e(e) {}

  void emit(const KernelNest &nest);

private:
  Space spaceOf(const KernelItem &item, const KernelNest &nest) const;
  bool vectorizes(const KernelItem &item, const Space &space) const;
  bool isRowLocal(const KernelItem &item, const Space &space) const;

  MaxState makeMax(const KernelItem &item, const Space &space,
                   const KernelNest &nest);
  void initMax(const MaxState &state);
  void finishMax(const MaxState &state);
  void finishOneMax(const MaxState &state, Value position);
  void accumulateMax(const MaxState &state, const Space &space,
                     ArrayRef<Index> indices, Element x);

  void emitStage(ArrayRef<const KernelItem *> items, const KernelNest &nest);
  void emitLoops(ArrayRef<const KernelItem *> items, const Space &space,
                 bool vectors, const KernelNest &nest);
  void visitBlocked(ArrayRef<int64_t> outer, const Space &space,
                    SmallVector<Index> &indices, function_ref<void()> visit);
  void emitSum(const KernelItem &item, const Space &space,
               const KernelNest &nest);

  /// Loops over the dimensions `dims` of the space; `indices` holds the index
  /// of each in the body.
  void loopOver(ArrayRef<int64_t> dims, const Space &space, int64_t rowFactor,
                SmallVector<Index> &indices, function_ref<void()> inner);
  void zeroPartials(Value sums, int64_t count, int64_t width);
  void foldPartials(Value sums, int64_t count, int64_t width);
  Value treeSum(Value sums, int64_t count);
  void writeSum(const KernelItem &item, Value sum, Value values,
                ValueBuffer &buffer, ArrayRef<Index> indices);
  ValueBuffer valueBuffer(const KernelItem &item, const KernelNest &nest);
  Value positionIn(const ValueBuffer &buffer, ArrayRef<Index> indices);

  Evaluator &e;
  /// The rows of the tile at hand.
  Value tileLow;
  int64_t tileRows = 0, totalRows = 0;
  /// Maxima that are complete only after all tiles.
  std::map<Operation *, MaxState> crossTile; // looked up only
};

} // namespace

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

/// The group of `item`'s reduction; in flat nests everything is one group.
static SmallVector<int64_t> groupOf(const KernelItem &item, bool flat) {
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

/// Partial sums that `count` elements reach, rounded up to a power of two: the
/// others stay +0, and adding +0 changes no partial sum.
static int64_t partialsFor(int64_t count) {
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

void LoopEmitter::writeSum(const KernelItem &item, Value sum, Value values,
                           ValueBuffer &buffer, ArrayRef<Index> indices) {
  Type element = cast<RankedTensorType>(item.reduction->getResult(0).getType())
                     .getElementType();
  if (element.isBF16())
    sum = e.numerics().roundToBF16(sum);
  e.write(values, positionIn(buffer, indices), sum);
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
      writeSum(item, treeSum(sums, partials), buffer.pointer, buffer, position);
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
          writeSum(item, sum, buffer.pointer, buffer, position);
        });
      });
    });
  }
  e.materialize(item.reduction->getResult(0), buffer);
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
  SmallVector<ValueBuffer> sumBuffers;
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
                      e.stackArray(e.here().getF32Type(), partials),
                      buffer.pointer, buffer.origin});
      sumBuffers.push_back(buffer);
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
    for (auto [sum, buffer] : llvm::zip_equal(sums, sumBuffers))
      writeSum(*sum.item, treeSum(sum.sums, sum.partials), sum.values, buffer,
               indices);
  });

  for (const MaxState &state : maxima) {
    if (crossTile.count(state.item->reduction))
      continue;
    if (!state.perRow)
      finishMax(state);
    e.materialize(state.item->reduction->getResult(0),
                  {state.values, state.strides, state.origin});
  }
  for (auto [sum, buffer] : llvm::zip_equal(sums, sumBuffers))
    e.materialize(sum.item->reduction->getResult(0), buffer);
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
  totalRows = nest.rows;
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
