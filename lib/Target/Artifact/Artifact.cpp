//===- Artifact.cpp - writes the file that the runtime executes -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts manifest, plan and kernels into the runtime's container.
//
//===----------------------------------------------------------------------===//

#include "fp8/Target/Artifact.h"

#include "fp8/Target/Target.h"
#include "fp8rt/Container.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8;

FailureOr<std::string> mlir::fp8::buildArtifact(ModuleOp module,
                                                StringRef planJson) {
  FailureOr<llvm::json::Object> manifest = buildManifest(module);
  if (failed(manifest))
    return failure();
  std::vector<std::pair<std::string, std::string>> kernels;
  const Target *target = getTargetOf(module);
  if (!target)
    return failure();
  if (target->chip.empty()) {
    FailureOr<std::string> object = compileKernels(module);
    if (failed(object))
      return failure();
    kernels.push_back({"cpu.so", std::move(*object)});
  } else {
    FailureOr<std::string> ptx = compileToPTX(module);
    if (failed(ptx))
      return failure();
    FailureOr<std::optional<std::string>> cubin = assembleCubin(module, *ptx);
    if (failed(cubin))
      return failure();
    kernels.push_back({"cuda.ptx", std::move(*ptx)});
    if (*cubin)
      kernels.push_back({"cuda.cubin", std::move(**cubin)});
  }
  // Keys are printed in sorted order.
  std::string text =
      llvm::formatv("{0:2}\n", llvm::json::Value(std::move(*manifest)));
  std::string error;
  std::vector<std::pair<std::string, std::string_view>> sections = {
      {"manifest", text}, {"plan", std::string_view(planJson)}};
  for (const auto &[name, bytes] : kernels)
    sections.push_back({name, bytes});
  std::optional<std::string> bytes = fp8rt::serializeContainer(
      fp8rt::ContainerKind::Artifact, sections, error);
  if (!bytes)
    return module.emitError() << error;
  return std::move(*bytes);
}

LogicalResult mlir::fp8::writeArtifact(ModuleOp module, StringRef planJson,
                                       StringRef path) {
  FailureOr<std::string> bytes = buildArtifact(module, planJson);
  if (failed(bytes))
    return failure();
  std::string error;
  if (!fp8rt::writeFileAtomically(path.str(), *bytes, error))
    return module.emitError() << error;
  return success();
}
