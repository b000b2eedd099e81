//===- Artifact.cpp - writes the file that the runtime executes -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts manifest, plan and kernels into the runtime's container.
//
//===----------------------------------------------------------------------===//

#include "fp8/Target/Artifact.h"

#include "fp8rt/Container.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8;

LogicalResult mlir::fp8::writeArtifact(ModuleOp module, StringRef planJson,
                                       StringRef path) {
  FailureOr<llvm::json::Object> manifest = buildManifest(module);
  if (failed(manifest))
    return failure();
  FailureOr<std::string> object = compileKernels(module);
  if (failed(object))
    return failure();
  // Keys are printed in sorted order.
  std::string text =
      llvm::formatv("{0:2}\n", llvm::json::Value(std::move(*manifest)));
  std::string error;
  if (!fp8rt::writeContainer(path.str(), fp8rt::ContainerKind::Artifact,
                             {{"manifest", text},
                              {"plan", std::string_view(planJson)},
                              {"cpu.so", *object}},
                             error))
    return module.emitError() << error;
  return success();
}
