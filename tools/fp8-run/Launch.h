//===- Launch.h - Starts the ranks of a run ---------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What --ranks=N does: for one machine without mpirun or torchrun.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RUN_LAUNCH_H
#define FP8RUN_LAUNCH_H

#include <cstdint>
#include <string>

namespace fp8run {

/// Starts this program `count` times with torchrun's environment variables and
/// the arguments of `argv` but --ranks, and waits for all. Returns the exit
/// code: 0 where that of all is. Negative with `error` set where they cannot be
/// started.
int launchRanks(uint64_t count, char **argv, std::string &error);

} // namespace fp8run

#endif // FP8RUN_LAUNCH_H
