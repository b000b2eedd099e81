//===- CudaCollectives.cpp - Collectives between GPUs ---------------------===//
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
// its calls apart.
//
//===----------------------------------------------------------------------===//

#include "CudaCollectives.h"

#include "DeviceKernels.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

using namespace fp8rt;

namespace {

/// The highest priority of streams; the driver takes the nearest it has.
constexpr int kUrgent = -1000;

using Clock = std::chrono::steady_clock;

/// The ranks along one axis, as NCCL has them.
struct Group {
  ncclComm_t comm = nullptr;
};

class NcclCollectives : public CudaCollectives {
public:
  NcclCollectives(CudaDevice &device, const Nccl *library, Communicator *ranks)
      : device(device), library(library), ranks(ranks),
        watch(ranks ? ranks->watch() : nullptr) {}
  ~NcclCollectives() override;

  bool connect(const Manifest &manifest, std::string &error);

  std::unique_ptr<CollectiveTask> prepare(const Exchange &exchange,
                                          const std::string &axis,
                                          std::string &error) override;
  bool align(void *aligned, std::string &error) override;
  uint64_t stagingBytes() const override {
    return staging.empty() ? 0 : staging.back().second;
  }

  /// Calls `enqueue`, which may call NCCL, and waits until it has taken it.
  template <typename Enqueue>
  bool call(Group &group, Enqueue enqueue, std::string &error);
  /// The part of `call` that waits.
  bool finish(Group &group, ncclResult_t result, std::string &error);
  /// Whether ranks and NCCL are well, which is asked often.
  bool isHealthy(std::string &error);
  void abort();

  void *stagingMemory() const {
    return reinterpret_cast<void *>(staging.back().first);
  }
  bool reserve(uint64_t bytes, std::string &error);

  CudaDevice &device;
  const Nccl *library;
  Communicator *ranks;
  const std::shared_ptr<RankWatch> watch;
  CUstream stream = nullptr;

private:
  /// Of the communication's stream and another one.
  CUevent here = nullptr, there = nullptr;

  std::string describe(Group &group, ncclResult_t result);

  std::map<std::string, Group> groups;
  std::mutex mutex;
  std::atomic<bool> isAborted = false;
  Clock::time_point asked{};
  /// Grows where a task needs more; what recorded graphs know stays.
  std::vector<std::pair<CUdeviceptr, uint64_t>> staging;
};

/// One collective.
class NcclTask : public CollectiveTask {
public:
  NcclTask(NcclCollectives &owner, Group *group, const Exchange &exchange)
      : owner(owner), group(group), exchange(exchange),
        geometry(exchange.geometry()), members(exchange.group().size()) {}
  ~NcclTask() override;

  bool create(std::string &error);
  bool start(const void *source, void *target, void *stream,
             std::string &error) override;
  bool wait(void *stream, std::string &error) override;
  std::optional<double> elapsed(std::string &error) override;

private:
  /// Whether a piece is one stretch of memory in both tensors.
  bool isPlain() const { return geometry.shape.empty(); }
  bool joinsPlainly() const { return !geometry.kind && isPlain(); }
  /// a + b is b + a; a maximum of NCCL's drops NaNs.
  bool sumsPlainly() const {
    return geometry.kind == ReduceKind::Sum && isPlain() && members == 2 &&
           (geometry.sourceStep == 0 ||
            geometry.sourceStep == geometry.count) &&
           !(geometry.sumsInBF16 && geometry.dtype == DType::F32);
  }
  bool packs() const { return !isPlain(); }
  /// Pieces to pack: one where all members get the same.
  uint64_t packedPieces() const {
    return !packs() ? 0 : geometry.sourceStep == 0 ? 1 : members;
  }
  uint64_t partElements() const {
    uint64_t most = NcclCollectives::kPartBytes / geometry.width;
    // Whole vectors of 16 elements.
    return std::min((static_cast<uint64_t>(geometry.count) + 15) / 16 * 16,
                    most);
  }
  uint64_t slotBytes() const {
    return (partElements() * geometry.width + 255) / 256 * 256;
  }

  bool enqueue(const unsigned char *source, unsigned char *target,
               std::string &error);
  bool enqueuePlain(const unsigned char *source, unsigned char *target,
                    std::string &error);
  bool enqueuePart(const unsigned char *source, unsigned char *target,
                   uint64_t first, uint64_t count, std::string &error);
  bool copyStrided(unsigned char *strided, const std::vector<int64_t> &strides,
                   unsigned char *dense, uint64_t first, uint64_t count,
                   bool toDense, std::string &error);

  NcclCollectives &owner;
  Group *group;
  const Exchange &exchange;
  const ExchangeGeometry &geometry;
  uint64_t members;
  CUevent ready = nullptr, begun = nullptr, done = nullptr;
};

//===----------------------------------------------------------------------===//
// The ranks
//===----------------------------------------------------------------------===//

std::string NcclCollectives::describe(Group &group, ncclResult_t result) {
  std::string text =
      std::string("NCCL: ") + library->ncclGetErrorString(result);
  const char *last = library->ncclGetLastError(group.comm);
  if (last && *last)
    text += std::string(" (") + last + ")";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

bool NcclCollectives::connect(const Manifest &manifest, std::string &error) {
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
  for (const GridAxis &axis : manifest.grid) {
    std::vector<int> members = groupOf(manifest.grid, axis.name, ranks->rank());
    ncclUniqueId id{};
    Group &group = groups[axis.name];
    // All ranks take part in the exchange of identifiers of all groups.
    if (members.front() == ranks->rank() && members.size() > 1)
      if (ncclResult_t result = library->ncclGetUniqueId(&id);
          result != ncclSuccess) {
        error = describe(group, result);
        return false;
      }
    std::vector<std::string> all;
    if (!ranks->allGather({id.internal, sizeof(id.internal)}, all, error))
      return false;
    if (members.size() == 1)
      continue;
    std::memcpy(id.internal, all[static_cast<size_t>(members.front())].data(),
                sizeof(id.internal));
    auto own = std::find(members.begin(), members.end(), ranks->rank());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (!call(
            group,
            [&] {
              return library->ncclCommInitRankConfig(
                  &group.comm, static_cast<int>(members.size()), id,
                  static_cast<int>(own - members.begin()), &config);
            },
            error))
      return false;
  }
  return true;
}

NcclCollectives::~NcclCollectives() {
  if (watch)
    watch->onFailure(nullptr);
  device.isHealthy = nullptr;
  abort();
  CudaDevice::Scope scope(device);
  for (auto [address, bytes] : staging)
    device.driver.cuMemFree(address);
  for (CUevent event : {here, there})
    if (event)
      device.driver.cuEventDestroy(event);
  if (stream)
    device.driver.cuStreamDestroy(stream);
}

bool NcclCollectives::align(void *aligned, std::string &error) {
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
  // One number along every axis in turn.
  for (auto &[axis, group] : groups)
    if (group.comm && !call(
                          group,
                          [&, &member = group] {
                            return library->ncclAllReduce(
                                stagingMemory(), stagingMemory(), 1,
                                ncclFloat32, ncclSum, member.comm, stream);
                          },
                          error))
      return false;
  return driver.check("cuEventRecord", driver.cuEventRecord(here, stream),
                      error) &&
         driver.check("cuStreamWaitEvent",
                      driver.cuStreamWaitEvent(streamOf(aligned), here,
                                               CU_EVENT_WAIT_DEFAULT),
                      error);
}

/// Ends what is under way, and NCCL's hold on the device. Once all ranks are
/// done there is nothing under way.
void NcclCollectives::abort() {
  isAborted = true;
  std::lock_guard lock(mutex);
  CudaDevice::Scope scope(device);
  for (auto &[axis, group] : groups) {
    if (group.comm)
      library->ncclCommAbort(group.comm);
    group.comm = nullptr;
  }
}

bool NcclCollectives::isHealthy(std::string &error) {
  if (watch->failed(error))
    return false;
  Clock::time_point now = Clock::now();
  if (now - asked < std::chrono::milliseconds(20))
    return true;
  asked = now;
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

bool NcclCollectives::finish(Group &group, ncclResult_t result,
                             std::string &error) {
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
    error = group.comm ? describe(group, result) : "NCCL was aborted";
  }
  return false;
}

template <typename Enqueue>
bool NcclCollectives::call(Group &group, Enqueue enqueue, std::string &error) {
  ncclResult_t result = ncclSuccess;
  {
    std::lock_guard lock(mutex);
    if (!isAborted)
      result = enqueue();
  }
  return isAborted ? finish(group, ncclInProgress, error)
                   : finish(group, result, error);
}

bool NcclCollectives::reserve(uint64_t bytes, std::string &error) {
  if (bytes <= stagingBytes())
    return true;
  CudaDevice::Scope scope(device);
  CUdeviceptr address = 0;
  if (!device.driver.check("cuMemAlloc",
                           device.driver.cuMemAlloc(&address, bytes), error))
    return false;
  staging.emplace_back(address, bytes);
  return true;
}

std::unique_ptr<CollectiveTask>
NcclCollectives::prepare(const Exchange &exchange, const std::string &axis,
                         std::string &error) {
  auto task = std::make_unique<NcclTask>(*this, &groups[axis], exchange);
  if (!task->create(error))
    return nullptr;
  return task;
}

//===----------------------------------------------------------------------===//
// One collective
//===----------------------------------------------------------------------===//

NcclTask::~NcclTask() {
  CudaDevice::Scope scope(owner.device);
  for (CUevent event : {ready, begun, done})
    if (event)
      owner.device.driver.cuEventDestroy(event);
}

bool NcclTask::create(std::string &error) {
  CudaDevice::Scope scope(owner.device);
  for (CUevent *event : {&ready, &begun, &done})
    if (!owner.device.driver.check(
            "cuEventCreate",
            owner.device.driver.cuEventCreate(event, CU_EVENT_DEFAULT), error))
      return false;
  if (geometry.shape.size() > kMostDims) {
    error = "pieces of more than " + std::to_string(kMostDims) +
            " dimensions are not exchanged between GPUs";
    return false;
  }
  if (members > 1 && (joinsPlainly() || sumsPlainly()))
    return true;
  return owner.reserve((packedPieces() + members) * slotBytes(), error);
}

bool NcclTask::start(const void *source, void *target, void *stream,
                     std::string &error) {
  const CudaDriver &driver = owner.device.driver;
  if (owner.ranks)
    owner.ranks->sleepIfDelayed();
  CudaDevice::Scope scope(owner.device);
  return driver.check("cuEventRecord",
                      driver.cuEventRecord(ready, streamOf(stream)), error) &&
         driver.check("cuStreamWaitEvent",
                      driver.cuStreamWaitEvent(owner.stream, ready,
                                               CU_EVENT_WAIT_DEFAULT),
                      error) &&
         driver.check("cuEventRecord",
                      driver.cuEventRecord(begun, owner.stream), error) &&
         enqueue(static_cast<const unsigned char *>(source) +
                     geometry.sourceOffset *
                         static_cast<int64_t>(geometry.width),
                 static_cast<unsigned char *>(target), error) &&
         driver.check("cuEventRecord", driver.cuEventRecord(done, owner.stream),
                      error);
}

bool NcclTask::wait(void *stream, std::string &error) {
  CudaDevice::Scope scope(owner.device);
  return owner.device.driver.check(
      "cuStreamWaitEvent",
      owner.device.driver.cuStreamWaitEvent(streamOf(stream), done,
                                            CU_EVENT_WAIT_DEFAULT),
      error);
}

std::optional<double> NcclTask::elapsed(std::string &error) {
  float milliseconds = 0;
  CudaDevice::Scope scope(owner.device);
  if (!owner.device.wait(done, error) ||
      !owner.device.driver.check(
          "cuEventElapsedTime",
          owner.device.driver.cuEventElapsedTime(&milliseconds, begun, done),
          error))
    return std::nullopt;
  return milliseconds;
}

bool NcclTask::enqueue(const unsigned char *source, unsigned char *target,
                       std::string &error) {
  if (members > 1 && (joinsPlainly() || sumsPlainly()))
    return enqueuePlain(source, target, error);
  auto count = static_cast<uint64_t>(geometry.count);
  for (uint64_t first = 0; first < count; first += partElements())
    if (!enqueuePart(source, target, first,
                     std::min(count - first, partElements()), error))
      return false;
  return true;
}

bool NcclTask::enqueuePlain(const unsigned char *source, unsigned char *target,
                            std::string &error) {
  const Nccl &nccl = *owner.library;
  auto count = static_cast<size_t>(geometry.count);
  size_t bytes = count * geometry.width;
  auto width = static_cast<int64_t>(geometry.width);
  ncclDataType_t type =
      geometry.dtype == DType::F32 ? ncclFloat32 : ncclBfloat16;
  return owner.call(
      *group,
      [&] {
        if (geometry.kind && geometry.sourceStep)
          return nccl.ncclReduceScatter(source, target, count, type, ncclSum,
                                        group->comm, owner.stream);
        if (geometry.kind)
          return nccl.ncclAllReduce(source, target, count, type, ncclSum,
                                    group->comm, owner.stream);
        if (geometry.sourceStep == 0 && geometry.targetStep == geometry.count)
          return nccl.ncclAllGather(source, target, bytes, ncclUint8,
                                    group->comm, owner.stream);
        ncclResult_t result = nccl.ncclGroupStart();
        for (uint64_t m = 0; m < members && result == ncclSuccess; ++m) {
          auto number = static_cast<int64_t>(m);
          result = nccl.ncclSend(source + number * geometry.sourceStep * width,
                                 bytes, ncclUint8, static_cast<int>(m),
                                 group->comm, owner.stream);
          if (result == ncclSuccess)
            result = nccl.ncclRecv(
                target + number * geometry.targetStep * width, bytes, ncclUint8,
                static_cast<int>(m), group->comm, owner.stream);
        }
        ncclResult_t ended = nccl.ncclGroupEnd();
        return result == ncclSuccess ? ended : result;
      },
      error);
}

/// Copies elements of a piece between a tensor and dense memory, in units as
/// large as everything allows.
bool NcclTask::copyStrided(unsigned char *strided,
                           const std::vector<int64_t> &strides,
                           unsigned char *dense, uint64_t first, uint64_t count,
                           bool toDense, std::string &error) {
  uint64_t width = geometry.width;
  uint64_t common = reinterpret_cast<uintptr_t>(strided) |
                    reinterpret_cast<uintptr_t>(dense) |
                    static_cast<uint64_t>(geometry.run) * width |
                    first * width | count * width | 16;
  for (int64_t stride : strides)
    common |= static_cast<uint64_t>(stride) * width;
  uint64_t unit = common & -common;
  uint64_t factor = unit / width;
  ExchangeParameters parameters{};
  parameters.strided = strided;
  parameters.dense = dense;
  parameters.first = first / factor;
  parameters.count = count / factor;
  parameters.width = static_cast<uint32_t>(unit);
  parameters.rank = static_cast<uint32_t>(strides.size());
  parameters.toDense = toDense;
  parameters.run = geometry.run / static_cast<int64_t>(factor);
  for (size_t d = 0; d < strides.size(); ++d) {
    parameters.shape[d] = geometry.shape[d];
    parameters.strides[d] = strides[d] / static_cast<int64_t>(factor);
  }
  return owner.device.launch(owner.device.exchange, parameters,
                             parameters.count, 1, owner.stream, error);
}

/// Elements `first` to `first + count` of each piece through staging memory.
bool NcclTask::enqueuePart(const unsigned char *source, unsigned char *target,
                           uint64_t first, uint64_t count, std::string &error) {
  auto width = static_cast<int64_t>(geometry.width);
  auto *memory = static_cast<unsigned char *>(owner.stagingMemory());
  size_t bytes = count * geometry.width;
  uint64_t packed = packedPieces(), own = exchange.member();
  unsigned char *arrived = memory + packed * slotBytes();
  auto pieceOf = [&](uint64_t m) {
    return const_cast<unsigned char *>(source) +
           static_cast<int64_t>(m) * geometry.sourceStep * width;
  };
  auto sentTo = [&](uint64_t m) {
    if (packs())
      return memory + (packed == 1 ? 0 : m) * slotBytes();
    return pieceOf(m) + static_cast<int64_t>(first) * width;
  };
  for (uint64_t m = 0; m < packed; ++m)
    if (!copyStrided(pieceOf(m), geometry.sourceStrides, sentTo(m), first,
                     count, /*toDense=*/true, error))
      return false;
  if (members > 1 &&
      !owner.call(
          *group,
          [&] {
            const Nccl &nccl = *owner.library;
            ncclResult_t result = nccl.ncclGroupStart();
            for (uint64_t m = 0; m < members && result == ncclSuccess; ++m) {
              if (m == own)
                continue;
              result =
                  nccl.ncclSend(sentTo(m), bytes, ncclUint8,
                                static_cast<int>(m), group->comm, owner.stream);
              if (result == ncclSuccess)
                result = nccl.ncclRecv(arrived + m * slotBytes(), bytes,
                                       ncclUint8, static_cast<int>(m),
                                       group->comm, owner.stream);
            }
            ncclResult_t ended = nccl.ncclGroupEnd();
            return result == ncclSuccess ? ended : result;
          },
          error))
    return false;
  if (geometry.kind) {
    ReduceParameters parameters{arrived,
                                sentTo(own),
                                target + static_cast<int64_t>(first) * width,
                                count,
                                slotBytes(),
                                static_cast<uint32_t>(members),
                                static_cast<uint32_t>(own),
                                geometry.dtype == DType::BF16,
                                *geometry.kind == ReduceKind::Max,
                                geometry.sumsInBF16};
    return owner.device.launch(owner.device.reduce, parameters, count, 1,
                               owner.stream, error);
  }
  for (uint64_t m = 0; m < members; ++m)
    if (!copyStrided(
            target + static_cast<int64_t>(m) * geometry.targetStep * width,
            geometry.targetStrides,
            m == own ? sentTo(own) : arrived + m * slotBytes(), first, count,
            /*toDense=*/false, error))
      return false;
  return true;
}

} // namespace

std::unique_ptr<CudaCollectives> CudaCollectives::open(CudaDevice &device,
                                                       Communicator *ranks,
                                                       const Manifest &manifest,
                                                       std::string &error) {
  const Nccl *library = nullptr;
  if (ranks && !(library = nccl(error)))
    return nullptr;
  auto collectives = std::make_unique<NcclCollectives>(device, library, ranks);
  return collectives->connect(manifest, error) ? std::move(collectives)
                                               : nullptr;
}
