//===- CudaCollectives.cpp - Collectives between GPUs ---------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel on the stream of the transfers waits for multiprocessors, which a
// matmul holds until it is done. So with copies what has to be computed of a
// piece that arrived whole is left to the wait, on the stream of the step. A
// copy within a device's memory is such a kernel too, so a rank's own piece is
// copied on the stream of the step, before the transfer, unless it was made in
// its place.
//
//===----------------------------------------------------------------------===//

#include "CudaCollectives.h"

#include "CudaPeers.h"
#include "DeviceKernels.h"
#include "NcclGroups.h"

#include <algorithm>

using namespace fp8rt;

namespace {

/// The highest priority of streams; the driver takes the nearest it has.
constexpr int kUrgent = -1000;

/// A task whose pieces need no more staging memory than this has its own.
constexpr uint64_t kOwnStagingBytes = 1 << 20;

using Clock = std::chrono::steady_clock;

class Collectives : public CudaCollectives {
public:
  Collectives(CudaDevice &device, Communicator *ranks)
      : device(device), ranks(ranks), watch(ranks ? ranks->watch() : nullptr),
        nccl(device) {}
  ~Collectives() override;

  bool connect(const Manifest &manifest, std::string &error);

  std::unique_ptr<CollectiveTask> prepare(const Exchange &exchange,
                                          const std::string &axis,
                                          std::string &error) override;
  bool align(void *aligned, std::string &error) override;
  std::string transport() const override;

  /// Whether ranks and NCCL are well, which is asked often.
  bool isHealthy(std::string &error);
  void abort();

  void *stagingMemory() const {
    return staging.empty() ? nullptr
                           : reinterpret_cast<void *>(staging.back().first);
  }
  /// Staging memory of all tasks.
  bool reserve(uint64_t bytes, std::string &error);
  /// Staging memory of one task, which gives it back. Null with `error` set on
  /// failure.
  void *takeOwnStaging(uint64_t bytes, std::string &error);
  void giveOwnStaging(void *memory, uint64_t bytes) {
    ownStaging[bytes].push_back(memory);
  }

  CudaDevice &device;
  Communicator *ranks;
  const std::shared_ptr<RankWatch> watch;
  CUstream stream = nullptr;
  NcclGroups nccl;
  std::unique_ptr<CudaPeers> peers;

private:
  bool allocate(uint64_t bytes, std::string &error);

  /// Of the communication's stream and another one.
  CUevent here = nullptr, there = nullptr;
  std::vector<std::string> axes;
  Clock::time_point asked{};
  /// Grows where a task needs more; what recorded graphs know stays.
  std::vector<std::pair<CUdeviceptr, uint64_t>> staging;
  std::vector<CUdeviceptr> blocks;
  uint64_t blockRest = 0;
  std::map<uint64_t, std::vector<void *>> ownStaging; ///< free, by size
};

/// One collective.
class ExchangeTask : public CollectiveTask {
public:
  ExchangeTask(Collectives &owner, const std::string &axis,
               const Exchange &exchange)
      : owner(owner), group(owner.nccl.group(axis)),
        copies(owner.peers ? owner.peers->group(axis) : nullptr),
        exchange(exchange), geometry(exchange.geometry()),
        members(exchange.group().size()) {}
  ~ExchangeTask() override;

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
  /// Whether a copied piece can arrive in the result. Of a reduction that is
  /// the piece of one other rank; the own one is where it was.
  bool arrivesInPlace() const {
    return isPlain() && (!geometry.kind || members == 2);
  }
  bool packs() const { return !isPlain(); }
  /// Pieces to pack: one where all members get the same.
  uint64_t packedPieces() const {
    return !packs() ? 0 : geometry.sourceStep == 0 ? 1 : members;
  }
  uint64_t partElements() const {
    uint64_t most = CudaCollectives::kPartBytes / geometry.width;
    // Whole vectors of 16 elements.
    return std::min((static_cast<uint64_t>(geometry.count) + 15) / 16 * 16,
                    most);
  }
  uint64_t slotBytes() const {
    return (partElements() * geometry.width + 255) / 256 * 256;
  }
  uint64_t stagingBytes() const {
    return (packedPieces() + members) * slotBytes();
  }
  unsigned char *stagingMemory() const {
    return static_cast<unsigned char *>(own ? own : owner.stagingMemory());
  }
  unsigned char *arrived(uint64_t member) const {
    return stagingMemory() + (packedPieces() + member) * slotBytes();
  }
  unsigned char *pieceOf(uint64_t member) const {
    return const_cast<unsigned char *>(source) +
           static_cast<int64_t>(member) * geometry.sourceStep *
               static_cast<int64_t>(geometry.width);
  }
  size_t pieceBytes() const {
    return static_cast<size_t>(geometry.count) * geometry.width;
  }
  /// Where this rank's piece goes in a result, from its begin.
  int64_t ownPlace() const {
    return geometry.kind
               ? 0
               : static_cast<int64_t>(exchange.member()) * geometry.targetStep *
                     static_cast<int64_t>(geometry.width);
  }
  /// Where the part from `first` on lies that is sent to `member`.
  unsigned char *sentTo(uint64_t member, uint64_t first) const {
    if (packs())
      return stagingMemory() + (packedPieces() == 1 ? 0 : member) * slotBytes();
    return pieceOf(member) + first * geometry.width;
  }

  bool enqueue(const CudaPeers::Places &places, std::string &error);
  bool enqueuePlain(std::string &error);
  bool copyInPlace(const CudaPeers::Places &places, std::string &error);
  bool enqueuePart(const CudaPeers::Places &places, uint64_t first,
                   uint64_t count, std::string &error);
  bool sendPart(const CudaPeers::Places &places, uint64_t first, uint64_t count,
                std::string &error);
  bool finishPart(uint64_t first, uint64_t count, void *stream,
                  std::string &error);
  bool reduce(const unsigned char *pieces, uint64_t pieceBytes, uint64_t first,
              uint64_t count, void *stream, std::string &error);
  bool copyStrided(unsigned char *strided, const std::vector<int64_t> &strides,
                   unsigned char *dense, uint64_t first, uint64_t count,
                   bool toDense, void *stream, std::string &error);

  Collectives &owner;
  NcclGroups::Group *group;
  CudaPeers::Group *copies;
  const Exchange &exchange;
  const ExchangeGeometry &geometry;
  uint64_t members;
  void *own = nullptr; ///< staging memory
  CUevent ready = nullptr, begun = nullptr, done = nullptr;
  /// Of the run under way, and what its wait has to do.
  const unsigned char *source = nullptr;
  unsigned char *target = nullptr;
  enum class Rest { None, Reduce, Part } rest = Rest::None;
};

//===----------------------------------------------------------------------===//
// The ranks
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// One collective
//===----------------------------------------------------------------------===//

ExchangeTask::~ExchangeTask() {
  CudaDevice::Scope scope(owner.device);
  for (CUevent event : {ready, begun, done})
    if (event)
      owner.device.driver.cuEventDestroy(event);
  if (own)
    owner.giveOwnStaging(own, stagingBytes());
}

bool ExchangeTask::create(std::string &error) {
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
  // With copies, memory that others cannot reach needs it nevertheless.
  if (members > 1 && !copies && (joinsPlainly() || sumsPlainly()))
    return true;
  if (copies && partElements() >= static_cast<uint64_t>(geometry.count) &&
      stagingBytes() <= kOwnStagingBytes) {
    own = owner.takeOwnStaging(stagingBytes(), error);
    return own != nullptr;
  }
  return owner.reserve(stagingBytes(), error);
}

bool ExchangeTask::start(const void *newSource, void *newTarget, void *stream,
                         std::string &error) {
  const CudaDriver &driver = owner.device.driver;
  if (owner.ranks)
    owner.ranks->sleepIfDelayed();
  source = static_cast<const unsigned char *>(newSource) +
           geometry.sourceOffset * static_cast<int64_t>(geometry.width);
  target = static_cast<unsigned char *>(newTarget);
  rest = Rest::None;
  CudaDevice::Scope scope(owner.device);
  CudaPeers::Places places;
  if (copies &&
      !owner.peers->meet(*copies, arrivesInPlace() ? target : nullptr,
                         stagingMemory(), pieceBytes(), places, error))
    return false;
  // A rank's own piece may have been made where it goes.
  if (places.isDirect && !geometry.kind &&
      target + ownPlace() != pieceOf(exchange.member()) &&
      !owner.peers->copy(target + ownPlace(), pieceOf(exchange.member()),
                         pieceBytes(), streamOf(stream), error))
    return false;
  return driver.check("cuEventRecord",
                      driver.cuEventRecord(ready, streamOf(stream)), error) &&
         driver.check("cuStreamWaitEvent",
                      driver.cuStreamWaitEvent(owner.stream, ready,
                                               CU_EVENT_WAIT_DEFAULT),
                      error) &&
         driver.check("cuEventRecord",
                      driver.cuEventRecord(begun, owner.stream), error) &&
         enqueue(places, error) &&
         driver.check("cuEventRecord", driver.cuEventRecord(done, owner.stream),
                      error);
}

bool ExchangeTask::wait(void *stream, std::string &error) {
  CudaDevice::Scope scope(owner.device);
  if (!owner.device.driver.check(
          "cuStreamWaitEvent",
          owner.device.driver.cuStreamWaitEvent(streamOf(stream), done,
                                                CU_EVENT_WAIT_DEFAULT),
          error))
    return false;
  auto count = static_cast<uint64_t>(geometry.count);
  // The other's piece is where the sum goes.
  if (rest == Rest::Reduce)
    return reduce(target, 0, 0, count, stream, error);
  return rest == Rest::None || finishPart(0, count, stream, error);
}

std::optional<double> ExchangeTask::elapsed(std::string &error) {
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

bool ExchangeTask::enqueue(const CudaPeers::Places &places,
                           std::string &error) {
  auto count = static_cast<uint64_t>(geometry.count);
  if (places.isDirect)
    return copyInPlace(places, error);
  if (members > 1 && !copies && (joinsPlainly() || sumsPlainly()))
    return enqueuePlain(error);
  for (uint64_t first = 0; first < count; first += partElements())
    if (!enqueuePart(places, first, std::min(count - first, partElements()),
                     error))
      return false;
  return true;
}

/// Each piece goes to its place in the other's result.
bool ExchangeTask::copyInPlace(const CudaPeers::Places &places,
                               std::string &error) {
  uint64_t number = exchange.member();
  if (!owner.peers->align(*copies, /*isEnd=*/false, error))
    return false;
  for (uint64_t i = 1; i < members; ++i) {
    uint64_t m = (number + i) % members;
    if (!owner.peers->copy(places.targets[m] + ownPlace(), pieceOf(m),
                           pieceBytes(), owner.stream, error))
      return false;
  }
  if (geometry.kind)
    rest = Rest::Reduce;
  return owner.peers->align(*copies, /*isEnd=*/true, error);
}

bool ExchangeTask::enqueuePlain(std::string &error) {
  auto count = static_cast<size_t>(geometry.count);
  size_t bytes = count * geometry.width;
  auto width = static_cast<int64_t>(geometry.width);
  ncclDataType_t type =
      geometry.dtype == DType::F32 ? ncclFloat32 : ncclBfloat16;
  return owner.nccl.call(
      *group,
      [&](const Nccl &nccl, ncclComm_t comm) {
        if (geometry.kind && geometry.sourceStep)
          return nccl.ncclReduceScatter(source, target, count, type, ncclSum,
                                        comm, owner.stream);
        if (geometry.kind)
          return nccl.ncclAllReduce(source, target, count, type, ncclSum, comm,
                                    owner.stream);
        if (geometry.sourceStep == 0 && geometry.targetStep == geometry.count)
          return nccl.ncclAllGather(source, target, bytes, ncclUint8, comm,
                                    owner.stream);
        ncclResult_t result = nccl.ncclGroupStart();
        for (uint64_t m = 0; m < members && result == ncclSuccess; ++m) {
          result = nccl.ncclSend(pieceOf(m), bytes, ncclUint8,
                                 static_cast<int>(m), comm, owner.stream);
          if (result == ncclSuccess)
            result = nccl.ncclRecv(
                target + static_cast<int64_t>(m) * geometry.targetStep * width,
                bytes, ncclUint8, static_cast<int>(m), comm, owner.stream);
        }
        ncclResult_t ended = nccl.ncclGroupEnd();
        return result == ncclSuccess ? ended : result;
      },
      error);
}

/// Copies elements of a piece between a tensor and dense memory, in units as
/// large as everything allows.
bool ExchangeTask::copyStrided(unsigned char *strided,
                               const std::vector<int64_t> &strides,
                               unsigned char *dense, uint64_t first,
                               uint64_t count, bool toDense, void *stream,
                               std::string &error) {
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
                             parameters.count, 1, stream, error);
}

/// Elements `first` to `first + count` of each piece through staging memory.
bool ExchangeTask::enqueuePart(const CudaPeers::Places &places, uint64_t first,
                               uint64_t count, std::string &error) {
  for (uint64_t m = 0; m < packedPieces(); ++m)
    if (!copyStrided(pieceOf(m), geometry.sourceStrides, sentTo(m, first),
                     first, count, /*toDense=*/true, owner.stream, error))
      return false;
  if (members > 1 && !sendPart(places, first, count, error))
    return false;
  if (own) {
    rest = Rest::Part;
    return true;
  }
  return finishPart(first, count, owner.stream, error);
}

bool ExchangeTask::sendPart(const CudaPeers::Places &places, uint64_t first,
                            uint64_t count, std::string &error) {
  size_t bytes = count * geometry.width;
  uint64_t number = exchange.member();
  if (!copies)
    return owner.nccl.call(
        *group,
        [&](const Nccl &nccl, ncclComm_t comm) {
          ncclResult_t result = nccl.ncclGroupStart();
          for (uint64_t m = 0; m < members && result == ncclSuccess; ++m) {
            if (m == number)
              continue;
            result = nccl.ncclSend(sentTo(m, first), bytes, ncclUint8,
                                   static_cast<int>(m), comm, owner.stream);
            if (result == ncclSuccess)
              result = nccl.ncclRecv(arrived(m), bytes, ncclUint8,
                                     static_cast<int>(m), comm, owner.stream);
          }
          ncclResult_t ended = nccl.ncclGroupEnd();
          return result == ncclSuccess ? ended : result;
        },
        error);
  if (!owner.peers->align(*copies, /*isEnd=*/false, error))
    return false;
  for (uint64_t i = 1; i < members; ++i) {
    uint64_t m = (number + i) % members;
    // All have the same places in their staging memory.
    unsigned char *there =
        places.staging[m] + (arrived(number) - stagingMemory());
    if (!owner.peers->copy(there, sentTo(m, first), bytes, owner.stream, error))
      return false;
  }
  return owner.peers->align(*copies, /*isEnd=*/true, error);
}

/// What is computed of a part that has arrived.
bool ExchangeTask::finishPart(uint64_t first, uint64_t count, void *stream,
                              std::string &error) {
  uint64_t number = exchange.member();
  if (geometry.kind)
    return reduce(arrived(0), slotBytes(), first, count, stream, error);
  for (uint64_t m = 0; m < members; ++m) {
    unsigned char *place = target + static_cast<int64_t>(m) *
                                        geometry.targetStep *
                                        static_cast<int64_t>(geometry.width);
    // A rank's own piece may have been made where it goes.
    if (m == number && !packs() && place == pieceOf(m))
      continue;
    if (!copyStrided(place, geometry.targetStrides,
                     m == number ? sentTo(m, first) : arrived(m), first, count,
                     /*toDense=*/false, stream, error))
      return false;
  }
  return true;
}

/// Adds up `count` elements from `first` on: those of the others are at
/// `pieces`, `pieceBytes` from one to the next.
bool ExchangeTask::reduce(const unsigned char *pieces, uint64_t pieceBytes,
                          uint64_t first, uint64_t count, void *stream,
                          std::string &error) {
  uint64_t number = exchange.member();
  ReduceParameters parameters{pieces,
                              sentTo(number, first),
                              target + first * geometry.width,
                              count,
                              pieceBytes,
                              static_cast<uint32_t>(members),
                              static_cast<uint32_t>(number),
                              geometry.dtype == DType::BF16,
                              *geometry.kind == ReduceKind::Max,
                              geometry.sumsInBF16};
  return owner.device.launch(owner.device.reduce, parameters, count, 1, stream,
                             error);
}

} // namespace

std::unique_ptr<CudaCollectives> CudaCollectives::open(CudaDevice &device,
                                                       Communicator *ranks,
                                                       const Manifest &manifest,
                                                       std::string &error) {
  auto collectives = std::make_unique<Collectives>(device, ranks);
  return collectives->connect(manifest, error) ? std::move(collectives)
                                               : nullptr;
}
