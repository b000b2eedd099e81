//===- CudaCollectives.h - Collectives between GPUs -------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensors travel on a stream of their own: copied by the copy engines where
// the GPUs of an axis reach each other's memory (CudaPeers.h), else carried by
// NCCL (NcclGroups.h). The communicator carries what ranks agree on, and knows
// whether they are there. Bytes that are joined go straight from tensor to
// tensor where each piece is a stretch of memory, and so do sums of two, whose
// order does not matter. Anything else travels in parts through staging memory,
// where kernels pack it, and add it up in the order of the ranks. That memory
// is the device's and not the plan's.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CUDA_CUDACOLLECTIVES_H
#define FP8RT_CUDA_CUDACOLLECTIVES_H

#include "Backend.h"
#include "Communicator.h"
#include "CudaDevice.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fp8rt {

class CudaCollectives {
public:
  /// Most bytes of a part in staging memory.
  static constexpr uint64_t kPartBytes = 4 << 20;

  virtual ~CudaCollectives() = default;

  /// Connects the ranks along every axis of the grid; all of them call it. With
  /// no `ranks` this process is the only one. `device` outlives it. Null with
  /// `error` set on failure.
  static std::unique_ptr<CudaCollectives> open(CudaDevice &device,
                                               Communicator *ranks,
                                               const Manifest &manifest,
                                               std::string &error);

  /// The task of `exchange`, which outlives it, among the ranks along `axis`.
  virtual std::unique_ptr<CollectiveTask> prepare(const Exchange &exchange,
                                                  const std::string &axis,
                                                  std::string &error) = 0;

  /// Has `stream` wait until those of all ranks have come here.
  virtual bool align(void *stream, std::string &error) = 0;

  /// Which of the two carries tensors: "copy engines", "NCCL", or both. Empty
  /// where nothing is carried.
  virtual std::string transport() const = 0;
};

} // namespace fp8rt

#endif // FP8RT_CUDA_CUDACOLLECTIVES_H
