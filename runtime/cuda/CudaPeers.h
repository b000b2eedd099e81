//===- CudaPeers.h - Copies between GPUs of one machine ---------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks whose GPUs reach each other's memory copy into it by the copy engines,
// which take no multiprocessor from the kernels beside. Each rank says at each
// collective where pieces may arrive, in memory that the processes share, and
// opens what the others name (CUDA IPC). On the devices the order is kept by
// flags, which streams write into the memory of others and wait for in their
// own, so that it holds in recorded graphs too.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CUDA_CUDAPEERS_H
#define FP8RT_CUDA_CUDAPEERS_H

#include "Communicator.h"
#include "CudaDevice.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fp8rt {

class CudaPeers {
public:
  /// The ranks along one axis, all of which reach each other.
  struct Group {
    std::vector<int> members; ///< ranks
    size_t own = 0;           ///< this one's position among them
    size_t axis = 0;
    uint64_t meetings = 0;
    std::vector<CUdeviceptr> flags; ///< of each member, as seen from here
  };

  /// Where the pieces of a collective may arrive.
  struct Places {
    /// Of each member, as seen from here; nothing of this rank.
    std::vector<unsigned char *> targets, staging;
    /// Whether the targets of all members can be reached; else only staging.
    bool isDirect = false;
  };

  /// Finds the axes of the grid whose ranks reach each other; all ranks call
  /// it. `stream` is the one that the collectives go to; it and `device`
  /// outlive this. Null with `error` set where a rank is lost.
  static std::unique_ptr<CudaPeers> open(CudaDevice &device, CUstream stream,
                                         Communicator &ranks,
                                         const std::vector<GridAxis> &grid,
                                         std::string &error);
  ~CudaPeers();

  /// The ranks along `axis`, null where they do not reach each other.
  Group *group(const std::string &axis);

  /// Tells the others where pieces may arrive, and learns where theirs may;
  /// waits until all are here, and fails where one is lost. `bytes` are those
  /// of the collective, which must be the same on all.
  bool meet(Group &group, void *target, void *staging, uint64_t bytes,
            Places &places, std::string &error);

  /// Has the stream wait until those of all members have come here. There are
  /// two kinds, which alternate: `isEnd` says which.
  bool align(Group &group, bool isEnd, std::string &error);

  /// Copies on a stream, into memory of this or another rank.
  bool copy(void *to, const void *from, size_t bytes, CUstream on,
            std::string &error);

  /// Lets the stream run to its end without the others, one of which is lost.
  void release();

private:
  struct Shared;
  struct Landing;
  struct Slot;
  struct Opened {
    CUdeviceptr base = 0;
    uint64_t id = 0;
  };

  CudaPeers(CudaDevice &device, CUstream stream, Communicator &ranks)
      : device(device), stream(stream), ranks(ranks), watch(ranks.watch()) {}
  bool connect(const std::vector<GridAxis> &grid, std::string &error);
  bool createFlags(std::string &reason);
  Slot *slotOf(const Group &group, int rank, uint64_t meeting) const;
  Landing landingOf(const void *pointer);
  bool reach(int rank, const Landing &landing, CUdeviceptr &base,
             std::string &error);
  size_t flagOffset(const Group &group, size_t from, bool isEnd) const;
  bool await(const Group &group, Slot &slot, uint64_t meeting,
             std::string &error) const;

  CudaDevice &device;
  CUstream stream;
  Communicator &ranks;
  const std::shared_ptr<RankWatch> watch;
  CUstream releasing = nullptr;
  CUdeviceptr flags = 0;
  size_t axisCount = 0;
  std::shared_ptr<Shared> shared;
  std::map<std::string, Group> groups;
  /// Handles of memory of this rank, by the driver's number of the allocation.
  std::map<uint64_t, std::pair<CUdeviceptr, CUipcMemHandle>> exported;
  /// Memory of others, by rank and the address that it has there.
  std::map<std::pair<int, uint64_t>, Opened> opened;
};

} // namespace fp8rt

#endif // FP8RT_CUDA_CUDAPEERS_H
