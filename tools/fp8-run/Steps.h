//===- Steps.h - Runs the steps of a program --------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Drives the functions of an artifact through steps and microbatches: makes
// inputs, keeps parameters and state, times runs, and collects outputs. Steps
// run in passes over the same inputs: a watched one that measures memory, a
// timed one, and where asked for one that times commands and one of the matmuls
// alone.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RUN_STEPS_H
#define FP8RUN_STEPS_H

#include "Options.h"

#include "fp8rt.h"
#include "fp8rt/Formats.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fp8run {

/// A result or a state buffer; `bytes` are dense and row-major.
struct Output {
  std::string name;
  fp8rt::DType dtype;
  std::vector<int64_t> shape;
  std::string bytes;
  /// The value whose inexact elements it counts; empty for other results.
  std::string counter = {};
};

struct LedgerLine {
  std::string function;
  std::string op;
  std::string name;
  std::string loc;
  double milliseconds = 0;
  uint64_t liveBytes = 0;
  /// What the command moves and computes (fp8rt_ledger_entry).
  uint64_t bytes = 0;
  uint64_t flops = 0;
  /// Of a collective on a GPU; 0 for anything else.
  double transferMilliseconds = 0;
};

/// One function that ran: its own peaks, and what its caller keeps for it.
struct FunctionPeak {
  std::string name;
  uint64_t planned = 0;
  uint64_t measured = 0;
  /// Of its caller-placed results, which the peaks count.
  uint64_t callerPlaced = 0;
};

/// What one of several ranks measured.
struct RankResults {
  uint64_t plannedPeakBytes = 0;
  uint64_t measuredPeakBytes = 0;
  uint64_t arenaBytes = 0;
  uint64_t savedBytes = 0;
  std::vector<double> stepMilliseconds;
};

struct StepResults {
  std::string function;
  std::vector<FunctionPeak> functionPeaks;
  std::vector<Output> outputs;
  std::vector<double> stepMilliseconds;
  /// With --bench: the matmuls of a step alone, and large copies.
  std::vector<double> gemmMilliseconds;
  std::optional<double> copyBytesPerSecond;
  /// On a GPU: all that is in use on the device after the timed steps; of that
  /// what is neither arguments nor results nor arena (planned memory only).
  std::optional<uint64_t> deviceBytes;
  std::optional<uint64_t> overheadBytes;
  /// What carries tensors between ranks (fp8rt_get_transport).
  std::string transport;
  /// In dynamic mode on a GPU: the most its memory pool counted, else -1.
  int64_t poolHighBytes = -1;
  /// On a GPU: the relative error that a check accepts.
  double tolerance = 0;
  std::vector<LedgerLine> ledger;
  uint64_t plannedPeakBytes = 0;
  uint64_t measuredPeakBytes = 0;
  uint64_t arenaBytes = 0;
  uint64_t savedBytes = 0;
  uint64_t hostBytes = 0;
  /// One entry a rank where there are several.
  std::vector<RankResults> ranks;
  /// Faults that did not stop the run: a peak that differs from the plan's, or
  /// passes that do not agree.
  std::vector<std::string> faults;
};

/// Runs the steps that `options` ask for. Returns false and sets `error` when
/// they could not be completed.
bool runSteps(fp8rt_program *program, const Options &options,
              StepResults &results, std::string &error);

} // namespace fp8run

#endif // FP8RUN_STEPS_H
