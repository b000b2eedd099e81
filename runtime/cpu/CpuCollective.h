//===- CpuCollective.h - Collectives of processes on CPUs -------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The communicator's thread carries tensors here.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CPU_CPUCOLLECTIVE_H
#define FP8RT_CPU_CPUCOLLECTIVE_H

#include "Backend.h"
#include "Communicator.h"

namespace fp8rt {

class CpuCollective : public CollectiveTask {
public:
  /// Without `ranks` the only rank gives everything to itself.
  CpuCollective(Exchange &exchange, Communicator *ranks)
      : exchange(exchange), ranks(ranks) {}

  bool start(const void *source, void *target, void *, std::string &) override {
    if (ranks) {
      job = ranks->start(exchange, source, target);
      return true;
    }
    std::vector<unsigned char> packed(
        static_cast<size_t>(exchange.elementCount()) * exchange.elementBytes());
    exchange.pack(source, 0, 0, exchange.elementCount(), packed.data());
    exchange.unpack(target, {packed.data()}, 0, exchange.elementCount());
    return true;
  }

  bool wait(void *, std::string &error) override {
    return !ranks || ranks->wait(job, error);
  }

  std::optional<double> elapsed(std::string &) override { return std::nullopt; }

private:
  Exchange &exchange;
  Communicator *ranks;
  Communicator::JobPtr job;
};

} // namespace fp8rt

#endif // FP8RT_CPU_CPUCOLLECTIVE_H
