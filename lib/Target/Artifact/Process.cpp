//===- Process.cpp ----------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs write their messages to a file of their own, so that they can be
// quoted.
//
//===----------------------------------------------------------------------===//

#include "Process.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace mlir::fp8;

LogicalResult TemporaryFile::create(ModuleOp module, StringRef suffix) {
  if (std::error_code code = llvm::sys::fs::createTemporaryFile(
          "fp8-kernels", suffix, descriptor, path))
    return module.emitError()
           << "cannot make a temporary file: " << code.message();
  remover.emplace(path);
  return success();
}

LogicalResult TemporaryFile::write(ModuleOp module, StringRef contents) {
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << contents;
  stream.close();
  if (stream.has_error())
    return module.emitError()
           << "cannot write '" << path << "': " << stream.error().message();
  return success();
}

std::string TemporaryFile::read() const {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

LogicalResult mlir::fp8::runProgram(ModuleOp module, StringRef what,
                                    ArrayRef<StringRef> arguments) {
  TemporaryFile messages;
  if (failed(messages.create(module, "txt")))
    return failure();
  std::optional<StringRef> redirects[] = {StringRef(), messages.getPath(),
                                          messages.getPath()};
  std::string error;
  int code = llvm::sys::ExecuteAndWait(arguments.front(), arguments,
                                       std::nullopt, redirects, 0, 0, &error);
  if (code == 0)
    return success();
  return module.emitError()
         << "cannot " << what << ": '" << arguments.front() << "' failed with "
         << code << ": " << StringRef(error + messages.read()).trim();
}
