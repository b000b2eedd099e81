//===- Sweep.h - the frontier of peak and time ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans a module at several budgets and tells what each plan takes.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_DRIVER_SWEEP_H
#define FP8_LIB_DRIVER_SWEEP_H

#include "fp8/Pipelines/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace mlir::fp8 {

/// What one plan takes, with the names of plan.json. Of a module with several
/// functions: the largest peak, with the casts that are kept for the step, the
/// largest arena, and the times of one step of all microbatches.
struct SweepPoint {
  int64_t budget = 0; ///< bytes
  int64_t peak = 0, arena = 0;
  int64_t smallest = 0; ///< the smallest peak that all functions have plans for
  double stepUs = 0, recomputeUs = 0;
  std::optional<double> gapPct;
  int64_t host = 0; ///< bytes that wait in host memory
};

/// Plans clones of `module` (forward or joint IR) with `options` at `points`
/// budgets, evenly spaced from the peak of the fastest plan down to the
/// smallest feasible peak. Emits an error and fails where it cannot be planned.
FailureOr<std::vector<SweepPoint>>
sweep(ModuleOp module, const CompileOptions &options, int points);

std::string toCsv(ArrayRef<SweepPoint> points);
llvm::json::Value toJson(ArrayRef<SweepPoint> points);
std::string toTable(ArrayRef<SweepPoint> points);

} // namespace mlir::fp8

#endif // FP8_LIB_DRIVER_SWEEP_H
