//===- WriteReport.cpp - the plan as a person reads it ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The report: the peak and what is live there, what is kept and why, what is
// computed again and what that costs, what was freed early.
//
//===----------------------------------------------------------------------===//

#include "PlanFacts.h"
#include "fp8/Target/Plan.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mlir::fp8;

static std::string padLeft(StringRef text, size_t width) {
  return std::string(text.size() < width ? width - text.size() : 0, ' ') +
         text.str();
}

static void printLine(raw_ostream &os, StringRef label, int64_t bytes,
                      const Twine &note = "") {
  std::string tail = note.str();
  os << "  " << llvm::left_justify(label, 22) << padLeft(formatBytes(bytes), 20)
     << (tail.empty() ? "" : "   ") << tail << '\n';
}

/// What a reader must know of the rates behind the estimates.
static StringRef describe(TargetStatus status) {
  switch (status) {
  case TargetStatus::Measured:
    return "";
  case TargetStatus::Datasheet:
    return " (data-sheet rates: never run on this device)";
  case TargetStatus::Guessed:
    return " (rates not calibrated on the device)";
  }
  return "";
}

static void writeFunction(const PlanFacts &facts, raw_ostream &os) {
  const PeakInfo &peak = facts.planned.peak;
  os << "@" << facts.function << " on " << facts.target->name
     << describe(facts.target->status);
  if (!facts.decisions.policy.empty())
    os << ", policy " << facts.decisions.policy;
  if (facts.decisions.interrupted)
    os << " (interrupted: the best plan so far)";
  os << "\n\n";
  printLine(os, "peak", peak.peak,
            peak.peakKernel < 0 ? std::string()
                                : "at " + facts.describe(peak.peakKernel));
  if (!facts.decisions.policy.empty())
    printLine(os, "smallest feasible peak", facts.decisions.minFeasiblePeak);
  if (!facts.decisions.boundKind.empty())
    printLine(os, "no plan is below", facts.decisions.lowerBound,
              "bound: " + Twine(facts.decisions.boundKind));
  printLine(os, "arena", facts.arenaBytes, "one allocation, slots of 256 B");
  printLine(os, "resident", facts.planned.graph->getResidentBytes(),
            "arguments and parameters, not in the peak");
  printLine(os, "kept for backward", facts.savedBytes,
            Twine(facts.saved.size()) + " values");
  if (!facts.offloaded.empty())
    printLine(os, "in host memory", facts.hostBytes,
              Twine(facts.offloaded.size()) + " values");
  os << llvm::formatv("  {0,-22}{1,17:F3} ms\n", "step, estimated",
                      facts.stepSeconds * 1e3);
  os << llvm::formatv("  {0,-22}{1,17:F3} ms\n", "of that recompute",
                      facts.decisions.recomputeSeconds * 1e3);

  if (facts.decisions.stepLowerBound > 0 && facts.partOf.empty()) {
    os << llvm::formatv(
        "  {0,-22}{1,17:F2} %    over {2:F3} ms, bound: {3}\n", "gap",
        100 * (facts.stepSeconds / facts.decisions.stepLowerBound - 1),
        facts.decisions.stepLowerBound * 1e3, facts.decisions.stepBoundKind);
    if (facts.target->modelErrorPct)
      os << llvm::formatv("  {0,-22}{1,17:F2} %    of an estimate against "
                          "measured steps, at most\n",
                          "error of the model", *facts.target->modelErrorPct);
    else
      os << llvm::formatv("  {0,-22}{1,19}    no estimate was compared with a "
                          "measured step\n",
                          "error of the model", "unknown");
  }

  if (!facts.transfers.empty())
    os << llvm::formatv("  {0,-22}{1,17:F3} ms   {2:F1}% hidden\n",
                        "communication", facts.transferSeconds * 1e3,
                        100 * facts.hiddenSeconds /
                            std::max(facts.transferSeconds, 1e-12));

  if (!facts.offloaded.empty())
    os << llvm::formatv("  {0,-22}{1,17:F3} ms   {2:F1}% hidden\n",
                        "copies to the host", facts.hostSeconds * 1e3,
                        100 * facts.hostHiddenSeconds / facts.hostSeconds);

  os << "\nLive at the peak\n";
  for (const PlanFacts::Live &entry : facts.liveAtPeak)
    os << padLeft(formatBytes(entry.bytes), 20) << "  "
       << llvm::left_justify(entry.kind, 10) << entry.name
       << (entry.transfer.empty()
               ? std::string()
               : ", for the transfer of " + entry.transfer + " under way")
       << '\n';

  if (!facts.saved.empty())
    os << "\nKept for backward\n";
  for (const PlanFacts::Saved &entry : facts.saved)
    os << padLeft(formatBytes(entry.bytes), 20) << "  " << entry.decision.value
       << " (" << entry.decision.op << ", " << entry.decision.form << ")\n"
       << std::string(22, ' ') << entry.decision.why << '\n';

  if (!facts.offloaded.empty())
    os << "\nKept in host memory between forward and backward\n";
  for (const PlanFacts::Offloaded &entry : facts.offloaded)
    os << padLeft(formatBytes(entry.bytes), 20) << "  " << entry.decision.value
       << " (" << entry.decision.op << "): leaves the device after "
       << entry.outUntil << ", comes back from " << entry.backFrom << " on\n"
       << std::string(22, ' ') << entry.decision.why << '\n';

  if (!facts.decisions.recomputed.empty())
    os << "\nComputed again in backward\n";
  for (const RecomputedDecision &entry : facts.decisions.recomputed)
    os << llvm::formatv("{0,17:F3} us  ", entry.seconds * 1e6) << entry.value
       << " (" << entry.op << ", " << entry.times
       << (entry.times == 1 ? " time" : " times") << ")\n"
       << std::string(22, ' ') << entry.why << '\n';

  if (!facts.decisions.pieces.empty())
    os << "\nMade in pieces of rows or columns\n";
  for (const PiecesDecision &entry : facts.decisions.pieces)
    os << llvm::formatv("{0,20}  ", entry.pieces) << entry.value << '\n'
       << std::string(22, ' ') << entry.why << '\n';

  if (!facts.inPlace.empty())
    os << "\nWritten in place\n";
  for (const PlanFacts::InPlace &entry : facts.inPlace)
    os << padLeft(formatBytes(entry.bytes), 20) << "  " << entry.name
       << " over " << (entry.inArgument ? "argument " : "") << entry.over
       << '\n';

  if (!facts.grouped.empty())
    os << "\nProducts of groups of rows, planned for the worst case\n";
  for (const PlanFacts::Grouped &entry : facts.grouped)
    os << padLeft(std::to_string(entry.capacity), 20) << "  rows in "
       << entry.groups << " groups, " << entry.balanced
       << " if balanced: " << entry.name
       << llvm::formatv(", {0:F3} us, {1:F3} if balanced\n",
                        entry.seconds * 1e6, entry.balancedSeconds * 1e6);
  if (!facts.grouped.empty())
    printLine(os, "peak if balanced", facts.balancedPeak,
              "in the worst case " + Twine(formatBytes(peak.peak)) +
                  ", which the plan has room for");

  if (!facts.transfers.empty())
    os << "\nExchanged with other ranks\n";
  for (const PlanFacts::Transfer &entry : facts.transfers)
    os << padLeft(formatBytes(entry.ownBytes), 20) << "  to "
       << padLeft(formatBytes(entry.resultBytes), 20) << "  " << entry.name
       << " along " << entry.axis
       << llvm::formatv(", {0:F3} us, {1:F3} hidden{2}\n", entry.seconds * 1e6,
                        entry.hiddenSeconds * 1e6,
                        entry.from.empty() ? std::string()
                        : entry.from == entry.until
                            ? " beside " + entry.from
                            : " beside " + entry.from + " to " + entry.until);

  int64_t early = 0, count = 0;
  std::vector<const PlanFacts::Free *> freed;
  for (const PlanFacts::Free &entry : facts.frees)
    if (entry.after < entry.naiveAfter) {
      early += entry.bytes;
      ++count;
      freed.push_back(&entry);
    }
  if (!facts.lossy.empty())
    os << "\nRead in backward in an inexact form: gradients differ from the "
          "exact plan's\n";
  for (const PlanFacts::Lossy &entry : facts.lossy) {
    os << padLeft(formatBytes(entry.bytes), 20) << "  " << entry.value << " as "
       << entry.form << ", instead of " << formatBytes(entry.exactBytes);
    if (entry.gradientError)
      os << llvm::formatv("; gradients change by {0:E2}, relative",
                          *entry.gradientError);
    else
      os << "; the gradients' change is not measured (lossy-seed)";
    if (!entry.counter.empty())
      os << "; exact where '" << entry.counter << "' counts 0";
    os << '\n';
  }

  os << "\nFreed early: " << count << " of " << facts.frees.size()
     << " values, " << formatBytes(early)
     << ", before the end of their region\n";
  printLine(os, "peak if freed at end", facts.naivePeak,
            "early frees save " +
                Twine(formatBytes(facts.naivePeak - peak.peak)));
  // The large ones by name.
  llvm::stable_sort(freed,
                    [](auto *a, auto *b) { return a->bytes > b->bytes; });
  constexpr size_t kMostNamed = 20;
  for (const PlanFacts::Free *entry : ArrayRef(freed).take_front(kMostNamed))
    os << padLeft(formatBytes(entry->bytes), 20) << "  " << entry->name
       << " after " << facts.describe(entry->after) << '\n';
  if (freed.size() > kMostNamed)
    os << std::string(22, ' ') << "and " << freed.size() - kMostNamed
       << " smaller ones\n";
}

LogicalResult mlir::fp8::writeReport(ModuleOp module, raw_ostream &os) {
  FailureOr<std::vector<PlanFacts>> all = readPlanFacts(module);
  if (failed(all))
    return failure();
  if (all->empty())
    return module.emitError(
        "expected a function with a body to plan, but the module has none");
  for (auto [index, facts] : llvm::enumerate(*all)) {
    os << (index ? "\n" : "");
    writeFunction(facts, os);
  }
  return success();
}
