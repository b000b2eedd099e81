//===- OpenRanks.h - Ranks from the environment -----------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds out whether mpirun started this process, and opens MPI only then; and
// what a program's grid means for one rank.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_OPENRANKS_H
#define FP8RT_CORE_OPENRANKS_H

#include "Communicator.h"

namespace fp8rt {

/// Meets the ranks of this job; `ranks` stays null where this process is the
/// only one. Returns false and sets `error` on failure.
bool openRanks(uint64_t timeoutMilliseconds,
               std::unique_ptr<Communicator> &ranks, std::string &error);

/// Whether a program can run on `count` ranks; `error` then says on how many.
bool checkRankCount(const Manifest &manifest, int64_t count,
                    std::string &error);

/// The test values of the part of `argument` that `rank` holds.
std::vector<unsigned char> makeShard(const Argument &argument,
                                     const std::vector<GridAxis> &grid,
                                     int rank, uint64_t key);

} // namespace fp8rt

#endif // FP8RT_CORE_OPENRANKS_H
