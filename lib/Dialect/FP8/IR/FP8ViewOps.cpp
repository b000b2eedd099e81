//===- FP8ViewOps.cpp ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// verifiers, folders of views
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::fp8;

LogicalResult PermuteOp::verify() { return success(); }
OpFoldResult PermuteOp::fold(FoldAdaptor adaptor) { return {}; }
void PermuteOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {}
LogicalResult TransposeOp::verify() { return success(); }
OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) { return {}; }
LogicalResult SliceOp::verify() { return success(); }
OpFoldResult SliceOp::fold(FoldAdaptor adaptor) { return {}; }
LogicalResult PadOp::verify() { return success(); }
LogicalResult ReshapeOp::verify() { return success(); }
OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) { return {}; }
LogicalResult BitcastOp::verify() { return success(); }
OpFoldResult BitcastOp::fold(FoldAdaptor adaptor) { return {}; }
