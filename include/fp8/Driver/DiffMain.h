//===- DiffMain.h - fp8-opt --diff ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What changed between two plans.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DRIVER_DIFFMAIN_H
#define FP8_DRIVER_DIFFMAIN_H

namespace mlir::fp8 {

/// True where the arguments ask for a comparison: `--diff` is among them.
bool isDiffCommand(int argc, char **argv);

/// Runs `fp8-opt --diff A.json B.json [--max-increase=SIZE]`: prints, for each
/// function, how peak, arena, kept bytes and step time change from plan A to
/// plan B, and each value that is kept, dropped, kept in another form or
/// computed again otherwise, largest first, with its place in the source.
/// Returns the exit code: 0, or 1 after an error on standard error, which with
/// `--max-increase` a peak that rises by more than SIZE is.
int diffMain(int argc, char **argv);

} // namespace mlir::fp8

#endif // FP8_DRIVER_DIFFMAIN_H
