//===- fp8-interpret.cpp ----------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For tests: runs one function of a program on raw input files, one an
// argument, and writes its results to DIR/result0.bin and so on, and its state
// arguments as they are afterwards to DIR/argument0.bin and so on.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Interfaces/ExternalModels.h"
#include "fp8/Target/Reference.h"

#include "fp8rt/Container.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::fp8;

static llvm::cl::opt<std::string> inputPath(llvm::cl::Positional,
                                            llvm::cl::desc("IN.mlir"),
                                            llvm::cl::Required);
static llvm::cl::opt<std::string>
    functionName("function",
                 llvm::cl::desc("the function to run; default: the first"));
static llvm::cl::list<std::string>
    dataPaths("inputs", llvm::cl::CommaSeparated,
              llvm::cl::desc("one file an argument"));
static llvm::cl::opt<std::string>
    outputFolder("output-folder", llvm::cl::desc("where results go"),
                 llvm::cl::init("."));

static llvm::cl::opt<std::string>
    referencePath("reference",
                  llvm::cl::desc("write a reference to this file"));
static llvm::cl::opt<uint64_t>
    seed("seed", llvm::cl::desc("of the reference's inputs"));
static llvm::cl::opt<int64_t> steps("steps", llvm::cl::desc("of the reference"),
                                    llvm::cl::init(1));
static llvm::cl::opt<int64_t>
    microbatches("microbatches", llvm::cl::desc("a step"), llvm::cl::init(1));

static LogicalResult fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return failure();
}

static LogicalResult write(const llvm::Twine &name, const HostTensor &tensor) {
  std::string error;
  std::string_view bytes(reinterpret_cast<const char *>(tensor.bytes.data()),
                         tensor.bytes.size());
  if (!fp8rt::writeFileAtomically((outputFolder + "/" + name).str(), bytes,
                                  error))
    return fail(error);
  return success();
}

static LogicalResult run() {
  DialectRegistry registry;
  mlir::fp8::registerDialectAndModels(registry);
  MLIRContext context(registry);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(inputPath, sources, &context);
  if (!module)
    return failure();
  if (!referencePath.empty()) {
    std::string error;
    std::optional<std::string> program = fp8rt::readWholeFile(inputPath, error);
    if (!program)
      return fail(error);
    return writeReference(*module, {seed, steps, microbatches, functionName},
                          *program, referencePath);
  }
  func::FuncOp function;
  for (func::FuncOp candidate : module->getOps<func::FuncOp>())
    if (!function &&
        (functionName.empty() || candidate.getName() == functionName))
      function = candidate;
  if (!function)
    return fail("expected a function '" + functionName + "' in '" + inputPath +
                "'");
  if (dataPaths.size() != function.getNumArguments())
    return fail("expected " + llvm::Twine(function.getNumArguments()) +
                " input files, but got " + llvm::Twine(dataPaths.size()));
  std::vector<HostTensor> arguments;
  for (auto [path, type] :
       llvm::zip_equal(dataPaths, function.getArgumentTypes())) {
    std::string error;
    std::optional<std::string> bytes = fp8rt::readWholeFile(path, error);
    if (!bytes)
      return fail(error);
    std::optional<size_t> expected = getHostBytes(type);
    if (!expected || bytes->size() != *expected)
      return fail("expected " + llvm::Twine(expected.value_or(0)) +
                  " bytes in '" + path + "', but got " +
                  llvm::Twine(bytes->size()));
    arguments.push_back({cast<RankedTensorType>(type),
                         std::vector<uint8_t>(bytes->begin(), bytes->end())});
  }
  FailureOr<std::vector<HostTensor>> results = interpret(function, arguments);
  if (failed(results))
    return failure();
  for (auto [index, tensor] : llvm::enumerate(*results))
    if (failed(write("result" + llvm::Twine(index) + ".bin", tensor)))
      return failure();
  for (auto [index, tensor] : llvm::enumerate(arguments))
    if (function.getArgAttr(index, kStateAttr) &&
        failed(write("argument" + llvm::Twine(index) + ".bin", tensor)))
      return failure();
  return success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  llvm::cl::ParseCommandLineOptions(
      argc, argv, "the reference interpreter on given data\n");
  return failed(run());
}
