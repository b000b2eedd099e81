//===- CudaExchange.h - One collective between GPUs ------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the ranks share (CudaCollectives.cpp), and one collective among them
// (CudaExchange.cpp). For these two files only.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CUDA_CUDAEXCHANGE_H
#define FP8RT_CUDA_CUDAEXCHANGE_H

#include "CudaCollectives.h"
#include "CudaPeers.h"
#include "NcclGroups.h"

#include <algorithm>
#include <chrono>
#include <map>

namespace fp8rt {

/// The ranks of a program and what its collectives share.
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
  std::chrono::steady_clock::time_point asked{};
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

} // namespace fp8rt

#endif // FP8RT_CUDA_CUDAEXCHANGE_H
