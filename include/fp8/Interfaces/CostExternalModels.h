//===- CostExternalModels.h - costs of fp8, arith and math ops --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attaches CostOpInterface to every op that a program may hold.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_INTERFACES_COSTEXTERNALMODELS_H
#define FP8_INTERFACES_COSTEXTERNALMODELS_H

#include "mlir/IR/DialectRegistry.h"

namespace mlir::fp8 {

/// Costs of the fp8 ops (but those that hold or end others: step, kernel,
/// yield, free) and of the elementwise arith and math ops. An op is priced
/// unfused: it reads each operand and writes each result once.
///
/// Flops: a matmul of [M, K] and [K, N] has 2 M N K, and M N more with an
/// accumulator; an elementwise op one per element of its result; exp 21, log
/// 23, tanh 37, erf 49 and rsqrt 2 (the additions, multiplications, divisions
/// and roots of docs/numerics.md); amax, reduce, cast and dequantize one per
/// element of their operand, scale three (maximum, division, margin).
void registerCostExternalModels(DialectRegistry &registry);

} // namespace mlir::fp8

#endif // FP8_INTERFACES_COSTEXTERNALMODELS_H
