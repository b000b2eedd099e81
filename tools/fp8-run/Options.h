//===- Options.h - Command line of fp8-run ----------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the user asked for.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RUN_OPTIONS_H
#define FP8RUN_OPTIONS_H

#include <cstdint>
#include <optional>
#include <string>

namespace fp8run {

/// A rank that sleeps before one of its collectives (all of them if negative).
struct Delay {
  int rank = 0;
  int64_t collective = 0;
  uint64_t milliseconds = 0;
};

struct Options {
  std::string input;
  std::string function;
  std::string backend = "cpu";
  std::string policy;
  std::string budget;
  bool dynamic = false;
  uint64_t steps = 1;
  uint64_t microbatches = 1;
  uint64_t seed = 0;
  bool check = false;
  /// Empty: made by the compiler beside this program.
  std::string reference;
  std::string json;
  std::string ledger;
  std::string dumpOutputs;
  bool printTime = false;
  /// Steps before the timed ones; by default 3 on a GPU, none on the CPU.
  std::optional<uint64_t> warmup;
  /// Record the step and replay it (on a GPU).
  bool graph = false;
  /// Streams of the timed steps (on a GPU).
  uint64_t streams = 1;
  /// Also time the step's matmuls alone, and copies.
  bool bench = false;
  /// On a GPU: the largest relative error that a check accepts; by default
  /// kGpuTolerance where the program has matmuls, else 0.
  std::optional<double> tolerance;
  /// Processes to start; 0: this one is a rank, or the only one.
  uint64_t ranks = 0;
  /// Seconds after which a rank that says nothing is lost.
  uint64_t timeout = 20;
  std::optional<Delay> delay;

  bool isCuda() const { return backend == "cuda"; }
  uint64_t warmupSteps() const { return warmup.value_or(isCuda() ? 3 : 0); }
  /// Whether `input` is a program to be compiled rather than an artifact.
  bool isProgram() const;
};

/// A matmul on a GPU sums in another order than the reference, so some of its
/// results are the next bf16 number. Where such a result is cast to FP8 near
/// the border between two codes it becomes the other one, a sixteenth (e4m3) or
/// an eighth (e5m2) away: a relative difference d of the bf16 tensor becomes
/// one of about sqrt(d * code spacing). From one bf16 step, 2^-9, that is 0.01
/// to 0.02, from what fast accumulation leaves, 2^-7, 0.02 to 0.03 a cast, and
/// a gradient of the first of four layers has two dozen casts behind it, whose
/// shares add up as squares: 0.05 to 0.15 (measured 0.04 to 0.12).
inline constexpr double kGpuTolerance = 0.2;

enum class ParseOutcome { Run, Help, Version, Error };

/// Reads the command line. On `Error`, `error` says what is wrong.
ParseOutcome parseOptions(int argc, char **argv, Options &options,
                          std::string &error);

/// The text of --help.
const char *helpText();

} // namespace fp8run

#endif // FP8RUN_OPTIONS_H
