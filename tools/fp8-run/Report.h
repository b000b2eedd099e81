//===- Report.h - What a run writes and prints ------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The results as JSON, the ledger, the outputs' bytes, and the summary.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RUN_REPORT_H
#define FP8RUN_REPORT_H

#include "Reference.h"

#include <optional>

namespace fp8run {

/// The text of --json.
std::string resultsJson(const Options &options, const StepResults &results,
                        const std::optional<Comparison> &comparison);

/// The text of --ledger.
std::string ledgerJson(const StepResults &results);

/// The counters among the outputs: the value each counts inexact elements of,
/// and their number.
std::vector<std::pair<std::string, float>>
countersOf(const std::vector<Output> &outputs);

/// Writes the outputs and index.json into the folder `options.dumpOutputs`,
/// which is made when it does not exist.
bool dumpOutputs(const Options &options, const StepResults &results,
                 std::string &error);

/// Prints the summary, and the slowest commands if asked for, to standard
/// output.
void printSummary(const Options &options, const StepResults &results,
                  const std::optional<Comparison> &comparison);

} // namespace fp8run

#endif // FP8RUN_REPORT_H
