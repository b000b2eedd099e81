//===- Reference.h - Comparing outputs with a reference ---------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads a reference file and compares the outputs of a run with it.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RUN_REFERENCE_H
#define FP8RUN_REFERENCE_H

#include "Steps.h"

namespace fp8run {

struct Comparison {
  /// Worst output of |a - b| / |b| in the 2-norm (of |a| where b is zero). A
  /// NaN in one only counts as the largest double; in both, as equal.
  double maxRelativeError = 0;
  /// The output with that error; empty if it is 0.
  std::string worstOutput;
  /// How the first output that is not equal bit for bit (two NaNs are equal)
  /// differs; empty if none does.
  std::string firstDifference;
};

/// Compares `outputs` with the reference at `path`. Returns false and sets
/// `error` when the file is no reference for this run.
bool compareWithReference(const std::string &path, const Options &options,
                          const std::vector<Output> &outputs,
                          Comparison &comparison, std::string &error);

} // namespace fp8run

#endif // FP8RUN_REFERENCE_H
