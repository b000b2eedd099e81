//===- CompileMain.h - fp8-opt --compile ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The driver form of the pipeline: one input, one output of a chosen kind.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DRIVER_COMPILEMAIN_H
#define FP8_DRIVER_COMPILEMAIN_H

#include "mlir/IR/DialectRegistry.h"

namespace mlir::fp8 {

/// True where the arguments ask for the driver: `--compile`, `--emit` or
/// `--sweep` is among them.
bool isCompileCommand(int argc, char **argv);

/// Runs `fp8-opt IN.mlir --compile[=..] [--compile-to=..] --emit=.. -o OUT`.
/// Returns the exit code: 0, or 1 after an error on standard error. An output
/// is complete or absent.
int compileMain(int argc, char **argv, DialectRegistry &registry);

} // namespace mlir::fp8

#endif // FP8_DRIVER_COMPILEMAIN_H
