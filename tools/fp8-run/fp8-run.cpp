//===- fp8-run.cpp - Runs artifacts and measures them ---------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The main program: compile if needed, run, compare, report. Exit code 0, or 1
// with a line that holds "error:".
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"
#include "Device.h"
#include "Launch.h"
#include "Ranks.h"
#include "Reference.h"
#include "Report.h"

#include "fp8rt/Container.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

using namespace fp8run;

namespace {

int fail(const std::string &message) {
  // Flushed first, so that the error comes after the summary when both go to
  // one place.
  std::fflush(stdout);
  std::fprintf(stderr, "fp8-run: error: %s\n", message.c_str());
  return 1;
}

struct ProgramDeleter {
  void operator()(fp8rt_program *program) const { fp8rt_unload(program); }
};

using ProgramPtr = std::unique_ptr<fp8rt_program, ProgramDeleter>;

/// The artifact: compiled by rank 0 for all, or what each rank has at the path.
bool readArtifact(const Options &options, Ranks &ranks, std::string &artifact,
                  std::string &error) {
  if (!options.isProgram()) {
    std::optional<std::string> bytes =
        fp8rt::readWholeFile(options.input, error);
    if (bytes)
      artifact = std::move(*bytes);
    return bytes.has_value();
  }
  if (ranks.isFirst() && !compileArtifact(options, artifact, error)) {
    if (error.empty())
      error = "cannot compile '" + options.input + "'";
    return false;
  }
  return ranks.shareArtifact(artifact, error);
}

bool load(const Options &options, Ranks &ranks, ProgramPtr &program,
          std::string &error) {
  std::string artifact;
  if (!readArtifact(options, ranks, artifact, error) ||
      !ranks.checkEqual(artifact, options, error))
    return false;
  fp8rt_program *loaded = nullptr;
  fp8rt_error *failure = nullptr;
  if (fp8rt_load_memory(artifact.data(), artifact.size(),
                        options.backend.c_str(), &loaded, &failure)) {
    takeError(failure, error);
    if (!options.isProgram())
      error = "'" + options.input + "': " + error;
    return false;
  }
  program.reset(loaded);
  return ranks.join(loaded, error);
}

/// Compares the outputs, of all ranks if there are several, with a reference.
bool check(const Options &options, StepResults &results,
           std::optional<Comparison> &comparison, std::string &error) {
  std::string path = options.reference;
  if (path.empty() && !cachedReference(options, path, error)) {
    if (error.empty())
      error = "cannot make a reference for '" + options.input + "'";
    return false;
  }
  for (const auto &[value, count] : countersOf(results.outputs))
    if (count != 0)
      results.faults.push_back("the new layout of '" + value +
                               "' is not exact in " + std::to_string(count) +
                               " elements");
  if (!compareWithReference(path, options, results.outputs,
                            comparison.emplace(), error))
    return false;
  if (!options.isCuda()) {
    if (!comparison->firstDifference.empty())
      results.faults.push_back(comparison->firstDifference);
  } else if (comparison->maxRelativeError > results.tolerance) {
    results.faults.push_back("output '" + comparison->worstOutput +
                             "' differs from the reference by " +
                             std::to_string(comparison->maxRelativeError) +
                             " in the relative 2-norm; accepted is " +
                             std::to_string(results.tolerance));
  }
  return true;
}

/// Reports what was measured; with several ranks rank 0 does, for all.
bool report(const Options &options, StepResults &results, std::string &error) {
  std::optional<Comparison> comparison;
  if (options.check && !check(options, results, comparison, error))
    return false;
  printSummary(options, results, comparison);
  return (options.json.empty() ||
          fp8rt::writeFileAtomically(options.json,
                                     resultsJson(options, results, comparison),
                                     error)) &&
         (options.ledger.empty() ||
          fp8rt::writeFileAtomically(options.ledger, ledgerJson(results),
                                     error)) &&
         (options.dumpOutputs.empty() || dumpOutputs(options, results, error));
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  std::string error;
  switch (parseOptions(argc, argv, options, error)) {
  case ParseOutcome::Help:
    std::fputs(helpText(), stdout);
    return 0;
  case ParseOutcome::Version:
    std::printf("fp8-run (fp8-opt " FP8_VERSION "), runtime interface %d\n",
                fp8rt_abi_version());
    return 0;
  case ParseOutcome::Error:
    return fail(error);
  case ParseOutcome::Run:
    break;
  }
  if (options.ranks > 0) {
    int code = launchRanks(options.ranks, argv, error);
    return code < 0 ? fail(error) : code;
  }
  // Ranks outlive what uses them.
  Ranks ranks;
  ProgramPtr program;
  StepResults results;
  if (!ranks.open(options, error) || !load(options, ranks, program, error) ||
      !runSteps(program.get(), options, results, error) ||
      !ranks.collect(results, error) ||
      (ranks.isFirst() && !report(options, results, error))) {
    int code = fail(error);
    if (!ranks.abandon(error))
      return code;
    std::fflush(nullptr);
    std::_Exit(code);
  }
  int code = 0;
  if (std::fflush(stdout) != 0)
    code = fail(std::string("cannot write to standard output: ") +
                std::strerror(errno));
  for (const std::string &fault : results.faults)
    code = fail(fault);
  if (!ranks.close(error))
    return fail(error);
  return code;
}
