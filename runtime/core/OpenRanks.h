//===- OpenRanks.h - Ranks from the environment -----------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds out whether mpirun or torchrun started this process together with
// others, and meets them through MPI or through sockets; and what a program's
// grid means for one rank.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_OPENRANKS_H
#define FP8RT_CORE_OPENRANKS_H

#include "Backend.h"
#include "Communicator.h"

namespace fp8rt {

/// Meets the ranks of this job; `ranks` stays null where this process is the
/// only one. Returns false and sets `error` on failure.
bool openRanks(uint64_t timeoutMilliseconds,
               std::unique_ptr<Communicator> &ranks, std::string &error);

/// The number of this rank among those of its machine, which is the number of
/// its GPU; nothing where this process is the only one.
std::optional<int> localRank();

/// Whether a program can run on `count` ranks; `error` then says on how many.
bool checkRankCount(const Manifest &manifest, int64_t count,
                    std::string &error);

/// The test values with the key `key` of the part of `argument` that `rank`
/// holds.
InputFill fillOf(const Argument &argument, const std::vector<GridAxis> &grid,
                 int rank, uint64_t key);

} // namespace fp8rt

#endif // FP8RT_CORE_OPENRANKS_H
