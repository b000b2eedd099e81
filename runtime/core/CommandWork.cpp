//===- CommandWork.cpp - Bytes and operations of commands -----------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the manifest tells about the traffic of commands: an upper bound of
// what a kernel must move where it reads a part of an argument only.
//
//===----------------------------------------------------------------------===//

#include "Manifest.h"

#include <set>
#include <tuple>

using namespace fp8rt;

namespace {

bool sameRefs(const Command &a, const Command &b) {
  if (a.refs.size() != b.refs.size())
    return false;
  for (size_t i = 0; i < a.refs.size(); ++i)
    if (a.refs[i].isArgument != b.refs[i].isArgument ||
        a.refs[i].index != b.refs[i].index)
      return false;
  return true;
}

uint64_t launchBytes(const Function &function, const Command &command) {
  std::set<std::tuple<bool, uint32_t, bool>> seen;
  std::vector<bool> writes(command.refs.size());
  for (uint32_t position : command.writes)
    writes[position] = true;
  uint64_t bytes = 0;
  for (size_t i = 0; i < command.refs.size(); ++i) {
    Ref ref = command.refs[i];
    if (!ref.isArgument &&
        function.buffers[ref.index].kind == BufferKind::Workspace)
      continue;
    if (seen.insert({ref.isArgument, ref.index, writes[i]}).second)
      bytes += ref.isArgument ? function.arguments[ref.index].bytes
                              : function.buffers[ref.index].bytes;
  }
  return bytes;
}

CommandWork gemmWork(const GemmCommand &gemm) {
  auto m = static_cast<uint64_t>(gemm.m), n = static_cast<uint64_t>(gemm.n),
       k = static_cast<uint64_t>(gemm.k);
  uint64_t bytes = m * k * dtypeBytes(gemm.a.dtype) +
                   k * n * dtypeBytes(gemm.b.dtype) +
                   m * n * dtypeBytes(gemm.d.dtype);
  if (gemm.c)
    bytes += m * n * dtypeBytes(gemm.c->dtype);
  return {bytes, 2 * m * n * k};
}

} // namespace

std::vector<CommandWork> fp8rt::commandWork(const Function &function) {
  std::vector<CommandWork> work(function.commands.size());
  const Command *previous = nullptr;
  for (size_t i = 0; i < function.commands.size(); ++i) {
    const Command &command = function.commands[i];
    switch (command.op) {
    case CommandOp::Alloc:
    case CommandOp::Free:
      break;
    case CommandOp::Launch:
      if (!previous || previous->op != CommandOp::Launch ||
          !sameRefs(*previous, command))
        work[i].bytes = launchBytes(function, command);
      break;
    case CommandOp::Gemm:
      work[i] = gemmWork(command.gemm);
      break;
    case CommandOp::Copy:
      work[i].bytes = 2 * command.bytes;
      break;
    case CommandOp::Fill:
      for (uint64_t bytes : command.fillBytes)
        work[i].bytes += bytes;
      break;
    }
    previous = &command;
  }
  return work;
}
