//===- CudaExchange.cpp - One collective between GPUs
//-----------------------===//
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

#include "CudaExchange.h"

#include "DeviceKernels.h"

using namespace fp8rt;

/// A task whose pieces need no more staging memory than this has its own.
static constexpr uint64_t kOwnStagingBytes = 1 << 20;

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
