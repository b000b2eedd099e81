//===- FP8Adjoints.cpp ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adjoints of the fp8 ops (DifferentiableOpInterface).
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::fp8;

LogicalResult MatmulOp::buildAdjoint(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
    MutableArrayRef<Value> operandGrads) { return emitOpError("adjoint not written"); }
LogicalResult ReduceOp::buildAdjoint(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
    MutableArrayRef<Value> operandGrads) { return emitOpError("adjoint not written"); }
LogicalResult BroadcastOp::buildAdjoint(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
    MutableArrayRef<Value> operandGrads) { return emitOpError("adjoint not written"); }
LogicalResult OpaqueOp::buildAdjoint(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
    MutableArrayRef<Value> operandGrads) { return emitOpError("adjoint not written"); }
LogicalResult LinearOp::buildAdjoint(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
    MutableArrayRef<Value> operandGrads) { return emitOpError("adjoint not written"); }
LogicalResult PermuteOp::buildAdjoint(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
    MutableArrayRef<Value> operandGrads) { return emitOpError("adjoint not written"); }
LogicalResult TransposeOp::buildAdjoint(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
    MutableArrayRef<Value> operandGrads) { return emitOpError("adjoint not written"); }
LogicalResult SliceOp::buildAdjoint(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
    MutableArrayRef<Value> operandGrads) { return emitOpError("adjoint not written"); }
LogicalResult PadOp::buildAdjoint(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
    MutableArrayRef<Value> operandGrads) { return emitOpError("adjoint not written"); }
LogicalResult ReshapeOp::buildAdjoint(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool> needed,
    MutableArrayRef<Value> operandGrads) { return emitOpError("adjoint not written"); }
