//===- Steps.cpp - Runs the steps of a program ----------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses the runtime through its C interface only.
//
//===----------------------------------------------------------------------===//

#include "Steps.h"

#include "Plan.h"

#include "fp8rt/Inputs.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

using namespace fp8run;
using namespace fp8rt;

namespace {

struct FreeDeleter {
  void operator()(void *pointer) const { std::free(pointer); }
};
using Memory = std::unique_ptr<void, FreeDeleter>;

Memory allocateAligned(size_t bytes) {
  return Memory(std::aligned_alloc(256, (bytes / 256 + 1) * 256));
}

/// Bytes that can be allocated without swapping, or nothing where the system
/// does not say.
std::optional<uint64_t> availableBytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:"))
      return std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
  return std::nullopt;
}

struct RunnerDeleter {
  void operator()(fp8rt_runner *runner) const { fp8rt_destroy_runner(runner); }
};
using RunnerPtr = std::unique_ptr<fp8rt_runner, RunnerDeleter>;

/// Moves the message of `source` to `error`.
bool takeError(fp8rt_error *source, std::string &error) {
  error = fp8rt_error_message(source);
  fp8rt_free_error(source);
  return false;
}

/// One function and the memory of its arguments and caller-placed results.
struct BoundFunction {
  size_t index = 0;
  fp8rt_function_info info{};
  /// The plan's figure; the command list's where the artifact has no plan.
  uint64_t plannedPeak = 0;
  std::vector<fp8rt_argument_info> arguments;
  std::vector<fp8rt_result_info> results;
  std::vector<void *> argumentData;
  std::vector<void *> resultData;
};

struct State {
  fp8rt_argument_info info{};
  Memory memory;
};

class Driver {
public:
  Driver(fp8rt_program *program, const Options &options, StepResults &results)
      : program(program), options(options), out(results) {}

  bool run(std::string &error) {
    if (!choose(error))
      return false;
    if (!checkMemory(error))
      return false;
    bool planned = !options.dynamic;
    // Planned memory is measured by watching the first step; a check watches
    // every step. Dynamic memory is always measured: only a check needs an
    // extra pass.
    uint64_t watchedSteps = options.check ? options.steps : planned ? 1 : 0;
    std::vector<Output> watched;
    if (watchedSteps && !pass(true, watchedSteps, watchedSteps, watched, error))
      return false;
    std::vector<Output> timed;
    if (!pass(false, options.steps, watchedSteps, timed, error))
      return false;
    for (size_t i = 0; i < watched.size(); ++i)
      if (watched[i].bytes != timed[i].bytes)
        out.faults.push_back("output '" + watched[i].name +
                             "' differs between the watched and the timed run "
                             "of the same inputs: a kernel reads storage "
                             "without contents");
    return true;
  }

private:
  bool choose(std::string &error) {
    size_t count = fp8rt_function_count(program);
    int64_t end = fp8rt_find_function(program, "end_of_step");
    int64_t step = -1;
    if (!options.function.empty()) {
      step = fp8rt_find_function(program, options.function.c_str());
      if (step < 0) {
        error = "--function: the artifact has no function '" +
                options.function + "'";
        return false;
      }
    }
    for (size_t i = 0; i < count && step < 0; ++i)
      if (count == 1 || static_cast<int64_t>(i) != end)
        step = static_cast<int64_t>(i);
    if (!bind(static_cast<size_t>(step), error))
      return false;
    if (end >= 0 && end != step && !bind(static_cast<size_t>(end), error))
      return false;
    out.function = functions[0].info.name;
    out.savedBytes = functions[0].info.saved_bytes;
    size_t planSize = 0;
    const void *plan = fp8rt_get_section(program, "plan", &planSize);
    for (BoundFunction &function : functions) {
      uint64_t listed = function.info.peak_bytes;
      function.plannedPeak =
          plannedPeakBytes({static_cast<const char *>(plan), planSize},
                           function.info.name)
              .value_or(listed);
      if (function.plannedPeak != listed)
        out.faults.push_back(
            "the plan of '" + std::string(function.info.name) +
            "' says a peak of " + std::to_string(function.plannedPeak) +
            " bytes, but its command list " + std::to_string(listed));
      out.plannedPeakBytes =
          std::max(out.plannedPeakBytes, function.plannedPeak);
      out.arenaBytes = std::max(out.arenaBytes, function.info.arena_bytes);
    }
    return true;
  }

  /// Refuses a run that the machine cannot hold before the system ends it.
  bool checkMemory(std::string &error) {
    // A watched run has a second copy of the arena and of the arguments.
    uint64_t needed = 2 * out.arenaBytes;
    for (const BoundFunction &function : functions)
      for (const fp8rt_argument_info &info : function.arguments)
        needed += info.bytes;
    std::optional<uint64_t> available = availableBytes();
    if (!available || needed <= *available)
      return true;
    error = "the run needs about " + std::to_string(needed) +
            " bytes of memory, but " + std::to_string(*available) +
            " are available";
    return false;
  }

  bool keep(Memory memory, void *&address, std::string &error) {
    if (!memory) {
      error = "out of memory for the arguments of the step";
      return false;
    }
    address = memory.get();
    memories.push_back(std::move(memory));
    return true;
  }

  bool bind(size_t index, std::string &error) {
    BoundFunction &function = functions.emplace_back();
    function.index = index;
    fp8rt_get_function(program, index, &function.info);
    function.arguments.resize(function.info.argument_count);
    function.argumentData.resize(function.info.argument_count);
    for (size_t i = 0; i < function.arguments.size(); ++i) {
      fp8rt_argument_info &info = function.arguments[i];
      fp8rt_get_argument(program, index, i, &info);
      if (info.role == FP8RT_STATE) {
        if (!bindState(info, function.argumentData[i], error))
          return false;
        continue;
      }
      if (!keep(allocateAligned(info.bytes), function.argumentData[i], error))
        return false;
      if (info.role == FP8RT_PARAMETER)
        fill(info, function.argumentData[i], 0, 0);
    }
    function.results.resize(function.info.result_count);
    function.resultData.resize(function.info.result_count);
    for (size_t i = 0; i < function.results.size(); ++i) {
      fp8rt_get_result(program, index, i, &function.results[i]);
      uint64_t bytes = function.results[i].caller_bytes;
      if (bytes && !keep(allocateAligned(bytes), function.resultData[i], error))
        return false;
    }
    return true;
  }

  /// State of one name is one buffer, whichever functions use it.
  bool bindState(const fp8rt_argument_info &info, void *&address,
                 std::string &error) {
    for (State &state : states) {
      if (std::strcmp(state.info.name, info.name) != 0)
        continue;
      if (state.info.dtype != info.dtype || state.info.rank != info.rank ||
          !std::equal(info.shape, info.shape + info.rank, state.info.shape)) {
        error = "state '" + std::string(info.name) +
                "' has different types in the functions that use it";
        return false;
      }
      address = state.memory.get();
      return true;
    }
    State &state = states.emplace_back();
    state.info = info;
    state.memory = allocateAligned(info.bytes);
    address = state.memory.get();
    if (!address)
      error = "out of memory for the state of the step";
    return address != nullptr;
  }

  void fill(const fp8rt_argument_info &info, void *data, uint64_t step,
            uint64_t microbatch) {
    auto dtype = static_cast<DType>(info.dtype);
    fillInput(data, dtype, info.bytes / dtypeBytes(dtype),
              static_cast<Init>(info.init), static_cast<float>(info.init_scale),
              info.name, static_cast<Role>(info.role), options.seed, step,
              microbatch);
  }

  /// Copies a strided result into dense row-major bytes.
  static std::string gather(const fp8rt_result_info &info, const void *data) {
    size_t size = dtypeBytes(static_cast<DType>(info.dtype));
    size_t count = 1;
    for (size_t d = 0; d < info.rank; ++d)
      count *= static_cast<size_t>(info.shape[d]);
    std::string bytes(count * size, '\0');
    std::vector<int64_t> index(info.rank);
    int64_t position = 0;
    for (size_t e = 0; e < count; ++e) {
      std::memcpy(bytes.data() + e * size,
                  static_cast<const char *>(data) + position * size, size);
      for (size_t d = info.rank; d-- > 0;) {
        position += info.strides[d];
        if (++index[d] < info.shape[d])
          break;
        position -= info.strides[d] * info.shape[d];
        index[d] = 0;
      }
    }
    return bytes;
  }

  std::vector<Output> collectResults(const BoundFunction &function,
                                     const fp8rt_runner *runner) {
    std::vector<Output> outputs;
    for (size_t i = 0; i < function.results.size(); ++i) {
      const fp8rt_result_info &info = function.results[i];
      outputs.push_back({info.name,
                         static_cast<DType>(info.dtype),
                         {info.shape, info.shape + info.rank},
                         gather(info, fp8rt_runner_result_data(runner, i))});
    }
    return outputs;
  }

  void appendState(std::vector<Output> &outputs) {
    for (const State &state : states)
      outputs.push_back(
          {"state:" + std::string(state.info.name),
           static_cast<DType>(state.info.dtype),
           {state.info.shape, state.info.shape + state.info.rank},
           std::string(static_cast<const char *>(state.memory.get()),
                       state.info.bytes)});
  }

  bool runOnce(const BoundFunction &function, fp8rt_runner *runner,
               uint64_t step, uint64_t microbatch, double &milliseconds,
               std::string &error) {
    for (size_t i = 0; i < function.arguments.size(); ++i) {
      fp8rt_role role = function.arguments[i].role;
      if (role != FP8RT_PARAMETER && role != FP8RT_STATE)
        fill(function.arguments[i], function.argumentData[i], step, microbatch);
    }
    using Clock = std::chrono::steady_clock;
    Clock::time_point start = Clock::now();
    fp8rt_error *failure = nullptr;
    if (fp8rt_run(runner, function.argumentData.data(),
                  function.resultData.data(), arena.get(), arenaSize, nullptr,
                  &failure))
      return takeError(failure, error);
    milliseconds +=
        std::chrono::duration<double, std::milli>(Clock::now() - start).count();

    int64_t measured = fp8rt_runner_measured_peak_bytes(runner);
    if (measured < 0)
      return true;
    auto bytes = static_cast<uint64_t>(measured);
    out.measuredPeakBytes = std::max(out.measuredPeakBytes, bytes);
    if (bytes != function.plannedPeak && !peakReported) {
      peakReported = true;
      out.faults.push_back(
          "the measured peak of '" + std::string(function.info.name) + "' is " +
          std::to_string(bytes) + " bytes, but the plan says " +
          std::to_string(function.plannedPeak));
    }
    return true;
  }

  /// Runs steps 0 to `steps` - 1 from fresh state. `compared` receives the
  /// outputs after `comparedSteps` steps.
  bool pass(bool watch, uint64_t steps, uint64_t comparedSteps,
            std::vector<Output> &compared, std::string &error) {
    bool ledger = !options.ledger.empty() || options.printTime;
    std::vector<RunnerPtr> runners;
    arenaSize = 0;
    for (const BoundFunction &function : functions) {
      fp8rt_runner_options request{};
      request.struct_size = sizeof(request);
      request.memory = options.dynamic ? FP8RT_DYNAMIC : FP8RT_PLANNED;
      request.watch = watch;
      request.poison = watch && options.check;
      request.ledger = ledger;
      fp8rt_runner *runner = nullptr;
      fp8rt_error *failure = nullptr;
      if (fp8rt_create_runner(program, function.index, &request, &runner,
                              &failure))
        return takeError(failure, error);
      runners.emplace_back(runner);
      arenaSize = std::max(arenaSize, fp8rt_runner_arena_bytes(runner));
    }
    arena = allocateAligned(arenaSize);
    if (!arena) {
      error = "out of memory for an arena of " + std::to_string(arenaSize) +
              " bytes";
      return false;
    }
    // Touched before anything is timed, and unlike a watched run's pattern.
    std::memset(arena.get(), 0, arenaSize);
    for (const State &state : states)
      fill(state.info, state.memory.get(), 0, 0);

    std::vector<Output> last;
    for (uint64_t step = 0; step < steps; ++step) {
      double milliseconds = 0;
      for (uint64_t m = 0; m < options.microbatches; ++m)
        if (!runOnce(functions[0], runners[0].get(), step, m, milliseconds,
                     error))
          return false;
      bool isCompared = step + 1 == comparedSteps;
      bool isLast = step + 1 == steps;
      if (isCompared || isLast)
        last = collectResults(functions[0], runners[0].get());
      if (functions.size() > 1 && !runOnce(functions[1], runners[1].get(), step,
                                           0, milliseconds, error))
        return false;
      if (isCompared || isLast)
        appendState(last);
      if (isCompared)
        compared = last;
      if (!watch)
        out.stepMilliseconds.push_back(milliseconds);
    }
    if (!watch)
      out.outputs = std::move(last);
    if (ledger)
      mergeLedger(watch, runners);
    return true;
  }

  /// Times come from the timed pass; live bytes from the watched one, where
  /// there is one.
  void mergeLedger(bool watch, const std::vector<RunnerPtr> &runners) {
    size_t line = 0;
    bool first = out.ledger.empty();
    for (size_t f = 0; f < functions.size(); ++f) {
      fp8rt_ledger_entry entry;
      for (size_t c = 0; !fp8rt_runner_get_ledger(runners[f].get(), c, &entry);
           ++c, ++line) {
        if (first)
          out.ledger.push_back({functions[f].info.name, entry.op, entry.name,
                                entry.loc, 0, entry.live_bytes});
        if (!watch)
          out.ledger[line].milliseconds = entry.milliseconds;
      }
    }
  }

  fp8rt_program *program;
  const Options &options;
  StepResults &out;
  /// The step, then end_of_step where there is one.
  std::vector<BoundFunction> functions;
  std::vector<State> states;
  std::vector<Memory> memories;
  Memory arena;
  size_t arenaSize = 0;
  bool peakReported = false;
};

} // namespace

bool fp8run::runSteps(fp8rt_program *program, const Options &options,
                      StepResults &results, std::string &error) {
  return Driver(program, options, results).run(error);
}
