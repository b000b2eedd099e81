//===- Plan.h - plan.json and the report ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writers of a plan for programs and for people. Both read the placed IR and
// the record of fp8-select-saved; neither computes a plan.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TARGET_PLAN_H
#define FP8_TARGET_PLAN_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::fp8 {

/// Writes the plan of every function of `module` as JSON (`docs/plan.md` lists
/// the keys). Fails with an error where the IR is not placed.
LogicalResult writePlan(ModuleOp module, raw_ostream &os);

/// Writes the plan as text for a terminal.
LogicalResult writeReport(ModuleOp module, raw_ostream &os);

} // namespace mlir::fp8

#endif // FP8_TARGET_PLAN_H
