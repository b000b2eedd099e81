//===- ObjectCode.cpp - kernels as a shared object --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The processor is fixed, not that of the machine that compiles: the code runs
// on any x86-64-v3 machine and has the same bytes wherever it was made.
//
//===----------------------------------------------------------------------===//

#include "Process.h"
#include "fp8/Target/Artifact.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::fp8;

static constexpr StringLiteral kProcessor = "x86-64-v3";

static std::unique_ptr<llvm::TargetMachine>
makeTargetMachine(std::string &error) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  // Every product and every sum is rounded on its own.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, kProcessor, "", options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  for (llvm::Function &function : module) {
    function.addFnAttr("target-cpu", kProcessor);
    function.addFnAttr(llvm::Attribute::NoUnwind);
    // No loop may become a call of memset or memcpy: the object depends on
    // nothing.
    function.addFnAttr("no-builtins");
  }
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

/// Links `object` to a shared object with lld, started as a process.
static FailureOr<std::string> link(ModuleOp module, StringRef object) {
  TemporaryFile input, output;
  if (failed(input.create(module, "o")) ||
      failed(output.create(module, "so")) ||
      failed(input.write(module, object)))
    return failure();
  std::string linker = FP8_LLD_PATH;
  if (!llvm::sys::fs::can_execute(linker)) {
    llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName("ld.lld");
    if (!found)
      return module.emitError() << "expected the linker at '" << FP8_LLD_PATH
                                << "' or 'ld.lld' in PATH, but found neither; "
                                   "install lld-22";
    linker = *found;
  }
  StringRef arguments[] = {
      linker, "-shared", "--build-id=none", "-soname=cpu.so", "-z",
      "defs", "-o",      output.getPath(),  input.getPath()};
  if (failed(runProgram(module, "link the kernels", arguments)))
    return failure();
  return output.read();
}

FailureOr<std::string> mlir::fp8::compileKernels(ModuleOp module) {
  MLIRContext *context = module.getContext();
  registerBuiltinDialectTranslation(*context);
  registerLLVMDialectTranslation(*context);
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = makeTargetMachine(error);
  if (!machine)
    return module.emitError() << "cannot generate code for x86-64: " << error;

  OwningOpRef<ModuleOp> kernels(ModuleOp::create(UnknownLoc::get(context)));
  OpBuilder builder = OpBuilder::atBlockEnd(kernels->getBody());
  for (LLVM::LLVMFuncOp function : module.getOps<LLVM::LLVMFuncOp>())
    builder.clone(*function);
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> translated =
      translateModuleToLLVMIR(*kernels, llvmContext, "kernels");
  if (!translated)
    return module.emitError() << "cannot translate the kernels to LLVM IR";
  translated->setTargetTriple(machine->getTargetTriple());
  translated->setDataLayout(machine->createDataLayout());
  optimize(*translated, *machine);

  SmallString<0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, stream, nullptr,
                                   llvm::CodeGenFileType::ObjectFile))
    return module.emitError() << "cannot generate object code";
  codegen.run(*translated);
  return link(module, object);
}
