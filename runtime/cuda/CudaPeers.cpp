//===- CudaPeers.cpp - Copies between GPUs of one machine -----------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A flag is written by one rank, and waited for and taken back by another, so
// its value does not depend on how often a recorded graph has run. That it is
// taken back before it is written again follows from the two kinds: before a
// rank writes one again, it has waited for the other kind of all others.
//
//===----------------------------------------------------------------------===//

#include "CudaPeers.h"

#include "Exchange.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace fp8rt;

namespace {

using Clock = std::chrono::steady_clock;

/// Most operations of one call of the driver.
constexpr size_t kMostMemoryOps = 192;

/// This machine and this rank's willingness, as the others are told.
struct Greeting {
  char machine[64] = {};
  char sharedName[48] = {};
  CUipcMemHandle flags{};
  bool isWilling = false;
};

template <typename T>
std::string bytesOf(const T &value) {
  return {reinterpret_cast<const char *>(&value), sizeof(value)};
}

template <typename T>
std::vector<T> valuesOf(const std::vector<std::string> &bytes) {
  std::vector<T> values(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i)
    std::memcpy(&values[i], bytes[i].data(),
                std::min(bytes[i].size(), sizeof(T)));
  return values;
}

/// Processes that read the same here run under one kernel.
std::string machineName() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  return name;
}

/// "nccl" has tensors carried by NCCL where copies would be possible.
bool areCopiesWanted() {
  const char *wanted = std::getenv("FP8RT_TRANSFERS");
  return !wanted || std::string(wanted) != "nccl";
}

} // namespace

/// An address in an allocation of the rank that says it.
struct CudaPeers::Landing {
  /// 0: others cannot reach it.
  uint64_t base = 0;
  /// The driver's number of the allocation, which no other has had.
  uint64_t id = 0;
  uint64_t offset = 0;
  CUipcMemHandle handle{};
};

struct CudaPeers::Slot {
  std::atomic<uint64_t> meeting;
  uint64_t bytes;
  Landing target, staging;
};

/// Memory of all processes: two slots for each rank along each axis, since no
/// rank is further than one meeting ahead of another.
struct CudaPeers::Shared {
  ~Shared() {
    if (slots)
      ::munmap(slots, bytes);
    unlink();
  }
  /// Takes the name away; who has opened it keeps it.
  void unlink() {
    if (isOwner)
      ::shm_unlink(name.c_str());
    isOwner = false;
  }
  bool map(const std::string &newName, size_t count, bool create) {
    name = newName;
    bytes = count * sizeof(Slot);
    int file = ::shm_open(name.c_str(),
                          O_RDWR | (create ? O_CREAT | O_EXCL : 0), 0600);
    if (file < 0)
      return false;
    isOwner = create;
    void *memory = MAP_FAILED;
    if (!create || ::ftruncate(file, static_cast<off_t>(bytes)) == 0)
      memory =
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    slots = memory == MAP_FAILED ? nullptr : static_cast<Slot *>(memory);
    return slots != nullptr;
  }

  std::string name;
  size_t bytes = 0;
  Slot *slots = nullptr;
  bool isOwner = false;
};

//===----------------------------------------------------------------------===//
// Who reaches whom
//===----------------------------------------------------------------------===//

std::unique_ptr<CudaPeers> CudaPeers::open(CudaDevice &device, CUstream stream,
                                           Communicator &ranks,
                                           const std::vector<GridAxis> &grid,
                                           std::string &error) {
  std::unique_ptr<CudaPeers> peers(new CudaPeers(device, stream, ranks));
  return peers->connect(grid, error) ? std::move(peers) : nullptr;
}

CudaPeers::~CudaPeers() {
  CudaDevice::Scope scope(device);
  for (auto &[place, memory] : opened)
    device.driver.cuIpcCloseMemHandle(memory.base);
  if (flags)
    device.driver.cuMemFree(flags);
  if (releasing)
    device.driver.cuStreamDestroy(releasing);
}

bool CudaPeers::createFlags(std::string &reason) {
  const CudaDriver &driver = device.driver;
  size_t bytes = 2 * axisCount * static_cast<size_t>(ranks.size()) * 4;
  bytes = sharedBytes(bytes);
  return driver.check("cuStreamCreate",
                      driver.cuStreamCreate(&releasing, CU_STREAM_NON_BLOCKING),
                      reason) &&
         driver.check("cuMemAlloc", driver.cuMemAlloc(&flags, bytes), reason) &&
         driver.check("cuMemsetD8Async",
                      driver.cuMemsetD8Async(flags, 0, bytes, releasing),
                      reason) &&
         driver.check("cuStreamSynchronize",
                      driver.cuStreamSynchronize(releasing), reason);
}

/// A rank that cannot do something says so, and the axes that it is on are
/// NCCL's; all ranks take part in all exchanges.
bool CudaPeers::connect(const std::vector<GridAxis> &grid, std::string &error) {
  CudaDevice::Scope scope(device);
  axisCount = grid.size();
  auto count = static_cast<size_t>(ranks.size());
  auto own = static_cast<size_t>(ranks.rank());
  size_t slotCount = 2 * axisCount * count;
  std::string reason;
  Greeting greeting;
  std::strncpy(greeting.machine, machineName().c_str(),
               sizeof(greeting.machine) - 1);
  greeting.isWilling =
      areCopiesWanted() && greeting.machine[0] && createFlags(reason) &&
      device.driver.check(
          "cuIpcGetMemHandle",
          device.driver.cuIpcGetMemHandle(&greeting.flags, flags), reason);
  // Each rank makes such memory; that of the first of a machine is used.
  shared = std::make_shared<Shared>();
  std::random_device random;
  std::string name =
      "/fp8rt-" + std::to_string(::getpid()) + "-" + std::to_string(random());
  greeting.isWilling =
      greeting.isWilling && shared->map(name, slotCount, /*create=*/true);
  std::strncpy(greeting.sharedName, name.c_str(),
               sizeof(greeting.sharedName) - 1);
  std::vector<std::string> all;
  if (!ranks.allGather(bytesOf(greeting), all, error))
    return false;
  std::vector<Greeting> greetings = valuesOf<Greeting>(all);
  // Stays until the others have opened it.
  std::shared_ptr<Shared> made = shared;
  for (size_t rank = 0; rank < own && greeting.isWilling; ++rank) {
    if (std::strcmp(greetings[rank].machine, greeting.machine) != 0 ||
        !greetings[rank].isWilling)
      continue;
    shared = std::make_shared<Shared>();
    greeting.isWilling = shared->map(greetings[rank].sharedName, slotCount,
                                     /*create=*/false);
    break;
  }
  // For each rank the axes along which it reaches all others.
  std::string reached(axisCount, 0);
  for (size_t a = 0; a < axisCount; ++a) {
    Group group;
    group.members = groupOf(grid, grid[a].name, ranks.rank());
    group.own = static_cast<size_t>(
        std::find(group.members.begin(), group.members.end(), ranks.rank()) -
        group.members.begin());
    group.axis = a;
    bool isReached = greeting.isWilling && group.members.size() > 1;
    for (int rank : group.members) {
      const Greeting &other = greetings[static_cast<size_t>(rank)];
      isReached = isReached && other.isWilling &&
                  std::strcmp(other.machine, greeting.machine) == 0;
      CUdeviceptr base = rank == ranks.rank() ? flags : 0;
      if (isReached && !base) {
        Landing landing;
        landing.base = landing.id = 1; // the flags
        landing.handle = other.flags;
        isReached = reach(rank, landing, base, reason);
      }
      group.flags.push_back(base);
    }
    reached[a] = isReached;
    groups[grid[a].name] = std::move(group);
  }
  if (!ranks.allGather(reached, all, error))
    return false;
  made->unlink();
  for (auto it = groups.begin(); it != groups.end();) {
    bool isReached = true;
    for (int rank : it->second.members)
      isReached &= all[static_cast<size_t>(rank)][it->second.axis] != 0;
    it = isReached ? std::next(it) : groups.erase(it);
  }
  return true;
}

CudaPeers::Group *CudaPeers::group(const std::string &axis) {
  auto it = groups.find(axis);
  return it == groups.end() ? nullptr : &it->second;
}

//===----------------------------------------------------------------------===//
// Where pieces arrive
//===----------------------------------------------------------------------===//

CudaPeers::Slot *CudaPeers::slotOf(const Group &group, int rank,
                                   uint64_t meeting) const {
  size_t place = group.axis * static_cast<size_t>(ranks.size()) +
                 static_cast<size_t>(rank);
  return shared->slots + 2 * place + meeting % 2;
}

/// Memory of a pool, or mapped by pages, has no handle of this kind.
CudaPeers::Landing CudaPeers::landingOf(const void *pointer) {
  const CudaDriver &driver = device.driver;
  CUdeviceptr address = deviceAddress(pointer);
  int isCapable = 0;
  unsigned long long id = 0;
  if (!pointer ||
      driver.cuPointerGetAttribute(
          &isCapable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
          address) != CUDA_SUCCESS ||
      !isCapable ||
      driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                   address) != CUDA_SUCCESS)
    return {};
  auto it = exported.find(id);
  if (it == exported.end()) {
    CUdeviceptr base = 0;
    size_t size = 0;
    CUipcMemHandle handle{};
    if (driver.cuMemGetAddressRange(&base, &size, address) != CUDA_SUCCESS ||
        driver.cuIpcGetMemHandle(&handle, base) != CUDA_SUCCESS)
      return {};
    it = exported.emplace(id, std::pair(base, handle)).first;
  }
  auto &[base, handle] = it->second;
  return {base, id, address - base, handle};
}

bool CudaPeers::reach(int rank, const Landing &landing, CUdeviceptr &base,
                      std::string &error) {
  Opened &memory = opened[{rank, landing.base}];
  if (memory.id != landing.id) {
    // Where the rank had other memory before, that is gone.
    if (memory.base)
      device.driver.cuIpcCloseMemHandle(memory.base);
    memory = {};
    CUdeviceptr address = 0;
    if (!device.driver.check(
            "cuIpcOpenMemHandle",
            device.driver.cuIpcOpenMemHandle(
                &address, landing.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            error)) {
      error =
          "cannot open memory of rank " + std::to_string(rank) + ": " + error;
      opened.erase({rank, landing.base});
      return false;
    }
    memory = {address, landing.id};
  }
  base = memory.base;
  return true;
}

bool CudaPeers::await(const Group &group, Slot &slot, uint64_t meeting,
                      std::string &error) const {
  Clock::time_point begin = Clock::now();
  while (slot.meeting.load(std::memory_order_acquire) != meeting) {
    Clock::duration waited = Clock::now() - begin;
    if (waited < std::chrono::microseconds(100))
      continue;
    if (watch->failed(error))
      return false;
    if (waited > std::chrono::milliseconds(1))
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

bool CudaPeers::meet(Group &group, void *target, void *staging, uint64_t bytes,
                     Places &places, std::string &error) {
  CudaDevice::Scope scope(device);
  uint64_t meeting = ++group.meetings;
  Slot *own = slotOf(group, ranks.rank(), meeting);
  own->target = landingOf(target);
  own->staging = landingOf(staging);
  own->bytes = bytes;
  own->meeting.store(meeting, std::memory_order_release);
  size_t count = group.members.size();
  places.targets.assign(count, nullptr);
  places.staging.assign(count, nullptr);
  places.isDirect = own->target.base != 0;
  std::vector<Landing> landings(count);
  for (size_t m = 0; m < count; ++m) {
    int rank = group.members[m];
    if (m == group.own)
      continue;
    Slot *slot = slotOf(group, rank, meeting);
    if (!await(group, *slot, meeting, error))
      return false;
    if (slot->bytes != bytes) {
      error = "rank " + std::to_string(rank) + " is at a collective of " +
              std::to_string(slot->bytes) + " bytes, and this one at one of " +
              std::to_string(bytes);
      return false;
    }
    places.isDirect = places.isDirect && slot->target.base;
    CUdeviceptr base = 0;
    if (slot->staging.base) {
      if (!reach(rank, slot->staging, base, error))
        return false;
      places.staging[m] =
          reinterpret_cast<unsigned char *>(base + slot->staging.offset);
    }
    landings[m] = slot->target;
  }
  for (size_t m = 0; m < count && places.isDirect; ++m) {
    CUdeviceptr base = 0;
    if (m == group.own)
      continue;
    if (!reach(group.members[m], landings[m], base, error))
      return false;
    places.targets[m] =
        reinterpret_cast<unsigned char *>(base + landings[m].offset);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// The stream
//===----------------------------------------------------------------------===//

size_t CudaPeers::flagOffset(const Group &group, size_t from,
                             bool isEnd) const {
  size_t place = group.axis * static_cast<size_t>(ranks.size()) +
                 static_cast<size_t>(group.members[from]);
  return 4 * (2 * place + (isEnd ? 1 : 0));
}

bool CudaPeers::align(Group &group, bool isEnd, std::string &error) {
  CudaDevice::Scope scope(device);
  std::vector<CUstreamBatchMemOpParams> operations;
  // The flag that `from` writes in the memory of member `in`.
  auto flagOf = [&](size_t in, size_t from) {
    return group.flags[in] + flagOffset(group, from, isEnd);
  };
  auto write = [&](CUdeviceptr address, uint32_t value) {
    CUstreamBatchMemOpParams &operation = operations.emplace_back();
    operation = {};
    operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation.writeValue.address = address;
    operation.writeValue.value = value;
    operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  };
  size_t count = group.members.size();
  for (size_t i = 1; i < count; ++i)
    write(flagOf((group.own + i) % count, group.own), 1);
  for (size_t i = 1; i < count; ++i) {
    CUstreamBatchMemOpParams &operation = operations.emplace_back();
    operation = {};
    operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    operation.waitValue.address = flagOf(group.own, (group.own + i) % count);
    operation.waitValue.value = 1;
    operation.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  }
  for (size_t i = 1; i < count; ++i)
    write(flagOf(group.own, (group.own + i) % count), 0);
  for (size_t first = 0; first < operations.size(); first += kMostMemoryOps)
    if (!device.driver.check(
            "cuStreamBatchMemOp",
            device.driver.cuStreamBatchMemOp(
                stream,
                static_cast<unsigned>(
                    std::min(operations.size() - first, kMostMemoryOps)),
                operations.data() + first, 0),
            error))
      return false;
  return true;
}

bool CudaPeers::copy(void *to, const void *from, size_t bytes, CUstream on,
                     std::string &error) {
  CudaDevice::Scope scope(device);
  return device.driver.check(
      "cuMemcpyDtoDAsync",
      device.driver.cuMemcpyDtoDAsync(deviceAddress(to), deviceAddress(from),
                                      bytes, on),
      error);
}

/// What is waited for is written here, again and again, since each wait takes
/// it back. Whether anything waits is not asked: a recorded graph runs on
/// streams that are not known.
void CudaPeers::release() {
  if (groups.empty())
    return;
  CudaDevice::Scope scope(device);
  Clock::time_point end = Clock::now() + std::chrono::seconds(2);
  while (Clock::now() < end) {
    for (auto &[axis, group] : groups)
      for (size_t m = 0; m < group.members.size(); ++m)
        for (bool isEnd : {false, true})
          device.driver.cuStreamWriteValue32(
              releasing, flags + flagOffset(group, m, isEnd), 1,
              CU_STREAM_WRITE_VALUE_DEFAULT);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}
