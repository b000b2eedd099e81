//===- Ranks.h - A run on several ranks -------------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the processes of a job agree on: one artifact, one set of options, and
// rank 0 to report for all. With one process nothing of it does anything.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RUN_RANKS_H
#define FP8RUN_RANKS_H

#include "Options.h"
#include "Steps.h"

#include "fp8rt.h"

#include <string>

namespace fp8run {

/// Functions that can fail return false and set `error`.
class Ranks {
public:
  Ranks() = default;
  /// Tells the others that this rank stops, unless `close` was called.
  ~Ranks();
  Ranks(const Ranks &) = delete;
  Ranks &operator=(const Ranks &) = delete;

  /// Meets the others.
  bool open(const Options &options, std::string &error);
  bool isFirst() const { return !ranks || fp8rt_rank(ranks) == 0; }
  int count() const { return ranks ? fp8rt_rank_count(ranks) : 1; }

  /// Gives all ranks what rank 0 compiled.
  bool shareArtifact(std::string &artifact, std::string &error);
  /// Fails where a rank has another artifact or other options than rank 0.
  bool checkEqual(const std::string &artifact, const Options &options,
                  std::string &error);
  /// Has `program` run together with the others.
  bool join(fp8rt_program *program, std::string &error);
  /// Gathers what all ranks have measured and made on rank 0: outputs are
  /// called `name@rank` then, and peaks are the largest.
  bool collect(StepResults &results, std::string &error);
  /// Tells the others that this rank stops, and why. Whether there are any: the
  /// process must then end without waiting for its device, where something may
  /// wait for them.
  bool abandon(const std::string &reason);
  /// Waits for all.
  bool close(std::string &error);

private:
  /// `collect` of a part: the bytes of every rank on rank 0, all as long.
  bool gather(const std::string &own, std::vector<std::string> &all,
              std::string &error);

  fp8rt_ranks *ranks = nullptr;
};

} // namespace fp8run

#endif // FP8RUN_RANKS_H
