//===- LowerToCPU.cpp - fp8-lower-to-cpu ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives every loop and state kernel a function in the LLVM dialect. Equal
// kernels share one.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCPU/KernelFunctions.h"
#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8LOWERTOCPUPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

struct LowerToCPUPass : fp8::impl::FP8LowerToCPUPassBase<LowerToCPUPass> {
  using FP8LowerToCPUPassBase::FP8LowerToCPUPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<KernelOp> kernels;
    module.walk([&](KernelOp kernel) { kernels.push_back(kernel); });
    SymbolTable symbols(module);
    llvm::StringMap<StringAttr> known; // looked up only
    for (KernelOp kernel : kernels) {
      FailureOr<bool> generated = isGenerated(kernel, "the cpu");
      if (failed(generated))
        return signalPassFailure();
      if (!*generated)
        continue;
      StringAttr &symbol = known[getKernelStructure(kernel)];
      if (!symbol) {
        FailureOr<StringAttr> fresh = lower(kernel, symbols, known.size() - 1);
        if (failed(fresh))
          return signalPassFailure();
        symbol = *fresh;
      }
      kernel.setSymbolAttr(symbol);
    }
  }

  FailureOr<StringAttr> lower(KernelOp kernel, SymbolTable &symbols,
                              size_t number) {
    if (failed(checkKernel(kernel, "cpu")))
      return failure();
    OpBuilder builder(&getContext());
    Location loc = UnknownLoc::get(&getContext());
    auto type = LLVM::LLVMFunctionType::get(
        LLVM::LLVMVoidType::get(&getContext()),
        {LLVM::LLVMPointerType::get(&getContext())});
    OwningOpRef<LLVM::LLVMFuncOp> function(LLVM::LLVMFuncOp::create(
        builder, loc, getKernelSymbol(kernel, number), type));
    Block *entry = function->addEntryBlock(builder);
    builder.setInsertionPointToEnd(entry);
    LLVM::ReturnOp::create(builder, loc, ValueRange());
    if (kernel.getKind() == KernelKind::State) {
      Block &body = kernel.getBody().front();
      Evaluator evaluator(*entry, body, kernel.getNumResults(), loc);
      emitStateOps(evaluator, body);
    } else if (failed(emitLoopKernel(kernel, *function))) {
      return failure();
    }
    if (failed(convertToLLVM(*function)))
      return failure();
    // Renamed where the program has a symbol of that name.
    return symbols.insert(function.release());
  }
};

} // namespace
