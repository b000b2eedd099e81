//===- NcclGroups.cpp - Ranks as NCCL connects them -----------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One communicator of NCCL an axis.
//
//===----------------------------------------------------------------------===//

#include "NcclGroups.h"

#include <algorithm>
#include <cstring>
#include <thread>

using namespace fp8rt;

using Clock = std::chrono::steady_clock;

std::string NcclGroups::describe(Group &group, ncclResult_t result) const {
  std::string text =
      std::string("NCCL: ") + library->ncclGetErrorString(result);
  const char *last = library->ncclGetLastError(group.comm);
  if (last && *last)
    text += std::string(" (") + last + ")";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

bool NcclGroups::connect(const std::string &axis,
                         const std::vector<int> &members, bool isAsked,
                         Communicator &ranks, std::string &error) {
  watch = ranks.watch();
  if (isAsked && !library && !(library = nccl(error)))
    return false;
  ncclUniqueId id{};
  if (isAsked && members.front() == ranks.rank()) {
    Group none;
    if (ncclResult_t result = library->ncclGetUniqueId(&id);
        result != ncclSuccess) {
      error = describe(none, result);
      return false;
    }
  }
  std::vector<std::string> all;
  if (!ranks.allGather({id.internal, sizeof(id.internal)}, all, error))
    return false;
  if (!isAsked)
    return true;
  std::memcpy(id.internal, all[static_cast<size_t>(members.front())].data(),
              sizeof(id.internal));
  auto own = std::find(members.begin(), members.end(), ranks.rank());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  Group &group = groups[axis];
  return call(
      group,
      [&](const Nccl &nccl, ncclComm_t &comm) {
        return nccl.ncclCommInitRankConfig(
            &comm, static_cast<int>(members.size()), id,
            static_cast<int>(own - members.begin()), &config);
      },
      error);
}

NcclGroups::Group *NcclGroups::group(const std::string &axis) {
  auto it = groups.find(axis);
  return it == groups.end() ? nullptr : &it->second;
}

void NcclGroups::abort() {
  isAborted = true;
  std::lock_guard lock(mutex);
  CudaDevice::Scope scope(device);
  for (auto &[axis, group] : groups) {
    if (group.comm)
      library->ncclCommAbort(group.comm);
    group.comm = nullptr;
  }
}

bool NcclGroups::isHealthy(std::string &error) {
  std::lock_guard lock(mutex);
  for (auto &[axis, group] : groups) {
    ncclResult_t state = ncclSuccess;
    if (!group.comm)
      continue;
    library->ncclCommGetAsyncError(group.comm, &state);
    if (state == ncclSuccess || state == ncclInProgress)
      continue;
    error = describe(group, state);
    return false;
  }
  return true;
}

bool NcclGroups::finish(Group &group, ncclResult_t result, std::string &error) {
  Clock::time_point begin = Clock::now();
  while (result == ncclInProgress) {
    if (watch->failed(error))
      return false;
    {
      std::lock_guard lock(mutex);
      if (!group.comm)
        break;
      ncclResult_t asked = library->ncclCommGetAsyncError(group.comm, &result);
      if (asked != ncclSuccess)
        result = asked;
    }
    if (result == ncclInProgress &&
        Clock::now() - begin > std::chrono::microseconds(200))
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  if (result == ncclSuccess)
    return true;
  if (!watch->failed(error)) {
    std::lock_guard lock(mutex);
    error = isAborted ? "NCCL was aborted" : describe(group, result);
  }
  return false;
}
