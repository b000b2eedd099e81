//===- FP8Opt.cpp - C interface of the compiler -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each call has a context of its own, so that calls share nothing and what a
// program leaves in one is gone with it.
//
//===----------------------------------------------------------------------===//

#include "fp8/CAPI/fp8opt.h"

#include "Memory.h"

#include "fp8/Driver/Compile.h"
#include "fp8/Input/Nesting.h"
#include "fp8/Interfaces/ExternalModels.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"

#include <new>

using namespace mlir;
using namespace mlir::fp8;

namespace {

struct StoredDiagnostic {
  fp8opt_severity severity;
  std::string message, file, value;
  unsigned line = 0, column = 0;
};

struct OutputBit {
  fp8opt_output bit;
  Output output;
};

/// In the order of making: what changes the module comes last.
constexpr OutputBit kOutputs[] = {{FP8OPT_MLIR, Output::MLIR},
                                  {FP8OPT_PLAN, Output::Plan},
                                  {FP8OPT_REPORT, Output::Report},
                                  {FP8OPT_PTX, Output::PTX},
                                  {FP8OPT_ARTIFACT, Output::Artifact}};

constexpr uint32_t kAllOutputs = FP8OPT_PROGRAM | FP8OPT_MLIR | FP8OPT_PLAN |
                                 FP8OPT_REPORT | FP8OPT_PTX | FP8OPT_ARTIFACT;

/// The first place and the first name in a location.
void fillPlace(Location loc, StoredDiagnostic &diagnostic) {
  bool placed = false;
  loc->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part);
        name && diagnostic.value.empty() && !placed)
      diagnostic.value = name.getName().str();
    if (auto file = dyn_cast<FileLineColLoc>(part); file && !placed) {
      placed = true;
      diagnostic.file = file.getFilename().str();
      diagnostic.line = file.getLine();
      diagnostic.column = file.getColumn();
    }
    return WalkResult::advance();
  });
}

fp8opt_severity severityOf(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Error:
    return FP8OPT_ERROR;
  case DiagnosticSeverity::Warning:
    return FP8OPT_WARNING;
  case DiagnosticSeverity::Remark:
    return FP8OPT_REMARK;
  case DiagnosticSeverity::Note:
    return FP8OPT_NOTE;
  }
  return FP8OPT_ERROR;
}

} // namespace

struct fp8opt_result {
  std::vector<StoredDiagnostic> diagnostics;
  std::vector<std::pair<fp8opt_output, std::string>> outputs;

  LogicalResult fail(const Twine &message, unsigned line = 0,
                     unsigned column = 0, StringRef file = "") {
    diagnostics.push_back(
        {FP8OPT_ERROR, message.str(), file.str(), "", line, column});
    return failure();
  }

  void add(Diagnostic &diagnostic) {
    StoredDiagnostic stored{
        severityOf(diagnostic.getSeverity()), diagnostic.str(), "", "", 0, 0};
    fillPlace(diagnostic.getLocation(), stored);
    diagnostics.push_back(std::move(stored));
    for (Diagnostic &note : diagnostic.getNotes())
      add(note);
  }

  LogicalResult run(StringRef text, const fp8opt_request &request);
  LogicalResult compile(ModuleOp module, const fp8opt_request &request);
};

LogicalResult fp8opt_result::compile(ModuleOp module,
                                     const fp8opt_request &request) {
  auto report = [&](const Twine &message) { return fail(message); };
  StringRef optionsText = request.options ? request.options : "";
  std::unique_ptr<CompileOptions> options =
      parseCompileOptions(optionsText, report);
  if (!options)
    return failure();

  std::optional<Phase> needed;
  for (OutputBit entry : kOutputs)
    if (std::optional<Phase> phase = getPhaseOf(entry.output);
        phase && (request.outputs & entry.bit))
      needed = std::max(needed.value_or(*phase), *phase);
  Phase last = needed.value_or(Phase::Placed);
  if (request.phase) {
    std::optional<Phase> asked = parsePhase(request.phase);
    if (!asked)
      return fail("expected the phase to be joint, planned, placed or lowered, "
                  "but got '" +
                  Twine(request.phase) + "'");
    if (needed && *asked != *needed)
      return fail("the phase '" + Twine(request.phase) +
                  "' does not go with the outputs that were asked for");
    last = *asked;
  }
  FailureOr<CompileTask> task =
      prepareCompile(module, *options, optionsText, last, report);
  if (failed(task))
    return failure();
  PassManager manager(module.getContext());
  if (failed(runCompile(module, manager, *task)))
    return failure();
  for (OutputBit entry : kOutputs) {
    if (!(request.outputs & entry.bit))
      continue;
    FailureOr<std::string> bytes = makeOutput(module, entry.output);
    if (failed(bytes))
      return failure();
    outputs.push_back({entry.bit, std::move(*bytes)});
  }
  return success();
}

LogicalResult fp8opt_result::run(StringRef text,
                                 const fp8opt_request &request) {
  if (request.struct_size != sizeof(fp8opt_request))
    return fail("expected 'struct_size' to be " +
                Twine(sizeof(fp8opt_request)) + ", but got " +
                Twine(request.struct_size));
  if (request.outputs == 0 || (request.outputs & ~kAllOutputs))
    return fail("expected 'outputs' to be some of the bits of " +
                Twine(kAllOutputs) + ", but got " + Twine(request.outputs));
  StringRef name = request.name ? request.name : "<program>";
  if (text.starts_with("ML\xefR"))
    return fail("expected the text of a program, but got bytecode");
  if (size_t zero = text.find('\0'); zero != StringRef::npos)
    return fail("expected the text of a program, but byte " + Twine(zero) +
                " is 0");
  if (std::optional<DeepNesting> deep = findDeepNesting(text))
    return fail(deep->message, deep->line, deep->column, name);

  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerDialectAndModels(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    add(diagnostic);
    return success();
  });
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, ParserConfig(&context), name);
  if (!module)
    return failure();
  if (request.outputs & FP8OPT_PROGRAM) {
    std::string printed;
    llvm::raw_string_ostream os(printed);
    module->print(os, OpPrintingFlags().enableDebugInfo());
    outputs.push_back({FP8OPT_PROGRAM, std::move(printed)});
  }
  if (!(request.outputs & ~uint32_t(FP8OPT_PROGRAM)))
    return success();
  return compile(*module, request);
}

int fp8opt_abi_version(void) { return FP8OPT_ABI_VERSION; }

const char *fp8opt_version(void) { return FP8_VERSION; }

int fp8opt_compile(const char *text, size_t size, const fp8opt_request *request,
                   fp8opt_result **result) {
  auto made = std::make_unique<fp8opt_result>();
  LogicalResult done = failure();
  auto body = [&] {
    done = !text      ? made->fail("expected a text, but got a null pointer")
           : !request ? made->fail("expected a request, but got a null pointer")
                      : made->run(StringRef(text, size), *request);
  };
  bool finished = runWithinMemory(
      [](void *call) { (*static_cast<decltype(body) *>(call))(); }, &body);
  if (!finished) {
    // Whatever was written last may be half there.
    (void)made.release();
    made = std::make_unique<fp8opt_result>();
    done = made->fail("the compiler ran out of memory");
  }
  bool hasError = llvm::any_of(made->diagnostics, [](auto &diagnostic) {
    return diagnostic.severity == FP8OPT_ERROR;
  });
  if (failed(done)) {
    made->outputs.clear();
    if (!hasError)
      (void)made->fail("the compiler failed without a reason");
  }
  *result = made.release();
  return failed(done);
}

const char *fp8opt_get_output(const fp8opt_result *result, fp8opt_output output,
                              size_t *size) {
  for (const auto &[bit, bytes] : result->outputs)
    if (bit == output) {
      *size = bytes.size();
      return bytes.c_str();
    }
  *size = 0;
  return nullptr;
}

size_t fp8opt_diagnostic_count(const fp8opt_result *result) {
  return result->diagnostics.size();
}

int fp8opt_get_diagnostic(const fp8opt_result *result, size_t index,
                          fp8opt_diagnostic *diagnostic) {
  if (index >= result->diagnostics.size())
    return 1;
  const StoredDiagnostic &stored = result->diagnostics[index];
  *diagnostic = {stored.severity, stored.message.c_str(), stored.file.c_str(),
                 stored.line,     stored.column,          stored.value.c_str()};
  return 0;
}

void fp8opt_free_result(fp8opt_result *result) { delete result; }
