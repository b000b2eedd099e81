//===- Streams.h - Which commands may run side by side ----------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The command list is a straight line. On several streams two commands keep
// its order where they touch the same bytes and one of them writes, and only
// there. Which bytes those are follows from the addresses of a run: a buffer
// that was placed where another died waits for the readers of that one, so the
// plan's arena is enough however the streams proceed.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_STREAMS_H
#define FP8RT_CORE_STREAMS_H

#include "Manifest.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace fp8rt {

/// Bytes [begin, end) that a command touches.
struct Access {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool writes = false;
};

/// Finds, for one command after another, the earlier ones it has to wait for.
class DependencyTracker {
public:
  /// The commands that must be complete before one with `accesses` starts,
  /// ascending, each once; notes it as command `index`, which is larger than
  /// those before it. Commands that another one of the answer waits for anyway
  /// may be missing.
  std::vector<uint32_t> add(uint32_t index,
                            const std::vector<Access> &accesses);

private:
  struct Segment {
    uint64_t end = 0;
    /// The last command that wrote these bytes, and those that read them since.
    std::optional<uint32_t> writer;
    std::vector<uint32_t> readers;
  };
  void split(uint64_t at);

  /// Keyed by the first byte; no two overlap.
  std::map<uint64_t, Segment> segments;
};

/// Where a command of a run on several streams goes.
struct StreamStep {
  uint32_t stream = 0;
  /// Earlier commands, on other streams, whose events it waits for.
  std::vector<uint32_t> waits;
  /// Whether a command of another stream waits for it, or the end of the run.
  bool recorded = false;
};

/// Spreads the commands of `function` over `streams` streams (at least 1).
/// `accesses` has those of each command; none for an alloc or a free, which do
/// nothing here. Stream 0 is the caller's. The last stream takes matmuls whose
/// result no later command reads (gradients of weights: what follows does not
/// wait for them); with three or more, the one before takes what needs nothing
/// that the run computes (casts of weights, fills). The rest is stream 0's.
/// The last command of each further stream is recorded.
std::vector<StreamStep>
planStreams(const Function &function,
            const std::vector<std::vector<Access>> &accesses, uint32_t streams);

} // namespace fp8rt

#endif // FP8RT_CORE_STREAMS_H
