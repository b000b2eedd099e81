//===- fp8-opt.cpp - the compiler driver ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mlir-opt with the fp8 dialect and passes, the driver form `--compile`, and
// `--diff`.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Driver/CompileMain.h"
#include "fp8/Driver/DiffMain.h"
#include "fp8/Input/ReadProgram.h"
#include "fp8/Interfaces/ExternalModels.h"
#include "fp8/Pipelines/Pipelines.h"
#include "fp8/Transforms/Passes.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"

/// mlir-opt's main, but for two things: damaged bytecode is an error, whatever
/// MLIR's reader does with it, and every message about a file holds `error:`.
static llvm::LogicalResult optMain(int argc, char **argv,
                                   mlir::DialectRegistry &registry) {
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "fp8-opt: FP8 training steps\n", registry);
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::MlirOptMain(argc, argv, input, output, registry);
  llvm::InitLLVM initialise(argc, argv);
  std::unique_ptr<llvm::MemoryBuffer> program =
      mlir::fp8::readProgram(input, registry);
  if (!program)
    return llvm::failure();
  std::string message;
  std::unique_ptr<llvm::ToolOutputFile> file =
      mlir::openOutputFile(output, &message);
  if (!file) {
    llvm::errs() << "error: " << message << '\n';
    return llvm::failure();
  }
  if (failed(
          mlir::MlirOptMain(file->os(), std::move(program), registry, config)))
    return llvm::failure();
  file->keep();
  return llvm::success();
}

static void printVersion(llvm::raw_ostream &os) {
  os << "fp8-opt " FP8_VERSION ", LLVM version " LLVM_VERSION_STRING "\n";
}

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter(printVersion);
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::fp8::registerDialectAndModels(registry);
  mlir::registerAllPasses();
  mlir::fp8::registerFP8Passes();
  mlir::fp8::registerPipelines();
  if (mlir::fp8::isDiffCommand(argc, argv))
    return mlir::fp8::diffMain(argc, argv);
  if (mlir::fp8::isCompileCommand(argc, argv))
    return mlir::fp8::compileMain(argc, argv, registry);
  return mlir::asMainReturnCode(optMain(argc, argv, registry));
}
