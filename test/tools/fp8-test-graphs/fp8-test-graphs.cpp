//===- fp8-test-graphs.cpp - every policy on many programs ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: fp8-test-graphs FOLDER [seed]
//
// Compiles each FOLDER/*.mlir with every policy, with and without fusion, with
// some in pieces of rows, and with budgets between the smallest feasible peak
// and that of `auto`, and runs each artifact in both memory modes, all in one
// process; one whose lowered program is that of another plan, but for
// sentences, is not run again: most of the time goes to the generation of code.
// Fails where
//
//  * an output differs from the interpreter's in one bit;
//  * a measured peak is not the planned one, or the run itself finds a fault;
//  * the arena is larger than 1.05 * peak + 256 bytes a live buffer;
//  * a plan is over its budget, or a peak rises as the budget falls;
//  * `auto` is worse than `min-cut` in both peak and time.
//
// Writes the outputs of FOLDER/NAME.mlir to FOLDER/out/NAME/, as `fp8-run
// --dump-outputs` does, for tests of their values.
//
//===----------------------------------------------------------------------===//

#include "../../../tools/fp8-run/Reference.h"
#include "../../../tools/fp8-run/Report.h"
#include "../../../tools/fp8-run/Steps.h"

#include "fp8/Interfaces/ExternalModels.h"
#include "fp8/Pipelines/Pipelines.h"
#include "fp8/Target/Artifact.h"
#include "fp8/Target/Plan.h"
#include "fp8/Target/Reference.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// A plan that was made and run.
struct Outcome {
  int64_t peak = 0, minFeasible = 0;
  double stepUs = 0;
};

class GraphTest {
public:
  GraphTest(std::string file, uint64_t seed, DialectRegistry &registry)
      : file(std::move(file)), seed(seed),
        context(registry, MLIRContext::Threading::DISABLED) {}

  /// Runs the whole test of one program; returns false after printing what
  /// failed.
  bool run();

  int plans = 0, runs = 0;

private:
  bool fail(const Twine &what) {
    llvm::errs() << "error: " << file << ": " << what << '\n';
    return false;
  }
  OwningOpRef<ModuleOp> compile(StringRef options, Phase phase);
  bool check(StringRef options, Outcome &outcome);
  /// True for a lowered program that differs from those before in more than
  /// what the plan says about it.
  bool isNew(ModuleOp module);
  bool execute(StringRef options, int64_t planned);

  std::string file;
  uint64_t seed;
  MLIRContext context;
  OwningOpRef<ModuleOp> joint;
  llvm::SmallString<128> reference, artifact, outputs;
  llvm::StringSet<> programs; ///< that have run
};

OwningOpRef<ModuleOp> GraphTest::compile(StringRef options, Phase phase) {
  OwningOpRef<ModuleOp> module(cast<ModuleOp>(joint.get()->clone()));
  std::unique_ptr<CompileOptions> parsed =
      CompileOptions::createFromString(options);
  PassManager manager(&context);
  buildCompilePipeline(manager, *parsed, phase);
  return succeeded(manager.run(*module)) ? std::move(module) : nullptr;
}

bool GraphTest::isNew(ModuleOp module) {
  OwningOpRef<ModuleOp> copy(module.clone());
  copy->walk([](Operation *op) { op->removeDiscardableAttr(kDecisionsAttr); });
  std::string text;
  llvm::raw_string_ostream os(text);
  copy->print(os);
  return programs.insert(text).second;
}

bool GraphTest::execute(StringRef options, int64_t planned) {
  fp8rt_program *program = nullptr;
  fp8rt_error *error = nullptr;
  if (fp8rt_load_file(artifact.c_str(), "cpu", &program, &error) != 0)
    return fail(options + ": " + fp8rt_error_message(error));
  bool good = true;
  for (bool dynamic : {false, true}) {
    ++runs;
    fp8run::Options run;
    run.input = artifact.str().str();
    run.seed = seed;
    run.dynamic = dynamic;
    run.check = true;
    run.dumpOutputs = outputs.str().str();
    fp8run::StepResults results;
    std::string message;
    if (!fp8run::runSteps(program, run, results, message)) {
      good = fail(options + ": " + message);
      continue;
    }
    for (const std::string &fault : results.faults)
      good = fail(options + (dynamic ? ", dynamic: " : ", planned: ") + fault);
    if (static_cast<int64_t>(results.measuredPeakBytes) != planned)
      good = fail(options + ": measured " + Twine(results.measuredPeakBytes) +
                  " but planned " + Twine(planned));
    fp8run::Comparison comparison;
    if (!fp8run::compareWithReference(reference.str().str(), run,
                                      results.outputs, comparison, message))
      good = fail(options + ": " + message);
    else if (!comparison.firstDifference.empty())
      good = fail(options + ": " + comparison.firstDifference);
    if (!dynamic && !fp8run::dumpOutputs(run, results, message))
      good = fail(message);
  }
  fp8rt_unload(program);
  return good;
}

bool GraphTest::check(StringRef options, Outcome &outcome) {
  ++plans;
  OwningOpRef<ModuleOp> module = compile(options, Phase::Lowered);
  if (!module)
    return fail(options + ": does not compile");
  std::string text;
  llvm::raw_string_ostream os(text);
  if (failed(writePlan(*module, os)))
    return fail(options + ": has no plan");
  llvm::Expected<llvm::json::Value> plan = llvm::json::parse(text);
  if (!plan)
    return fail(options + ": " + llvm::toString(plan.takeError()));
  const llvm::json::Object &root = *plan->getAsObject();
  outcome.peak = *root.getInteger("peak_bytes");
  outcome.minFeasible = *root.getInteger("min_feasible_peak_bytes");
  outcome.stepUs = *root.getNumber("step_us");
  int64_t arena = *root.getInteger("arena_bytes");
  int64_t live = root.getObject("peak_at")->getArray("live")->size();
  if (arena > 1.05 * outcome.peak + 256 * live)
    return fail(options + ": arena " + Twine(arena) + " over a peak of " +
                Twine(outcome.peak));
  if (!isNew(*module))
    return true;
  if (failed(writeArtifact(*module, text, artifact)))
    return fail(options + ": has no artifact");
  return execute(options, outcome.peak);
}

bool GraphTest::run() {
  OwningOpRef<ModuleOp> source =
      parseSourceFile<ModuleOp>(file, ParserConfig(&context));
  if (!source)
    return fail("does not parse");
  joint = std::move(source);
  joint = compile("", Phase::Joint);
  if (!joint)
    return fail("has no joint graph");

  StringRef folder = llvm::sys::path::parent_path(file),
            stem = llvm::sys::path::stem(file);
  llvm::sys::path::append(outputs, folder, "out", stem);
  if (std::error_code code = llvm::sys::fs::create_directories(outputs))
    return fail("cannot make " + outputs + ": " + code.message());
  reference = artifact = outputs;
  reference += ".ref";
  artifact += ".fp8";
  ReferenceOptions options;
  options.seed = seed;
  if (failed(writeReference(*joint, options, "", reference)))
    return fail("has no reference");

  bool good = true;
  Outcome automatic, minCut, outcome;
  for (StringRef policy :
       {"save-all", "recompute-all", "op-list", "min-cut", "auto"})
    for (StringRef fuse : {"default", "none"}) {
      if (policy == "op-list" && fuse == "none")
        continue;
      good &= check(("policy=" + policy + " fuse=" + fuse).str(), outcome);
      if (fuse == "default" && policy == "auto")
        automatic = outcome;
      if (fuse == "default" && policy == "min-cut")
        minCut = outcome;
    }
  // What `auto` without fusion left in `outcome`: there the smallest plan of a
  // small program may run ops in another order.
  int64_t smallest = outcome.minFeasible;
  if (!check(("budget=" + Twine(smallest) + " fuse=none").str(), outcome))
    good = false;
  else if (outcome.peak > smallest)
    good = fail("peak " + Twine(outcome.peak) + " over a budget of " +
                Twine(smallest) + " without fusion");
  if (automatic.peak > minCut.peak && automatic.stepUs > minCut.stepUs)
    good = fail("auto is worse than min-cut in peak and time");
  for (StringRef policy : {"recompute-all", "min-cut"})
    for (StringRef pieces : {"2", "3"})
      good &= check(("policy=" + policy + " pieces=" + pieces).str(), outcome);
  // From the largest budget to the smallest that can be met.
  int64_t last = automatic.peak, span = automatic.peak - automatic.minFeasible;
  for (int part = 3; part >= 0; --part) {
    int64_t budget = automatic.minFeasible + span * part / 3;
    if (!check(("budget=" + Twine(budget)).str(), outcome)) {
      good = false;
      continue;
    }
    if (outcome.peak > budget)
      good = fail("peak " + Twine(outcome.peak) + " over a budget of " +
                  Twine(budget));
    if (outcome.peak > last)
      good = fail("the peak rises from " + Twine(last) + " to " +
                  Twine(outcome.peak) + " as the budget falls to " +
                  Twine(budget));
    last = outcome.peak;
  }
  llvm::sys::fs::remove(reference);
  llvm::sys::fs::remove(artifact);
  return good;
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM initialise(argc, argv);
  uint64_t seed = 0;
  if (argc < 2 || argc > 3 ||
      (argc == 3 && StringRef(argv[2]).getAsInteger(10, seed))) {
    llvm::errs() << "error: usage: fp8-test-graphs FOLDER [seed]\n";
    return 1;
  }
  DialectRegistry registry;
  mlir::fp8::registerDialectAndModels(registry);

  std::vector<std::string> files;
  std::error_code code;
  for (llvm::sys::fs::directory_iterator it(argv[1], code), end;
       it != end && !code; it.increment(code))
    if (StringRef(it->path()).ends_with(".mlir"))
      files.push_back(it->path());
  if (code || files.empty()) {
    llvm::errs() << "error: no .mlir file in '" << argv[1] << "'\n";
    return 1;
  }
  llvm::sort(files);
  int plans = 0, runs = 0, failures = 0;
  for (const std::string &file : files) {
    GraphTest test(file, seed, registry);
    failures += !test.run();
    plans += test.plans;
    runs += test.runs;
  }
  llvm::outs() << files.size() << " programs, " << plans << " plans, " << runs
               << " runs, " << failures << " failed\n";
  return failures != 0;
}
