//===- CApi.cpp - The C interface over the C++ runtime --------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts arguments and errors; no logic of its own.
//
//===----------------------------------------------------------------------===//

#include "fp8rt.h"

#include "OpenRanks.h"
#include "Runner.h"

#include <cstring>
#include <new>

using namespace fp8rt;

struct fp8rt_error {
  std::string message;
};
struct fp8rt_program {
  std::unique_ptr<Program> program;
  std::string transport = {};
};
struct fp8rt_runner {
  std::unique_ptr<Runner> runner;
  const Function *function;
  /// The last run's, read when it is first asked for.
  std::optional<std::vector<LedgerEntry>> ledger;
};
struct fp8rt_ranks {
  std::unique_ptr<Communicator> communicator;
};
struct fp8rt_event {
  std::unique_ptr<Event> event;
};

namespace {

int fail(fp8rt_error **error, std::string message) {
  if (error)
    *error = new fp8rt_error{std::move(message)};
  return 1;
}

/// Runs `body` (which returns a status) and turns lack of memory into an error:
/// no exception leaves the C interface.
template <typename Body>
int guarded(fp8rt_error **error, Body body) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fail(error, "out of memory");
  }
}

/// The same for a body that sets a message and returns false on failure.
template <typename Body>
int status(fp8rt_error **error, Body body) {
  return guarded(error, [&] {
    std::string message;
    return body(message) ? 0 : fail(error, message);
  });
}

const Function *functionAt(const fp8rt_program *program, size_t index) {
  const std::vector<Function> &functions = program->program->manifest.functions;
  return index < functions.size() ? &functions[index] : nullptr;
}

} // namespace

int fp8rt_abi_version(void) { return FP8RT_ABI_VERSION; }

int fp8rt_load_file(const char *path, const char *backend,
                    fp8rt_program **program, fp8rt_error **error) {
  return guarded(error, [&] {
    std::string message;
    std::optional<std::string> bytes = readWholeFile(path, message);
    if (!bytes)
      return fail(error, message);
    auto loaded = loadProgram(std::move(*bytes), backend, message);
    if (!loaded)
      return fail(error, std::string("'") + path + "': " + message);
    *program = new fp8rt_program{std::move(loaded)};
    return 0;
  });
}

int fp8rt_load_memory(const void *data, size_t size, const char *backend,
                      fp8rt_program **program, fp8rt_error **error) {
  return guarded(error, [&] {
    std::string message;
    auto loaded = loadProgram(
        std::string(static_cast<const char *>(data), size), backend, message);
    if (!loaded)
      return fail(error, message);
    *program = new fp8rt_program{std::move(loaded)};
    return 0;
  });
}

void fp8rt_unload(fp8rt_program *program) { delete program; }

size_t fp8rt_function_count(const fp8rt_program *program) {
  return program->program->manifest.functions.size();
}

int64_t fp8rt_find_function(const fp8rt_program *program, const char *name) {
  for (size_t i = 0; i < fp8rt_function_count(program); ++i)
    if (functionAt(program, i)->name == name)
      return static_cast<int64_t>(i);
  return -1;
}

int fp8rt_get_function(const fp8rt_program *program, size_t index,
                       fp8rt_function_info *info) {
  const Function *function = functionAt(program, index);
  if (!function)
    return 1;
  size_t gemms = 0;
  for (const Command &command : function->commands)
    gemms += command.op == CommandOp::Gemm;
  *info = {function->name.c_str(),
           function->arguments.size(),
           function->results.size(),
           function->commands.size(),
           gemms,
           function->peakBytes,
           function->arenaBytes,
           function->savedBytes,
           function->hostBytes};
  return 0;
}

int fp8rt_get_argument(const fp8rt_program *program, size_t index,
                       size_t position, fp8rt_argument_info *info) {
  const Function *function = functionAt(program, index);
  if (!function || position >= function->arguments.size())
    return 1;
  const Argument &argument = function->arguments[position];
  *info = {argument.name.c_str(),
           static_cast<fp8rt_dtype>(argument.dtype),
           argument.shape.size(),
           argument.shape.data(),
           argument.bytes,
           static_cast<fp8rt_role>(argument.role),
           static_cast<fp8rt_init>(argument.init),
           argument.initScale};
  return 0;
}

int fp8rt_get_result(const fp8rt_program *program, size_t index,
                     size_t position, fp8rt_result_info *info) {
  const Function *function = functionAt(program, index);
  if (!function || position >= function->results.size())
    return 1;
  const Result &result = function->results[position];
  *info = {result.name.c_str(),
           static_cast<fp8rt_dtype>(result.dtype),
           result.shape.size(),
           result.shape.data(),
           result.strides.data(),
           result.placedByCaller ? function->buffers[result.ref.index].bytes
                                 : 0};
  return 0;
}

const char *fp8rt_get_counter(const fp8rt_program *program, size_t index,
                              size_t position) {
  const Function *function = functionAt(program, index);
  if (!function || position >= function->results.size() ||
      function->results[position].counter.empty())
    return nullptr;
  return function->results[position].counter.c_str();
}

const void *fp8rt_get_section(const fp8rt_program *program, const char *name,
                              size_t *size) {
  std::optional<std::string_view> section =
      program->program->container.section(name);
  *size = section ? section->size() : 0;
  return section ? section->data() : nullptr;
}

int fp8rt_create_runner(fp8rt_program *program, size_t index,
                        const fp8rt_runner_options *options,
                        fp8rt_runner **runner, fp8rt_error **error) {
  return guarded(error, [&] {
    const Function *function = functionAt(program, index);
    if (!function)
      return fail(error, "expected a function below " +
                             std::to_string(fp8rt_function_count(program)) +
                             ", but got " + std::to_string(index));
    if (options->struct_size != sizeof(fp8rt_runner_options))
      return fail(error, "expected runner options of " +
                             std::to_string(sizeof(fp8rt_runner_options)) +
                             " bytes, but got " +
                             std::to_string(options->struct_size) +
                             "; the caller was built for another version");
    std::string message;
    auto created = Runner::create(
        *program->program, index,
        {options->memory == FP8RT_DYNAMIC, options->watch != 0,
         options->poison != 0, options->ledger != 0, options->graph != 0,
         options->gemms_only != 0, std::max(options->streams, 1u)},
        message);
    if (!created)
      return fail(error, message);
    *runner = new fp8rt_runner{std::move(created), function, std::nullopt};
    return 0;
  });
}

void fp8rt_destroy_runner(fp8rt_runner *runner) { delete runner; }

size_t fp8rt_runner_arena_bytes(const fp8rt_runner *runner) {
  return runner->runner->arenaBytes();
}

int fp8rt_run(fp8rt_runner *runner, void *const *arguments,
              void *const *results, void *arena, size_t arena_size,
              void *stream, fp8rt_error **error) {
  return guarded(error, [&] {
    std::string message;
    runner->ledger.reset();
    if (!runner->runner->run(arguments, results, arena, arena_size, stream,
                             message))
      return fail(error, message);
    return 0;
  });
}

void *fp8rt_runner_result_data(const fp8rt_runner *runner, size_t result) {
  return runner->runner->resultData(result);
}

int64_t fp8rt_runner_measured_peak_bytes(const fp8rt_runner *runner) {
  std::optional<uint64_t> peak = runner->runner->measuredPeakBytes();
  return peak ? static_cast<int64_t>(*peak) : -1;
}

int64_t fp8rt_runner_pool_high_bytes(fp8rt_runner *runner) {
  std::optional<uint64_t> bytes = runner->runner->poolHighBytes();
  return bytes ? static_cast<int64_t>(*bytes) : -1;
}

int fp8rt_runner_get_ledger(fp8rt_runner *runner, size_t command,
                            fp8rt_ledger_entry *entry) {
  return guarded(nullptr, [&] {
    std::string message;
    if (!runner->ledger &&
        !runner->runner->readLedger(runner->ledger.emplace(), message)) {
      runner->ledger.reset();
      return 1;
    }
    if (command >= runner->ledger->size())
      return 1;
    const Command &source = runner->function->commands[command];
    const LedgerEntry &line = (*runner->ledger)[command];
    CommandWork work = workOf(source);
    *entry = {commandOpName(source.op),
              source.name.c_str(),
              source.loc.c_str(),
              line.milliseconds,
              line.liveBytes,
              work.bytes,
              work.flops};
    return 0;
  });
}

int fp8rt_runner_get_transfer(fp8rt_runner *runner, size_t command,
                              double *milliseconds) {
  fp8rt_ledger_entry entry;
  if (fp8rt_runner_get_ledger(runner, command, &entry) ||
      !(*runner->ledger)[command].transferMilliseconds)
    return 1;
  *milliseconds = *(*runner->ledger)[command].transferMilliseconds;
  return 0;
}

int fp8rt_allocate(fp8rt_program *program, size_t bytes, void **pointer,
                   fp8rt_error **error) {
  return guarded(error, [&] {
    std::string message;
    *pointer = program->program->backend->allocate(bytes, message);
    return *pointer ? 0 : fail(error, message);
  });
}

void fp8rt_release(fp8rt_program *program, void *pointer) {
  if (pointer)
    program->program->backend->release(pointer);
}

int fp8rt_upload(fp8rt_program *program, void *to, const void *from,
                 size_t bytes, fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    return program->program->backend->upload(to, from, bytes, message);
  });
}

int fp8rt_download(fp8rt_program *program, void *to, const void *from,
                   size_t bytes, fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    return program->program->backend->download(to, from, bytes, message);
  });
}

int fp8rt_copy(fp8rt_program *program, void *to, const void *from, size_t bytes,
               void *stream, fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    return program->program->backend->copy(to, from, bytes, stream, message);
  });
}

int fp8rt_set(fp8rt_program *program, void *data, unsigned char value,
              size_t bytes, void *stream, fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    return program->program->backend->set(data, value, bytes, stream, message);
  });
}

int fp8rt_fill_argument(fp8rt_program *program, size_t index, size_t position,
                        uint64_t seed, uint64_t step, uint64_t microbatch,
                        void *data, void *stream, fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    const Function *function = functionAt(program, index);
    if (!function || position >= function->arguments.size()) {
      message = "there is no such argument";
      return false;
    }
    const Argument &argument = function->arguments[position];
    uint64_t key =
        inputKey(argument.name, argument.role, seed, step, microbatch);
    Communicator *ranks = program->program->ranks;
    InputFill fill = fillOf(argument, program->program->manifest.grid,
                            ranks ? ranks->rank() : 0, key);
    return program->program->backend->fillInput(data, fill, stream, message);
  });
}

int fp8rt_memory_info(fp8rt_program *program, uint64_t *free_bytes,
                      uint64_t *total_bytes) {
  return guarded(nullptr, [&] {
    std::optional<Backend::MemoryInfo> info =
        program->program->backend->memoryInfo();
    if (!info)
      return 1;
    *free_bytes = info->free;
    *total_bytes = info->total;
    return 0;
  });
}

int fp8rt_create_stream(fp8rt_program *program, void **stream,
                        fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    return program->program->backend->createStream(*stream, message);
  });
}

void fp8rt_destroy_stream(fp8rt_program *program, void *stream) {
  program->program->backend->destroyStream(stream);
}

int fp8rt_synchronize(fp8rt_program *program, void *stream,
                      fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    return program->program->backend->synchronize(stream, message);
  });
}

int fp8rt_create_event(fp8rt_program *program, fp8rt_event **event,
                       fp8rt_error **error) {
  return guarded(error, [&] {
    std::string message;
    std::unique_ptr<Event> created =
        program->program->backend->createEvent(message);
    if (!created)
      return fail(error, message);
    *event = new fp8rt_event{std::move(created)};
    return 0;
  });
}

void fp8rt_destroy_event(fp8rt_event *event) { delete event; }

int fp8rt_record_event(fp8rt_event *event, void *stream, fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    return event->event->record(stream, message);
  });
}

int fp8rt_elapsed(const fp8rt_event *start, const fp8rt_event *end,
                  double *milliseconds, fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    return end->event->elapsed(*start->event, *milliseconds, message);
  });
}

int fp8rt_open_ranks(uint64_t timeout_ms, fp8rt_ranks **ranks,
                     fp8rt_error **error) {
  *ranks = nullptr;
  return status(error, [&](std::string &message) {
    std::unique_ptr<Communicator> opened;
    if (!openRanks(timeout_ms, opened, message))
      return false;
    if (opened)
      *ranks = new fp8rt_ranks{std::move(opened)};
    return true;
  });
}

int fp8rt_rank(const fp8rt_ranks *ranks) { return ranks->communicator->rank(); }

int fp8rt_rank_count(const fp8rt_ranks *ranks) {
  return ranks->communicator->size();
}

int fp8rt_broadcast(fp8rt_ranks *ranks, void *data, size_t size,
                    fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    std::string bytes;
    if (fp8rt_rank(ranks) == 0)
      bytes.assign(static_cast<const char *>(data), size);
    if (!ranks->communicator->broadcast(bytes, message))
      return false;
    std::memcpy(data, bytes.data(), std::min(size, bytes.size()));
    return true;
  });
}

static bool copyAll(const std::vector<std::string> &entries, size_t size,
                    void *all) {
  for (size_t rank = 0; rank < entries.size(); ++rank)
    std::memcpy(static_cast<char *>(all) + rank * size, entries[rank].data(),
                std::min(size, entries[rank].size()));
  return true;
}

int fp8rt_all_gather(fp8rt_ranks *ranks, const void *data, size_t size,
                     void *all, fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    std::vector<std::string> entries;
    return ranks->communicator->allGather(
               {static_cast<const char *>(data), size}, entries, message) &&
           copyAll(entries, size, all);
  });
}

int fp8rt_gather(fp8rt_ranks *ranks, const void *data, size_t size, void *all,
                 fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    std::vector<std::string> entries;
    return ranks->communicator->gather({static_cast<const char *>(data), size},
                                       entries, message) &&
           copyAll(entries, size, all);
  });
}

void fp8rt_delay_collective(fp8rt_ranks *ranks, int64_t number,
                            uint64_t milliseconds) {
  ranks->communicator->delay(number, Communicator::Milliseconds(milliseconds));
}

int fp8rt_close_ranks(fp8rt_ranks *ranks, fp8rt_error **error) {
  int code = status(error, [&](std::string &message) {
    return ranks->communicator->close(message);
  });
  delete ranks;
  return code;
}

void fp8rt_abandon_ranks(fp8rt_ranks *ranks, const char *reason) {
  guarded(nullptr, [&] {
    ranks->communicator->fail(reason);
    return 0;
  });
  delete ranks;
}

int64_t fp8rt_get_rank_count(const fp8rt_program *program) {
  return program->program->manifest.rankCount();
}

int fp8rt_set_ranks(fp8rt_program *program, fp8rt_ranks *ranks,
                    fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    int count = ranks ? fp8rt_rank_count(ranks) : 1;
    if (!checkRankCount(program->program->manifest, count, message))
      return false;
    program->program->ranks = ranks ? ranks->communicator.get() : nullptr;
    if (!program->program->backend->setRanks(
            program->program->ranks, program->program->manifest, message))
      return false;
    program->transport = program->program->backend->transport();
    return true;
  });
}

const char *fp8rt_get_transport(const fp8rt_program *program) {
  return program->transport.c_str();
}

int fp8rt_align_ranks(fp8rt_program *program, void *stream,
                      fp8rt_error **error) {
  return status(error, [&](std::string &message) {
    return program->program->backend->alignRanks(stream, message);
  });
}

const char *fp8rt_error_message(const fp8rt_error *error) {
  return error->message.c_str();
}

void fp8rt_free_error(fp8rt_error *error) { delete error; }
