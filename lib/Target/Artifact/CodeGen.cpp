//===- CodeGen.cpp - from LLVM dialect functions to code --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See CodeGen.h.
//
//===----------------------------------------------------------------------===//

#include "CodeGen.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"

using namespace mlir;
using namespace mlir::fp8;

std::unique_ptr<llvm::TargetMachine> mlir::fp8::makeTargetMachine(
    StringRef triple, StringRef processor, StringRef features,
    std::optional<llvm::Reloc::Model> relocation, std::string &error) {
  llvm::Triple parsed(triple);
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(parsed, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  // Every product and every sum is rounded on its own.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      parsed, processor, features, options, relocation, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, modules);
}

FailureOr<std::string>
mlir::fp8::generateCode(ModuleOp module, ArrayRef<Operation *> functions,
                        llvm::TargetMachine &machine,
                        llvm::CodeGenFileType type,
                        function_ref<void(llvm::Function &)> prepare) {
  MLIRContext *context = module.getContext();
  registerBuiltinDialectTranslation(*context);
  registerLLVMDialectTranslation(*context);
  registerNVVMDialectTranslation(*context);
  OwningOpRef<ModuleOp> kernels(ModuleOp::create(UnknownLoc::get(context)));
  OpBuilder builder = OpBuilder::atBlockEnd(kernels->getBody());
  for (Operation *function : functions)
    builder.clone(*function);
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> translated =
      translateModuleToLLVMIR(*kernels, llvmContext, "kernels");
  if (!translated)
    return module.emitError() << "cannot translate the kernels to LLVM IR";
  translated->setTargetTriple(machine.getTargetTriple());
  translated->setDataLayout(machine.createDataLayout());
  for (llvm::Function &function : *translated) {
    function.addFnAttr(llvm::Attribute::NoUnwind);
    if (prepare)
      prepare(function);
  }
  optimize(*translated, machine);

  SmallString<0> code;
  llvm::raw_svector_ostream stream(code);
  llvm::legacy::PassManager codegen;
  if (machine.addPassesToEmitFile(codegen, stream, nullptr, type))
    return module.emitError() << "cannot generate code of this kind";
  codegen.run(*translated);
  return code.str().str();
}
