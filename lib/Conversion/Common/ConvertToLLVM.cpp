//===- ConvertToLLVM.cpp - from arith, scf and vector to llvm ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Upstream's conversions, applied to one kernel function.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/KernelFunction.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/CSE.h"

using namespace mlir;
using namespace mlir::fp8;

LogicalResult mlir::fp8::convertToLLVM(LLVM::LLVMFuncOp function,
                                       ArrayRef<StringRef> extra) {
  MLIRContext *context = function.getContext();
  // Equal constants and addresses, most of all.
  IRRewriter rewriter(context);
  DominanceInfo dominance(function);
  eliminateCommonSubExpressions(rewriter, dominance, function);

  ConversionTarget structured(*context);
  structured.addLegalDialect<LLVM::LLVMDialect, arith::ArithDialect,
                             cf::ControlFlowDialect, vector::VectorDialect>();
  for (StringRef dialect : extra)
    structured.addLegalDialect(dialect);
  RewritePatternSet loops(context);
  populateSCFToControlFlowConversionPatterns(loops);
  if (failed(applyFullConversion(function, structured, std::move(loops))))
    return failure();

  ConversionTarget target(*context);
  target.addLegalDialect<LLVM::LLVMDialect>();
  for (StringRef dialect : extra)
    target.addLegalDialect(dialect);
  LLVMTypeConverter types(context);
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  populateVectorToLLVMConversionPatterns(types, patterns);
  return applyFullConversion(function, target, std::move(patterns));
}
