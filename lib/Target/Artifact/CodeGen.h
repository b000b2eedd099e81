//===- CodeGen.h - from LLVM dialect functions to code ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the code of every processor has in common: translation to LLVM IR, the
// optimisation pipeline and the code generator.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_TARGET_ARTIFACT_CODEGEN_H
#define FP8_LIB_TARGET_ARTIFACT_CODEGEN_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Target/TargetMachine.h"

namespace mlir::fp8 {

/// A target machine for `triple` that rounds every product and every sum on its
/// own. Its target must be initialised. Null where there is none, with the
/// reason in `error`.
std::unique_ptr<llvm::TargetMachine>
makeTargetMachine(StringRef triple, StringRef processor, StringRef features,
                  std::optional<llvm::Reloc::Model> relocation,
                  std::string &error);

/// The code of `functions` for `machine`. `prepare` may add attributes to each
/// function before it is optimised. Errors are emitted at `module`.
FailureOr<std::string>
generateCode(ModuleOp module, ArrayRef<Operation *> functions,
             llvm::TargetMachine &machine, llvm::CodeGenFileType type,
             function_ref<void(llvm::Function &)> prepare = {});

} // namespace mlir::fp8

#endif // FP8_LIB_TARGET_ARTIFACT_CODEGEN_H
