//===- fp8-lsp-server.cpp - language server for editors ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mlir-lsp-server with the fp8 dialect: diagnostics, hover and go-to-definition
// for .mlir files in any editor that speaks the protocol.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<mlir::fp8::FP8Dialect>();
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
