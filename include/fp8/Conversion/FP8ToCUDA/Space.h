//===- Space.h - what a fast CUDA kernel may hold ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules of the row and the tile schedule. Both visit a space of rows and
// columns (a kernel's largest tensor, its leading dimensions merged) eight
// columns at a time; a value either has an element for each position, or one
// for each row, column, block of 128, or for all.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_FP8TOCUDA_SPACE_H
#define FP8_CONVERSION_FP8TOCUDA_SPACE_H

#include "fp8/Dialect/FP8/IR/FP8.h"
#include <map>

namespace mlir::fp8 {

/// Columns that a thread handles at once: 16 bytes of bf16.
inline constexpr int64_t kVector = 8;
/// Rows and columns of a tile, and of a block of a block recipe.
inline constexpr int64_t kTile = 128;

/// Row: a block, or a warp, holds whole rows; maxima and sums along a row are
/// consumed in it. Tile: a block holds 128x128 elements; it transposes, and
/// consumes maxima within its tile. Generic: a thread an element.
enum class Schedule { Generic, Row, Tile };

struct Space {
  int64_t rows = 0, cols = 0;
};

/// Which element of a value belongs to a position of the space: along each
/// dimension the position divided by 1 or 128, or 0 where there is only one.
struct Extent {
  int64_t row = 0, col = 0;
  bool operator==(const Extent &) const = default;
  /// One element a position.
  bool isFull() const { return row == 1 && col == 1; }
};

/// Where a reduction is complete. Local: within the block that visits its
/// elements, at once. Grid: after the launch, gathered by atomic maxima. Outer:
/// after a generic launch of its own.
enum class ReductionPlace { Local, Grid, Outer };

/// Where elements of an argument lie: element (i, j) of a value, its leading
/// dimensions merged, at `offset + i * pitch + j`.
struct Leaf {
  BlockArgument argument;
  int64_t offset = 0, pitch = 1;
  /// Whether rows follow each other without a gap.
  bool dense = true;
};

/// The argument that `value` is a view of, as rows and columns; nothing where
/// it is computed or has strides that are not of this form.
std::optional<Leaf> getLeaf(Value value);

/// What one schedule can do with the values of one kernel.
class SpaceRules {
public:
  SpaceRules(Space space, Schedule schedule)
      : space(space), schedule(schedule) {}

  Space getSpace() const { return space; }
  Schedule getSchedule() const { return schedule; }

  /// The extent of a value; of its transpose where `flip` is set. Nothing where
  /// its shape does not go with the space.
  std::optional<Extent> extentOf(Value value, bool flip) const;
  /// The extent of what has one element for each group of `value`.
  std::optional<Extent> groupExtent(Value value, ArrayRef<int64_t> group,
                                    bool flip) const;
  /// Whether `value` (transposed where `flip` is set) can be computed eight
  /// columns at a time from what the kernel reads.
  bool fits(Value value, bool flip);
  /// The orientation in which a value fits, if it does.
  std::optional<bool> flipOf(Value value);
  /// Where a reduction of more than one element is complete.
  ReductionPlace placeOf(Operation *reduction);
  /// Whether computing `value` needs a local reduction.
  bool dependsOnLocal(Value value);

private:
  bool computeFits(Value value, bool flip);
  bool fitsMemory(Value value, bool flip, int64_t offset, int64_t pitch) const;

  Space space;
  Schedule schedule;
  // Looked up only.
  std::map<std::pair<const void *, bool>, bool> known;
  std::map<Operation *, ReductionPlace> places;
  std::map<Operation *, bool> local;
};

/// The largest row sum that a block can take in the defined order.
inline constexpr int64_t kMaxSummedColumns = 11520;
/// The longest row that a block can hold.
inline constexpr int64_t kMaxRowColumns = 32768;

} // namespace mlir::fp8

#endif // FP8_CONVERSION_FP8TOCUDA_SPACE_H
