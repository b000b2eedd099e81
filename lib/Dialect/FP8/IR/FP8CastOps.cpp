//===- FP8CastOps.cpp ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// verifiers of amax, scale, casts and state
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::fp8;

LogicalResult AmaxOp::verify() { return success(); }
LogicalResult ScaleOp::verify() { return success(); }
LogicalResult CastOp::verify() { return success(); }
LogicalResult DequantizeOp::verify() { return success(); }
LogicalResult PushAmaxOp::verify() { return success(); }
LogicalResult UpdateScaleOp::verify() { return success(); }
