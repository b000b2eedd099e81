//===- RowEmitter.h - whole rows in a block or a warp -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the files of the row schedule share: RowShape.cpp spreads rows over
// threads, RowKernel.cpp visits them, RowReductions.cpp completes maxima and
// sums along a row, RowColumns.cpp gathers maxima over rows.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_FP8TOCUDA_ROWEMITTER_H
#define FP8_CONVERSION_FP8TOCUDA_ROWEMITTER_H

#include "fp8/Conversion/FP8ToCUDA/Emit.h"

namespace mlir::fp8 {

/// Bytes of eight elements.
inline int64_t vectorBytes(Value value) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  return getElementBits(element) * kVector / 8;
}

/// How rows are spread over threads.
struct RowShape {
  int64_t vectors = 0;      ///< of a row
  int64_t threads = 0;      ///< of a row
  int64_t perThread = 0;    ///< vectors
  int64_t rowsPerBlock = 1; ///< above 1 only where a warp takes a row
  int64_t blocks = 1;       ///< a multiprocessor has to hold
  /// Rows that are on their way to shared memory while one is worked on; 0: a
  /// row is read when it is its turn.
  int64_t ahead = 0;
  int64_t warps() const { return threads / kWarp; }
};

/// Emits one launch of the row schedule.
class RowEmitter {
public:
  explicit RowEmitter(const LaunchContext &context)
      : c(context), rules(*context.plan.rules), loc(context.loc()) {}

  Geometry emit();

private:
  /// A maximum that is gathered over rows.
  struct Gathered {
    const LaunchItem *item;
    MaxForm form;
    bool columns;
    SmallVector<SmallVector<Value>> words = {}; ///< a slot; one for `all`
    bool inShared = false;
    Value shared = {};
    size_t wordCount() const {
      return form == MaxForm::Pairs ? kVector / 2 : kVector;
    }
  };

  // RowShape.cpp
  void collect();
  void chooseShape();
  RowWork workOf() const;
  bool setThreads(int64_t perThread);
  int64_t copiedBytes() const;
  bool canCopyAhead() const;
  bool fitsAhead(int64_t blocks) const;
  void chooseAhead();
  bool follow(const RowGeometry &geometry);
  int64_t placeGathered(int64_t limit);
  int64_t registersOf() const;
  int64_t sumBytes() const;
  int64_t otherShared() const;
  bool loadsAhead() const;
  unsigned stageOf(Value value);

  // RowKernel.cpp
  void makeSlots(OpBuilder &outside);
  void allocateScratch();
  void emitLoop(OpBuilder &outside, Value block, int64_t grid);
  void emitRow(OpBuilder &body, OpBuilder &outside, Value row, Value number,
               Value next);
  Value copyAddress(size_t leaf, size_t slot, Value number, OpBuilder &at);
  void copyRow(size_t slot, Value row, Value number, Value enabled,
               OpBuilder &at);
  void readCopies(VectorEvaluator &e, size_t slot, Value number,
                  OpBuilder &body);
  void storeItem(const LaunchItem &item, VectorEvaluator &e, OpBuilder &body);

  // RowReductions.cpp
  void reduceMaxima(ArrayRef<Operation *> reductions, VectorEvaluator &e,
                    OpBuilder &body, Value parity);
  void reduceBlocks(Operation *reduction, VectorEvaluator &e, OpBuilder &body);
  void reduceSum(Operation *reduction, VectorEvaluator &e, OpBuilder &body);
  void setRowResult(Operation *reduction, VectorEvaluator &e, Value result,
                    OpBuilder &body);

  // RowColumns.cpp
  SmallVector<Value> startGathering(OpBuilder &outside);
  void takeGathered(ValueRange values);
  Value sharedWords(const Gathered &max, size_t slot, OpBuilder &at);
  void gather(Gathered &max, size_t slot, VectorEvaluator &e, OpBuilder &body);
  void flush(OpBuilder &after);
  void flushShared(const Gathered &max, OpBuilder &after);

  bool flipOf(Operation *reduction) {
    return *rules.flipOf(reduction->getOperand(0));
  }

  const LaunchContext &c;
  SpaceRules &rules;
  Location loc;
  RowShape shape;
  SmallVector<Operation *> local;         // reductions, in program order
  SmallVector<Value> leaves;              // what is read at every position
  std::map<Operation *, unsigned> stages; // looked up only
  std::vector<Gathered> gathered;
  Value copies; ///< shared memory of the rows on their way
  // The same in every row:
  Value thread, lane, warp;             // i32; of the row
  SmallVector<Slot> slots;              // without rows
  SmallVector<Value> valid;             // null where always true
  std::map<Operation *, Value> scratch; // shared memory; looked up only
};

} // namespace mlir::fp8

#endif // FP8_CONVERSION_FP8TOCUDA_ROWEMITTER_H
