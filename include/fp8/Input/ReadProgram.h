//===- ReadProgram.h - programs from files ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Opens an input, text or bytecode, so that damage in it can only be an error.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_INPUT_READPROGRAM_H
#define FP8_INPUT_READPROGRAM_H

#include "mlir/IR/DialectRegistry.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace mlir::fp8 {

/// The text of the bytecode in `bytecode`, with all locations, or null after an
/// error on standard error. MLIR's bytecode reader may crash, corrupt memory or
/// not end on damaged input, so it runs in a process of its own, within limits
/// of time and memory, and only the text comes back.
std::unique_ptr<llvm::MemoryBuffer>
convertBytecode(llvm::MemoryBufferRef bytecode,
                const DialectRegistry &registry);

/// Opens `path` (`-`: standard input) as program text; bytecode is converted.
/// Null after an error on standard error.
std::unique_ptr<llvm::MemoryBuffer>
readProgram(llvm::StringRef path, const DialectRegistry &registry);

} // namespace mlir::fp8

#endif // FP8_INPUT_READPROGRAM_H
