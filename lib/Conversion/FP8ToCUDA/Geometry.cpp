//===- Geometry.cpp ---------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The entries are compiled in. A file a chip, written by bench/autotune.py.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCUDA/Geometry.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8;

Geometries::Geometries(StringRef chip) {
#define ROW(cols, read, held, maxima, vectors, blocks, ahead)                  \
  rows.push_back({RowWork{cols, read, held, maxima},                           \
                  RowGeometry{vectors, blocks, ahead}});
#define TILE(read, held, transposed, threadRows, blocks)                       \
  tiles.push_back(                                                             \
      {TileWork{read, held, transposed}, TileGeometry{threadRows, blocks}});
  if (chip == "sm_90a") {
#include "Tuned/sm_90a.def"
  }
#undef ROW
#undef TILE
}

bool Geometries::override(StringRef text) {
  SmallVector<StringRef> parts;
  text.split(parts, ':');
  SmallVector<int64_t> numbers;
  for (StringRef part : ArrayRef(parts).drop_front()) {
    int64_t number;
    if (part.getAsInteger(10, number) || number < 0 || number > 1024)
      return false;
    numbers.push_back(number);
  }
  bool row = parts[0] == "row" && numbers.size() == 3;
  bool tile = parts[0] == "tile" && numbers.size() == 2;
  if (!row && !tile && text != "rules")
    return false;
  rows.clear();
  tiles.clear();
  if (row)
    everyRow = RowGeometry{numbers[0], numbers[1], numbers[2]};
  if (tile)
    everyTile = TileGeometry{numbers[0], numbers[1]};
  return true;
}

std::optional<RowGeometry> Geometries::find(const RowWork &work) const {
  if (everyRow)
    return everyRow;
  std::optional<RowGeometry> best;
  double least = 2.0;
  for (const auto &[known, geometry] : rows) {
    if (known.read != work.read || known.held != work.held ||
        known.maxima != work.maxima)
      continue;
    double ratio = double(std::max(known.cols, work.cols)) /
                   double(std::min(known.cols, work.cols));
    if (best ? ratio < least : ratio <= least) {
      least = ratio;
      best = geometry;
    }
  }
  return best;
}

std::optional<TileGeometry> Geometries::find(const TileWork &work) const {
  if (everyTile)
    return everyTile;
  for (const auto &[known, geometry] : tiles)
    if (known.read == work.read && known.held == work.held &&
        known.transposed == work.transposed)
      return geometry;
  return std::nullopt;
}

std::string mlir::fp8::reportOf(const RowWork &work,
                                const RowGeometry &geometry) {
  return llvm::formatv("ROW({0}, {1}, {2}, {3}, {4}, {5}, {6})", work.cols,
                       work.read, work.held, work.maxima, geometry.vectors,
                       geometry.blocks, geometry.ahead);
}

std::string mlir::fp8::reportOf(const TileWork &work,
                                const TileGeometry &geometry) {
  return llvm::formatv("TILE({0}, {1}, {2}, {3}, {4})", work.read, work.held,
                       work.transposed, geometry.rows, geometry.blocks);
}
