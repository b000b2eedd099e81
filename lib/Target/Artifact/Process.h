//===- Process.h - tools that finish the kernels ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Temporary files, and the linker or assembler that is started on them.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_TARGET_ARTIFACT_PROCESS_H
#define FP8_LIB_TARGET_ARTIFACT_PROCESS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/FileUtilities.h"

namespace mlir::fp8 {

/// A temporary file that is removed at the end. Errors are emitted at `module`.
class TemporaryFile {
public:
  LogicalResult create(ModuleOp module, StringRef suffix);
  LogicalResult write(ModuleOp module, StringRef contents);
  std::string read() const;
  StringRef getPath() const { return path; }

private:
  SmallString<128> path;
  int descriptor = -1;
  std::optional<llvm::FileRemover> remover;
};

/// Runs a program and waits. Where it fails, an error at `module` says what it
/// was to do, and what it wrote.
LogicalResult runProgram(ModuleOp module, StringRef what,
                         ArrayRef<StringRef> arguments);

} // namespace mlir::fp8

#endif // FP8_LIB_TARGET_ARTIFACT_PROCESS_H
