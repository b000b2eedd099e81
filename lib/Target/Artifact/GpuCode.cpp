//===- GpuCode.cpp - kernels as PTX and cubin -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PTX needs no CUDA toolkit. Where `ptxas` is found, a cubin saves the driver
// from compiling when the artifact is loaded.
//
//===----------------------------------------------------------------------===//

#include "CodeGen.h"
#include "Process.h"
#include "fp8/Target/Artifact.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

#include <mutex>

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

FailureOr<std::string> mlir::fp8::compileToPTX(ModuleOp module) {
  NVVM::NVVMTargetAttr target;
  gpu::GPUModuleOp kernels = findKernels(module, target);
  if (!kernels)
    return failure();
  // Registering a target is not safe for threads.
  static std::once_flag registered;
  std::call_once(registered, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine =
      makeTargetMachine(target.getTriple(), target.getChip(),
                        target.getFeatures(), std::nullopt, error);
  if (!machine)
    return module.emitError()
           << "cannot generate code for " << target.getChip() << ": " << error;
  SmallVector<Operation *> functions;
  for (Operation &op : *kernels.getBody())
    functions.push_back(&op);
  return generateCode(module, functions, *machine,
                      llvm::CodeGenFileType::AssemblyFile);
}

/// The assembler: of $CUDA_HOME, in PATH, or where the toolkit lies by default.
static std::optional<std::string> findAssembler() {
  if (std::optional<std::string> home = llvm::sys::Process::GetEnv("CUDA_HOME"))
    if (std::string path = *home + "/bin/ptxas";
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
