//===- HostCopies.h - Copies to host memory and back ------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What waits in host memory during a run: the memory, a stream for each
// direction, and the copies under way.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_HOSTCOPIES_H
#define FP8RT_CORE_HOSTCOPIES_H

#include "Backend.h"

#include <map>
#include <memory>
#include <string>

namespace fp8rt {

/// The host copies of one function, for one runner. All memory, streams and
/// events are taken by `create`.
class HostCopies {
public:
  /// With `deferred` a copy happens at its wait, on the stream of the kernels,
  /// so that what it must not share its memory with is seen to have written
  /// there. Returns null and sets `error` on failure. `backend` outlives it.
  static std::unique_ptr<HostCopies> create(const Function &function,
                                            Backend &backend, bool deferred,
                                            std::string &error);
  ~HostCopies();

  /// Starts `command`, an offload or a prefetch of the buffer at `buffer`, once
  /// what is enqueued on `stream` has happened.
  bool start(const Command &command, void *buffer, void *stream,
             std::string &error);
  /// What is enqueued on `stream` from here on comes after the copy.
  bool wait(const Command &command, void *stream, std::string &error);

  /// The address of what a command or its start copies to or from.
  const unsigned char *addressOf(const Command &command) const;

private:
  struct Copy {
    const Command *start = nullptr;
    std::unique_ptr<Event> ready, done;
    void *buffer = nullptr;
  };

  HostCopies(Backend &backend, bool deferred)
      : backend(backend), deferred(deferred) {}
  bool prepare(const Function &function, std::string &error);
  bool enqueue(const Copy &copy, void *stream, std::string &error);

  Backend &backend;
  bool deferred;
  unsigned char *memory = nullptr;
  void *outStream = nullptr, *inStream = nullptr;
  bool hasStreams = false;
  std::map<int64_t, Copy> copies; ///< by ticket
};

} // namespace fp8rt

#endif // FP8RT_CORE_HOSTCOPIES_H
