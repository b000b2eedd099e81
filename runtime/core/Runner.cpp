//===- Runner.cpp - Executes a command list -------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loop over commands. Addresses of arguments and buffers are bound once a
// run; dynamic mode rebinds a buffer at each alloc.
//
//===----------------------------------------------------------------------===//

#include "Runner.h"

#include "CpuBackend.h"
#include "OpenRanks.h"
#ifdef FP8RT_HAVE_CUDA
#include "CudaBackend.h"
#endif

#include <algorithm>

using namespace fp8rt;

namespace {

std::unique_ptr<Backend> createBackend(const std::string &name,
                                       const Container &container,
                                       std::string &error) {
  if (name == "cpu")
    return createCpuBackend(container.section("cpu.so").value_or(""), error);
#ifdef FP8RT_HAVE_CUDA
  if (name == "cuda")
    return createCudaBackend({container.section("cuda.cubin").value_or(""),
                              container.section("cuda.ptx").value_or("")},
                             error);
#endif
  error = "no " + name + " backend in this build" +
          (name == "cuda" ? ": it was built without the CUDA toolkit" : "");
  return nullptr;
}

bool movesStorage(const Command &command) {
  return command.op == CommandOp::Alloc || command.op == CommandOp::Free;
}

bool isHostCopy(const Command &command) {
  return command.op == CommandOp::Offload || command.op == CommandOp::Prefetch;
}

} // namespace

std::unique_ptr<Program> fp8rt::loadProgram(std::string bytes,
                                            const std::string &backend,
                                            std::string &error) {
  std::optional<Container> container =
      Container::parse(std::move(bytes), ContainerKind::Artifact, error);
  if (!container)
    return nullptr;
  auto program = std::make_unique<Program>();
  program->container = std::move(*container);
  std::optional<std::string_view> json = program->container.section("manifest");
  if (!json) {
    error = "the artifact has no section 'manifest'";
    return nullptr;
  }
  std::optional<Manifest> manifest = parseManifest(*json, error);
  if (!manifest)
    return nullptr;
  program->manifest = std::move(*manifest);
  if (program->manifest.isCuda() != (backend == "cuda")) {
    error = std::string("expected an artifact for ") +
            (backend == "cuda" ? "a GPU" : "target 'cpu'") + ", but got '" +
            program->manifest.target + "'";
    return nullptr;
  }
  if (!checkManifest(program->manifest, error))
    return nullptr;
  program->backend = createBackend(backend, program->container, error);
  return program->backend ? std::move(program) : nullptr;
}

Runner::~Runner() {
  for (void *stream : furtherStreams)
    program.backend->destroyStream(stream);
}

std::unique_ptr<Runner> Runner::create(Program &program, size_t function,
                                       RunnerOptions options,
                                       std::string &error) {
  std::unique_ptr<Runner> runner(
      new Runner(program, program.manifest.functions[function], options));
  return runner->prepare(error) ? std::move(runner) : nullptr;
}

bool Runner::prepare(std::string &error) {
  if (options.graph && (options.dynamic || options.watch || options.ledger)) {
    error = "a graph needs planned memory, and a run that is neither watched "
            "nor has a ledger";
    return false;
  }
  if (options.gemmsOnly && (options.dynamic || options.watch)) {
    error = "the gemms alone run in planned memory, not watched";
    return false;
  }
  if (options.streams == 0 || options.streams > kMostStreams) {
    error = "expected 1 to " + std::to_string(kMostStreams) +
            " streams, but got " + std::to_string(options.streams);
    return false;
  }
  if (options.streams > 1 &&
      (options.dynamic || options.watch || options.ledger)) {
    error = "several streams need planned memory, and a run that is neither "
            "watched nor has a ledger";
    return false;
  }
  int rank = program.ranks ? program.ranks->rank() : 0;
  for (const GridAxis &axis : program.manifest.grid) {
    std::vector<int> group = groupOf(program.manifest.grid, axis.name, rank);
    coordinates.push_back(static_cast<uint64_t>(
        std::find(group.begin(), group.end(), rank) - group.begin()));
  }
  tasks.resize(function.commands.size());
  exchanges.resize(function.commands.size());
  collectives.resize(function.commands.size());
  argumentData.resize(function.arguments.size());
  bufferData.resize(function.buffers.size());
  size_t most = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Command &command = function.commands[i];
    if (movesStorage(command))
      continue;
    most = std::max(most, command.refs.size());
    if (command.op == CommandOp::Wait || isHostCopy(command))
      continue;
    if (command.op == CommandOp::Collective) {
      if (!prepareCollective(i, error))
        return false;
      continue;
    }
    tasks[i] = program.backend->prepare(command, function, error);
    if (!tasks[i]) {
      error = describe(command) + ": " + error;
      return false;
    }
  }
  taskAddresses.resize(most);
  if (function.hostBytes > 0) {
    hostCopies =
        HostCopies::create(function, *program.backend, options.watch, error);
    if (!hostCopies)
      return false;
  }
  if (options.ledger && !prepareLedger(error))
    return false;
  if (options.streams > 1 && !prepareStreams(error))
    return false;
  if (!options.dynamic && !options.watch)
    return true;
  memory = program.backend->createMemory(error);
  if (!memory)
    return false;
  if (options.dynamic) {
    dynamicMemory.emplace(function, *program.backend, *memory, options.poison);
    return true;
  }
  watcher = Watcher::create(function, *program.backend, *memory, options.poison,
                            error);
  return watcher != nullptr;
}

void *Runner::addressOf(Ref ref) const {
  if (ref.isArgument)
    return argumentData[ref.index];
  auto *begin = static_cast<unsigned char *>(bufferData[ref.index]);
  return ref.axis < 0
             ? begin
             : begin + coordinates[static_cast<size_t>(ref.axis)] *
                           bytesOf(function, program.manifest.grid, ref);
}

bool Runner::prepareCollective(size_t index, std::string &error) {
  const Command &command = function.commands[index];
  int rank = program.ranks ? program.ranks->rank() : 0;
  int count = program.ranks ? program.ranks->size() : 1;
  if (!checkRankCount(program.manifest, count, error))
    return false;
  std::vector<int> group =
      groupOf(program.manifest.grid, command.collective.axis, rank);
  size_t member = static_cast<size_t>(
      std::find(group.begin(), group.end(), rank) - group.begin());
  exchanges[index] =
      std::make_unique<Exchange>(command.collective, std::move(group), member);
  collectives[index] = program.backend->prepareCollective(
      *exchanges[index], command.collective.axis, error);
  if (collectives[index])
    return true;
  error = describe(command) + ": " + error;
  return false;
}

bool Runner::startCollective(size_t index, void *stream, std::string &error) {
  const Command &command = function.commands[index];
  int64_t ticket = command.collective.ticket;
  Started entry{collectives[index].get(), addressOf(command.refs[0]),
                addressOf(command.refs[1]), ticket >= 0 && watcher};
  started[ticket] = entry;
  if (!entry.isDeferred &&
      !entry.task->start(entry.source, entry.target, stream, error)) {
    error = describe(command) + ": " + error;
    return false;
  }
  return ticket >= 0 || waitCollective(command, stream, error);
}

bool Runner::waitCollective(const Command &command, void *stream,
                            std::string &error) {
  auto it = started.find(command.collective.ticket);
  Started entry = it->second;
  started.erase(it);
  if ((!entry.isDeferred ||
       entry.task->start(entry.source, entry.target, stream, error)) &&
      entry.task->wait(stream, error))
    return true;
  error = describe(command) + ": " + error;
  return false;
}

bool Runner::prepareLedger(std::string &error) {
  liveBytes.resize(function.commands.size());
  events.resize(function.commands.size() + 1);
  for (size_t i = 0; i < events.size(); ++i) {
    if (i > 0 && !isTimed(i - 1))
      continue;
    events[i] = program.backend->createEvent(error);
    if (!events[i])
      return false;
  }
  return true;
}

bool Runner::prepareStreams(std::string &error) {
  while (furtherStreams.size() + 1 < options.streams) {
    void *stream = nullptr;
    if (!program.backend->createStream(stream, error))
      return false;
    furtherStreams.push_back(stream);
  }
  startEvent = program.backend->createEvent(error);
  streamEvents.resize(function.commands.size());
  for (size_t i = 0; startEvent && i < streamEvents.size(); ++i) {
    if (movesStorage(function.commands[i]))
      continue;
    streamEvents[i] = program.backend->createEvent(error);
    if (!streamEvents[i])
      return false;
  }
  return startEvent != nullptr;
}

/// Where each command goes, for the addresses that are bound.
void Runner::spread() {
  if (!streamSteps.empty() && spreadArguments == argumentData &&
      spreadBuffers == bufferData)
    return;
  std::vector<std::vector<Access>> accesses(function.commands.size());
  for (size_t i = 0; i < accesses.size(); ++i) {
    const Command &command = function.commands[i];
    std::vector<bool> writes(command.refs.size());
    for (uint32_t position : command.writes)
      writes[position] = true;
    for (size_t r = 0; r < command.refs.size(); ++r) {
      Ref ref = command.refs[r];
      auto begin = reinterpret_cast<uintptr_t>(addressOf(ref));
      uint64_t bytes = bytesOf(function, program.manifest.grid, ref);
      accesses[i].push_back({begin, begin + bytes, writes[r]});
    }
    if (command.hostCopy.ticket >= 0) {
      auto begin = reinterpret_cast<uintptr_t>(hostCopies->addressOf(command));
      uint64_t bytes = accesses[i][0].end - accesses[i][0].begin;
      accesses[i].push_back({begin, begin + bytes, true});
    }
  }
  streamSteps = planStreams(function, accesses, options.streams);
  spreadArguments = argumentData;
  spreadBuffers = bufferData;
}

/// Planned allocs and frees do nothing and need no events.
bool Runner::isTimed(size_t command) const {
  return options.dynamic || !movesStorage(function.commands[command]);
}

size_t Runner::arenaBytes() const {
  if (options.dynamic)
    return 0;
  return function.arenaBytes + (watcher ? Watcher::kRedZoneBytes : 0);
}

bool Runner::bind(void *const *arguments, void *const *results, void *arena,
                  size_t arenaSize, std::string &error) {
  for (size_t i = 0; i < argumentData.size(); ++i) {
    argumentData[i] = arguments[i];
    if (!arguments[i]) {
      error = "argument '" + function.arguments[i].name + "' is null";
      return false;
    }
  }
  if (!options.dynamic) {
    if (arenaSize < arenaBytes()) {
      error = "expected an arena of " + std::to_string(arenaBytes()) +
              " bytes, but got " + std::to_string(arenaSize);
      return false;
    }
    if (arenaBytes() && (!arena || reinterpret_cast<uintptr_t>(arena) % 256)) {
      error = "expected an arena aligned to 256 bytes";
      return false;
    }
  }
  for (size_t i = 0; i < bufferData.size(); ++i) {
    int64_t offset = function.buffers[i].offset;
    bufferData[i] = options.dynamic || offset < 0
                        ? nullptr
                        : static_cast<unsigned char *>(arena) + offset;
  }
  for (size_t i = 0; i < function.results.size(); ++i) {
    const Result &result = function.results[i];
    if (!result.placedByCaller)
      continue;
    if (!results || !results[i]) {
      error = "result '" + result.name +
              "' is placed by the caller, but its memory is null";
      return false;
    }
    bufferData[result.ref.index] = results[i];
  }
  return true;
}

bool Runner::execute(size_t index, void *stream, std::string &error) {
  const Command &command = function.commands[index];
  switch (command.op) {
  case CommandOp::Alloc:
    if (dynamicMemory)
      return dynamicMemory->allocate(command.buffer, bufferData[command.buffer],
                                     error);
    if (watcher)
      watcher->allocated(command);
    return true;
  case CommandOp::Free:
    if (dynamicMemory)
      return dynamicMemory->release(command.buffer, error);
    if (watcher)
      watcher->freed(command);
    return true;
  case CommandOp::Gemm:
    break;
  case CommandOp::Collective:
    return options.gemmsOnly || startCollective(index, stream, error);
  case CommandOp::Offload:
  case CommandOp::Prefetch:
    if (options.gemmsOnly ||
        hostCopies->start(command, addressOf(command.refs[0]), stream, error))
      return true;
    error = describe(command) + ": " + error;
    return false;
  case CommandOp::Wait:
    if (!options.gemmsOnly && command.hostCopy.ticket >= 0)
      return hostCopies->wait(command, stream, error);
    return options.gemmsOnly || waitCollective(command, stream, error);
  case CommandOp::Launch:
  case CommandOp::Copy:
  case CommandOp::Fill:
    if (options.gemmsOnly)
      return true;
    break;
  }
  for (size_t i = 0; i < command.refs.size(); ++i)
    taskAddresses[i] = addressOf(command.refs[i]);
  if (tasks[index]->run(taskAddresses.data(), stream, error))
    return true;
  error = describe(command) + ": " + error;
  return false;
}

/// `runCommands` on several streams. What the caller's stream was given before
/// happens before all of it, what it is given next after all of it.
bool Runner::runSpread(void *stream, std::string &error) {
  spread();
  if (!startEvent->record(stream, error))
    return false;
  for (void *further : furtherStreams)
    if (!startEvent->wait(further, error))
      return false;
  auto streamAt = [&](uint32_t index) {
    return index == 0 ? stream : furtherStreams[index - 1];
  };
  std::vector<Event *> last(options.streams);
  for (size_t i = 0; i < function.commands.size(); ++i) {
    if (movesStorage(function.commands[i]))
      continue;
    const StreamStep &step = streamSteps[i];
    void *own = streamAt(step.stream);
    for (uint32_t earlier : step.waits)
      if (!streamEvents[earlier]->wait(own, error))
        return false;
    if (!execute(i, own, error))
      return false;
    if (step.recorded && !streamEvents[i]->record(own, error))
      return false;
    if (step.recorded)
      last[step.stream] = streamEvents[i].get();
  }
  for (uint32_t i = 1; i < options.streams; ++i)
    if (last[i] && !last[i]->wait(stream, error))
      return false;
  return true;
}

bool Runner::runCommands(void *stream, std::string &error) {
  if (options.streams > 1)
    return runSpread(stream, error);
  if (options.ledger && !events[0]->record(stream, error))
    return false;
  for (size_t i = 0; i < function.commands.size(); ++i) {
    const Command &command = function.commands[i];
    if (!execute(i, stream, error))
      return false;
    if (options.ledger && isTimed(i) && !events[i + 1]->record(stream, error))
      return false;
    if (watcher) {
      if (!movesStorage(command))
        watcher->executed(command);
      error = watcher->violation();
    }
    if (memory && error.empty() && !memory->failure().empty())
      error = describe(command) + ": " + memory->failure();
    if (!error.empty())
      return false;
    if (options.ledger)
      liveBytes[i] = watcher         ? watcher->liveBytes()
                     : dynamicMemory ? dynamicMemory->liveBytes()
                                     : 0;
  }
  return true;
}

bool Runner::replay(void *stream, std::string &error) {
  if (!graph) {
    graphArguments = argumentData;
    graphBuffers = bufferData;
    graph = program.backend->capture(
        [&](void *capturing, std::string &reason) {
          return runCommands(capturing, reason);
        },
        error);
    if (!graph)
      return false;
  }
  for (size_t i = 0; i < argumentData.size(); ++i)
    if (argumentData[i] != graphArguments[i]) {
      error = "argument '" + function.arguments[i].name +
              "' has moved since the graph was recorded: pass the same "
              "addresses in every run, or create a runner without a graph";
      return false;
    }
  if (bufferData != graphBuffers) {
    error = "the arena or a result has moved since the graph was recorded: "
            "pass the same addresses in every run, or create a runner without "
            "a graph";
    return false;
  }
  return graph->launch(stream, error);
}

bool Runner::run(void *const *arguments, void *const *results, void *arena,
                 size_t arenaSize, void *stream, std::string &error) {
  error.clear();
  if (!bind(arguments, results, arena, arenaSize, error))
    return false;
  measuredPeak.reset();
  ran = false;
  if (options.graph)
    return replay(stream, error);
  if (memory)
    memory->begin(stream);
  if (dynamicMemory)
    dynamicMemory->begin();
  if (watcher)
    watcher->begin(static_cast<unsigned char *>(arena), bufferData,
                   argumentData.data());
  bool complete = runCommands(stream, error) && finish(error);
  // What a run that failed had allocated is of no use to anyone.
  if (!complete && dynamicMemory)
    dynamicMemory->releaseAll();
  ran = complete;
  return complete;
}

/// Takes the measurements at the end of a run.
bool Runner::finish(std::string &error) {
  if (watcher) {
    watcher->finish();
    measuredPeak = watcher->peakBytes();
    error = watcher->violation();
  }
  if (dynamicMemory) {
    measuredPeak = dynamicMemory->peakBytes();
    if (!dynamicMemory->finish(error))
      return false;
  }
  if (memory && error.empty())
    error = memory->failure();
  return error.empty();
}

void *Runner::resultData(size_t index) const {
  const Result &result = function.results[index];
  return static_cast<unsigned char *>(addressOf(result.ref)) +
         result.offset * dtypeBytes(result.dtype);
}

std::optional<uint64_t> Runner::poolHighBytes() {
  return dynamicMemory ? memory->poolHighBytes() : std::nullopt;
}

bool Runner::readLedger(std::vector<LedgerEntry> &out, std::string &error) {
  out.clear();
  if (!options.ledger || !ran)
    return true;
  const Event *previous = events[0].get();
  for (size_t i = 0; i < function.commands.size(); ++i) {
    LedgerEntry entry{0, liveBytes[i], std::nullopt};
    if (isTimed(i)) {
      if (!events[i + 1]->elapsed(*previous, entry.milliseconds, error))
        return false;
      previous = events[i + 1].get();
    }
    if (collectives[i]) {
      entry.transferMilliseconds = collectives[i]->elapsed(error);
      if (!error.empty())
        return false;
    }
    out.push_back(entry);
  }
  return true;
}
