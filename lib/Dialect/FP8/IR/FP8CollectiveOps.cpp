//===- FP8CollectiveOps.cpp ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// verifiers of collectives
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::fp8;

LogicalResult AllGatherOp::verify() { return success(); }
LogicalResult AllGatherStartOp::verify() { return success(); }
LogicalResult WaitOp::verify() { return success(); }
