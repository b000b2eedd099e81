//===- Backend.h - What executes commands -----------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface between command lists and a device. A backend turns a command
// into a task once; the runner then resolves storage and runs tasks. Beside
// that a backend gives its callers memory, copies, streams and events, so that
// a tool needs no library of the device's maker.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_BACKEND_H
#define FP8RT_CORE_BACKEND_H

#include "Exchange.h"
#include "Manifest.h"
#include "Memory.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fp8rt {

/// One command (launch, gemm, copy or fill), ready to run.
class Task {
public:
  virtual ~Task() = default;

  /// Enqueues the command. `addresses` are those of the command's `refs`.
  /// Returns false and sets `error` on failure.
  virtual bool run(void *const *addresses, void *stream,
                   std::string &error) = 0;
};

/// One collective, ready to run.
class CollectiveTask {
public:
  virtual ~CollectiveTask() = default;

  /// Begins it once all that is enqueued on `stream` has happened; source and
  /// target are in use until its wait. Fails where a rank is lost.
  virtual bool start(const void *source, void *target, void *stream,
                     std::string &error) = 0;
  /// What is enqueued on `stream` from here on comes after it. On the CPU it is
  /// done on return.
  virtual bool wait(void *stream, std::string &error) = 0;
  /// Milliseconds from where it could begin to its end, of the last run.
  /// Nothing where the device does not know.
  virtual std::optional<double> elapsed(std::string &error) = 0;
};

/// A point in a stream, for timing and for other streams to wait for.
class Event {
public:
  virtual ~Event() = default;
  virtual bool record(void *stream, std::string &error) = 0;
  /// What is enqueued on `stream` from here on starts when this has happened.
  virtual bool wait(void *stream, std::string &error) = 0;
  /// Milliseconds from `start` to this event; waits until both have happened.
  /// `start` is of the same backend.
  virtual bool elapsed(const Event &start, double &milliseconds,
                       std::string &error) const = 0;
};

/// Enqueued work that was recorded and can be replayed.
class Graph {
public:
  virtual ~Graph() = default;
  virtual bool launch(void *stream, std::string &error) = 0;
};

/// The test values of an argument in one run (fp8rt/Inputs.h). Element (i, j,
/// ...) of `shape` is element `offset + i * strides[0] + j * strides[1] + ...`
/// of the whole tensor, of which a rank may hold a part.
struct InputFill {
  DType dtype = DType::F32;
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;
  Init init = Init::Normal;
  float scale = 1.0f;
  uint64_t key = 0;
};

class Communicator;

/// A device. Functions that can fail return false (or null) and set `error`.
class Backend {
public:
  virtual ~Backend() = default;

  /// The name that options and reports use.
  virtual const char *name() const = 0;

  /// Prepares `command` of `function`. The task is valid as long as the
  /// backend lives.
  virtual std::unique_ptr<Task> prepare(const Command &command,
                                        const Function &function,
                                        std::string &error) = 0;

  /// Has the collectives of the program `manifest` go to the other processes
  /// of a job, which outlive the tasks. Null: this is the only one.
  virtual bool setRanks(Communicator *ranks, const Manifest &manifest,
                        std::string &error) = 0;
  /// What carries tensors between ranks, in a few words; empty where nothing
  /// does.
  virtual std::string transport() const = 0;
  /// What is enqueued on `stream` from here on begins on all ranks at about
  /// the same time, for timing. Does nothing on the CPU.
  virtual bool alignRanks(void *stream, std::string &error) = 0;
  /// Prepares a collective along the axis `axis`. The task is valid as long as
  /// the backend and `exchange` live.
  virtual std::unique_ptr<CollectiveTask>
  prepareCollective(Exchange &exchange, const std::string &axis,
                    std::string &error) = 0;

  /// Storage access for one runner.
  virtual std::unique_ptr<Memory> createMemory(std::string &error) = 0;

  /// Records what `enqueue` enqueues on the stream it is given, without
  /// running it.
  virtual std::unique_ptr<Graph>
  capture(const std::function<bool(void *stream, std::string &)> &enqueue,
          std::string &error) = 0;

  virtual std::unique_ptr<Event> createEvent(std::string &error) = 0;
  virtual bool createStream(void *&stream, std::string &error) = 0;
  virtual void destroyStream(void *stream) = 0;
  /// Waits until everything enqueued on `stream` has happened.
  virtual bool synchronize(void *stream, std::string &error) = 0;

  /// Memory for arguments, results and arenas, aligned to 256 bytes.
  virtual void *allocate(size_t bytes, std::string &error) = 0;
  virtual void release(void *pointer) = 0;
  /// Host memory that copies of the device reach at full speed.
  virtual void *allocateHost(size_t bytes, std::string &error) = 0;
  virtual void releaseHost(void *pointer) = 0;
  /// Copies between the device and such memory, enqueued on `stream`.
  virtual bool copyToHost(void *host, const void *from, size_t bytes,
                          void *stream, std::string &error) = 0;
  virtual bool copyFromHost(void *to, const void *host, size_t bytes,
                            void *stream, std::string &error) = 0;
  /// Copies between the host and the device; complete on return.
  virtual bool upload(void *to, const void *from, size_t bytes,
                      std::string &error) = 0;
  virtual bool download(void *to, const void *from, size_t bytes,
                        std::string &error) = 0;
  /// Copies on the device, enqueued on `stream`.
  virtual bool copy(void *to, const void *from, size_t bytes, void *stream,
                    std::string &error) = 0;
  /// Sets every byte to `value`, enqueued on `stream`.
  virtual bool set(void *data, unsigned char value, size_t bytes, void *stream,
                   std::string &error) = 0;
  /// Writes the test values of an argument, enqueued on `stream`.
  virtual bool fillInput(void *data, const InputFill &fill, void *stream,
                         std::string &error) = 0;
  /// Free and all bytes of the device; nothing where they are not known.
  struct MemoryInfo {
    uint64_t free = 0;
    uint64_t total = 0;
  };
  virtual std::optional<MemoryInfo> memoryInfo() = 0;
};

} // namespace fp8rt

#endif // FP8RT_CORE_BACKEND_H
