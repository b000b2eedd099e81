//===- fp8-mutate.cpp - mutation test of the compiler -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sends damaged programs through the parser, the verifiers and the passes, many
// in one process. Whatever the damage, the compiler must accept the program or
// refuse it with an error: a signal, an exit from inside a library, a hang, or
// a refusal without a message fails the test.
//
//===----------------------------------------------------------------------===//

#include "Mutants.h"

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Input/ReadProgram.h"
#include "fp8/Interfaces/ExternalModels.h"
#include "fp8/Pipelines/Pipelines.h"
#include "fp8/Target/Artifact.h"
#include "fp8/Target/Plan.h"
#include "fp8/Transforms/Passes.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;
using namespace fp8mutate;
namespace cl = llvm::cl;

namespace {

cl::list<std::string> inputs(cl::Positional, cl::OneOrMore,
                             cl::desc("<programs to damage>"));
cl::opt<unsigned> count("count", cl::desc("Number of mutants"), cl::init(1000));
cl::opt<uint64_t> seedNumber("seed", cl::desc("Seed of the damage"),
                             cl::init(0));
cl::opt<unsigned> batch("batch", cl::desc("Mutants a process handles"),
                        cl::init(200));
cl::opt<unsigned> jobs("j", cl::desc("Processes at a time"), cl::init(2));
cl::opt<unsigned> timeout("timeout", cl::desc("Seconds a mutant may take"),
                          cl::init(60));
cl::opt<std::string> keep("keep",
                          cl::desc("Folder for the mutants that failed"));
cl::list<std::string> pipelines(
    "pipeline",
    cl::desc("A pipeline that each accepted mutant goes through (repeatable)"));
cl::list<std::string> writing(
    "write",
    cl::desc("A pipeline to placed IR, as --pipeline, after which the plan, "
             "the report and the manifest are written (repeatable)"));
cl::list<std::string> stages(
    "stage",
    cl::desc("A pipeline whose result on each program is damaged as well"));
cl::opt<int> crashAt("crash-at",
                     cl::desc("Abort at this mutant, to see the test fail"),
                     cl::init(-1));

/// What a child tells its parent, in shared memory, so that it survives the
/// child's death.
struct Progress {
  unsigned next;                          ///< the mutant being handled
  char stage[128];                        ///< what it was going through
  unsigned refused, failedPass, accepted; ///< how mutants ended
  unsigned faults;                        ///< refusals without a message
  unsigned written;                       ///< placed programs that writers got
};

void setStage(Progress &progress, StringRef stage) {
  size_t size = std::min(stage.size(), sizeof progress.stage - 1);
  std::copy_n(stage.data(), size, progress.stage);
  progress.stage[size] = 0;
}

/// A seed of its own for each mutant, so that a mutant can be made again alone.
std::mt19937_64 randomOf(unsigned index) {
  return std::mt19937_64(seedNumber * 0x9E3779B97F4A7C15ull + index);
}

/// The programs, and what each stage makes of them.
std::vector<Seed> readSeeds(MLIRContext &context) {
  std::vector<Seed> seeds;
  for (const std::string &path : inputs) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer) {
      llvm::errs() << "error: cannot read '" << path
                   << "': " << buffer.getError().message() << '\n';
      exit(1);
    }
    Seed seed{llvm::sys::path::filename(path).str(),
              (*buffer)->getBuffer().str(),
              {}};
    seed.module = parseSourceString<ModuleOp>(seed.text, &context);
    for (const std::string &stage : stages) {
      if (!seed.module)
        break;
      OwningOpRef<ModuleOp> module = seed.module->clone();
      PassManager manager(&context);
      if (failed(parsePassPipeline(stage, manager))) {
        llvm::errs() << "error: cannot read the pipeline '" << stage << "'\n";
        exit(1);
      }
      if (failed(manager.run(*module)))
        continue;
      Seed result{seed.name + " after " + stage, "", {}};
      llvm::raw_string_ostream(result.text) << *module;
      result.module = std::move(module);
      seeds.push_back(std::move(result));
    }
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

Mutant mutantOf(ArrayRef<Seed> seeds, unsigned index, StringRef &name) {
  std::mt19937_64 random = randomOf(index);
  const Seed &seed = seeds[random() % seeds.size()];
  name = seed.name;
  return makeMutant(seed, random);
}

/// Says what a mutant did that it must not, and keeps it.
void reportMutant(unsigned index, StringRef name, const Mutant &mutant,
                  const Twine &fault) {
  // In one write: children print to the same place.
  llvm::errs() << ("mutant " + Twine(index) + " of " + name + " (" +
                   mutant.kind + "): " + fault + "\n")
                      .str();
  if (keep.empty())
    return;
  llvm::sys::fs::create_directories(keep);
  std::error_code error;
  llvm::raw_fd_ostream(keep + "/mutant-" + std::to_string(index) + ".mlir",
                       error)
      << mutant.bytes;
}

/// Reads a mutant as fp8-opt does. Counts an error where bytecode is refused,
/// since that message goes to standard error only.
OwningOpRef<ModuleOp> readMutant(const Mutant &mutant, MLIRContext &context,
                                 unsigned &errors) {
  llvm::MemoryBufferRef buffer(mutant.bytes, "mutant");
  if (!isBytecode(buffer))
    return parseSourceString<ModuleOp>(mutant.bytes, &context);
  std::unique_ptr<llvm::MemoryBuffer> text =
      fp8::convertBytecode(buffer, context.getDialectRegistry());
  if (!text) {
    ++errors;
    return {};
  }
  return parseSourceString<ModuleOp>(text->getBuffer(), &context);
}

/// Handles mutants `progress.next` to `end - 1` and leaves the process.
[[noreturn]] void runBatch(Progress &progress, unsigned end,
                           DialectRegistry &registry) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  unsigned errors = 0;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    errors += diagnostic.getSeverity() == DiagnosticSeverity::Error;
    // Printed into nothing: making the text is part of what is tested.
    llvm::raw_null_ostream() << diagnostic;
  });
  setStage(progress, "reading the programs");
  std::vector<Seed> seeds = readSeeds(context);
  for (; progress.next < end; ++progress.next) {
    alarm(timeout);
    setStage(progress, "making the mutant");
    StringRef name;
    Mutant mutant = mutantOf(seeds, progress.next, name);
    auto silent = [&](StringRef stage) {
      ++progress.faults;
      reportMutant(progress.next, name, mutant,
                   "refused without an error in: " + stage);
    };
    setStage(progress, "parsing");
    if (crashAt == static_cast<int>(progress.next))
      abort();
    errors = 0;
    OwningOpRef<ModuleOp> module = readMutant(mutant, context, errors);
    if (!module) {
      ++progress.refused;
      if (!errors)
        silent("parsing");
      continue;
    }
    bool passed = true;
    auto run = [&](StringRef pipeline, bool writes) {
      setStage(progress, pipeline);
      OwningOpRef<ModuleOp> copy = module->clone();
      PassManager manager(&context);
      if (failed(parsePassPipeline(pipeline, manager)))
        _exit(3);
      errors = 0;
      bool succeeds = succeeded(manager.run(*copy));
      if (succeeds && writes) {
        setStage(progress, ("writers after " + pipeline).str());
        ++progress.written;
        succeeds = succeeded(fp8::writePlan(*copy, llvm::nulls())) &&
                   succeeded(fp8::writeReport(*copy, llvm::nulls())) &&
                   succeeded(fp8::buildManifest(*copy));
      }
      passed &= succeeds;
      if (!succeeds && !errors)
        silent(pipeline);
    };
    for (const std::string &pipeline : pipelines)
      run(pipeline, /*writes=*/false);
    for (const std::string &pipeline : writing)
      run(pipeline, /*writes=*/true);
    ++(passed ? progress.accepted : progress.failedPass);
  }
  alarm(0);
  _exit(0);
}

/// A child that is running, and the mutants it was given.
struct Child {
  pid_t pid;
  unsigned end;
  Progress *progress;
};

Child start(Progress *progress, unsigned begin, unsigned end,
            DialectRegistry &registry) {
  progress->next = begin;
  pid_t pid = fork();
  if (pid == 0) {
    // A mutant may ask for terabytes; that must be an error, not a swapping
    // machine.
#if !__has_feature(address_sanitizer) // Its shadow takes terabytes.
    rlimit limit{rlim_t(8) << 30, rlim_t(8) << 30};
    setrlimit(RLIMIT_AS, &limit);
#endif
    rlimit noCore{0, 0};
    setrlimit(RLIMIT_CORE, &noCore);
    runBatch(*progress, end, registry);
  }
  if (pid < 0) {
    llvm::errs() << "error: cannot start a process\n";
    exit(1);
  }
  return {pid, end, progress};
}

std::string describeStatus(int status) {
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGALRM
               ? "no end within the time limit"
               : std::string("signal ") + strsignal(WTERMSIG(status));
  return "exit with code " + std::to_string(WEXITSTATUS(status)) +
         " from inside";
}

/// Names the mutant that ended a child, and keeps it.
void reportDeath(const Child &child, int status, ArrayRef<Seed> seeds) {
  StringRef name;
  Mutant mutant = mutantOf(seeds, child.progress->next, name);
  reportMutant(child.progress->next, name, mutant,
               describeStatus(status) + " in: " + child.progress->stage);
}

} // namespace

int main(int argc, char **argv) {
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  mlir::fp8::registerDialectAndModels(registry);
  registerAllPasses();
  fp8::registerFP8Passes();
  fp8::registerPipelines();
  cl::ParseCommandLineOptions(
      argc, argv, "fp8-mutate: damaged programs must be refused, not crash\n");

  std::vector<Child> running;
  std::vector<Progress *> all;
  std::vector<std::pair<unsigned, unsigned>> ranges;
  for (unsigned begin = 0; begin < count; begin += batch)
    ranges.push_back({begin, std::min<unsigned>(count, begin + batch)});
  std::reverse(ranges.begin(), ranges.end());
  unsigned deaths = 0;
  // The parent parses the programs only where it must name a mutant.
  std::unique_ptr<MLIRContext> context;
  std::vector<Seed> seeds;
  while (!ranges.empty() || !running.empty()) {
    while (!ranges.empty() && running.size() < jobs) {
      void *memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) {
        llvm::errs() << "error: cannot map memory\n";
        return 1;
      }
      all.push_back(new (memory) Progress());
      running.push_back(start(all.back(), ranges.back().first,
                              ranges.back().second, registry));
      ranges.pop_back();
    }
    int status = 0;
    pid_t pid = wait(&status);
    auto child = llvm::find_if(
        running, [&](const Child &other) { return other.pid == pid; });
    if (child == running.end())
      continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      ++deaths;
      if (!context) {
        context = std::make_unique<MLIRContext>(
            registry, MLIRContext::Threading::DISABLED);
        seeds = readSeeds(*context);
      }
      reportDeath(*child, status, seeds);
      if (child->progress->next + 1 < child->end)
        ranges.push_back({child->progress->next + 1, child->end});
    }
    running.erase(child);
  }
  unsigned refused = 0, failedPass = 0, accepted = 0, faults = 0, written = 0;
  for (Progress *progress : all) {
    refused += progress->refused;
    failedPass += progress->failedPass;
    accepted += progress->accepted;
    faults += progress->faults;
    written += progress->written;
  }
  llvm::outs() << count << " mutants: " << refused << " refused when read, "
               << failedPass << " by a pass, " << accepted << " accepted, "
               << deaths << " ended the process, " << faults
               << " refused without an error; " << written
               << " plans written\n";
  return deaths || faults;
}
