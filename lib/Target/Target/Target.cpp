//===- Target.cpp - rates and sizes of the machines we plan for -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The targets that are built in, and those of files.
//
//===----------------------------------------------------------------------===//

#include "fp8/Target/Target.h"

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "llvm/Support/MemoryBuffer.h"

#include <map>
#include <mutex>

using namespace mlir;
using namespace mlir::fp8;

/// The files, as text.
static constexpr StringLiteral kTargetTexts[] = {
#include "Targets.inc"
};

ArrayRef<Target> mlir::fp8::getTargets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> read;
    for (StringRef text : kTargetTexts)
      read.push_back(llvm::cantFail(parseTarget(text)));
    return read;
  }();
  return targets;
}

/// The target of the file at `path`, read once.
static const Target *readTarget(StringRef path, std::string &error) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Target>> read;
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Target> &known = read[path.str()];
  if (known)
    return known.get();
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    error = "cannot read the target '" + path.str() +
            "': " + buffer.getError().message();
    return nullptr;
  }
  llvm::Expected<Target> target = parseTarget((*buffer)->getBuffer());
  if (!target) {
    error = path.str() + ": " + llvm::toString(target.takeError());
    return nullptr;
  }
  known = std::make_unique<Target>(std::move(*target));
  return known.get();
}

const Target *mlir::fp8::findTarget(StringRef name, std::string *error) {
  std::string ignored;
  std::string &reason = error ? *error : ignored;
  if (name.ends_with(".json"))
    return readTarget(name, reason);
  reason = "expected a target ending in '.json' or one of ";
  for (const Target &target : getTargets()) {
    if (target.name == name)
      return &target;
    reason += '"' + target.name + "\", ";
  }
  reason += "but got \"" + name.str() + '"';
  return nullptr;
}

const Target *mlir::fp8::getTargetOf(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  Attribute attribute = module ? module->getAttr(kTargetAttr) : Attribute();
  if (!attribute)
    return findTarget("cpu");
  auto name = dyn_cast<StringAttr>(attribute);
  if (!name) {
    module.emitError() << "expected '" << kTargetAttr
                       << "' to be a string, but got " << attribute;
    return nullptr;
  }
  std::string reason;
  const Target *target = findTarget(name.getValue(), &reason);
  if (!target)
    module.emitError() << "'" << kTargetAttr << "': " << reason;
  return target;
}

double mlir::fp8::estimateHostSeconds(const Target &target, int64_t bytes) {
  return target.hostLatencySeconds + bytes / *target.hostBytesPerSecond;
}

double mlir::fp8::estimateSeconds(const Target &target, const OpCost &cost) {
  if (cost.recompute == Recompute::Free)
    return 0;
  double compute = cost.flopsF8 / target.flopsF8Tensor +
                   cost.flopsF8Row / target.flopsF8Row +
                   cost.flopsF8Block / target.flopsF8Block +
                   cost.flopsBF16 / target.flopsBF16 +
                   cost.flopsF32 / target.flopsF32;
  // Products hide what their operands take to move, but not what is added to
  // them at the end.
  double after = double(cost.bytesAccumulated) / target.copyBytesPerSecond;
  double memory = (double(cost.bytesRead) + double(cost.bytesWritten)) /
                      target.copyBytesPerSecond -
                  after;
  double link = cost.bytesSent ? target.linkLatencySeconds +
                                     cost.bytesSent / target.linkBytesPerSecond
                               : 0;
  if (cost.bytesHost)
    return estimateHostSeconds(target, cost.bytesHost);
  // The second half of a collective launches nothing.
  double launch = compute + memory + link > 0 ? target.launchSeconds : 0;
  return std::max(compute, memory) + after + link + launch;
}
