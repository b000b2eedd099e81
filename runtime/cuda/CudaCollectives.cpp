//===- CudaCollectives.cpp - Collectives between GPUs ---------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the collectives of a program share: the ranks, the stream of the
// transfers and staging memory. CudaExchange.cpp has one collective.
//
//===----------------------------------------------------------------------===//

#include "CudaCollectives.h"

#include "CudaExchange.h"

using namespace fp8rt;

/// The highest priority of streams; the driver takes the nearest it has.
static constexpr int kUrgent = -1000;

using Clock = std::chrono::steady_clock;

bool Collectives::connect(const Manifest &manifest, std::string &error) {
  CudaDevice::Scope scope(device);
  if (!device.driver.check("cuStreamCreateWithPriority",
                           device.driver.cuStreamCreateWithPriority(
                               &stream, CU_STREAM_NON_BLOCKING, kUrgent),
                           error))
    return false;
  for (CUevent *event : {&here, &there})
    if (!device.driver.check(
            "cuEventCreate",
            device.driver.cuEventCreate(event, CU_EVENT_DISABLE_TIMING), error))
      return false;
  if (!ranks)
    return true;
  watch->onFailure([this] { abort(); });
  device.isHealthy = [this](std::string &reason) { return isHealthy(reason); };
  peers = CudaPeers::open(device, stream, *ranks, manifest.grid, error);
  if (!peers)
    return false;
  for (const GridAxis &axis : manifest.grid) {
    axes.push_back(axis.name);
    std::vector<int> members = groupOf(manifest.grid, axis.name, ranks->rank());
    bool isAsked = members.size() > 1 && !peers->group(axis.name);
    if (!nccl.connect(axis.name, members, isAsked, *ranks, error))
      return false;
  }
  return true;
}

Collectives::~Collectives() {
  if (watch)
    watch->onFailure(nullptr);
  device.isHealthy = nullptr;
  nccl.abort();
  peers.reset();
  CudaDevice::Scope scope(device);
  for (auto [address, bytes] : staging)
    device.driver.cuMemFree(address);
  for (CUdeviceptr address : blocks)
    device.driver.cuMemFree(address);
  for (CUevent event : {here, there})
    if (event)
      device.driver.cuEventDestroy(event);
  if (stream)
    device.driver.cuStreamDestroy(stream);
}

std::string Collectives::transport() const {
  bool copies = false;
  for (const std::string &axis : axes)
    copies |= peers->group(axis) != nullptr;
  std::string text = copies ? "copy engines" : "";
  if (!nccl.isEmpty())
    text += text.empty() ? "NCCL" : " and NCCL";
  return text;
}

bool Collectives::align(void *aligned, std::string &error) {
  if (!ranks)
    return true;
  CudaDevice::Scope scope(device);
  const CudaDriver &driver = device.driver;
  if (!reserve(sizeof(float), error) ||
      !driver.check("cuEventRecord",
                    driver.cuEventRecord(there, streamOf(aligned)), error) ||
      !driver.check(
          "cuStreamWaitEvent",
          driver.cuStreamWaitEvent(stream, there, CU_EVENT_WAIT_DEFAULT),
          error))
    return false;
  // Along every axis in turn; with NCCL one number is added up.
  for (const std::string &axis : axes) {
    if (CudaPeers::Group *group = peers->group(axis)) {
      if (!peers->align(*group, /*isEnd=*/false, error) ||
          !peers->align(*group, /*isEnd=*/true, error))
        return false;
    } else if (NcclGroups::Group *member = nccl.group(axis)) {
      if (!driver.check("cuMemsetD8Async",
                        driver.cuMemsetD8Async(deviceAddress(stagingMemory()),
                                               0, sizeof(float), stream),
                        error) ||
          !nccl.call(
              *member,
              [&](const Nccl &library, ncclComm_t comm) {
                return library.ncclAllReduce(stagingMemory(), stagingMemory(),
                                             1, ncclFloat32, ncclSum, comm,
                                             stream);
              },
              error))
        return false;
    }
  }
  return driver.check("cuEventRecord", driver.cuEventRecord(here, stream),
                      error) &&
         driver.check("cuStreamWaitEvent",
                      driver.cuStreamWaitEvent(streamOf(aligned), here,
                                               CU_EVENT_WAIT_DEFAULT),
                      error);
}

/// Ends what is under way.
void Collectives::abort() {
  nccl.abort();
  if (peers)
    peers->release();
}

bool Collectives::isHealthy(std::string &error) {
  if (watch->failed(error))
    return false;
  Clock::time_point now = Clock::now();
  if (now - asked < std::chrono::milliseconds(20))
    return true;
  asked = now;
  return nccl.isHealthy(error);
}

bool Collectives::allocate(uint64_t bytes, std::string &error) {
  CudaDevice::Scope scope(device);
  CUdeviceptr address = 0;
  if (!device.driver.check(
          "cuMemAlloc", device.driver.cuMemAlloc(&address, sharedBytes(bytes)),
          error))
    return false;
  blocks.push_back(address);
  return true;
}

bool Collectives::reserve(uint64_t bytes, std::string &error) {
  if (!staging.empty() && bytes <= staging.back().second)
    return true;
  if (!allocate(bytes, error))
    return false;
  staging.emplace_back(blocks.back(), sharedBytes(bytes));
  blocks.pop_back();
  return true;
}

void *Collectives::takeOwnStaging(uint64_t bytes, std::string &error) {
  std::vector<void *> &free = ownStaging[bytes];
  if (!free.empty()) {
    void *memory = free.back();
    free.pop_back();
    return memory;
  }
  if (blockRest < bytes) {
    if (!allocate(kSharedAlignment, error))
      return nullptr;
    blockRest = kSharedAlignment;
  }
  blockRest -= bytes;
  return reinterpret_cast<void *>(blocks.back() + blockRest);
}

std::unique_ptr<CollectiveTask> Collectives::prepare(const Exchange &exchange,
                                                     const std::string &axis,
                                                     std::string &error) {
  auto task = std::make_unique<ExchangeTask>(*this, axis, exchange);
  if (!task->create(error))
    return nullptr;
  return task;
}

std::unique_ptr<CudaCollectives> CudaCollectives::open(CudaDevice &device,
                                                       Communicator *ranks,
                                                       const Manifest &manifest,
                                                       std::string &error) {
  auto collectives = std::make_unique<Collectives>(device, ranks);
  return collectives->connect(manifest, error) ? std::move(collectives)
                                               : nullptr;
}
