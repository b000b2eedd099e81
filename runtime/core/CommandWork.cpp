//===- CommandWork.cpp - Bytes and operations of commands -----------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the manifest tells about the traffic of commands.
//
//===----------------------------------------------------------------------===//

#include "Manifest.h"

#include <numeric>

using namespace fp8rt;

namespace {

CommandWork gemmWork(const GemmCommand &gemm) {
  auto m = static_cast<uint64_t>(gemm.m), n = static_cast<uint64_t>(gemm.n),
       k = static_cast<uint64_t>(gemm.k);
  // Of groups at their capacity, one matrix each of b or of d.
  uint64_t groups = gemm.groups ? static_cast<uint64_t>(gemm.groups->count) : 1;
  bool ofSum = gemm.groups && gemm.groups->ofSum;
  uint64_t bytes = m * k * dtypeBytes(gemm.a.dtype) +
                   (ofSum ? 1 : groups) * k * n * dtypeBytes(gemm.b.dtype) +
                   (ofSum ? groups : 1) * m * n * dtypeBytes(gemm.d.dtype);
  if (gemm.c)
    bytes += m * n * dtypeBytes(gemm.c->dtype);
  return {bytes, 2 * m * n * k};
}

} // namespace

CommandWork fp8rt::workOf(const Command &command) {
  switch (command.op) {
  case CommandOp::Alloc:
  case CommandOp::Free:
  case CommandOp::Wait: // Its work is its collective's.
    return {};
  case CommandOp::Launch:
  case CommandOp::Collective:
    return command.work;
  case CommandOp::Gemm:
    return gemmWork(command.gemm);
  case CommandOp::Copy:
    return {2 * command.bytes, 0};
  case CommandOp::Offload:
  case CommandOp::Prefetch:
    return {command.bytes, 0};
  case CommandOp::Fill:
    return {std::accumulate(command.fillBytes.begin(), command.fillBytes.end(),
                            uint64_t(0)),
            0};
  }
  return {};
}
