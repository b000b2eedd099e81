//===- RowRegions.h - what can run a few rows at a time ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the ops of a program that are independent by rows, so that a part of
// the rows can go through all of them before the next part does and what lies
// between them is never whole in memory.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TRANSFORMS_ROWREGIONS_H
#define FP8_TRANSFORMS_ROWREGIONS_H

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Target.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::fp8 {

/// The most pieces that may be asked for.
inline constexpr int64_t kMostPieces = 1024;

/// Which part of a value belongs to rows [i, j) of a region: along `dim` the
/// entries i / factor to ceil(j / factor); all of it where `dim` is -1.
struct RowPart {
  /// Whose rows i and j count.
  enum class Of {
    Region, ///< those of the value
    Shard,  ///< those of one rank's shard of what the region reads gathered
    Blocks  ///< those of each rank's block of the value
  };

  int dim = -1;
  int64_t factor = 1;
  Of of = Of::Region;

  bool isWhole() const { return dim < 0; }
  bool operator==(const RowPart &) const = default;
};

/// How an op works on some of the rows.
struct RowSplit {
  /// What it reads of each operand.
  SmallVector<RowPart, 4> operands;
  /// What it then makes of its result.
  RowPart result;
  /// It is a maximum over the rows: that of all rows is the maximum of those
  /// of the pieces.
  bool combines = false;
};

/// Ops that run piece by piece. Where a piece is gathered, and the rows are
/// those that the gather puts one after another, a piece is some rows of the
/// shard of each rank: it is gathered once, and the products of the region are
/// made for each rank's rows.
struct RowRegion {
  /// The dimension of the seeds' results that is cut, and its size.
  int dim = 0;
  int64_t rows = 0;
  /// Shards that the rows are of; 1 where they are cut as they come.
  int64_t ranks = 1;
  /// Pieces start at multiples of it.
  int64_t granularity = 1;
  /// More would be so small that each took as long as a larger one.
  int64_t mostPieces = kMostPieces;
  /// The matmuls that its tensors come from, in program order.
  SmallVector<Operation *, 4> seeds;
  /// All its ops, in program order.
  llvm::MapVector<Operation *, RowSplit> ops;
  /// The results that are read outside, in program order: whole, or combined.
  SmallVector<Value, 8> results;
  /// The gathers among its ops, in program order.
  SmallVector<Operation *, 2> gathers;
  /// Bytes of what the seeds make, of `results`, and of what is gathered.
  int64_t seedBytes = 0, resultBytes = 0, gatheredBytes = 0;

  /// What its matmuls or gathers are marked with; nothing without a mark.
  std::optional<int64_t> getMark() const;
  /// How many pieces there are where `pieces` are asked for: none is shorter
  /// than the granularity. 1 where there is nothing to split.
  int64_t countPieces(int64_t pieces) const;
  /// The rows, of each shard, of all pieces but perhaps the last.
  int64_t getPieceRows(int64_t pieces) const;
};

/// Which gathers may be in a region.
enum class Gathers {
  None,
  Marked, ///< those with `fp8.pieces`
  All
};

/// The regions of a block of joint IR, with or without explicit residuals, in
/// program order; no op is in two. One starts from matmuls whose results meet
/// in ops of their shape, and takes what follows them up to the tensors of the
/// fewest bytes, and what goes into them and nothing else reads, gathers among
/// it. Only regions whose results have fewer bytes than those of their matmuls
/// and what they gather are given. Where the rows of a matmul have none, those
/// of its columns are looked for: they are given where less is made than
/// gathered.
std::vector<RowRegion> findRowRegions(Block &block, const Target &target,
                                      Gathers gathers);

/// Replaces a region by `pieces` copies of it, each for a part of the rows.
/// Bits do not change.
void splitRegion(const RowRegion &region, int64_t pieces);

/// Calls `visit` for each block of `func` that runs: its body, and the regions
/// of its step.
void forEachProgramBlock(func::FuncOp func, function_ref<void(Block &)> visit);

/// Splits the regions with a matmul or a gather marked `fp8.pieces` into as
/// many pieces as it says, and the others into `pieces`, where that is above 1.
/// A gather is in a region where it is marked, or `pieces` above 1.
void splitRows(func::FuncOp func, const Target &target, int64_t pieces);

} // namespace mlir::fp8

#endif // FP8_TRANSFORMS_ROWREGIONS_H
