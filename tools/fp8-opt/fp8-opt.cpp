//===- fp8-opt.cpp - the compiler driver ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mlir-opt with the fp8 dialect and passes, and the driver form `--compile`.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Driver/CompileMain.h"
#include "fp8/Interfaces/CostExternalModels.h"
#include "fp8/Interfaces/DifferentiableExternalModels.h"
#include "fp8/Pipelines/Pipelines.h"
#include "fp8/Transforms/Passes.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<mlir::fp8::FP8Dialect>();
  mlir::fp8::registerCostExternalModels(registry);
  mlir::fp8::registerDifferentiableExternalModels(registry);
  mlir::registerAllPasses();
  mlir::fp8::registerFP8Passes();
  mlir::fp8::registerPipelines();
  if (mlir::fp8::isCompileCommand(argc, argv))
    return mlir::fp8::compileMain(argc, argv, registry);
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "fp8-opt: FP8 training steps\n", registry));
}
