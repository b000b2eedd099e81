//===- fp8-test-graphs.cpp - every policy on many programs ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: fp8-test-graphs FOLDER [seed [TARGET.json]]
//
// Compiles each FOLDER/*.mlir with every policy, with budgets between the
// smallest feasible peak and that of `auto`, and, as drawn by its name, without
// fusion, in pieces of rows and with values in host memory, some of them asked
// for, for TARGET where there is one. Runs each artifact in both memory
// modes, all in one process; one whose lowered program is that of another plan,
// but for sentences, is not run again: most of the time goes to the generation
// of code. Fails where
//
//  * an output differs from the interpreter's in one bit;
//  * a measured peak is not the planned one, or the run itself finds a fault;
//  * the arena is larger than 1.05 * peak + 256 bytes a live buffer;
//  * a plan is over its budget, or a peak rises as the budget falls;
//  * host memory makes the smallest feasible peak higher, or a plan has more
//    bytes there than it was granted;
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
#include "llvm/Support/xxhash.h"

#include <random>

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// A plan that was made and run.
struct Outcome {
  int64_t peak = 0, minFeasible = 0, saved = 0, host = 0;
  double stepUs = 0;
};

class GraphTest {
public:
  GraphTest(std::string file, uint64_t seed, StringRef linkedTarget,
            DialectRegistry &registry)
      : file(std::move(file)), seed(seed), linkedTarget(linkedTarget),
        context(registry, MLIRContext::Threading::DISABLED) {}

  /// Runs the whole test of one program; returns false after printing what
  /// failed.
  bool run();

  int plans = 0, runs = 0;
  int offloaded = 0, both = 0; ///< plans with host memory, with pieces too

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
  bool checkDrawn(const Outcome &automatic);
  /// Asks to have some of what backward reads in host memory; returns how much.
  int askForOffloads();
  /// A number below `end`.
  unsigned draw(unsigned end) { return random() % end; }

  std::string file;
  uint64_t seed;
  StringRef linkedTarget;
  std::mt19937 random;
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
  outcome.saved = *root.getInteger("saved_bytes");
  outcome.host = *root.getInteger("host_bytes");
  outcome.stepUs = *root.getNumber("step_us");
  offloaded += outcome.host > 0;
  both += outcome.host > 0 && !root.getArray("pieces")->empty();
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

/// What is made where such an argument was takes no memory, and stays there.
static bool hasDonatedArgument(ModuleOp module) {
  for (auto func : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (func.getArgAttr(i, kDonatedAttr))
        return true;
  return false;
}

int GraphTest::askForOffloads() {
  int count = 0;
  joint->walk([&](StepOp step) {
    YieldOp yield = step.getForwardYield();
    for (Value residual : yield.getResiduals()) {
      Operation *op = residual.getDefiningOp();
      if (!op || op->getNumResults() != 1 || isView(op) || getCollective(op) ||
          isa<OpaqueOp>(op) || op->hasTrait<OpTrait::ConstantLike>() ||
          llvm::any_of(yield.getValues(),
                       [&](Value value) { return getRoot(value) == residual; }))
        continue;
      // A result of backward may name it too.
      BlockArgument argument = step.getBackward().getArgument(
          llvm::find(yield.getResiduals(), residual) -
          yield.getResiduals().begin());
      if (llvm::any_of(
              step.getBackwardYield().getValues(),
              [&](Value value) { return getRoot(value) == argument; }) ||
          draw(2) != 0)
        continue;
      op->setAttr(kPolicyAttr, StringAttr::get(&context, "offload"));
      ++count;
    }
  });
  return count;
}

bool GraphTest::checkDrawn(const Outcome &automatic) {
  bool good = true;
  Outcome outcome;
  StringRef split = draw(2) ? "recompute-all" : "min-cut";
  good &= check(("policy=" + split + " pieces=" + Twine(2 + draw(2))).str(),
                outcome);

  // What host memory is granted: all that is asked for, or little of it.
  bool isLinked = draw(3) != 0 && !linkedTarget.empty();
  int64_t granted =
      draw(2) ? int64_t(1) << 30 : std::max<int64_t>(automatic.saved / 3, 1);
  std::string options = ("host-memory=" + Twine(granted)).str();
  if (isLinked)
    options += (" target=" + linkedTarget).str();
  unsigned pieces = draw(3);
  if (pieces > 0)
    options += (" pieces=" + Twine(pieces + 1)).str();
  good &= check(options, outcome);
  int64_t smallest = outcome.minFeasible, largest = outcome.peak;
  if (!isLinked && pieces == 0 && smallest > automatic.minFeasible)
    good = fail("host memory raises the smallest peak from " +
                Twine(automatic.minFeasible) + " to " + Twine(smallest));
  for (int64_t budget : {smallest, smallest + (largest - smallest) / 2}) {
    std::string limited = options + " budget=" + std::to_string(budget);
    if (!check(limited, outcome))
      good = false;
    else if (outcome.peak > budget || outcome.host > granted)
      good = fail(limited + ": a peak of " + Twine(outcome.peak) + ", " +
                  Twine(outcome.host) + " bytes in host memory");
  }

  // By name, under any policy.
  StringRef policies[] = {"save-all", "recompute-all", "min-cut", "auto"};
  OwningOpRef<ModuleOp> plain(cast<ModuleOp>(joint.get()->clone()));
  if (askForOffloads() > 0) {
    options =
        ("policy=" + policies[draw(4)] + " pieces=" + Twine(draw(4))).str();
    if (!linkedTarget.empty())
      options += (" target=" + linkedTarget).str();
    if (!check(options, outcome))
      good = false;
    else if (outcome.host == 0 && !hasDonatedArgument(*joint))
      good = fail(options + ": nothing of what is to be in host memory is");
  }
  joint = std::move(plain);
  return good;
}

bool GraphTest::run() {
  random.seed(llvm::xxh3_64bits(llvm::sys::path::stem(file)) ^ seed);
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
       {"save-all", "recompute-all", "op-list", "min-cut", "auto"}) {
    good &= check(("policy=" + policy).str(), outcome);
    if (policy == "auto")
      automatic = outcome;
    if (policy == "min-cut")
      minCut = outcome;
  }
  StringRef simple[] = {"save-all", "recompute-all", "min-cut"};
  for (StringRef policy : {simple[draw(3)], StringRef("auto")})
    good &= check(("policy=" + policy + " fuse=none").str(), outcome);
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
  good &= checkDrawn(automatic);
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
  if (argc < 2 || argc > 4 ||
      (argc >= 3 && StringRef(argv[2]).getAsInteger(10, seed))) {
    llvm::errs()
        << "error: usage: fp8-test-graphs FOLDER [seed [TARGET.json]]\n";
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
  int plans = 0, runs = 0, failures = 0, offloaded = 0, both = 0;
  for (const std::string &file : files) {
    GraphTest test(file, seed, argc > 3 ? argv[3] : "", registry);
    failures += !test.run();
    plans += test.plans;
    runs += test.runs;
    offloaded += test.offloaded;
    both += test.both;
  }
  llvm::outs() << files.size() << " programs, " << plans << " plans, " << runs
               << " runs, " << offloaded << " plans with host memory, " << both
               << " of them in pieces, " << failures << " failed\n";
  return failures != 0;
}
