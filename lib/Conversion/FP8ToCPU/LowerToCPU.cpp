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

/// Text that is equal for kernels that compute the same: the body and its
/// types, without places, names and locations.
static std::string structureOf(KernelOp kernel) {
  OwningOpRef<KernelOp> copy(cast<KernelOp>(kernel->cloneWithoutRegions()));
  IRMapping mapping;
  kernel.getBody().cloneInto(&copy->getBody(), mapping);
  // Operands stand outside of the clone: only the block's arguments matter.
  copy->getInputsMutable().clear();
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << stringifyKernelKind(kernel.getKind()) << ' ';
  copy->getBody().walk([](Operation *op) {
    SmallVector<StringAttr> names;
    for (NamedAttribute attribute : op->getDiscardableAttrs())
      names.push_back(attribute.getName());
    for (StringAttr name : names)
      op->removeDiscardableAttr(name);
  });
  OpPrintingFlags flags;
  flags.printGenericOpForm().useLocalScope();
  for (Value argument : copy->getBody().getArguments())
    stream << argument.getType() << ' ';
  copy->getBody().front().print(stream);
  return text;
}

/// A name that says what the kernel does, for profiles and traces:
/// `k3_amax_scale`.
static std::string symbolOf(KernelOp kernel, size_t number) {
  std::string name = "k" + std::to_string(number);
  StringRef last;
  unsigned words = 0;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    StringRef word = op.getName().stripDialect();
    if (word == last || isa<arith::ConstantOp>(op) || words == 6)
      continue;
    name += ("_" + word).str();
    last = word;
    ++words;
  }
  return name;
}

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
      switch (kernel.getKind()) {
      case KernelKind::Matmul:
        continue;
      case KernelKind::Collective:
      case KernelKind::Opaque:
        kernel.emitError() << "a kernel of kind '"
                           << stringifyKernelKind(kernel.getKind())
                           << "' cannot be lowered to the cpu yet";
        return signalPassFailure();
      case KernelKind::Loop:
      case KernelKind::State:
        break;
      }
      StringAttr &symbol = known[structureOf(kernel)];
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
    if (failed(checkKernel(kernel)))
      return failure();
    OpBuilder builder(&getContext());
    Location loc = UnknownLoc::get(&getContext());
    auto type = LLVM::LLVMFunctionType::get(
        LLVM::LLVMVoidType::get(&getContext()),
        {LLVM::LLVMPointerType::get(&getContext())});
    OwningOpRef<LLVM::LLVMFuncOp> function(
        LLVM::LLVMFuncOp::create(builder, loc, symbolOf(kernel, number), type));
    Block *entry = function->addEntryBlock(builder);
    builder.setInsertionPointToEnd(entry);
    LLVM::ReturnOp::create(builder, loc, ValueRange());
    LogicalResult emitted = kernel.getKind() == KernelKind::State
                                ? emitStateKernel(kernel, *function)
                                : emitLoopKernel(kernel, *function);
    if (failed(emitted) || failed(convertToLLVM(*function)))
      return failure();
    // Renamed where the program has a symbol of that name.
    return symbols.insert(function.release());
  }
};

} // namespace
