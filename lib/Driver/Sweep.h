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

/// The points of a module, and what their times are by.
struct Sweep {
  std::vector<SweepPoint> points;
  std::string target;
  bool isCalibrated = false; ///< whether rates were measured on the device
  /// How far estimates of a step were from measured ones, at most.
  std::optional<double> modelErrorPct;
};

/// Plans clones of `module` (forward or joint IR) with `options` at `points`
/// budgets, evenly spaced from the peak of the fastest plan down to the
/// smallest feasible peak. Emits an error and fails where it cannot be planned.
FailureOr<Sweep> sweep(ModuleOp module, const CompileOptions &options,
                       int points);

std::string toCsv(const Sweep &sweep);
llvm::json::Value toJson(const Sweep &sweep);
std::string toTable(const Sweep &sweep);

} // namespace mlir::fp8

#endif // FP8_LIB_DRIVER_SWEEP_H
