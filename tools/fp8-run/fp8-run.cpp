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
#include "Reference.h"
#include "Report.h"

#include "fp8rt/Container.h"

#include <cstdio>
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

bool load(const Options &options,
          std::unique_ptr<fp8rt_program, ProgramDeleter> &program,
          std::string &error) {
  fp8rt_program *loaded = nullptr;
  fp8rt_error *failure = nullptr;
  int code;
  if (options.isProgram()) {
    std::string artifact;
    if (!compileArtifact(options, artifact, error))
      return false;
    code = fp8rt_load_memory(artifact.data(), artifact.size(),
                             options.backend.c_str(), &loaded, &failure);
  } else {
    code = fp8rt_load_file(options.input.c_str(), options.backend.c_str(),
                           &loaded, &failure);
  }
  if (code != 0) {
    error = fp8rt_error_message(failure);
    fp8rt_free_error(failure);
    return false;
  }
  program.reset(loaded);
  return true;
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
  std::unique_ptr<fp8rt_program, ProgramDeleter> program;
  if (!load(options, program, error))
    return error.empty() ? fail("cannot compile '" + options.input + "'")
                         : fail(error);

  StepResults results;
  if (!runSteps(program.get(), options, results, error))
    return fail(error);

  std::optional<Comparison> comparison;
  if (options.check) {
    std::string path = options.reference;
    if (path.empty() && !cachedReference(options, path, error))
      return fail(error.empty()
                      ? "cannot make a reference for '" + options.input + "'"
                      : error);
    if (!compareWithReference(path, options, results.outputs,
                              comparison.emplace(), error))
      return fail(error);
    if (options.isCuda()) {
      if (comparison->maxRelativeError > results.tolerance)
        results.faults.push_back("output '" + comparison->worstOutput +
                                 "' differs from the reference by " +
                                 std::to_string(comparison->maxRelativeError) +
                                 " in the relative 2-norm; accepted is " +
                                 std::to_string(results.tolerance));
    } else if (!comparison->firstDifference.empty()) {
      results.faults.push_back(comparison->firstDifference);
    }
  }

  printSummary(options, results, comparison);
  if (!options.json.empty() &&
      !fp8rt::writeFileAtomically(
          options.json, resultsJson(options, results, comparison), error))
    return fail(error);
  if (!options.ledger.empty() &&
      !fp8rt::writeFileAtomically(options.ledger, ledgerJson(results), error))
    return fail(error);
  if (!options.dumpOutputs.empty() && !dumpOutputs(options, results, error))
    return fail(error);
  int code = 0;
  for (const std::string &fault : results.faults)
    code = fail(fault);
  return code;
}
