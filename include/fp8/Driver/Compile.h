//===- Compile.h - programs compiled in memory ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the command line and the C interface have in common: options as text,
// the pipeline, and each kind of output as bytes.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DRIVER_COMPILE_H
#define FP8_DRIVER_COMPILE_H

#include "fp8/Pipelines/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <memory>

namespace mlir::fp8 {

/// What can be written of a compiled program.
enum class Output { MLIR, Plan, Report, PTX, Artifact };

/// The output called `name` (mlir, plan, report, ptx, artifact), or nothing.
std::optional<Output> parseOutput(StringRef name);

/// The phase that `output` is made from; none for MLIR, which every phase has.
std::optional<Phase> getPhaseOf(Output output);

/// Reports a failure that has no place in a program.
using FailFunction = function_ref<LogicalResult(const Twine &)>;

/// Reads name=value pairs joined by commas, as after `--compile=`. Null where
/// they cannot be read; then `fail` has been called.
std::unique_ptr<CompileOptions> parseCompileOptions(StringRef text,
                                                    FailFunction fail);

/// What is left to do for a program, given what its file holds already.
struct CompileTask {
  CompileOptions *options = nullptr;
  Phase last = Phase::Placed;
  /// The phase whose passes have run, where the program is planned already.
  std::optional<Phase> done;
};

/// Checks `module` against what is asked: planned IR goes no way back, takes no
/// options (`optionsText` is empty) and sets the target of `options` itself.
FailureOr<CompileTask> prepareCompile(ModuleOp module, CompileOptions &options,
                                      StringRef optionsText, Phase last,
                                      FailFunction fail);

/// Adds the passes of `task` to `manager` and runs them on `module`.
LogicalResult runCompile(ModuleOp module, PassManager &manager,
                         const CompileTask &task);

/// The bytes of `output` for `module`, compiled to the phase it is made from.
FailureOr<std::string> makeOutput(ModuleOp module, Output output);

} // namespace mlir::fp8

#endif // FP8_DRIVER_COMPILE_H
