//===- GpuCode.cpp - kernels as PTX and cubin -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PTX needs no CUDA toolkit. Where `ptxas` is found, a cubin saves the driver
// from compiling when the artifact is loaded.
//
//===----------------------------------------------------------------------===//

#include "Process.h"
#include "fp8/Target/Artifact.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::fp8;

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

/// The module that `fp8-lower-to-cuda` made and the chip that it is for.
static gpu::GPUModuleOp findKernels(ModuleOp module,
                                    NVVM::NVVMTargetAttr &target) {
  auto kernels = module.lookupSymbol<gpu::GPUModuleOp>("kernels");
  if (kernels && kernels.getTargetsAttr())
    for (Attribute attribute : kernels.getTargetsAttr())
      if (auto found = dyn_cast<NVVM::NVVMTargetAttr>(attribute))
        target = found;
  if (target)
    return kernels;
  module.emitError() << "expected a 'gpu.module @kernels' with an NVVM target; "
                        "run 'fp8-lower-to-cuda' first";
  return {};
}

static std::unique_ptr<llvm::TargetMachine>
makeTargetMachine(NVVM::NVVMTargetAttr attribute, std::string &error) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::Triple triple(attribute.getTriple());
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  // Every product and every sum is rounded on its own.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, attribute.getChip(), attribute.getFeatures(), options,
      std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  for (llvm::Function &function : module)
    function.addFnAttr(llvm::Attribute::NoUnwind);
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

FailureOr<std::string> mlir::fp8::compileToPTX(ModuleOp module) {
  NVVM::NVVMTargetAttr target;
  gpu::GPUModuleOp kernels = findKernels(module, target);
  if (!kernels)
    return failure();
  MLIRContext *context = module.getContext();
  registerBuiltinDialectTranslation(*context);
  registerLLVMDialectTranslation(*context);
  registerNVVMDialectTranslation(*context);
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine =
      makeTargetMachine(target, error);
  if (!machine)
    return module.emitError()
           << "cannot generate code for " << target.getChip() << ": " << error;

  OwningOpRef<ModuleOp> copy(ModuleOp::create(UnknownLoc::get(context)));
  OpBuilder builder = OpBuilder::atBlockEnd(copy->getBody());
  for (Operation &op : *kernels.getBody())
    builder.clone(op);
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> translated =
      translateModuleToLLVMIR(*copy, llvmContext, "kernels");
  if (!translated)
    return module.emitError() << "cannot translate the kernels to LLVM IR";
  translated->setTargetTriple(machine->getTargetTriple());
  translated->setDataLayout(machine->createDataLayout());
  optimize(*translated, *machine);

  SmallString<0> ptx;
  llvm::raw_svector_ostream stream(ptx);
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, stream, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile))
    return module.emitError() << "cannot generate PTX";
  codegen.run(*translated);
  return ptx.str().str();
}

/// The assembler: of $CUDA_HOME, in PATH, or where the toolkit lies by default.
static std::optional<std::string> findAssembler() {
  SmallVector<std::string> folders;
  if (std::optional<std::string> home = llvm::sys::Process::GetEnv("CUDA_HOME"))
    folders.push_back(*home + "/bin");
  for (StringRef folder : folders)
    if (std::string path = (folder + "/ptxas").str();
        llvm::sys::fs::can_execute(path))
      return path;
  if (llvm::ErrorOr<std::string> path = llvm::sys::findProgramByName("ptxas"))
    return *path;
  if (std::string path = "/usr/local/cuda/bin/ptxas";
      llvm::sys::fs::can_execute(path))
    return path;
  return std::nullopt;
}

FailureOr<std::optional<std::string>> mlir::fp8::assembleCubin(ModuleOp module,
                                                               StringRef ptx) {
  NVVM::NVVMTargetAttr target;
  if (!findKernels(module, target))
    return failure();
  std::optional<std::string> assembler = findAssembler();
  if (!assembler)
    return std::optional<std::string>();
  TemporaryFile input, output;
  if (failed(input.create(module, "ptx")) ||
      failed(output.create(module, "cubin")) ||
      failed(input.write(module, ptx)))
    return failure();
  std::string chip = ("--gpu-name=" + target.getChip()).str();
  // Products and sums are marked as rounded on their own in the PTX; the option
  // says so once more.
  StringRef arguments[] = {*assembler,     chip, "--fmad=false",
                           "-O3",          "-o", output.getPath(),
                           input.getPath()};
  if (failed(runProgram(module, "assemble the kernels", arguments)))
    return failure();
  return std::optional<std::string>(output.read());
}
