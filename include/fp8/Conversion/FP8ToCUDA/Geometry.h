//===- Geometry.h - measured launch geometries ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What bench/autotune.py measured: for launches that do so much for each
// element the geometry that was fastest. A launch without an entry near its
// shape follows the rules of its schedule, and so does one that cannot have the
// geometry of its entry.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_FP8TOCUDA_GEOMETRY_H
#define FP8_CONVERSION_FP8TOCUDA_GEOMETRY_H

#include "fp8/Dialect/FP8/IR/FP8.h"

namespace mlir::fp8 {

/// What a row launch does, as far as its speed depends on it.
struct RowWork {
  int64_t cols = 0;
  int64_t read = 0;   ///< bytes an element, of all that is read everywhere
  int64_t held = 0;   ///< values that wait for a reduction of their row
  int64_t maxima = 0; ///< bytes a column, of maxima over columns
};

/// What can be chosen for it.
struct RowGeometry {
  int64_t vectors = 0; ///< of eight columns, a thread
  int64_t blocks = 0;  ///< a multiprocessor
  int64_t ahead = 0;   ///< rows that are copied ahead
};

/// What a tile launch does.
struct TileWork {
  int64_t read = 0;       ///< bytes an element
  int64_t held = 0;       ///< values that wait for maxima over rows
  int64_t transposed = 0; ///< bytes an element, of transposed results
};

struct TileGeometry {
  int64_t rows = 0;   ///< a thread: 4 or 8
  int64_t blocks = 0; ///< a multiprocessor
};

/// The geometries of one chip.
class Geometries {
public:
  /// The measured ones (Tuned/CHIP.def), none for a chip without.
  explicit Geometries(StringRef chip);

  /// Instead of what was measured, one geometry for every row or tile launch
  /// that can have it: `row:VECTORS:BLOCKS:AHEAD` or `tile:ROWS:BLOCKS`, or
  /// `rules` for none at all. False where `text` is none of these.
  bool override(StringRef text);

  /// The geometry of the entry that is equal in everything but the columns,
  /// which may be half as many to twice as many; of several the nearest.
  std::optional<RowGeometry> find(const RowWork &work) const;
  std::optional<TileGeometry> find(const TileWork &work) const;

private:
  std::vector<std::pair<RowWork, RowGeometry>> rows;
  std::vector<std::pair<TileWork, TileGeometry>> tiles;
  std::optional<RowGeometry> everyRow;
  std::optional<TileGeometry> everyTile;
};

/// A line that bench/autotune.py reads: the entry that gives this launch the
/// geometry it has.
std::string reportOf(const RowWork &work, const RowGeometry &geometry);
std::string reportOf(const TileWork &work, const TileGeometry &geometry);

} // namespace mlir::fp8

#endif // FP8_CONVERSION_FP8TOCUDA_GEOMETRY_H
