//===- DifferentiableExternalModels.h ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attaches DifferentiableOpInterface to the upstream ops that a training step
// is written in.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_INTERFACES_DIFFERENTIABLEEXTERNALMODELS_H
#define FP8_INTERFACES_DIFFERENTIABLEEXTERNALMODELS_H

#include "mlir/IR/DialectRegistry.h"

namespace mlir::fp8 {

/// Adjoints of arith.addf, subf, mulf, divf, negf, extf, truncf, maximumf,
/// minimumf and select, and of math.absf, exp, log, sqrt, rsqrt, tanh and erf.
void registerDifferentiableExternalModels(DialectRegistry &registry);

} // namespace mlir::fp8

#endif // FP8_INTERFACES_DIFFERENTIABLEEXTERNALMODELS_H
