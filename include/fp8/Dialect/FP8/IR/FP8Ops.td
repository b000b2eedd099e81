//===- FP8Ops.td - every op of the fp8 dialect ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Includes the families, so that one file names them all for TableGen.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8OPS_TD
#define FP8_DIALECT_FP8_IR_FP8OPS_TD

include "fp8/Dialect/FP8/IR/FP8LinearOps.td"
include "fp8/Dialect/FP8/IR/FP8GroupedOps.td"
include "fp8/Dialect/FP8/IR/FP8CastOps.td"
include "fp8/Dialect/FP8/IR/FP8ViewOps.td"
include "fp8/Dialect/FP8/IR/FP8ComputeOps.td"
include "fp8/Dialect/FP8/IR/FP8CollectiveOps.td"
include "fp8/Dialect/FP8/IR/FP8HostOps.td"
include "fp8/Dialect/FP8/IR/FP8ProgramOps.td"

#endif // FP8_DIALECT_FP8_IR_FP8OPS_TD
