//===- Runner.h - Executes a command list -----------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A loaded artifact and the execution of its functions.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_RUNNER_H
#define FP8RT_CORE_RUNNER_H

#include "Backend.h"
#include "Communicator.h"
#include "DynamicMemory.h"
#include "HostCopies.h"
#include "Manifest.h"
#include "Streams.h"
#include "Watcher.h"
#include "fp8rt/Container.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fp8rt {

/// An artifact ready to run.
struct Program {
  Container container;
  Manifest manifest;
  std::unique_ptr<Backend> backend;
  /// The ranks that run the same program; null where this is the only one. Not
  /// owned.
  Communicator *ranks = nullptr;
};

/// Opens the artifact in `bytes` for the backend called `backend`. Returns null
/// and sets `error` on failure.
std::unique_ptr<Program>
loadProgram(std::string bytes, const std::string &backend, std::string &error);

struct RunnerOptions {
  bool dynamic = false;
  /// Planned mode: watch the arena. Dynamic mode: guards and poison only.
  bool watch = false;
  bool poison = false;
  /// Time each command and note the live bytes.
  bool ledger = false;
  /// Record the first run and replay it; planned mode, neither watched nor
  /// with a ledger.
  bool graph = false;
  /// Run the gemms only: the time of the matmuls alone, without a meaning.
  bool gemmsOnly = false;
  /// Streams to spread the commands over, the caller's among them; more than
  /// one in planned mode only, neither watched nor with a ledger.
  uint32_t streams = 1;
};

/// The most streams of a runner.
inline constexpr uint32_t kMostStreams = 16;

struct LedgerEntry {
  double milliseconds = 0;
  uint64_t liveBytes = 0;
  /// Of a collective, from where it could begin to its end; nothing where the
  /// device does not know.
  std::optional<double> transferMilliseconds;
};

/// Runs one function of a program, one run at a time. In planned mode a run
/// allocates nothing.
class Runner {
public:
  ~Runner();

  /// Prepares the commands. Returns null and sets `error` on failure.
  static std::unique_ptr<Runner> create(Program &program, size_t function,
                                        RunnerOptions options,
                                        std::string &error);

  /// Bytes of arena that `run` needs: arena_bytes, and a red zone if watched;
  /// 0 in dynamic mode.
  size_t arenaBytes() const;

  /// One run. `arguments` has an entry for each argument, `results` for each
  /// result (read only where the caller places it). The arena is aligned to
  /// 256 bytes. Returns false and sets `error` on a fault or a violation.
  bool run(void *const *arguments, void *const *results, void *arena,
           size_t arenaSize, void *stream, std::string &error);

  /// Address of element 0 of the root of result `index` plus its offset, valid
  /// until the next run.
  void *resultData(size_t index) const;

  /// Peak of the last run, as measured; nothing in an unwatched planned run.
  std::optional<uint64_t> measuredPeakBytes() const { return measuredPeak; }

  /// What the device's own allocator counted in the last dynamic run.
  std::optional<uint64_t> poolHighBytes();

  /// One entry a command of the last run; empty unless asked for. Waits for
  /// the run. Returns false and sets `error` on failure.
  bool readLedger(std::vector<LedgerEntry> &out, std::string &error);

private:
  Runner(Program &program, const Function &function, RunnerOptions options)
      : program(program), function(function), options(options) {}
  bool prepare(std::string &error);
  bool prepareLedger(std::string &error);
  bool bind(void *const *arguments, void *const *results, void *arena,
            size_t arenaSize, std::string &error);
  bool prepareCollective(size_t index, std::string &error);
  bool startCollective(size_t index, void *stream, std::string &error);
  bool waitCollective(const Command &command, void *stream, std::string &error);
  bool execute(size_t index, void *stream, std::string &error);
  bool runCommands(void *stream, std::string &error);
  bool prepareStreams(std::string &error);
  void spread();
  bool runSpread(void *stream, std::string &error);
  bool replay(void *stream, std::string &error);
  bool finish(std::string &error);
  bool isTimed(size_t command) const;
  void *addressOf(Ref ref) const;

  Program &program;
  const Function &function;
  RunnerOptions options;
  std::vector<std::unique_ptr<Task>> tasks;
  /// By command; null where it is no collective.
  std::vector<std::unique_ptr<Exchange>> exchanges;
  std::vector<std::unique_ptr<CollectiveTask>> collectives;
  /// A collective that was started: in a watched run it waits for its wait, so
  /// that what it must not share its memory with is seen to have written there.
  struct Started {
    CollectiveTask *task;
    const void *source;
    void *target;
    bool isDeferred;
  };
  std::map<int64_t, Started> started;
  /// Null where nothing waits in host memory.
  std::unique_ptr<HostCopies> hostCopies;
  /// Where this rank is along each axis of the grid.
  std::vector<uint64_t> coordinates;
  std::vector<void *> argumentData;
  std::vector<void *> bufferData;
  std::vector<void *> taskAddresses;
  /// One before the first command, then one after each timed command.
  std::vector<std::unique_ptr<Event>> events;
  std::vector<uint64_t> liveBytes;
  bool ran = false;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Watcher> watcher;
  std::optional<DynamicMemory> dynamicMemory;
  std::optional<uint64_t> measuredPeak;
  /// On several streams: those beside the caller's, what goes where for the
  /// addresses of the last run, an event for each command (null where no one
  /// waits for it), and one for the start.
  std::vector<void *> furtherStreams;
  std::vector<StreamStep> streamSteps;
  std::vector<void *> spreadArguments;
  std::vector<void *> spreadBuffers;
  std::vector<std::unique_ptr<Event>> streamEvents;
  std::unique_ptr<Event> startEvent;
  std::unique_ptr<Graph> graph;
  /// Addresses that the graph was recorded with.
  std::vector<void *> graphArguments;
  std::vector<void *> graphBuffers;
};

} // namespace fp8rt

#endif // FP8RT_CORE_RUNNER_H
