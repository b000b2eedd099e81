//===- ValueNames.h - what plans call values and kernels --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names come from locations. An op has one location and may have several
// results, and two ops may have locations of the same name; in a plan each
// value and each kernel of a function has a name of its own all the same.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_VALUENAMES_H
#define FP8_ANALYSIS_VALUENAMES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::fp8 {

/// What the names of recomputations have behind those of their originals.
inline constexpr StringLiteral kCloneSuffix = "~recomputed";

/// The name carried by a location, looking through call-site, fused and nested
/// name locations; empty where none.
StringRef getLocationName(Location loc);

/// `file:line:col` of a location, empty where it has none.
std::string getLocationString(Location loc);

/// The name of `value` by its location alone, with the number of the result
/// where its op has several, tokens aside: `o#1`, `o#1~recomputed`. Empty where
/// the location has no name.
std::string getOwnName(Value value);

/// The location of what is made of `value`: at its place, and named as it is
/// with `suffix`; its own location where it has no name.
Location getDerivedLocation(Value value, const Twine &suffix);

/// The names of the values and kernels of a function in plans: that of
/// `getOwnName`, where another value before it in the program has it with `'2`,
/// `'3` and so on (views after all else); without a name `op#ordinal.result`,
/// the ordinal counted per op name over the function, and `arg#number` for an
/// argument. The result of a kernel has the name of the value inside, a wait
/// that has none of its own that of its start, and a residual that of what is
/// kept. Arguments share no names among each other, but may share one with a
/// result.
class ValueNames {
public:
  explicit ValueNames(func::FuncOp func);

  std::string getName(Value value) const;

  /// Of what runs, a kernel or a wait: the name of its first result, else
  /// `op#ordinal` of the first op in it.
  std::string getName(Operation *op) const;

  /// Gives each op whose name another one has too a location with the name that
  /// plans give it, so that it keeps it whatever becomes of the others.
  void applyToLocations() const;

private:
  void add(Operation *op);

  DenseMap<Operation *, unsigned> ordinals;
  DenseMap<Value, std::string> names; ///< of results with storage or a view
  std::vector<std::pair<Operation *, std::string>> renamed;
  llvm::StringSet<> taken;
  /// By the names of an op's results, the mark that the next one begins with.
  llvm::StringMap<unsigned> next;
};

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_VALUENAMES_H
