//===- CompileMain.cpp - fp8-opt --compile ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads one module, runs the pipeline as far as the asked output needs, and
// writes it.
//
//===----------------------------------------------------------------------===//

#include "fp8/Driver/CompileMain.h"

#include "Sweep.h"

#include "fp8/Driver/Compile.h"
#include "fp8/Input/ReadProgram.h"
#include "fp8/Support/Progress.h"
#include "fp8/Target/Reference.h"
#include "fp8/Target/Target.h"
#include "fp8rt/Container.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/Timing.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::fp8;
namespace cl = llvm::cl;

bool mlir::fp8::isCompileCommand(int argc, char **argv) {
  for (StringRef argument : ArrayRef<char *>(argv, argc).drop_front(argc > 0)) {
    argument = argument.ltrim('-');
    if (argument == "compile" || argument == "emit" || argument == "sweep" ||
        argument.starts_with("compile=") || argument.starts_with("sweep=") ||
        argument.starts_with("compile-to") || argument.starts_with("emit="))
      return true;
  }
  return false;
}

namespace {

/// The options of the driver. Registered only when it runs: mlir-opt's main has
/// its own `-o`.
struct DriverOptions {
  cl::OptionCategory category{"fp8-opt --compile"};
  cl::opt<std::string> input{cl::Positional,
                             cl::desc("<input file, - for standard input>"),
                             cl::init("-"), cl::cat(category)};
  cl::opt<std::string> output{
      "o", cl::desc("Output file, - for standard output"),
      cl::value_desc("file"), cl::init("-"), cl::cat(category)};
  cl::opt<std::string> compile{
      "compile", cl::ValueOptional, cl::cat(category),
      cl::desc("Options of the pipeline: target=, policy=, budget=, "
               "device-memory=, host-memory=, microbatches=, split=, lossy=, "
               "fuse=, pieces= and others (fp8-opt --help has all, below "
               "--fp8-compile), joined by commas")};
  cl::opt<std::string> compileTo{
      "compile-to", cl::desc("Stop after: joint, planned, placed or lowered"),
      cl::cat(category)};
  cl::opt<std::string> emit{
      "emit", cl::init("mlir"), cl::cat(category),
      cl::desc("What to write: mlir, plan, report, ptx, artifact or "
               "reference")};
  cl::opt<std::string> sweep{
      "sweep", cl::ValueOptional, cl::cat(category), cl::value_desc("points"),
      cl::desc(
          "Plan at so many budgets (8) from the fastest plan's peak to the "
          "smallest; prints a table, and with -o FILE.csv writes it and "
          "FILE.json")};
  cl::opt<bool> progress{
      "progress", cl::init(false), cl::cat(category),
      cl::desc("Say on standard error how far the search for a plan is, as on "
               "a terminal")};
  cl::opt<std::string> function{
      "function",
      cl::desc("Function of a reference, where a module has several"),
      cl::cat(category)};
  cl::opt<uint64_t> seed{"seed", cl::desc("Seed of the inputs of a reference"),
                         cl::init(0), cl::cat(category)};
  cl::opt<int> steps{"steps", cl::desc("Steps of a reference"), cl::init(1),
                     cl::cat(category)};
  cl::opt<int> microbatches{"microbatches",
                            cl::desc("Microbatches a step of a reference"),
                            cl::init(1), cl::cat(category)};
};

LogicalResult fail(const Twine &message) {
  llvm::errs() << "error: " << message << '\n';
  return failure();
}

/// The phase an output needs, and that `--compile-to` may only agree with.
FailureOr<Phase> getPhase(const DriverOptions &options) {
  std::optional<Output> output = parseOutput(options.emit);
  bool isReference = options.emit == "reference";
  if (!output && !isReference)
    return fail("expected '--emit' to be mlir, plan, report, ptx, artifact or "
                "reference, but got '" +
                options.emit + "'");
  std::optional<Phase> needed =
      isReference ? Phase::Joint : getPhaseOf(*output);
  if (options.compileTo.empty())
    return needed.value_or(Phase::Placed);
  std::optional<Phase> asked = parsePhase(options.compileTo);
  if (!asked)
    return fail("expected '--compile-to' to be joint, planned, placed or "
                "lowered, but got '" +
                options.compileTo + "'");
  if (needed && *asked != *needed)
    return fail("'--emit=" + options.emit +
                "' does not go with '--compile-to=" + options.compileTo + "'");
  return *asked;
}

/// Writes a file that is complete or absent; what is no regular file (a device,
/// a pipe) is written to as it is.
LogicalResult writeBytes(StringRef path, StringRef bytes) {
  if (path == "-") {
    llvm::outs() << bytes;
    llvm::outs().flush();
    if (!llvm::outs().has_error())
      return success();
    std::string reason = llvm::outs().error().message();
    llvm::outs().clear_error();
    return fail("cannot write to standard output: " + reason);
  }
  std::string error;
  return fp8rt::writeFileAtomically(path.str(), bytes, error) ? success()
                                                              : fail(error);
}

LogicalResult writeOutput(ModuleOp module, const DriverOptions &options,
                          StringRef program) {
  if (options.emit == "reference") {
    ReferenceOptions reference;
    reference.seed = options.seed;
    reference.steps = options.steps;
    reference.microbatches = options.microbatches;
    reference.function = options.function;
    return writeReference(module, reference, program, options.output);
  }
  FailureOr<std::string> bytes = makeOutput(module, *parseOutput(options.emit));
  if (failed(bytes))
    return failure();
  return writeBytes(options.output, *bytes);
}

/// The number of points that `--sweep` asks for.
FailureOr<int> getSweepPoints(const DriverOptions &options,
                              const CompileOptions &pipeline) {
  constexpr int kDefault = 8, kMost = 1000;
  int points = kDefault;
  if (!options.sweep.empty() &&
      (StringRef(options.sweep).getAsInteger(10, points) || points < 2 ||
       points > kMost))
    return fail("expected '--sweep' to be a number of points from 2 to " +
                Twine(kMost) + ", but got '" + options.sweep + "'");
  if (options.emit.getNumOccurrences() || !options.compileTo.empty())
    return fail("'--sweep' does not go with '--emit' or '--compile-to'");
  if (pipeline.policy != "auto" || !pipeline.budget.empty() ||
      !pipeline.deviceMemory.empty())
    return fail("expected '--sweep' with policy auto, without 'budget' and "
                "'device-memory': it chooses the budgets");
  if (pipeline.split != "none")
    return fail("'--sweep' does not go with 'split': a budget is for the whole "
                "step");
  if (options.output != "-" && !StringRef(options.output).ends_with(".csv"))
    return fail("expected '-o FILE.csv' with '--sweep', but got '" +
                options.output + "'");
  return points;
}

LogicalResult writeSweep(ModuleOp module, const DriverOptions &options,
                         const CompileOptions &pipeline, int points) {
  FailureOr<Sweep> found = sweep(module, pipeline, points);
  if (failed(found))
    return failure();
  if (options.output != "-") {
    std::string json = llvm::formatv("{0:2}\n", toJson(*found)).str();
    StringRef stem = StringRef(options.output).drop_back(strlen(".csv"));
    if (failed(writeBytes(options.output, toCsv(*found))) ||
        failed(writeBytes((stem + ".json").str(), json)))
      return failure();
  }
  return writeBytes("-", toTable(*found));
}

LogicalResult run(const DriverOptions &options, DialectRegistry &registry) {
  FailureOr<Phase> phase = getPhase(options);
  if (failed(phase))
    return failure();
  std::unique_ptr<CompileOptions> pipeline =
      parseCompileOptions(options.compile, fail);
  if (!pipeline)
    return failure();

  bool sweeps = options.sweep.getNumOccurrences() > 0;
  FailureOr<int> points = 0;
  if (sweeps && failed(points = getSweepPoints(options, *pipeline)))
    return failure();
  if (options.steps < 1 || options.microbatches < 1)
    return fail("expected '--steps' and '--microbatches' of at least 1");
  if (options.output == "-" &&
      (options.emit == "artifact" || options.emit == "reference"))
    return fail("expected '-o FILE' for '--emit=" + options.emit +
                "', which is binary");

  std::unique_ptr<llvm::MemoryBuffer> buffer =
      readProgram(options.input, registry);
  if (!buffer)
    return failure();
  std::string program = buffer->getBuffer().str();
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), SMLoc());
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  if (!module)
    return failure();

  PassManager manager(&context);
  DefaultTimingManager timing;
  applyDefaultTimingManagerCLOptions(timing);
  TimingScope scope = timing.getRootScope();
  manager.enableTiming(scope);
  if (failed(applyPassManagerCLOptions(manager)))
    return failure();
  // The interpreter runs IR of every phase: a plan is checked as it stands.
  if (options.emit == "reference")
    phase = getPlannedPhase(*module).value_or(*phase);
  FailureOr<CompileTask> task =
      prepareCompile(*module, *pipeline, options.compile, *phase, fail);
  if (failed(task))
    return failure();
  if (sweeps && task->done)
    return fail("the input is planned already: '--sweep' plans it anew");
  if (sweeps)
    return writeSweep(*module, options, *pipeline, *points);
  const Target *target = findTarget(pipeline->target);
  if (options.emit == "ptx" && target && target->chip.empty())
    return fail("expected a target with a gpu for '--emit=ptx', but got "
                "target=" +
                pipeline->target);
  if (failed(runCompile(*module, manager, *task)))
    return failure();
  return writeOutput(*module, options, program);
}

} // namespace

int mlir::fp8::compileMain(int argc, char **argv, DialectRegistry &registry) {
  llvm::InitLLVM initialise(argc, argv);
  DriverOptions options;
  registerAsmPrinterCLOptions();
  registerMLIRContextCLOptions();
  registerPassManagerCLOptions();
  registerDefaultTimingManagerCLOptions();
  // LLVM brings hundreds more. Those of MLIR work here too; `fp8-opt --help`
  // lists them.
  cl::HideUnrelatedOptions(options.category);
  // LLVM says what is wrong, but not that it is an error.
  if (!cl::ParseCommandLineOptions(
          argc, argv,
          "fp8-opt --compile: plans and compiles FP8 training steps\n",
          &llvm::errs()))
    return failed(fail("unexpected command line; --help lists the options"));
  // A long search ends with the best plan so far.
  catchInterrupt();
  if (options.progress || llvm::errs().is_displayed())
    showProgress();
  return failed(run(options, registry));
}
