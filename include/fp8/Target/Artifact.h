//===- Artifact.h - the file that the runtime executes ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From placed IR, lowered to the cpu or to CUDA, to one file: manifest with the
// command list, plan, and kernels as a shared object or as PTX and cubin
// (docs/artifact.md). Equal input gives equal bytes.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TARGET_ARTIFACT_H
#define FP8_TARGET_ARTIFACT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace mlir::fp8 {

/// The bytes of the artifact of `module`, which `fp8-lower-to-cpu` or
/// `fp8-lower-to-cuda` has been run on (what its target says). `planJson` is
/// stored as it is. On failure emits an error.
FailureOr<std::string> buildArtifact(ModuleOp module, StringRef planJson);

/// Writes such an artifact to `path`. On failure emits an error and leaves what
/// was at `path`.
LogicalResult writeArtifact(ModuleOp module, StringRef planJson,
                            StringRef path);

/// The manifest of `module`, or an error at the op that cannot stand in one.
FailureOr<llvm::json::Object> buildManifest(ModuleOp module);

/// Translates the LLVM dialect functions of `module` to machine code for
/// x86-64-v3 and links them to a shared object that depends on nothing.
/// Returns its bytes.
FailureOr<std::string> compileKernels(ModuleOp module);

/// Translates the `gpu.module @kernels` of `module` to PTX for the chip that it
/// names. Needs no CUDA toolkit.
FailureOr<std::string> compileToPTX(ModuleOp module);

/// Assembles PTX for that chip with `ptxas` ($CUDA_HOME/bin, PATH, or
/// /usr/local/cuda/bin); nothing where there is none.
FailureOr<std::optional<std::string>> assembleCubin(ModuleOp module,
                                                    StringRef ptx);

} // namespace mlir::fp8

#endif // FP8_TARGET_ARTIFACT_H
