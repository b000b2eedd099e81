//===- Exchange.h - One collective as seen by one rank ----------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every collective is the same thing: each rank of a group sends one piece of
// its tensor to each other and joins, or adds up, what it gets. An exchange
// knows where pieces lie and does the arithmetic, in rank order; who carries
// the messages is the communicator's business.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_EXCHANGE_H
#define FP8RT_CORE_EXCHANGE_H

#include "Manifest.h"

#include <cstdint>
#include <vector>

namespace fp8rt {

/// The ranks that differ from `rank` in the coordinate along `axis` alone, in
/// the order of that coordinate. `grid` is the manifest's; the last axis is the
/// one along which neighbours differ.
std::vector<int> groupOf(const std::vector<GridAxis> &grid,
                         const std::string &axis, int rank);

/// Where the pieces of a collective lie, in elements.
struct ExchangeGeometry {
  DType dtype = DType::F32;
  std::optional<ReduceKind> kind;
  bool sumsInBF16 = false;
  /// Bytes of an element.
  size_t width = 4;
  /// Of a piece, which is what travels from one rank to another.
  int64_t count = 1;
  /// Elements that lie next to one another in both tensors, and the dimensions
  /// around them. A reduction's result is dense: there the elements of a piece
  /// lie in order.
  int64_t run = 1;
  std::vector<int64_t> shape, sourceStrides, targetStrides;
  int64_t sourceOffset = 0;
  /// From the piece of one member to the next.
  int64_t sourceStep = 0, targetStep = 0;
};

class Exchange : ExchangeGeometry {
public:
  /// `group` holds the ranks that take part and `member` the position of this
  /// one among them.
  Exchange(const CollectiveCommand &command, std::vector<int> group,
           size_t member);

  const std::vector<int> &group() const { return ranks; }
  size_t member() const { return own; }
  int64_t elementCount() const { return count; }
  size_t elementBytes() const { return width; }
  const ExchangeGeometry &geometry() const { return *this; }

  /// Copies elements `first` to `last` (in row-major order) of the piece for
  /// member `to` from `source` to `packed`.
  void pack(const void *source, size_t to, int64_t first, int64_t last,
            unsigned char *packed) const;
  /// Takes those elements of the pieces that all members sent: `packed` has one
  /// address a member; the own piece is packed too.
  void unpack(void *target, const std::vector<const unsigned char *> &packed,
              int64_t first, int64_t last);

private:
  template <typename Body>
  void forEachRun(int64_t first, int64_t last, Body body) const;
  void reduce(const std::vector<const unsigned char *> &packed,
              int64_t numElements);

  std::vector<int> ranks;
  size_t own;
  std::vector<float> total;
  std::vector<unsigned char> rounded;
};

} // namespace fp8rt

#endif // FP8RT_CORE_EXCHANGE_H
