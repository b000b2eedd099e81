//===- Residuals.h - the border between the regions of a step ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A backward region reads forward values as residuals only. Passes that write
// joint IR work with direct uses in between and restore the residuals at their
// end.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TRANSFORMS_RESIDUALS_H
#define FP8_TRANSFORMS_RESIDUALS_H

#include "fp8/Dialect/FP8/IR/FP8.h"

namespace mlir::fp8 {

/// Replaces each residual argument of the backward region by the forward value
/// it stands for. The step does not verify until formResiduals is called.
void inlineResiduals(StepOp step);

/// Makes a residual of each forward value that the backward region reads, in
/// program order. Constants and views are cloned into the backward region
/// instead, so that a residual is neither.
void formResiduals(StepOp step);

/// Removes what nothing reads from a function of joint IR: residuals, and ops
/// without effects but opaque ones. No kernel could give them.
void dropUnread(func::FuncOp func);

} // namespace mlir::fp8

#endif // FP8_TRANSFORMS_RESIDUALS_H
