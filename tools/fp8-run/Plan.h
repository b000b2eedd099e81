//===- Plan.h - The plan's own figures --------------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads from an artifact's plan section what the plan promises, so that a run
// is held to the plan and not to sums of the command list.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RUN_PLAN_H
#define FP8RUN_PLAN_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fp8run {

/// `peak_bytes` of the function called `name` in the plan `json`: the entry of
/// `functions` whose `function` is that name, or the document itself. Nothing
/// when the plan does not say.
std::optional<uint64_t> plannedPeakBytes(std::string_view json,
                                         const std::string &name);

} // namespace fp8run

#endif // FP8RUN_PLAN_H
