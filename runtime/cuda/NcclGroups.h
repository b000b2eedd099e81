//===- NcclGroups.h - Ranks as NCCL connects them ---------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NCCL is used without blocking, so that a call never hangs for a rank that is
// gone: each is followed by asking whether it is through, and the
// communicator's thread aborts everything where a rank is lost. One lock keeps
// its calls apart. The library is opened by the first axis that needs it.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CUDA_NCCLGROUPS_H
#define FP8RT_CUDA_NCCLGROUPS_H

#include "Communicator.h"
#include "CudaDevice.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fp8rt {

class NcclGroups {
public:
  /// The ranks along one axis.
  struct Group {
    ncclComm_t comm = nullptr;
  };

  explicit NcclGroups(CudaDevice &device) : device(device) {}
  ~NcclGroups() { abort(); }

  /// Connects the ranks along `axis`, of which `members` are those of this
  /// one's group, where the rank asks for it; all ranks of the job call it,
  /// also those that do not ask.
  bool connect(const std::string &axis, const std::vector<int> &members,
               bool isAsked, Communicator &ranks, std::string &error);

  /// Null where it is not connected.
  Group *group(const std::string &axis);
  bool isEmpty() const { return groups.empty(); }

  /// Calls `enqueue`, which may call NCCL, and waits until it has taken it.
  template <typename Enqueue>
  bool call(Group &group, Enqueue enqueue, std::string &error) {
    ncclResult_t result = ncclSuccess;
    {
      std::lock_guard lock(mutex);
      if (!isAborted)
        result = enqueue(*library, group.comm);
    }
    return isAborted ? finish(group, ncclInProgress, error)
                     : finish(group, result, error);
  }

  /// Whether NCCL is well.
  bool isHealthy(std::string &error);
  /// Ends what is under way, and NCCL's hold on the device. Once all ranks are
  /// done there is nothing under way.
  void abort();

private:
  /// The part of `call` that waits.
  bool finish(Group &group, ncclResult_t result, std::string &error);
  std::string describe(Group &group, ncclResult_t result) const;

  CudaDevice &device;
  const Nccl *library = nullptr;
  std::shared_ptr<RankWatch> watch;
  std::map<std::string, Group> groups;
  std::mutex mutex;
  std::atomic<bool> isAborted = false;
};

} // namespace fp8rt

#endif // FP8RT_CUDA_NCCLGROUPS_H
