//===- TileEmitter.h - 128x128 elements in a block --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the two files of the tile schedule share: TileKernel.cpp visits rows and
// completes maxima, TileTransposes.cpp writes transposed results.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_FP8TOCUDA_TILEEMITTER_H
#define FP8_CONVERSION_FP8TOCUDA_TILEEMITTER_H

#include "fp8/Conversion/FP8ToCUDA/Emit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::fp8 {

/// Vectors of columns of a tile.
inline constexpr int64_t kVectors = kTile / kVector;
/// Rows of a thread that holds several values of each element.
inline constexpr int64_t kHeldRows = 4;
/// Shared memory for transposed results: what a block has without asking.
inline constexpr int64_t kStagingBytes = 48 * 1024;

/// The width in bytes of an element.
int64_t bytesOf(Value value);
/// The saturating cast that `value` is a transpose of, or null; `flip` becomes
/// its orientation.
CastOp castBehind(Value value, bool &flip);

/// Emits one launch of the tile schedule.
class TileEmitter {
public:
  explicit TileEmitter(const LaunchContext &context)
      : c(context), rules(*context.plan.rules), loc(context.loc()),
        body(context.entry().getTerminator()),
        outside(context.entry().getTerminator()), d(body, loc),
        e(rules, body, outside, context.pointers, loc) {}

  Geometry emit();

private:
  /// A maximum over columns of the tile's rows, or over all of the tile, that
  /// the block is combining.
  struct Pending {
    Operation *op;
    bool flip;
    Extent extent;
    bool grid;
    SmallVector<Value> words = {};
    Value scratch = {};
    Value scales = {}; ///< in shared memory, where all there is to do is scale
  };
  /// A transposed result on its way through shared memory.
  struct Transposed {
    const LaunchItem *item;
    int64_t offset = 0; ///< in `staging`
  };

  void collect();
  unsigned stageOf(Value value);
  bool isTransposed(const LaunchItem &item) {
    return !item.reduction && item.flip &&
           rules.extentOf(item.value, true)->isFull();
  }
  bool canSplit();
  bool follows(const TileGeometry &geometry, bool reduces);
  void makeColumns();
  void makeRows(Value offset, int64_t count);
  void load(const Slot &slot) {
    for (Value leaf : leaves)
      (void)e.evaluate(leaf, *rules.flipOf(leaf), slot);
  }
  void stream();
  void visitRows(unsigned stage);
  void emitTransposed(unsigned stage);
  void reduceRow(Operation *op, bool flip, size_t k, bool grid);
  void completeReductions();
  void shareScales(MutableArrayRef<Pending> pending);
  void gather(const Pending &pending, ArrayRef<Value> words);
  void storePlain(const LaunchItem &item, size_t k);
  Value addressInStaging(const Transposed &result, Value first);
  void collectColumns(Transposed &result, size_t slot, int64_t step, Value to);
  void writeTransposed(const Transposed &result);
  void guarded(Value condition, function_ref<void()> emit);
  Value both(Value x, Value y) {
    if (!x || !y)
      return x ? x : y;
    return arith::AndIOp::create(body, loc, x, y);
  }

  const LaunchContext &c;
  SpaceRules &rules;
  Location loc;
  /// Where code goes, and where that goes which belongs to columns only.
  OpBuilder body, outside;
  Device d;
  VectorEvaluator e;
  SmallVector<Operation *> local; ///< reductions that are complete in the block
  SmallVector<Pending> pending;
  SmallVector<Value> leaves; ///< operands with an element for each position
  std::map<Operation *, unsigned> stages; // looked up only
  Value id, vector, group, tileRow, tileCol, column;
  SmallVector<Slot> slots;
  SmallVector<Value> rowValid; // null where always true
  Value colValid;
  int64_t rowsOfThread = 8;
  int64_t threads = 256, warps = 8;
  Value staging;
  int64_t stagingBytes = 0;
  bool stagingUsed = false;
};

} // namespace mlir::fp8

#endif // FP8_CONVERSION_FP8TOCUDA_TILEEMITTER_H
