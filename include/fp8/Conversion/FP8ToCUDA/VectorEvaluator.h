//===- VectorEvaluator.h - values in a thread's registers -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the values of a kernel eight columns at a time. A thread holds a few
// slots (positions of the space); each value is computed once a slot and stays
// in registers, bf16 as pairs in 32 bits.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_FP8TOCUDA_VECTOREVALUATOR_H
#define FP8_CONVERSION_FP8TOCUDA_VECTOREVALUATOR_H

#include "fp8/Conversion/Common/Numerics.h"
#include "fp8/Conversion/FP8ToCUDA/Device.h"
#include "fp8/Conversion/FP8ToCUDA/Space.h"

namespace mlir::fp8 {

/// Eight columns of one row. Slots with one id along a dimension stand at the
/// same index of it; with one block id, in the same block of 128.
struct Slot {
  Value row, col; ///< i64, in bounds
  int rowId = 0, colId = 0, rowBlockId = 0, colBlockId = 0;
};

/// The elements of a value at one slot: eight, or one that stands for all. Of
/// the forms only those are set that were asked for.
struct Lanes {
  SmallVector<Value, 8> floats; ///< f32 (of bf16 values too)
  SmallVector<Value, 4> pairs;  ///< i32, two bf16 each; a lone one twice
  SmallVector<Value, 2> codes;  ///< i32, four f8 codes each; three of E5M6
  SmallVector<Value, 8> flags;  ///< i1
  bool hoisted = false;         ///< computed outside of the loop over rows
};

class VectorEvaluator {
public:
  /// `body` is where code of a row goes, `outside` where code goes that depends
  /// on no row (the same where there is no loop over rows). `pointers` are
  /// those of the kernel's operands.
  VectorEvaluator(SpaceRules &rules, OpBuilder &body, OpBuilder &outside,
                  ArrayRef<Value> pointers, Location loc)
      : rules(rules), body(body), outside(outside), pointers(pointers),
        loc(loc) {}

  /// The elements of `value`, which fits in this orientation.
  Lanes &evaluate(Value value, bool flip, const Slot &slot);
  /// f32 of the elements of `lanes`, eight or one, at the row's code.
  ArrayRef<Value> floatsOf(Lanes &lanes);
  ArrayRef<Value> pairsOf(Lanes &lanes);
  /// The products x * s of a saturating cast, before they are rounded to f8:
  /// eight f32.
  SmallVector<Value> castProducts(CastOp cast, bool flip, const Slot &slot);

  /// The result of a local reduction at a slot.
  void setLanes(Value value, bool flip, const Slot &slot, Lanes lanes);
  /// Where the eight elements of `value`, a leaf with an element for each
  /// position and not transposed, lie in global memory at a slot.
  Value leafAddress(Value value, const Slot &slot);
  /// Reads them from `pointer`, where they were copied to in pieces of 16
  /// bytes, `stride` bytes from each other.
  void readLeaf(Value value, const Slot &slot, Value pointer, int64_t stride);
  /// From here on `value` is read as f32 from memory.
  void setMemory(Value value, Value pointer) { memory[value] = pointer; }
  /// Forgets the unpacked form of everything that is held as pairs, and hides
  /// from the compiler where the pairs came from: what is used after a
  /// reduction stays in as few registers as it can.
  void shrink();

  /// Computes all that `store` needs, so that it may follow in a branch.
  void prepareStore(Value value, bool flip, const Slot &slot);
  /// Writes eight columns, or the one element, of `value` to `pointer`.
  void store(Value value, bool flip, const Slot &slot, Value pointer);
  /// Position of the element (or the first of eight) of `value` at a slot.
  Value positionOf(Value value, bool flip, const Slot &slot, int64_t offset,
                   int64_t pitch, OpBuilder &at);

private:
  struct Key {
    const void *value;
    bool flip;
    int row, col;
    auto operator<=>(const Key &) const = default;
  };
  Key keyOf(Value value, bool flip, const Slot &slot, Extent extent) const;
  Lanes &remember(const Key &key, Lanes lanes);
  Lanes compute(Value value, bool flip, const Slot &slot, OpBuilder &at);
  Lanes computeElementwise(Operation *op, bool flip, const Slot &slot,
                           OpBuilder &at);
  Lanes loadElements(Value pointer, Type element, bool vector, Value position,
                     OpBuilder &at, int64_t stride = 16);
  ArrayRef<Value> floatsOf(Lanes &lanes, OpBuilder &at);
  ArrayRef<Value> pairsOf(Lanes &lanes, OpBuilder &at);
  SmallVector<Value> products(Lanes &x, Lanes &scale, OpBuilder &at);

  SpaceRules &rules;
  OpBuilder &body, &outside;
  ArrayRef<Value> pointers;
  Location loc;
  std::map<Key, Lanes> cache;    // looked up only
  std::vector<Lanes *> perRow;   ///< what the cache holds of one row, in order
  DenseMap<Value, Value> memory; // looked up only
};

} // namespace mlir::fp8

#endif // FP8_CONVERSION_FP8TOCUDA_VECTOREVALUATOR_H
