//===- Exchange.cpp - One collective as seen by one rank ------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Geometry and sums. A sum starts from the piece of the first member and adds
// the others' in order, so its bits depend on nothing else.
//
//===----------------------------------------------------------------------===//

#include "Exchange.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace fp8rt;

std::vector<int> fp8rt::groupOf(const std::vector<GridAxis> &grid,
                                const std::string &axis, int rank) {
  int64_t stride = 1, size = 1;
  for (size_t i = grid.size(); i-- > 0;) {
    if (grid[i].name == axis) {
      size = grid[i].size;
      break;
    }
    stride *= grid[i].size;
  }
  int64_t first = rank - rank / stride % size * stride;
  std::vector<int> ranks;
  for (int64_t member = 0; member < size; ++member)
    ranks.push_back(static_cast<int>(first + member * stride));
  return ranks;
}

Exchange::Exchange(const CollectiveCommand &command, std::vector<int> group,
                   size_t member)
    : ranks(std::move(group)), own(member) {
  dtype = command.dtype;
  kind = command.reduce;
  sumsInBF16 = command.sumsInBF16;
  width = dtypeBytes(command.dtype);
  sourceOffset = command.offset;
  auto members = static_cast<int64_t>(ranks.size());
  std::vector<int64_t> piece = command.shape, strides = command.strides;
  if (command.split >= 0) {
    auto split = static_cast<size_t>(command.split);
    piece[split] /= members;
    sourceStep = piece[split] * strides[split];
  }
  std::vector<int64_t> result = piece, dense(piece.size(), 1);
  if (command.concat >= 0)
    result[static_cast<size_t>(command.concat)] *= members;
  for (size_t d = dense.size(); d > 1; --d)
    dense[d - 2] = dense[d - 1] * result[d - 1];
  if (command.concat >= 0) {
    auto concat = static_cast<size_t>(command.concat);
    targetStep = piece[concat] * dense[concat];
  }
  size_t outer = piece.size();
  while (outer > 0 && (piece[outer - 1] == 1 ||
                       (strides[outer - 1] == run && dense[outer - 1] == run)))
    run *= piece[--outer];
  for (int64_t size : piece)
    count *= size;
  shape.assign(piece.begin(), piece.begin() + static_cast<ptrdiff_t>(outer));
  sourceStrides.assign(strides.begin(),
                       strides.begin() + static_cast<ptrdiff_t>(outer));
  targetStrides.assign(dense.begin(),
                       dense.begin() + static_cast<ptrdiff_t>(outer));
}

/// Calls `body(source, target, position, length)` for each stretch of the
/// elements `first` to `last` that lies in one run: where it lies in the
/// tensors of a piece at 0, its place after `first`, and its length.
template <typename Body>
void Exchange::forEachRun(int64_t first, int64_t last, Body body) const {
  for (int64_t at = first; at < last;) {
    int64_t within = at % run, rest = at / run;
    int64_t length = std::min(run - within, last - at);
    int64_t source = within, target = within;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      source += rest % shape[d] * sourceStrides[d];
      target += rest % shape[d] * targetStrides[d];
    }
    body(source, target, at - first, length);
    at += length;
  }
}

void Exchange::pack(const void *source, size_t to, int64_t first, int64_t last,
                    unsigned char *packed) const {
  const auto *bytes = static_cast<const unsigned char *>(source) +
                      (sourceOffset + static_cast<int64_t>(to) * sourceStep) *
                          static_cast<int64_t>(width);
  forEachRun(first, last,
             [&](int64_t from, int64_t, int64_t position, int64_t length) {
               std::memcpy(packed + position * static_cast<int64_t>(width),
                           bytes + from * static_cast<int64_t>(width),
                           static_cast<size_t>(length) * width);
             });
}

void Exchange::reduce(const std::vector<const unsigned char *> &packed,
                      int64_t numElements) {
  auto elements = static_cast<size_t>(numElements);
  total.resize(elements);
  rounded.resize(elements * width);
  for (size_t member = 0; member < packed.size(); ++member)
    for (size_t i = 0; i < elements; ++i) {
      auto value = loadElement(packed[member], dtype, i);
      float &sum = total[i];
      if (member == 0)
        sum = value;
      else if (*kind == ReduceKind::Max)
        sum = std::isnan(sum) || std::isnan(value) ? NAN
              : value == sum ? (std::signbit(sum) ? value : sum) // -0 < +0
                             : std::max(sum, value);
      else
        sum = sumsInBF16 ? decodeBf16(encodeBf16(sum + value)) : sum + value;
    }
  for (size_t i = 0; i < elements; ++i) {
    float value = total[i];
    // A NaN has one form (docs/numerics.md).
    if (dtype == DType::F32) {
      uint32_t bits = 0x7FC00000u;
      if (!std::isnan(value))
        std::memcpy(&bits, &value, 4);
      std::memcpy(&rounded[i * 4], &bits, 4);
    } else {
      uint16_t bits = std::isnan(value) ? 0x7FC0u : encodeBf16(value);
      std::memcpy(&rounded[i * 2], &bits, 2);
    }
  }
}

void Exchange::unpack(void *target,
                      const std::vector<const unsigned char *> &packed,
                      int64_t first, int64_t last) {
  auto *bytes = static_cast<unsigned char *>(target);
  auto store = [&](const unsigned char *from, int64_t offset) {
    forEachRun(first, last,
               [&](int64_t, int64_t to, int64_t position, int64_t length) {
                 std::memcpy(bytes +
                                 (offset + to) * static_cast<int64_t>(width),
                             from + position * static_cast<int64_t>(width),
                             static_cast<size_t>(length) * width);
               });
  };
  if (kind) {
    reduce(packed, last - first);
    return store(rounded.data(), 0);
  }
  for (size_t member = 0; member < packed.size(); ++member)
    store(packed[member], static_cast<int64_t>(member) * targetStep);
}
