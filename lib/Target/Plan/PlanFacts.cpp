//===- PlanFacts.cpp - what a plan says of one function ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the facts of a plan from placed IR.
//
//===----------------------------------------------------------------------===//

#include "PlanFacts.h"

#include "fp8/Target/Signature.h"
#include "fp8/Target/Target.h"

#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::fp8;

/// What a part of a split step makes for the parts after it.
void PlanFacts::readPart(func::FuncOp func, const ValueNames &names) {
  auto whole = func->getAttrOfType<StringAttr>(kPartOfAttr);
  if (!whole)
    return;
  partOf = llvm::json::fixUTF8(whole.getValue());
  unsigned numSaved = 0;
  Operation *returnOp = func.getBody().front().getTerminator();
  for (OpOperand &use : returnOp->getOpOperands()) {
    auto segment = func.getResultAttrOfType<StringAttr>(use.getOperandNumber(),
                                                        kSegmentAttr);
    if (!segment || !crossing.insert(getRoot(use.get())).second)
      continue;
    int64_t bytes = getByteSize(use.get().getType());
    if (segment.getValue() == "deferred") {
      deferredBytes += bytes;
      continue;
    }
    SavedDecision decision;
    decision.value = names.getName(use.get());
    if (numSaved < decisions.saved.size())
      decision = decisions.saved[numSaved++];
    saved.push_back({decision, bytes});
    savedBytes += bytes;
  }
}

/// Reads the transfers, as they run beside other kernels.
void PlanFacts::readTransfers() {
  // Of a value in host memory, in either region.
  DenseMap<Value, size_t> onHost; // looked up only
  if (StepOp step = planned.graph->step) {
    size_t number = 0;
    for (auto [residual, argument] :
         llvm::zip(step.getForwardYield().getResiduals(),
                   step.getBackward().getArguments()))
      if (getHostByteSize(residual.getType())) {
        onHost[getRoot(residual)] = onHost[argument] = number;
        ++number;
      }
  }
  auto nameOf = [&](int kernel) {
    return kernel < 0 ? std::string() : kernelNames[kernel];
  };
  run = fp8::replay(planned);
  stepSeconds = run.seconds;
  for (const TransferRun &entry : run.transfers) {
    Operation *op = planned.getOp(entry.start);
    if (entry.kind != TransferRun::Exchange) {
      bool isOut = entry.kind == TransferRun::ToHost;
      auto it = onHost.find(isOut ? op->getResult(0) : op->getOperand(0));
      if (it == onHost.end())
        continue; // Of a plan that the checker refuses.
      Offloaded &value = offloaded[it->second];
      value.seconds = entry.seconds;
      if (isOut) {
        value.outHiddenSeconds = entry.hiddenSeconds;
        value.outUntil = nameOf(entry.lastBefore);
      } else {
        value.backHiddenSeconds = entry.hiddenSeconds;
        value.backFrom = nameOf(entry.firstAfter);
      }
      continue;
    }
    std::optional<Collective> collective;
    for (Operation &inner : cast<KernelOp>(op).getBody().front())
      if (std::optional<Collective> found = getCollective(&inner))
        collective = found;
    const KernelNode &kernel = planned.kernels.kernels[entry.start];
    const PlanNode &node =
        planned.program->node(planned.program->instances[kernel.members[0]]);
    bool isBeside = entry.isBeside();
    transfers.push_back(
        {kernelNames[entry.start], llvm::json::fixUTF8(collective->axis),
         getByteSize(collective->x.getType()),
         getByteSize(collective->result.getType()), node.cost.bytesSent,
         entry.seconds, entry.hiddenSeconds,
         nameOf(isBeside ? entry.firstAfter : -1),
         nameOf(isBeside ? entry.lastBefore : -1)});
  }
  for (const Transfer &transfer : transfers) {
    transferSeconds += transfer.seconds;
    hiddenSeconds += transfer.hiddenSeconds;
  }
  for (const Offloaded &entry : offloaded) {
    hostSeconds += 2 * entry.seconds;
    hostHiddenSeconds += entry.outHiddenSeconds + entry.backHiddenSeconds;
  }
}

StringRef PlanFacts::getKind(int kernel) const {
  Operation *op = planned.getOp(kernel);
  if (isa<WaitOp>(op))
    return "wait";
  return llvm::any_of(op->getResultTypes(), llvm::IsaPred<TokenType>)
             ? "start"
             : "kernel";
}

std::string PlanFacts::describe(int kernel) const {
  StringRef kind = getKind(kernel);
  return (kind == "wait"    ? "the wait for "
          : kind == "start" ? "the start of "
                            : "") +
         kernelNames[kernel];
}

/// By storage root: the transfer under way at `position` that alone keeps the
/// storage there, as its source after the last kernel that uses it, or as its
/// result before it is complete.
std::map<int, size_t> PlanFacts::findInFlight(int position) const {
  std::map<int, size_t> inFlight;
  std::vector<int> lastUse(planned.ranges.size(), -1);
  const std::vector<KernelNode> &kernels = planned.kernels.kernels;
  for (auto [index, kernel] : llvm::enumerate(kernels))
    if (!isa<WaitOp>(planned.getOp(index)))
      for (int root : kernel.reads)
        lastUse[root] = index;
  for (auto [number, entry] : llvm::enumerate(run.transfers)) {
    if (entry.start > position || position > entry.wait ||
        entry.start == entry.wait)
      continue;
    for (int root : kernels[entry.start].outputs)
      inFlight[root] = number;
    for (int root : kernels[entry.start].reads)
      if (lastUse[root] < position && !planned.getEntry(root).escapes)
        inFlight[root] = number;
  }
  return inFlight;
}

FailureOr<PlanFacts> PlanFacts::read(func::FuncOp func, const Target &target) {
  auto arena = func->getAttrOfType<IntegerAttr>(kArenaBytesAttr);
  if (!arena)
    return func.emitError("expected placed IR, but got no '")
           << kArenaBytesAttr << "'; run 'fp8-place' first";
  FailureOr<PlannedProgram> planned = PlannedProgram::read(func, target);
  if (failed(planned))
    return failure();
  PlanFacts facts;
  facts.planned = std::move(*planned);
  facts.function = llvm::json::fixUTF8(func.getName());
  facts.target = &target;
  facts.arenaBytes = arena.getInt();
  if (std::optional<Decisions> decisions = Decisions::read(func))
    facts.decisions = std::move(*decisions);
  const KernelGraph &kernels = facts.planned.kernels;
  ValueNames names(func);
  for (int index = 0, end = kernels.kernels.size(); index < end; ++index)
    facts.kernelNames.push_back(names.getName(facts.planned.getOp(index)));

  // A form may be read in several places, and in pieces.
  StringSet<> lossy; // Looked up only.
  func.walk([&](DequantizeOp op) {
    auto entry = op->getAttrOfType<DictionaryAttr>(kLossyAttr);
    if (!entry)
      return;
    auto text = [&](StringRef key) {
      auto attr = entry.getAs<StringAttr>(key);
      return attr ? llvm::json::fixUTF8(attr.getValue()) : std::string();
    };
    auto number = [&](StringRef key) {
      auto attr = entry.getAs<IntegerAttr>(key);
      return attr ? attr.getInt() : 0;
    };
    auto error = entry.getAs<FloatAttr>("grad_rel_error");
    if (lossy.insert(text("value")).second)
      facts.lossy.push_back(
          {text("value"), text("form"), number("bytes"), number("exact_bytes"),
           error ? std::optional(error.getValueAsDouble()) : std::nullopt,
           text("counter")});
  });

  // Residuals, in the order of the step, with the record's words for each.
  if (StepOp step = facts.planned.graph->step) {
    OperandRange residuals = step.getForwardYield().getResiduals();
    SetVector<Value> roots; // each storage counts once
    for (auto [index, residual] : llvm::enumerate(residuals)) {
      SavedDecision decision;
      if (residuals.size() == facts.decisions.saved.size())
        decision = facts.decisions.saved[index];
      else
        decision.value = names.getName(residual);
      if (int64_t bytes = getHostByteSize(residual.getType())) {
        facts.offloaded.emplace_back();
        facts.offloaded.back().decision = decision;
        facts.offloaded.back().bytes = bytes;
        facts.hostBytes += bytes;
        continue;
      }
      Value root = getRoot(residual);
      if (decision.escapes || !root.getDefiningOp() || !roots.insert(root))
        continue;
      facts.saved.push_back({decision, getByteSize(residual.getType())});
      facts.savedBytes += facts.saved.back().bytes;
    }
  }

  facts.readPart(func, names);
  facts.readTransfers();
  facts.readGroups();

  int numKernels = kernels.kernels.size(), end = numKernels - 1,
      firstBackward = kernels.firstBackward;
  std::vector<int64_t> transient(numKernels + 1, 0), naive(numKernels + 1, 0);
  int peak = facts.planned.peak.peakKernel;
  std::vector<int> makers(facts.planned.ranges.size(), -1);
  for (auto [index, kernel] : llvm::enumerate(kernels.kernels))
    for (int output : kernel.outputs)
      makers[output] = index;
  std::map<int, size_t> inFlight = facts.findInFlight(peak);
  auto getTransfer = [&](int root) {
    auto it = inFlight.find(root);
    return it == inFlight.end()
               ? std::string()
               : facts.kernelNames[facts.run.transfers[it->second].start];
  };
  for (auto [root, range] : llvm::enumerate(facts.planned.ranges)) {
    if (range.first < 0 && range.predecessor < 0)
      continue;
    const PlanValue &value = facts.planned.getEntry(root);
    std::string name = names.getName(value.value);
    if (int over = range.predecessor >= 0 ? range.predecessor : range.part;
        over >= 0)
      facts.inPlace.push_back(
          {name, names.getName(facts.planned.getEntry(over).value), value.bytes,
           /*inArgument=*/range.first < 0});
    if (range.first < 0)
      continue;
    int lastUse = range.getLastUse();
    bool crosses = range.first < firstBackward && lastUse >= firstBackward;
    if (value.escapes && !facts.crossing.contains(value.value))
      facts.ioBytes += value.bytes;
    if (!value.escapes && !crosses) {
      transient[range.first] += value.bytes;
      transient[range.second + 1] -= value.bytes;
    }
    int regionEnd = lastUse < firstBackward ? firstBackward - 1 : end;
    // What is freed at the end of its region is not written over, nor made in
    // what is gathered.
    int made = range.first;
    if (range.part >= 0) {
      const PlanValue &part = facts.planned.getEntry(range.part);
      made = makers[root];
      naive[range.first] += part.bytes;
      naive[(made < firstBackward ? firstBackward - 1 : end) + 1] -= part.bytes;
    }
    naive[made] += value.bytes;
    naive[regionEnd + 1] -= value.bytes;
    if (!value.escapes && range.successor < 0)
      facts.frees.push_back({name, value.bytes, range.second, regionEnd});
    if (range.first <= peak && peak <= range.second)
      facts.liveAtPeak.push_back({name, value.bytes,
                                  value.escapes ? "result"
                                  : crosses     ? "residual"
                                                : "local",
                                  getTransfer(root)});
  }
  llvm::stable_sort(facts.frees, [](const Free &a, const Free &b) {
    return a.after < b.after;
  });
  if (peak >= 0 && kernels.kernels[peak].workspace)
    facts.liveAtPeak.push_back({facts.kernelNames[peak],
                                kernels.kernels[peak].workspace, "workspace",
                                ""});
  llvm::stable_sort(facts.liveAtPeak, [](const Live &a, const Live &b) {
    return a.bytes > b.bytes;
  });
  int64_t transientLive = 0, naiveLive = 0;
  for (auto [index, kernel] : llvm::enumerate(kernels.kernels)) {
    transientLive += transient[index];
    naiveLive += naive[index];
    facts.transientBytes =
        std::max(facts.transientBytes, transientLive + kernel.workspace);
    facts.naivePeak = std::max(facts.naivePeak, naiveLive + kernel.workspace);
  }
  return facts;
}

FailureOr<std::vector<PlanFacts>> mlir::fp8::readPlanFacts(ModuleOp module) {
  const Target *target = getTargetOf(module);
  if (!target)
    return failure();
  std::vector<PlanFacts> result;
  for (bool isOnce : {false, true})
    for (auto func : module.getOps<func::FuncOp>()) {
      if (func.isExternal() || runsOnceAStep(func) != isOnce)
        continue;
      FailureOr<PlanFacts> facts = PlanFacts::read(func, *target);
      if (failed(facts))
        return failure();
      facts->stepBytes = isOnce ? 0 : getStepBytes(module);
      result.push_back(std::move(*facts));
    }
  return result;
}
