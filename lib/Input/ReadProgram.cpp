//===- ReadProgram.cpp - programs from files --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The process in which bytecode is read, and what its parent makes of its end.
//
//===----------------------------------------------------------------------===//

#include "fp8/Input/ReadProgram.h"

#include "fp8/Input/Nesting.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// AddressSanitizer reserves terabytes of addresses.
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define FP8_ADDRESS_SANITIZER
#endif
#endif

using namespace mlir;

/// Seconds of processor time for reading `bytes` bytes: a thousand times what
/// intact bytecode takes.
static rlim_t getTimeLimit(size_t bytes) { return 2 + bytes / (1 << 18); }

/// Reads `bytecode` and writes its text to `descriptor`; does not return.
[[noreturn]] static void runReader(llvm::MemoryBufferRef bytecode,
                                   const DialectRegistry &registry,
                                   int descriptor) {
  // The handlers of the parent would print a stack trace of a crash that is
  // expected here.
  for (int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP})
    signal(number, SIG_DFL);
  rlim_t seconds = getTimeLimit(bytecode.getBufferSize());
  rlimit time{seconds, seconds + 1}, core{0, 0};
  setrlimit(RLIMIT_CPU, &time);
  setrlimit(RLIMIT_CORE, &core);
#ifndef FP8_ADDRESS_SANITIZER
  rlimit memory{rlim_t(8) << 30, rlim_t(8) << 30};
  setrlimit(RLIMIT_AS, &memory);
#endif
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(bytecode, false),
                             llvm::SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  if (!module)
    _exit(1);
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/false);
  module->print(stream,
                OpPrintingFlags().enableDebugInfo().printGenericOpForm());
  stream.flush();
  // Without destructors: what damaged input did to the heap must not matter.
  _exit(stream.has_error() ? 1 : 0);
}

static std::unique_ptr<llvm::MemoryBuffer> fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << '\n';
  return nullptr;
}

std::unique_ptr<llvm::MemoryBuffer>
fp8::convertBytecode(llvm::MemoryBufferRef bytecode,
                     const DialectRegistry &registry) {
  llvm::StringRef name = bytecode.getBufferIdentifier();
  int ends[2];
  if (pipe(ends) != 0)
    return fail("cannot make a pipe: " + llvm::Twine(strerror(errno)));
  llvm::outs().flush();
  llvm::errs().flush();
  pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return fail("cannot start a process to read '" + name +
                "': " + strerror(errno));
  }
  if (child == 0) {
    close(ends[0]);
    runReader(bytecode, registry, ends[1]);
  }
  close(ends[1]);
  std::string text;
  char part[1 << 16];
  while (true) {
    ssize_t size = read(ends[0], part, sizeof part);
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0)
      break;
    text.append(part, size);
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  if (WIFSIGNALED(status))
    return fail("'" + name + "' is damaged bytecode: its reader ended with '" +
                strsignal(WTERMSIG(status)) + "'");
  if (WEXITSTATUS(status) != 0)
    return fail("expected bytecode in '" + name +
                "', but it cannot be read; it may be damaged or from another "
                "version");
  return llvm::MemoryBuffer::getMemBufferCopy(text, name);
}

std::unique_ptr<llvm::MemoryBuffer>
fp8::readProgram(llvm::StringRef path, const DialectRegistry &registry) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer = openInputFile(path, &message);
  if (!buffer)
    return fail(message);
  if (isBytecode(*buffer))
    return convertBytecode(*buffer, registry);
  if (std::optional<DeepNesting> deep = findDeepNesting(buffer->getBuffer())) {
    llvm::errs() << buffer->getBufferIdentifier() << ':' << deep->line << ':'
                 << deep->column << ": error: " << deep->message << '\n';
    return nullptr;
  }
  return buffer;
}
