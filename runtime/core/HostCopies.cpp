//===- HostCopies.cpp - Copies to host memory and back --------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order between the kernels' stream and those of the copies is kept by two
// events a copy.
//
//===----------------------------------------------------------------------===//

#include "HostCopies.h"

using namespace fp8rt;

std::unique_ptr<HostCopies> HostCopies::create(const Function &function,
                                               Backend &backend, bool deferred,
                                               std::string &error) {
  std::unique_ptr<HostCopies> copies(new HostCopies(backend, deferred));
  return copies->prepare(function, error) ? std::move(copies) : nullptr;
}

bool HostCopies::prepare(const Function &function, std::string &error) {
  memory = static_cast<unsigned char *>(
      backend.allocateHost(function.hostBytes, error));
  if (!memory)
    return false;
  if (!deferred) {
    if (!backend.createStream(outStream, error))
      return false;
    if (!backend.createStream(inStream, error)) {
      backend.destroyStream(outStream);
      return false;
    }
    hasStreams = true;
  }
  for (const Command &command : function.commands) {
    if (command.op != CommandOp::Offload && command.op != CommandOp::Prefetch)
      continue;
    Copy &copy = copies[command.hostCopy.ticket];
    copy.start = &command;
    if (deferred)
      continue;
    copy.ready = backend.createEvent(error);
    copy.done = copy.ready ? backend.createEvent(error) : nullptr;
    if (!copy.done)
      return false;
  }
  return true;
}

HostCopies::~HostCopies() {
  copies.clear();
  if (hasStreams) {
    backend.destroyStream(outStream);
    backend.destroyStream(inStream);
  }
  if (memory)
    backend.releaseHost(memory);
}

const unsigned char *HostCopies::addressOf(const Command &command) const {
  return memory + copies.at(command.hostCopy.ticket).start->hostCopy.offset;
}

bool HostCopies::enqueue(const Copy &copy, void *stream, std::string &error) {
  const Command &command = *copy.start;
  unsigned char *host = memory + command.hostCopy.offset;
  return command.op == CommandOp::Offload
             ? backend.copyToHost(host, copy.buffer, command.bytes, stream,
                                  error)
             : backend.copyFromHost(copy.buffer, host, command.bytes, stream,
                                    error);
}

bool HostCopies::start(const Command &command, void *buffer, void *stream,
                       std::string &error) {
  Copy &copy = copies.at(command.hostCopy.ticket);
  copy.buffer = buffer;
  if (deferred)
    return true;
  void *own = command.op == CommandOp::Offload ? outStream : inStream;
  return copy.ready->record(stream, error) && copy.ready->wait(own, error) &&
         enqueue(copy, own, error) && copy.done->record(own, error);
}

bool HostCopies::wait(const Command &command, void *stream,
                      std::string &error) {
  const Copy &copy = copies.at(command.hostCopy.ticket);
  return deferred ? enqueue(copy, stream, error)
                  : copy.done->wait(stream, error);
}
