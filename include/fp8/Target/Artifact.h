//===- Artifact.h - the file that the runtime executes ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From placed IR, lowered to the cpu, to one file: manifest with the command
// list, plan, and kernels as a shared object (docs/artifact.md). Equal input
// gives equal bytes.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TARGET_ARTIFACT_H
#define FP8_TARGET_ARTIFACT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace mlir::fp8 {

/// Writes the artifact of `module`, which `fp8-lower-to-cpu` has been run on,
/// to `path`. `planJson` is stored as it is. On failure emits an error and
/// leaves what was at `path`.
LogicalResult writeArtifact(ModuleOp module, StringRef planJson,
                            StringRef path);

/// The manifest of `module`, or an error at the op that cannot stand in one.
FailureOr<llvm::json::Object> buildManifest(ModuleOp module);

/// Translates the LLVM dialect functions of `module` to machine code for
/// x86-64-v3 and links them to a shared object that depends on nothing.
/// Returns its bytes.
FailureOr<std::string> compileKernels(ModuleOp module);

} // namespace mlir::fp8

#endif // FP8_TARGET_ARTIFACT_H
