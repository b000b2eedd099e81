//===- Evaluator.h ----------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits code that computes elements of the tensors inside a kernel, on demand
// and from the kernel's arguments, so that nothing inside has storage. A
// value is computed once per position, and as far out of the loops as what it
// depends on allows.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_COMMON_EVALUATOR_H
#define FP8_CONVERSION_COMMON_EVALUATOR_H

#include "fp8/Conversion/Common/Numerics.h"
#include <map>

namespace mlir::fp8 {

/// Elements that a vector loop handles at once.
inline constexpr int64_t kLanes = 16;

/// An index along one dimension: lane l stands at `base + l * step`. `aligned`
/// promises that `base` is a multiple of kLanes and `step` is 1.
struct Index {
  Value base;
  int64_t step = 0;
  bool aligned = false;
};

/// Elements of a tensor: one (`lanes` is 1; the same for all lanes) or kLanes
/// of them. bf16 and f32 are held as f32, f8 as its i8 code, E5M6 as its code
/// in an i16, i1 and integers as they are. `level` is the loop depth at which
/// the value is available.
struct Element {
  Value value;
  int64_t lanes = 1;
  unsigned level = 0;
};

/// f32 values of a reduction's result, kept on the stack. Row-major; along
/// dimension 0 it holds the part that starts at `origin`.
struct ValueBuffer {
  Value pointer;
  SmallVector<int64_t> strides;
  Value origin;
  /// Loop depth at which it was filled: it may not be read further out.
  unsigned level = 0;
};

/// Builds the body of one kernel function: loops, stack buffers, and elements
/// of the values of the kernel's block.
class Evaluator {
public:
  /// Emits before the terminator of the entry block of `function`, whose only
  /// argument points to the array of pointers to the storage of the kernel's
  /// operands, then of its results.
  Evaluator(Block &entry, Block &kernelBody, unsigned numResults, Location loc);
  /// The same for a function that has the pointers themselves: those of the
  /// kernel's operands, then of its results.
  Evaluator(Block &entry, Block &kernelBody, ArrayRef<Value> pointers,
            Location loc);

  /// The elements of `value` at `indices`, one a dimension.
  Element evaluate(Value value, ArrayRef<Index> indices);
  /// In flat mode every value with more than one element is indexed by its
  /// row-major position, given as the index of the last dimension. Only for
  /// values that are elementwise in all they depend on (`isFlat`).
  void setFlat(bool enabled) { flat = enabled; }
  /// Promises that the storage of all arguments and buffers is aligned to so
  /// many bytes, so that vectors at aligned positions are one access each.
  void setAlignment(int64_t bytes) { alignment = bytes; }

  /// Writes elements to result `number` at `indices` of its type, or of the
  /// piece of it that the kernel makes.
  void store(unsigned number, ArrayRef<Index> indices, Element element);
  /// Writes the f32 elements of `value` at `indices` to `pointer`, which has
  /// room for all of it, row-major.
  void storeFloats(Value pointer, Value value, ArrayRef<Index> indices,
                   Element element);

  /// From here on the elements of `value` are read from `buffer`, which the
  /// loops emitted so far have filled.
  void materialize(Value value, ValueBuffer buffer) {
    buffer.level = scopes.size() - 1;
    buffers[value] = buffer;
  }

  /// From here on the elements of `value` are computed again: the buffer that
  /// held them has those of the last tile only.
  void forget(Value value) { buffers.erase(value); }

  /// A loop over [low, high) whose body is emitted by `body`. With a known trip
  /// count of one no loop is made.
  void loop(int64_t low, int64_t high, int64_t step,
            function_ref<void(Value)> body);
  void loop(Value low, Value high, int64_t step,
            function_ref<void(Value)> body);

  /// A stack array of `count` elements. `stackBytes` adds them up.
  Value stackArray(Type element, int64_t count);
  int64_t stackBytes() const { return stackSize; }

  /// Loads and stores of stack arrays at the end of the innermost loop body.
  Value load(Value pointer, Value index, Type type);
  void write(Value pointer, Value index, Value value);

  /// i64 arithmetic, at the outermost loop that allows it.
  Value constant(int64_t value);
  Value add(Value x, Value y);
  Value mul(Value x, int64_t y);
  Value div(Value x, int64_t y);
  Value rem(Value x, int64_t y);
  Value sub(Value x, Value y);
  Value min(Value x, int64_t y);
  Value max(Value x, int64_t y);

  /// `element` with one value a lane.
  Element widen(Element element);
  /// The builder, at the end of the innermost loop body.
  OpBuilder &here();
  Numerics numerics() { return Numerics(here(), loc); }
  Location getLoc() const { return loc; }
  /// Pointer to the storage of operand or result `number` of the kernel.
  Value argument(unsigned number);

private:
  struct Scope {
    Operation *insertBefore;
    // Looked up only, never iterated.
    std::map<std::vector<std::pair<const void *, int64_t>>, Element> cache;
  };

  unsigned levelOf(Value value) const { return levels.lookup(value); }
  unsigned levelOf(ArrayRef<Index> indices) const;
  OpBuilder &at(unsigned level);
  Value remember(Value value, unsigned level);

  Element compute(Value value, ArrayRef<Index> indices);
  Element computeOp(Operation *op, ArrayRef<Index> indices);
  Element computeElementwise(Operation *op, ArrayRef<Index> indices);
  Element computeReshape(Operation *op, ArrayRef<Index> indices);
  Element computePad(Operation *op, ArrayRef<Index> indices);
  Element computeRandom(Operation *op, ArrayRef<Index> indices);
  Element computeBitcast(Operation *op, ArrayRef<Index> indices);
  Element computeSmallReduction(Operation *op, ArrayRef<Index> indices);
  /// Lane by lane, where lanes do not lie in one vector.
  Element computeLanes(ArrayRef<Index> indices,
                       function_ref<Element(ArrayRef<Index>)> one);
  /// The scale of the group that `indices` fall into.
  Element computeScale(Value scale, ArrayRef<int64_t> group,
                       ArrayRef<Index> indices);
  Element loadElements(Value pointer, Type element, Index position,
                       unsigned minLevel = 0);
  void storeElements(Value pointer, Type type, Index position, Element element);
  /// Codes of E5M6, two in three bytes. A vector starts at an even position.
  Value loadPacked(Value pointer, Value position, bool vector, unsigned level);
  void storePacked(Value pointer, Value position, Value codes);
  /// One code, with that of its neighbour, so that no byte is written by half.
  void storePair(Value pointer, Value value, ArrayRef<Index> indices,
                 Index position, Element element);
  Index linearize(ArrayRef<Index> indices, ArrayRef<int64_t> strides);
  SmallVector<Element> align(SmallVector<Element> elements, unsigned &level,
                             int64_t &lanes);

  OpBuilder builder;
  Location loc;
  Block &kernelBody;
  Block &entry;
  SmallVector<Scope> scopes;
  SmallVector<Value> arguments;
  DenseMap<Value, unsigned> levels;
  DenseMap<Value, ValueBuffer> buffers;
  std::map<int64_t, Value> constants;
  int64_t stackSize = 0;
  int64_t alignment = 1;
  bool flat = false;
};

/// Row-major strides of a shape, in elements.
SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape);

/// The last dimension that is not 1, along which elements follow each other in
/// memory; -1 if there is none.
int64_t lastDimension(ArrayRef<int64_t> shape);

/// The group that each element of a reduction's operand falls into: entries as
/// in `fp8.amax` (0 for a whole dimension). For a `fp8.reduce`: 0 on the axes,
/// else 1.
SmallVector<int64_t> reductionGroup(Operation *op);

/// True for `fp8.amax` and `fp8.reduce` ops that combine more than one element
/// into a result.
bool isReduction(Operation *op);

/// Elements that one result of a reduction combines.
int64_t countReduced(Operation *op);

/// True for reductions of so few elements that each result is computed where it
/// is read, without a buffer, unless it was materialised.
bool isSmallReduction(Operation *op);

} // namespace mlir::fp8

#endif // FP8_CONVERSION_COMMON_EVALUATOR_H
