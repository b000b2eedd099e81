//===- FP8ComputeOps.cpp ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// verifiers of matmul, reductions, broadcasts, opaque
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::fp8;

LogicalResult MatmulOp::verify() { return success(); }
LogicalResult ReduceOp::verify() { return success(); }
LogicalResult BroadcastOp::verify() { return success(); }
OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) { return {}; }
LogicalResult OpaqueOp::verify() { return success(); }
void OpaqueOp::getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {}
