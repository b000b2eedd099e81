//===- GenericEmitter.h - parts of generic launches -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the two ways to spread a generic reduction over threads share.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_FP8TOCUDA_GENERICEMITTER_H
#define FP8_CONVERSION_FP8TOCUDA_GENERICEMITTER_H

#include "fp8/Conversion/Common/Evaluator.h"
#include "fp8/Conversion/FP8ToCUDA/Emit.h"

namespace mlir::fp8 {

/// Indices of the element at row-major `position` of `shape`.
SmallVector<Index> unflatten(Evaluator &e, Value position,
                             ArrayRef<int64_t> shape);

/// A sum, in f32, or a maximum, in the keys of Numerics::toMaxKey.
struct GenericReduction {
  explicit GenericReduction(const LaunchItem &item);

  const LaunchItem &item;
  Value result;
  ArrayRef<int64_t> shape; ///< of what is combined
  SmallVector<int64_t> group;
  /// The dimensions of one group: what of the shape one result stands for.
  SmallVector<int64_t> inner;
  int64_t elements = 1; ///< of one group
  bool sum = false;

  Type keptType(Evaluator &e) const {
    return sum ? Type(e.here().getF32Type()) : Type(e.here().getI32Type());
  }
  /// What changes nothing.
  Value lowest(Evaluator &e) const;
  Value combine(OpBuilder &b, Location loc, Value x, Value y) const;
  /// Element number `element` of the group that belongs to the result at
  /// `place`.
  Value read(Evaluator &e, ArrayRef<Index> place, Value element) const;
  /// The f32 that is stored.
  Value finish(OpBuilder &b, Location loc, Value total) const;
};

/// Whether neighbours among the results of a reduction combine neighbours.
bool takesColumns(const GenericReduction &reduction);

/// A block takes 32 results, a lane of each of its warps one.
Geometry emitColumns(const LaunchContext &context, Evaluator &e,
                     const GenericReduction &reduction, Value pointer);

} // namespace mlir::fp8

#endif // FP8_CONVERSION_FP8TOCUDA_GENERICEMITTER_H
