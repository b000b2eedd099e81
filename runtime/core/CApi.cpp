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

#include "Runner.h"

#include <new>

using namespace fp8rt;

struct fp8rt_error {
  std::string message;
};
struct fp8rt_program {
  std::unique_ptr<Program> program;
};
struct fp8rt_runner {
  std::unique_ptr<Runner> runner;
  const Function *function;
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
  *info = {function->name.c_str(),   function->arguments.size(),
           function->results.size(), function->commands.size(),
           function->peakBytes,      function->arenaBytes,
           function->savedBytes};
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
    auto created =
        Runner::create(*program->program, index,
                       {options->memory == FP8RT_DYNAMIC, options->watch != 0,
                        options->poison != 0, options->ledger != 0},
                       message);
    if (!created)
      return fail(error, message);
    *runner = new fp8rt_runner{std::move(created), function};
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

int fp8rt_runner_get_ledger(const fp8rt_runner *runner, size_t command,
                            fp8rt_ledger_entry *entry) {
  const std::vector<LedgerEntry> &ledger = runner->runner->ledger();
  if (command >= ledger.size())
    return 1;
  const Command &source = runner->function->commands[command];
  *entry = {commandOpName(source.op), source.name.c_str(), source.loc.c_str(),
            ledger[command].milliseconds, ledger[command].liveBytes};
  return 0;
}

const char *fp8rt_error_message(const fp8rt_error *error) {
  return error->message.c_str();
}

void fp8rt_free_error(fp8rt_error *error) { delete error; }
