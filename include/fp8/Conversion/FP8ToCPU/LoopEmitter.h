//===- LoopEmitter.h - the loops of one kernel ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The state that LoopKernel.cpp (loops) and LoopReductions.cpp (maxima and
// sums) share while one loop kernel is emitted.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_FP8TOCPU_LOOPEMITTER_H
#define FP8_CONVERSION_FP8TOCPU_LOOPEMITTER_H

#include "fp8/Conversion/Common/Evaluator.h"
#include "fp8/Conversion/FP8ToCPU/KernelSchedule.h"

#include <map>

namespace mlir::fp8 {

/// Partial sums of a reduction (docs/architecture.md, "Numbers").
inline constexpr int64_t kPartials = 256;

inline ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

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
  ValueBuffer buffer; // where finished values go
};

/// Emits the loops of nests, one after another.
class LoopEmitter {
public:
  explicit LoopEmitter(Evaluator &e) : e(e) {}

  void emit(const KernelNest &nest);

private:
  /// The group of `item`'s reduction; in flat nests everything is one group.
  static SmallVector<int64_t> groupOf(const KernelItem &item, bool flat);
  /// Partial sums that `count` elements reach, rounded up to a power of two:
  /// the others stay +0, and adding +0 changes no partial sum.
  static int64_t partialsFor(int64_t count);
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
  void writeSum(const KernelItem &item, Value sum, const ValueBuffer &buffer,
                ArrayRef<Index> indices);
  ValueBuffer valueBuffer(const KernelItem &item, const KernelNest &nest);
  Value positionIn(const ValueBuffer &buffer, ArrayRef<Index> indices);

  Evaluator &e;
  /// The rows of the tile at hand.
  Value tileLow;
  int64_t tileRows = 0;
  /// Maxima that are complete only after all tiles.
  std::map<Operation *, MaxState> crossTile; // looked up only
};

} // namespace mlir::fp8

#endif // FP8_CONVERSION_FP8TOCPU_LOOPEMITTER_H
