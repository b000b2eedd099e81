//===- Compile.cpp - programs compiled in memory ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Compile.h.
//
//===----------------------------------------------------------------------===//

#include "fp8/Driver/Compile.h"

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Artifact.h"
#include "fp8/Target/Plan.h"
#include "fp8/Target/Target.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::fp8;

std::optional<Output> mlir::fp8::parseOutput(StringRef name) {
  return llvm::StringSwitch<std::optional<Output>>(name)
      .Case("mlir", Output::MLIR)
      .Case("plan", Output::Plan)
      .Case("report", Output::Report)
      .Case("ptx", Output::PTX)
      .Case("artifact", Output::Artifact)
      .Default(std::nullopt);
}

std::optional<Phase> mlir::fp8::getPhaseOf(Output output) {
  switch (output) {
  case Output::MLIR:
    return std::nullopt;
  case Output::Plan:
  case Output::Report:
    return Phase::Placed;
  case Output::PTX:
  case Output::Artifact:
    return Phase::Lowered;
  }
  return std::nullopt;
}

std::unique_ptr<CompileOptions>
mlir::fp8::parseCompileOptions(StringRef text, FailFunction fail) {
  std::string spaced = text.str();
  llvm::replace(spaced, ',', ' ');
  auto options = std::make_unique<CompileOptions>();
  // Each by itself: of a list, MLIR's parser takes an empty value, as a shell's
  // variable without one leaves it, for no option, and of two values the last.
  llvm::StringSet<> names;
  SmallVector<StringRef> pairs;
  StringRef(spaced).split(pairs, ' ', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  auto refuse = [&](const Twine &reason) {
    (void)fail("cannot read '--compile=" + text + "': " + reason);
    return nullptr;
  };
  for (StringRef pair : pairs) {
    auto [name, value] = pair.split('=');
    if (name.empty() || value.empty())
      return refuse("expected name=value pairs joined by commas, but got '" +
                    pair + "'");
    if (!names.insert(name).second)
      return refuse("expected '" + name + "' once");
    if (failed(options->parseFromString(pair, llvm::nulls())))
      return refuse("expected an option and a value of its type, but got '" +
                    pair +
                    "'; fp8-opt --help lists them below '--fp8-compile'");
  }
  return options;
}

FailureOr<CompileTask> mlir::fp8::prepareCompile(ModuleOp module,
                                                 CompileOptions &options,
                                                 StringRef optionsText,
                                                 Phase last,
                                                 FailFunction fail) {
  CompileTask task{&options, last, getPlannedPhase(module)};
  if (!task.done)
    return task;
  StringRef name = *task.done == Phase::Placed ? "placed" : "planned";
  if (last < *task.done)
    return fail("the input is " + name + " already: it cannot go back to '" +
                (last == Phase::Joint ? "joint" : "planned") + "'");
  if (!optionsText.empty())
    return fail("the input is " + name +
                " already: expected '--compile' without options, but got '" +
                optionsText + "'");
  if (!getTargetOf(module))
    return failure();
  auto target = module->getAttrOfType<StringAttr>(kTargetAttr);
  options.target = target ? target.str() : "cpu";
  return task;
}

LogicalResult mlir::fp8::runCompile(ModuleOp module, PassManager &manager,
                                    const CompileTask &task) {
  buildCompilePipeline(manager, *task.options, task.last, task.done);
  return manager.run(module);
}

FailureOr<std::string> mlir::fp8::makeOutput(ModuleOp module, Output output) {
  std::string text;
  llvm::raw_string_ostream os(text);
  switch (output) {
  case Output::MLIR:
    module.print(os);
    return text;
  case Output::Plan:
    return failed(writePlan(module, os)) ? FailureOr<std::string>(failure())
                                         : text;
  case Output::Report:
    return failed(writeReport(module, os)) ? FailureOr<std::string>(failure())
                                           : text;
  case Output::PTX:
    return compileToPTX(module);
  case Output::Artifact:
    if (failed(writePlan(module, os)))
      return failure();
    return buildArtifact(module, text);
  }
  return failure();
}
