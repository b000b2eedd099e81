//===- OpenRanks.cpp - Ranks from the environment -------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MPI is in a library of its own beside this one, or in the lib folder beside
// the program's.
//
//===----------------------------------------------------------------------===//

#include "OpenRanks.h"

#include "TcpTransport.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

using namespace fp8rt;
namespace fs = std::filesystem;

namespace {

/// The number of processes that mpirun started; 1 without it.
long launchedRanks() {
  const char *text = std::getenv("OMPI_COMM_WORLD_SIZE");
  return text ? std::strtol(text, nullptr, 10) : 1;
}

std::unique_ptr<Transport> createMpiTransport(std::string &error) {
  Dl_info self{};
  ::dladdr(reinterpret_cast<void *>(&createMpiTransport), &self);
  std::error_code code;
  fs::path folder =
      fs::canonical(self.dli_fname ? self.dli_fname : "", code).parent_path();
  std::string reason;
  for (const fs::path &path : {folder / "libfp8rt_mpi.so",
                               folder / ".." / "lib" / "libfp8rt_mpi.so"}) {
    // MPI's own plugins look for its symbols among the global ones.
    void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    void *create =
        library ? ::dlsym(library, kCreateMpiTransportName) : nullptr;
    if (create)
      return std::unique_ptr<Transport>(
          reinterpret_cast<CreateTransportFn>(create)(&error));
    if (reason.empty() || fs::exists(path, code))
      reason = ::dlerror();
  }
  error = "several ranks were started, but this build has no MPI (install "
          "libopenmpi-dev and build again): " +
          reason;
  return nullptr;
}

} // namespace

bool fp8rt::openRanks(uint64_t timeoutMilliseconds,
                      std::unique_ptr<Communicator> &ranks,
                      std::string &error) {
  Communicator::Options options;
  options.timeout = Communicator::Milliseconds(timeoutMilliseconds);
  Communicator::Factory factory = createMpiTransport;
  if (launchedRanks() <= 1) {
    std::optional<Rendezvous> rendezvous;
    if (!readRendezvous(rendezvous, error))
      return false;
    if (!rendezvous)
      return true;
    factory = [rendezvous, timeout = options.timeout](std::string &reason) {
      return createTcpTransport(*rendezvous, timeout, reason);
    };
  }
  ranks = Communicator::open(std::move(factory), options, error);
  return ranks != nullptr;
}

std::optional<int> fp8rt::localRank() {
  const char *count = std::getenv("WORLD_SIZE");
  const char *text =
      launchedRanks() > 1 ? std::getenv("OMPI_COMM_WORLD_LOCAL_RANK")
      : count && std::strtol(count, nullptr, 10) > 1 ? std::getenv("LOCAL_RANK")
                                                     : nullptr;
  if (!text)
    return std::nullopt;
  return static_cast<int>(std::strtol(text, nullptr, 10));
}

bool fp8rt::checkRankCount(const Manifest &manifest, int64_t count,
                           std::string &error) {
  int64_t needed = manifest.rankCount();
  if (count == needed)
    return true;
  std::string grid;
  for (const GridAxis &axis : manifest.grid)
    grid += (grid.empty() ? "" : ", ") + axis.name + " = " +
            std::to_string(axis.size);
  error = "expected " + std::to_string(needed) + " ranks for the grid {" +
          grid + "} of the program, but got " + std::to_string(count) +
          "; start it with mpirun -n " + std::to_string(needed) +
          ", torchrun or fp8-run --ranks=" + std::to_string(needed);
  return false;
}

InputFill fp8rt::fillOf(const Argument &argument,
                        const std::vector<GridAxis> &grid, int rank,
                        uint64_t key) {
  size_t dims = argument.shape.size();
  std::vector<int64_t> whole = argument.shape, coordinates(dims, 0);
  int64_t rest = rank;
  for (size_t i = grid.size(); i-- > 0; rest /= grid[i].size)
    for (size_t d = 0; d < argument.shard.size(); ++d)
      if (argument.shard[d] == grid[i].name) {
        whole[d] *= grid[i].size;
        coordinates[d] = rest % grid[i].size;
      }
  InputFill fill{argument.dtype,
                 argument.shape,
                 std::vector<int64_t>(dims, 1),
                 0,
                 argument.init,
                 static_cast<float>(argument.initScale),
                 key};
  for (size_t d = dims; d-- > 0;) {
    if (d + 1 < dims)
      fill.strides[d] = fill.strides[d + 1] * whole[d + 1];
    fill.offset += coordinates[d] * argument.shape[d] * fill.strides[d];
  }
  // Dimensions that lie in a row are one.
  for (size_t d = dims; d-- > 1;) {
    if (fill.strides[d - 1] != fill.shape[d] * fill.strides[d])
      continue;
    fill.shape[d - 1] *= fill.shape[d];
    fill.strides[d - 1] = fill.strides[d];
    fill.shape.erase(fill.shape.begin() + static_cast<ptrdiff_t>(d));
    fill.strides.erase(fill.strides.begin() + static_cast<ptrdiff_t>(d));
  }
  return fill;
}
