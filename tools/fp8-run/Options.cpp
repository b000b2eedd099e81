//===- Options.cpp - Command line of fp8-run ------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Options are `--name=value`; one dash is accepted as well, as by other tools
// of the family.
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include <charconv>
#include <cstdio>
#include <string_view>

using namespace fp8run;

namespace {

bool parseCount(std::string_view name, std::string_view text, uint64_t low,
                uint64_t high, uint64_t &out, std::string &error) {
  auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (code == std::errc() && end == text.data() + text.size() && out >= low &&
      out <= high)
    return true;
  error = "--" + std::string(name) + ": expected an integer from " +
          std::to_string(low) + " to " + std::to_string(high) + ", but got '" +
          std::string(text) + "'";
  return false;
}

} // namespace

bool Options::isProgram() const {
  return input.ends_with(".mlir") || input.ends_with(".mlirbc");
}

const char *fp8run::helpText() {
  return R"(usage: fp8-run IN.mlir|ARTIFACT [options]

Runs a training step and measures its memory. A program (.mlir, .mlirbc) is
compiled by the fp8-opt beside this tool first.

  --function=NAME        run this function (default: the only one, else the
                         first that is not end_of_step)
  --backend=cpu|cuda     where to run (default: cpu)
  --policy=P             what to keep for the backward pass (programs only)
  --budget=B             limit on the peak, such as 40GiB (programs only)
  --memory=planned|dynamic
                         one arena, watched on the first step (default), or an
                         allocation at each command, counted
  --steps=N              steps to run (default: 1)
  --warmup=N             steps before them, not timed (default: 0; on a GPU 3)
  --streams=N            on a GPU: run what does not depend on each other on N
                         streams (default: 1; the watched step has one)
  --graph                record the step in a CUDA graph and replay it
  --microbatches=M       runs a step, before end_of_step (default: 1)
  --seed=S               seed of the inputs (default: 0)
  --check[=REFERENCE]    poison freed storage, guard slots, and compare the
                         outputs with a reference (made by fp8-opt if no file
                         is given): bit for bit on the CPU; on a GPU, where
                         matmuls sum in another order, by relative 2-norm
  --tolerance=X          what that check accepts on a GPU (default: 0.2 where
                         there are matmuls, else 0)
  --json=FILE            write the results
  --ledger=FILE          write each command's time and live bytes
  --dump-outputs=DIR     write each output's bytes and an index.json
  --bench                also time the step's matmuls alone, and large copies
  --print-time           print the commands that took longest
  --ranks=N              start N ranks on this machine, on a GPU each with
                         --backend=cuda (or start them with torchrun or mpirun)
  --timeout=SECONDS      several ranks: one that is not heard of for so long is
                         lost (default: 20)
  --delay=RANK:N:MS      that rank sleeps so long before its N-th collective, or
                         before each (N = -1); changes no result
  --help, --version
)";
}

ParseOutcome fp8run::parseOptions(int argc, char **argv, Options &options,
                                  std::string &error) {
  auto fail = [&](std::string message) {
    error = std::move(message);
    return ParseOutcome::Error;
  };
  for (int i = 1; i < argc; ++i) {
    std::string_view arg = argv[i];
    if (arg.size() < 2 || arg[0] != '-') {
      if (!options.input.empty())
        return fail("expected one input, but got '" + options.input +
                    "' and '" + std::string(arg) + "'");
      options.input = arg;
      continue;
    }
    arg.remove_prefix(arg[1] == '-' ? 2 : 1);
    std::optional<std::string_view> value;
    if (size_t equals = arg.find('='); equals != std::string_view::npos) {
      value = arg.substr(equals + 1);
      arg = arg.substr(0, equals);
    }
    if (arg == "help" || arg == "h")
      return ParseOutcome::Help;
    if (arg == "version")
      return ParseOutcome::Version;
    bool *flag = arg == "print-time" ? &options.printTime
                 : arg == "graph"    ? &options.graph
                 : arg == "bench"    ? &options.bench
                                     : nullptr;
    if (flag && !value) {
      *flag = true;
      continue;
    }
    if (arg == "check") {
      options.check = true;
      options.reference = value.value_or("");
      continue;
    }
    std::string *text = arg == "function"       ? &options.function
                        : arg == "backend"      ? &options.backend
                        : arg == "policy"       ? &options.policy
                        : arg == "budget"       ? &options.budget
                        : arg == "json"         ? &options.json
                        : arg == "ledger"       ? &options.ledger
                        : arg == "dump-outputs" ? &options.dumpOutputs
                                                : nullptr;
    bool isNumber = arg == "steps" || arg == "microbatches" || arg == "seed" ||
                    arg == "warmup" || arg == "streams" || arg == "timeout" ||
                    arg == "ranks";
    if (!text && !isNumber && arg != "memory" && arg != "tolerance" &&
        arg != "delay")
      return fail("unknown option '" + std::string(argv[i]) +
                  "'; fp8-run --help lists all");
    if (!value || value->empty())
      return fail("--" + std::string(arg) + ": expected a value after '='");
    if (text) {
      *text = *value;
    } else if (arg == "memory") {
      if (*value != "planned" && *value != "dynamic")
        return fail("--memory: expected planned or dynamic, but got '" +
                    std::string(*value) + "'");
      options.dynamic = *value == "dynamic";
    } else if (arg == "delay") {
      Delay &delay = options.delay.emplace();
      long long collective = 0;
      unsigned long long time = 0;
      char rest = 0;
      if (std::sscanf(std::string(*value).c_str(), "%d:%lld:%llu%c",
                      &delay.rank, &collective, &time, &rest) != 3)
        return fail("--delay: expected RANK:N:MILLISECONDS, but got '" +
                    std::string(*value) + "'");
      delay.collective = collective;
      delay.milliseconds = time;
    } else if (arg == "tolerance") {
      double &number = options.tolerance.emplace();
      auto [end, code] =
          std::from_chars(value->data(), value->data() + value->size(), number);
      if (code != std::errc() || end != value->data() + value->size() ||
          !(number >= 0))
        return fail("--tolerance: expected a number of at least 0, but got '" +
                    std::string(*value) + "'");
    } else {
      bool isSeed = arg == "seed", isWarmup = arg == "warmup";
      uint64_t &number = arg == "steps"          ? options.steps
                         : arg == "microbatches" ? options.microbatches
                         : arg == "streams"      ? options.streams
                         : isWarmup              ? options.warmup.emplace()
                         : arg == "timeout"      ? options.timeout
                         : arg == "ranks"        ? options.ranks
                                                 : options.seed;
      if (!parseCount(arg, *value, isSeed || isWarmup ? 0 : 1,
                      isSeed             ? UINT64_MAX
                      : arg == "streams" ? 16
                      : arg == "ranks"   ? 1024 // processes of one machine
                                         : 1000000,
                      number, error))
        return ParseOutcome::Error;
    }
  }
  if (options.input.empty())
    return fail("expected an input, a .mlir program or an artifact; fp8-run "
                "--help shows how");
  if (options.backend != "cpu" && options.backend != "cuda")
    return fail("--backend: expected cpu or cuda, but got '" + options.backend +
                "'");
  if (options.graph && (!options.isCuda() || options.dynamic))
    return fail("--graph: expected --backend=cuda and --memory=planned");
  if (options.streams > 1 && (!options.isCuda() || options.dynamic))
    return fail("--streams: expected --backend=cuda and --memory=planned");
  if (options.bench && options.dynamic)
    return fail("--bench: expected --memory=planned, whose arena keeps the "
                "data that the matmuls are timed on");
  if (!options.isProgram()) {
    if (!options.policy.empty() || !options.budget.empty())
      return fail("--policy and --budget are for programs; an artifact is "
                  "compiled already");
    if (options.check && options.reference.empty())
      return fail("--check: expected a reference file for an artifact "
                  "(--check=FILE; fp8-opt --emit=reference writes one)");
  }
  return ParseOutcome::Run;
}
