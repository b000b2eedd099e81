//===- ObjectCode.cpp - kernels as a shared object --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The processor is fixed, not that of the machine that compiles: the code runs
// on any x86-64-v3 machine and has the same bytes wherever it was made.
//
//===----------------------------------------------------------------------===//

#include "CodeGen.h"
#include "Process.h"
#include "fp8/Target/Artifact.h"

#include "llvm/IR/Function.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"

#include <dlfcn.h>
#include <mutex>

using namespace mlir;
using namespace mlir::fp8;

static constexpr StringLiteral kProcessor = "x86-64-v3";

/// The linker: the one installed beside the binary that this code is in
/// (../bin/ld.lld, as in a wheel), that of LLVM's packages, or one in PATH.
static std::optional<std::string> findLinker() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void *>(&findLinker), &self) && self.dli_fname) {
    SmallString<128> path(self.dli_fname);
    llvm::sys::path::remove_filename(path);
    llvm::sys::path::append(path, "..", "bin", "ld.lld");
    if (llvm::sys::fs::can_execute(path))
      return path.str().str();
  }
  if (llvm::sys::fs::can_execute(FP8_LLD_PATH))
    return std::string(FP8_LLD_PATH);
  if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName("ld.lld"))
    return *found;
  return std::nullopt;
}

/// Links `object` to a shared object with lld, started as a process.
static FailureOr<std::string> link(ModuleOp module, StringRef object) {
  TemporaryFile input, output;
  if (failed(input.create(module, "o")) ||
      failed(output.create(module, "so")) ||
      failed(input.write(module, object)))
    return failure();
  std::optional<std::string> linker = findLinker();
  if (!linker)
    return module.emitError() << "expected the linker at '" << FP8_LLD_PATH
                              << "' or 'ld.lld' in PATH, but found neither; "
                                 "install lld-22";
  StringRef arguments[] = {
      *linker, "-shared", "--build-id=none", "-soname=cpu.so", "-z",
      "defs",  "-o",      output.getPath(),  input.getPath()};
  if (failed(runProgram(module, "link the kernels", arguments)))
    return failure();
  return output.read();
}

FailureOr<std::string> mlir::fp8::compileKernels(ModuleOp module) {
  // Registering a target is not safe for threads.
  static std::once_flag registered;
  std::call_once(registered, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = makeTargetMachine(
      "x86_64-unknown-linux-gnu", kProcessor, "", llvm::Reloc::PIC_, error);
  if (!machine)
    return module.emitError() << "cannot generate code for x86-64: " << error;
  SmallVector<Operation *> functions;
  for (LLVM::LLVMFuncOp function : module.getOps<LLVM::LLVMFuncOp>())
    functions.push_back(function);
  FailureOr<std::string> object = generateCode(
      module, functions, *machine, llvm::CodeGenFileType::ObjectFile,
      [](llvm::Function &function) {
        function.addFnAttr("target-cpu", kProcessor);
        // No loop may become a call of memset or memcpy: the object depends on
        // nothing.
        function.addFnAttr("no-builtins");
      });
  if (failed(object))
    return failure();
  return link(module, *object);
}
