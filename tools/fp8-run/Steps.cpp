//===- Steps.cpp - Runs the steps of a program ----------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses the runtime through its C interface only. On a GPU everything is
// enqueued on one stream and waited for at the end of a step.
//
//===----------------------------------------------------------------------===//

#include "Steps.h"

#include "Device.h"
#include "Plan.h"

#include <algorithm>
#include <cstring>
#include <list>

using namespace fp8run;
using namespace fp8rt;

namespace {

struct RunnerDeleter {
  void operator()(fp8rt_runner *runner) const { fp8rt_destroy_runner(runner); }
};
using RunnerPtr = std::unique_ptr<fp8rt_runner, RunnerDeleter>;

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
  /// Per argument: it is a result of another function.
  std::vector<bool> isLinked;
};

/// A state argument; `function` and `argument` are one place that has it.
struct State {
  fp8rt_argument_info info{};
  size_t function = 0;
  size_t argument = 0;
  DeviceMemory memory;
};

/// What a pass over the steps is for.
enum class PassKind { Watched, Timed, Ledger, GemmsAlone };

/// What each run of a command took, and its transfer.
using CommandTimes = std::pair<std::vector<double>, std::vector<double>>;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Driver {
public:
  Driver(fp8rt_program *program, const Options &options, StepResults &results)
      : program(program), options(options), out(results), device(program) {}

  bool run(std::string &error) {
    if (!choose(error) || !checkMemory(error) || !device.open(error) ||
        !bind(error))
      return false;
    bool planned = !options.dynamic;
    // Planned memory is measured by watching the first step; a check watches
    // every step. Dynamic memory is always measured: only a check needs an
    // extra pass.
    uint64_t watchedSteps = options.check ? options.steps : planned ? 1 : 0;
    std::vector<Output> watched;
    if (watchedSteps &&
        !pass(PassKind::Watched, watchedSteps, watchedSteps, watched, error))
      return false;
    std::vector<Output> timed;
    if (!pass(PassKind::Timed, options.steps, watchedSteps, timed, error))
      return false;
    for (size_t i = 0; i < watched.size(); ++i)
      if (watched[i].bytes != timed[i].bytes)
        out.faults.push_back("output '" + watched[i].name +
                             "' differs between the watched and the timed run "
                             "of the same inputs: a kernel reads storage "
                             "without contents");
    std::vector<Output> none;
    if (wantsLedger() && options.isCuda() &&
        !pass(PassKind::Ledger, options.steps, 0, none, error))
      return false;
    return !options.bench ||
           (pass(PassKind::GemmsAlone, options.steps, 0, none, error) &&
            measureCopy(error));
  }

private:
  bool choose(std::string &error) {
    size_t count = fp8rt_function_count(program);
    int64_t start = fp8rt_find_function(program, "start_of_step");
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
      if (count == 1 ||
          (static_cast<int64_t>(i) != start && static_cast<int64_t>(i) != end))
        step = static_cast<int64_t>(i);
    if (step < 0)
      step = 0;
    first = describe(step);
    out.function = functions[first].info.name;
    out.savedBytes = functions[first].info.saved_bytes;
    out.hostBytes = functions[first].info.host_bytes;
    int64_t next =
        fp8rt_find_function(program, (out.function + ".accumulate").c_str());
    later = next >= 0 && options.microbatches > 1 ? describe(next) : first;
    if (start >= 0 && start != step)
      startOfStep = describe(start);
    if (end >= 0 && end != step)
      endOfStep = describe(end);
    size_t planSize = 0;
    const void *plan = fp8rt_get_section(program, "plan", &planSize);
    bool hasMatmuls = false;
    for (BoundFunction &function : functions) {
      hasMatmuls |= function.info.gemm_count > 0;
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
      FunctionPeak &peak = out.functionPeaks.emplace_back();
      peak.name = function.info.name;
      peak.planned = function.plannedPeak;
      for (const fp8rt_result_info &result : function.results)
        peak.callerPlaced += result.caller_bytes;
      out.arenaBytes = std::max(out.arenaBytes, function.info.arena_bytes);
    }
    out.tolerance = options.tolerance.value_or(hasMatmuls ? kGpuTolerance : 0);
    return true;
  }

  /// Reads function `number` of the program; returns its place in `functions`.
  size_t describe(int64_t number) {
    BoundFunction &function = functions.emplace_back();
    auto index = static_cast<size_t>(number);
    function.index = index;
    fp8rt_get_function(program, index, &function.info);
    function.arguments.resize(function.info.argument_count);
    for (size_t i = 0; i < function.arguments.size(); ++i)
      fp8rt_get_argument(program, index, i, &function.arguments[i]);
    function.results.resize(function.info.result_count);
    for (size_t i = 0; i < function.results.size(); ++i)
      fp8rt_get_result(program, index, i, &function.results[i]);
    return functions.size() - 1;
  }

  bool wantsLedger() const {
    return !options.ledger.empty() || options.printTime;
  }

  /// Refuses a run that the device cannot hold before it is begun.
  bool checkMemory(std::string &error) {
    // A watched run has a second copy of the arena and of the arguments.
    uint64_t needed = 2 * out.arenaBytes;
    for (const BoundFunction &function : functions)
      for (const fp8rt_argument_info &info : function.arguments)
        needed += info.bytes;
    uint64_t available = 0, total = 0;
    if (!device.memoryInfo(available, total) || needed <= available)
      return true;
    error = "the run needs about " + std::to_string(needed) +
            " bytes of memory, but " + std::to_string(available) +
            " are available";
    return false;
  }

  bool allocate(uint64_t bytes, void *&address, std::string &error) {
    DeviceMemory memory = device.allocate(bytes, error);
    if (!memory)
      return false;
    address = memory.get();
    ownBytes += bytes;
    memories.push_back(std::move(memory));
    return true;
  }

  bool bind(std::string &error) {
    for (BoundFunction &function : functions) {
      function.resultData.resize(function.results.size());
      for (size_t i = 0; i < function.results.size(); ++i) {
        uint64_t bytes = function.results[i].caller_bytes;
        if (bytes && !allocate(bytes, function.resultData[i], error))
          return false;
      }
    }
    for (BoundFunction &function : functions) {
      function.argumentData.resize(function.arguments.size());
      function.isLinked.resize(function.arguments.size());
      for (size_t i = 0; i < function.arguments.size(); ++i) {
        const fp8rt_argument_info &info = function.arguments[i];
        void *&address = function.argumentData[i];
        if (info.role == FP8RT_STATE) {
          if (!bindState(function.index, i, info, address, error))
            return false;
          continue;
        }
        address = findResult(function, info);
        function.isLinked[i] = address;
        if (address)
          continue;
        if (!allocate(info.bytes, address, error))
          return false;
        if (info.role == FP8RT_PARAMETER &&
            !device.fill(function.index, i, options.seed, 0, 0, address, error))
          return false;
      }
    }
    return true;
  }

  /// The memory of the result that another function hands to this argument of
  /// `reader`: a caller-placed one of its name and type. Null without one.
  void *findResult(const BoundFunction &reader,
                   const fp8rt_argument_info &info) {
    if (info.role != FP8RT_PARAMETER && info.role != FP8RT_DONATED)
      return nullptr;
    for (const BoundFunction &function : functions)
      for (size_t i = 0; &function != &reader && i < function.results.size();
           ++i) {
        const fp8rt_result_info &result = function.results[i];
        if (function.resultData[i] && !std::strcmp(result.name, info.name) &&
            result.dtype == info.dtype && result.rank == info.rank &&
            result.caller_bytes == info.bytes &&
            std::equal(info.shape, info.shape + info.rank, result.shape))
          return function.resultData[i];
      }
    return nullptr;
  }

  /// State of one name is one buffer, whichever functions use it.
  bool bindState(size_t function, size_t argument,
                 const fp8rt_argument_info &info, void *&address,
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
    state.function = function;
    state.argument = argument;
    state.memory = device.allocate(info.bytes, error);
    ownBytes += info.bytes;
    address = state.memory.get();
    return address != nullptr;
  }

  bool fillStates(std::string &error) {
    for (const State &state : states)
      if (!device.fill(state.function, state.argument, options.seed, 0, 0,
                       state.memory.get(), error))
        return false;
    return true;
  }

  /// Copies a strided result into dense row-major bytes.
  static std::string gather(const fp8rt_result_info &info,
                            const std::string &data) {
    size_t size = dtypeBytes(static_cast<DType>(info.dtype));
    size_t count = 1;
    bool dense = true;
    for (size_t d = info.rank; d-- > 0;) {
      dense &=
          info.shape[d] == 1 || info.strides[d] == static_cast<int64_t>(count);
      count *= static_cast<size_t>(info.shape[d]);
    }
    if (dense)
      return data;
    std::string bytes(count * size, '\0');
    std::vector<int64_t> index(info.rank);
    int64_t position = 0;
    for (size_t e = 0; e < count; ++e) {
      std::memcpy(bytes.data() + e * size, data.data() + position * size, size);
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

  /// Bytes from a result's first element to the end of its last.
  static size_t extent(const fp8rt_result_info &info) {
    int64_t last = 0;
    for (size_t d = 0; d < info.rank; ++d)
      last += (info.shape[d] - 1) * info.strides[d];
    return (static_cast<size_t>(last) + 1) *
           dtypeBytes(static_cast<DType>(info.dtype));
  }

  std::string counterOf(const BoundFunction &function, size_t result) const {
    const char *value = fp8rt_get_counter(program, function.index, result);
    return value ? value : "";
  }

  bool collectResults(const BoundFunction &function, const fp8rt_runner *runner,
                      std::vector<Output> &outputs, std::string &error) {
    outputs.clear();
    for (size_t i = 0; i < function.results.size(); ++i) {
      const fp8rt_result_info &info = function.results[i];
      std::string data;
      if (!device.download(fp8rt_runner_result_data(runner, i), extent(info),
                           data, error))
        return false;
      outputs.push_back({info.name,
                         static_cast<DType>(info.dtype),
                         {info.shape, info.shape + info.rank},
                         gather(info, data),
                         counterOf(function, i)});
    }
    return true;
  }

  bool appendState(std::vector<Output> &outputs, std::string &error) {
    for (const State &state : states) {
      Output &output = outputs.emplace_back();
      output.name = "state:" + std::string(state.info.name);
      output.dtype = static_cast<DType>(state.info.dtype);
      output.shape.assign(state.info.shape, state.info.shape + state.info.rank);
      if (!device.download(state.memory.get(), state.info.bytes, output.bytes,
                           error))
        return false;
    }
    return true;
  }

  /// The events around run `index` of a step.
  bool eventsOf(size_t index, fp8rt_event *&start, fp8rt_event *&end,
                std::string &error) {
    while (events.size() < 2 * (index + 1)) {
      DeviceEvent event = device.createEvent(error);
      if (!event)
        return false;
      events.push_back(std::move(event));
    }
    start = events[2 * index].get();
    end = events[2 * index + 1].get();
    return true;
  }

  bool runOnce(size_t which, uint64_t step, uint64_t microbatch, size_t index,
               std::string &error) {
    const BoundFunction &function = functions[which];
    fp8rt_runner *runner = runners[which].get();
    for (size_t i = 0; i < function.arguments.size(); ++i) {
      fp8rt_role role = function.arguments[i].role;
      if (role != FP8RT_PARAMETER && role != FP8RT_STATE &&
          !function.isLinked[i] &&
          !device.fill(function.index, i, options.seed, step, microbatch,
                       function.argumentData[i], error))
        return false;
    }
    fp8rt_event *start = nullptr, *end = nullptr;
    fp8rt_error *failure = nullptr;
    // A rank that began later would be waited for within the step.
    if (!eventsOf(index, start, end, error) || !device.alignRanks(error) ||
        !device.record(start, error))
      return false;
    if (fp8rt_run(runner, function.argumentData.data(),
                  function.resultData.data(), arena.get(), arenaSize,
                  device.stream(), &failure))
      return takeError(failure, error);
    if (!device.record(end, error))
      return false;

    int64_t measured = fp8rt_runner_measured_peak_bytes(runner);
    if (measured < 0)
      return true;
    auto bytes = static_cast<uint64_t>(measured);
    out.measuredPeakBytes = std::max(out.measuredPeakBytes, bytes);
    uint64_t &most = out.functionPeaks[which].measured;
    most = std::max(most, bytes);
    if (bytes != function.plannedPeak && !peakReported) {
      peakReported = true;
      out.faults.push_back(
          "the measured peak of '" + std::string(function.info.name) + "' is " +
          std::to_string(bytes) + " bytes, but the plan says " +
          std::to_string(function.plannedPeak));
    }
    return true;
  }

  bool prepare(PassKind kind, std::string &error) {
    runners.clear();
    arenaSize = 0;
    for (const BoundFunction &function : functions) {
      fp8rt_runner_options request{};
      request.struct_size = sizeof(request);
      request.memory = options.dynamic && kind != PassKind::GemmsAlone
                           ? FP8RT_DYNAMIC
                           : FP8RT_PLANNED;
      request.watch = kind == PassKind::Watched;
      request.poison = kind == PassKind::Watched && options.check;
      // On the CPU a ledger costs nothing: the timed pass has it.
      request.ledger =
          kind == PassKind::Ledger ||
          (wantsLedger() && (kind == PassKind::Watched ||
                             (kind == PassKind::Timed && !options.isCuda())));
      request.graph = options.graph &&
                      (kind == PassKind::Timed || kind == PassKind::GemmsAlone);
      request.streams =
          kind == PassKind::Timed ? static_cast<uint32_t>(options.streams) : 1;
      request.gemms_only = kind == PassKind::GemmsAlone;
      fp8rt_runner *runner = nullptr;
      fp8rt_error *failure = nullptr;
      if (fp8rt_create_runner(program, function.index, &request, &runner,
                              &failure))
        return takeError(failure, error);
      runners.emplace_back(runner);
      arenaSize = std::max(arenaSize, fp8rt_runner_arena_bytes(runner));
    }
    // The matmuls alone work on what the steps left: data like a step's.
    if (kind == PassKind::GemmsAlone && arena)
      return true;
    arena.reset();
    arena = device.allocate(arenaSize, error);
    if (!arena) {
      error += "; the plan needs an arena of " +
               std::to_string(out.arenaBytes) + " bytes";
      return false;
    }
    // Touched before anything is timed, and unlike a watched run's pattern.
    return device.set(arena.get(), 0, arenaSize, error);
  }

  /// One step: start_of_step, its microbatches, end_of_step. `collect`, if
  /// given, receives the outputs.
  bool runStep(uint64_t step, std::vector<Output> *collect,
               double &milliseconds, std::string &error) {
    size_t runs = 0;
    if (startOfStep && !runOnce(*startOfStep, step, 0, runs++, error))
      return false;
    for (uint64_t m = 0; m < options.microbatches; ++m)
      if (!runOnce(m ? later : first, step, m, runs++, error))
        return false;
    if (collect && !collectResults(functions[later], runners[later].get(),
                                   *collect, error))
      return false;
    if (endOfStep && !runOnce(*endOfStep, step, 0, runs++, error))
      return false;
    if (collect && !appendState(*collect, error))
      return false;
    for (size_t i = 0; i < runs; ++i) {
      fp8rt_event *start = nullptr, *end = nullptr;
      if (!eventsOf(i, start, end, error) ||
          !device.addElapsed(start, end, milliseconds, error))
        return false;
    }
    for (const RunnerPtr &runner : runners)
      out.poolHighBytes = std::max(out.poolHighBytes,
                                   fp8rt_runner_pool_high_bytes(runner.get()));
    return true;
  }

  /// Runs steps 0 to `steps` - 1 from fresh state, after the warm-up unless
  /// watched. `compared` receives the outputs after `comparedSteps` steps.
  bool pass(PassKind kind, uint64_t steps, uint64_t comparedSteps,
            std::vector<Output> &compared, std::string &error) {
    if (!prepare(kind, error) || !fillStates(error))
      return false;
    bool isTimed = kind == PassKind::Timed;
    double ignored = 0;
    uint64_t warmup = kind == PassKind::Watched ? 0 : options.warmupSteps();
    for (uint64_t step = 0; step < warmup; ++step)
      if (!runStep(step, nullptr, ignored, error))
        return false;
    if (warmup && !fillStates(error))
      return false;

    std::vector<Output> last;
    std::vector<CommandTimes> commandTimes;
    for (uint64_t step = 0; step < steps; ++step) {
      double milliseconds = 0;
      bool isCompared = step + 1 == comparedSteps;
      bool isLast = isTimed && step + 1 == steps;
      if (!runStep(step, isCompared || isLast ? &last : nullptr, milliseconds,
                   error))
        return false;
      if (isCompared)
        compared = last;
      if (isTimed)
        out.stepMilliseconds.push_back(milliseconds);
      else if (kind == PassKind::GemmsAlone)
        out.gemmMilliseconds.push_back(milliseconds);
      readLedger(commandTimes);
    }
    if (isTimed) {
      out.outputs = std::move(last);
      measureDevice();
      out.transport = fp8rt_get_transport(program);
    }
    // Live bytes come from the watched pass, where there is one; times never.
    if (kind != PassKind::Watched)
      for (size_t line = 0; line < commandTimes.size(); ++line) {
        out.ledger[line].milliseconds = median(commandTimes[line].first);
        out.ledger[line].transferMilliseconds =
            median(commandTimes[line].second);
      }
    return true;
  }

  /// Appends the times of the last run of each function to `times`, one entry
  /// a command; makes the ledger's lines when there are none yet.
  void readLedger(std::vector<CommandTimes> &times) {
    size_t line = 0;
    bool first = out.ledger.empty();
    for (size_t f = 0; f < functions.size(); ++f) {
      fp8rt_ledger_entry entry;
      for (size_t c = 0; !fp8rt_runner_get_ledger(runners[f].get(), c, &entry);
           ++c, ++line) {
        if (first)
          out.ledger.push_back({functions[f].info.name, entry.op, entry.name,
                                entry.loc, 0, entry.live_bytes, entry.bytes,
                                entry.flops, 0});
        double transfer = 0;
        fp8rt_runner_get_transfer(runners[f].get(), c, &transfer);
        times.resize(std::max(times.size(), line + 1));
        times[line].first.push_back(entry.milliseconds);
        times[line].second.push_back(transfer);
      }
    }
  }

  /// What the device holds after the timed steps.
  void measureDevice() {
    uint64_t free = 0, total = 0;
    if (!options.isCuda() || !device.memoryInfo(free, total))
      return;
    out.deviceBytes = total - free;
    if (!options.dynamic)
      out.overheadBytes = total - free - ownBytes - arenaSize;
  }

  /// The rate of large copies on the device, bytes read and written.
  bool measureCopy(std::string &error) {
    uint64_t free = 0, total = 0;
    uint64_t bytes = 4ull << 30;
    arena.reset();
    if (device.memoryInfo(free, total))
      bytes = std::min(bytes, free / 4 / 256 * 256);
    DeviceMemory from = device.allocate(bytes, error);
    DeviceMemory to = device.allocate(bytes, error);
    fp8rt_event *start = nullptr, *end = nullptr;
    if (!from || !to || !device.set(from.get(), 0x5A, bytes, error) ||
        !eventsOf(0, start, end, error))
      return false;
    std::vector<double> times;
    for (int i = 0; i < 23; ++i) {
      double milliseconds = 0;
      if (!device.record(start, error) ||
          !device.copy(to.get(), from.get(), bytes, error) ||
          !device.record(end, error) ||
          !device.addElapsed(start, end, milliseconds, error))
        return false;
      if (i >= 3)
        times.push_back(milliseconds);
    }
    out.copyBytesPerSecond = 2e3 * static_cast<double>(bytes) / median(times);
    return true;
  }

  fp8rt_program *program;
  const Options &options;
  StepResults &out;
  Device device;
  /// Those that run.
  std::vector<BoundFunction> functions;
  /// Which of them runs for the first microbatch, and for the others.
  size_t first = 0, later = 0;
  std::optional<size_t> startOfStep, endOfStep;
  std::list<State> states;
  std::vector<DeviceMemory> memories;
  std::vector<DeviceEvent> events;
  /// Of arguments, state and caller-placed results.
  uint64_t ownBytes = 0;
  DeviceMemory arena;
  size_t arenaSize = 0;
  std::vector<RunnerPtr> runners;
  bool peakReported = false;
};

} // namespace

bool fp8run::runSteps(fp8rt_program *program, const Options &options,
                      StepResults &results, std::string &error) {
  return Driver(program, options, results).run(error);
}
