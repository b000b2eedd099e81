//===- WritePlan.cpp - plan.json --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan for programs. What is not proved or not known is null, with the
// reason beside it.
//
//===----------------------------------------------------------------------===//

#include "PlanFacts.h"
#include "fp8/Target/Plan.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fp8;

/// Microseconds, to a picosecond, so that equal plans print equal numbers.
static llvm::json::Value microseconds(double seconds) {
  return std::round(seconds * 1e12) / 1e6;
}

/// Bytes as one arena slot takes them.
static int64_t roundToSlot(int64_t bytes) { return (bytes + 255) / 256 * 256; }

static llvm::json::Array getSegments(const PlanFacts &facts) {
  auto segment = [](StringRef name, StringRef lifetime, int64_t bytes) {
    return llvm::json::Object{{"name", name},
                              {"lifetime", lifetime},
                              {"bytes", bytes},
                              {"arena_bytes", roundToSlot(bytes)}};
  };
  // One arena for the whole microbatch, or for a part of a split one, and what
  // start_of_step makes beside it.
  return llvm::json::Array{
      segment("step", "all microbatches", facts.stepBytes),
      segment("saved", "forward to backward of one microbatch",
              facts.savedBytes),
      segment("deferred", "until a deferred weight gradient",
              facts.deferredBytes),
      segment("transient", "within one region", facts.transientBytes),
      segment("io", "until the caller has read it", facts.ioBytes)};
}

static llvm::json::Array getLossy(const PlanFacts &facts) {
  llvm::json::Array all;
  for (const PlanFacts::Lossy &entry : facts.lossy) {
    llvm::json::Object object{{"value", entry.value},
                              {"form", entry.form},
                              {"bytes", entry.bytes},
                              {"exact_bytes", entry.exactBytes}};
    if (entry.gradientError) {
      object["grad_rel_error"] = *entry.gradientError;
    } else {
      object["grad_rel_error"] = nullptr;
      object["grad_rel_error_reason"] =
          "not measured: 'lossy-seed' names the inputs to measure it on";
    }
    if (!entry.counter.empty())
      object["counter"] = entry.counter;
    all.push_back(std::move(object));
  }
  return all;
}

static llvm::json::Array getOffloaded(const PlanFacts &facts) {
  llvm::json::Array all;
  for (const PlanFacts::Offloaded &entry : facts.offloaded)
    all.push_back(llvm::json::Object{
        {"value", entry.decision.value},
        {"op", entry.decision.op},
        {"loc", entry.decision.loc},
        {"bytes", entry.bytes},
        {"us", microseconds(entry.seconds)},
        {"out_hidden_us", microseconds(entry.outHiddenSeconds)},
        {"back_hidden_us", microseconds(entry.backHiddenSeconds)},
        {"out_until", entry.outUntil},
        {"back_from", entry.backFrom},
        {"why", entry.decision.why}});
  return all;
}

static llvm::json::Array getGrouped(const PlanFacts &facts) {
  llvm::json::Array all;
  for (const PlanFacts::Grouped &entry : facts.grouped)
    all.push_back(llvm::json::Object{
        {"value", entry.name},
        {"groups", entry.groups},
        {"align", entry.align},
        {"capacity_rows", entry.capacity},
        {"balanced_rows", entry.balanced},
        {"us", microseconds(entry.seconds)},
        {"balanced_us", microseconds(entry.balancedSeconds)}});
  return all;
}

static llvm::json::Object describe(const PlanFacts &facts) {
  const PeakInfo &peak = facts.planned.peak;
  llvm::json::Object plan{
      {"function", facts.function},
      {"policy", facts.decisions.policy},
      {"interrupted", facts.decisions.interrupted},
      {"peak_bytes", peak.peak},
      {"arena_bytes", facts.arenaBytes},
      {"saved_bytes", facts.savedBytes},
      {"transient_bytes", facts.transientBytes},
      {"resident_bytes", facts.planned.graph->getResidentBytes()},
      {"segments", getSegments(facts)},
      {"step_us", microseconds(facts.stepSeconds)},
      {"recompute_us", microseconds(facts.decisions.recomputeSeconds)},
      {"communication_us", microseconds(facts.transferSeconds)},
      {"hidden_us", microseconds(facts.hiddenSeconds)},
      {"host_bytes", facts.hostBytes},
      {"host_us", microseconds(facts.hostSeconds)},
      {"host_hidden_us", microseconds(facts.hostHiddenSeconds)},
      {"offloaded", getOffloaded(facts)},
      {"lossy", getLossy(facts)},
      {"grouped", getGrouped(facts)},
      {"balanced_peak_bytes", facts.balancedPeak}};
  if (facts.target->deviceOverheadBytes) {
    plan["device_bytes"] = facts.planned.graph->getResidentBytes() +
                           facts.arenaBytes +
                           *facts.target->deviceOverheadBytes;
  } else {
    plan["device_bytes"] = nullptr;
    plan["device_bytes_reason"] =
        "the target has no measured overhead of context and libraries";
  }
  plan["part_of"] = nullptr;
  if (!facts.partOf.empty())
    plan["part_of"] = facts.partOf;
  // What only fp8-select-saved finds out, where it has not run.
  if (facts.decisions.policy.empty() || !facts.partOf.empty()) {
    StringRef reason =
        facts.partOf.empty()
            ? "fp8-select-saved has not run on this function"
            : "fp8-select-saved has looked at the whole step, of which this "
              "function is a part";
    plan["min_feasible_peak_bytes"] = nullptr;
    plan["min_feasible_peak_reason"] = reason;
    plan["lower_bound_bytes"] = nullptr;
    plan["bound_kind"] = nullptr;
    plan["lower_bound_reason"] = reason;
    plan["gap_pct"] = nullptr;
    plan["gap_reason"] = reason;
    plan["step_lower_bound_us"] = nullptr;
    plan["step_bound_kind"] = nullptr;
  } else {
    plan["min_feasible_peak_bytes"] = facts.decisions.minFeasiblePeak;
    plan["lower_bound_bytes"] = facts.decisions.lowerBound;
    plan["bound_kind"] = facts.decisions.boundKind;
    double bound = facts.decisions.stepLowerBound;
    plan["step_lower_bound_us"] = microseconds(bound);
    plan["step_bound_kind"] = facts.decisions.stepBoundKind;
    plan["gap_pct"] = nullptr;
    if (bound > 0)
      plan["gap_pct"] = std::round((facts.stepSeconds / bound - 1) * 1e6) / 1e4;
    else
      plan["gap_reason"] = "the bound on the step time is zero";
  }
  llvm::json::Array saved, recomputed, pieces, frees, inPlace, transfers,
      timeline, live;
  for (const PlanFacts::Saved &entry : facts.saved)
    saved.push_back(llvm::json::Object{{"value", entry.decision.value},
                                       {"op", entry.decision.op},
                                       {"loc", entry.decision.loc},
                                       {"bytes", entry.bytes},
                                       {"form", entry.decision.form},
                                       {"why", entry.decision.why}});
  for (const RecomputedDecision &entry : facts.decisions.recomputed)
    recomputed.push_back(
        llvm::json::Object{{"value", entry.value},
                           {"op", entry.op},
                           {"times", entry.times},
                           {"cost_us", microseconds(entry.seconds)},
                           {"why", entry.why}});
  for (const PiecesDecision &entry : facts.decisions.pieces)
    pieces.push_back(llvm::json::Object{{"value", entry.value},
                                        {"pieces", entry.pieces},
                                        {"rows", entry.rows},
                                        {"why", entry.why}});
  for (const PlanFacts::Free &entry : facts.frees)
    frees.push_back(llvm::json::Object{
        {"value", entry.name},
        {"bytes", entry.bytes},
        {"after", facts.kernelNames[entry.after]},
        {"after_kind", facts.getKind(entry.after)},
        {"naive_after", facts.kernelNames[entry.naiveAfter]},
        {"naive_after_kind", facts.getKind(entry.naiveAfter)}});
  for (const PlanFacts::InPlace &entry : facts.inPlace)
    inPlace.push_back(llvm::json::Object{
        {"value", entry.name},
        {"over", entry.over},
        {"bytes", entry.bytes},
        {"storage", entry.inArgument ? "argument" : "arena"}});
  for (const PlanFacts::Transfer &entry : facts.transfers) {
    auto nameOrNull = [](StringRef name) {
      return name.empty() ? llvm::json::Value(nullptr)
                          : llvm::json::Value(name);
    };
    transfers.push_back(
        llvm::json::Object{{"value", entry.name},
                           {"axis", entry.axis},
                           {"own_bytes", entry.ownBytes},
                           {"result_bytes", entry.resultBytes},
                           {"link_bytes", entry.linkBytes},
                           {"us", microseconds(entry.seconds)},
                           {"hidden_us", microseconds(entry.hiddenSeconds)},
                           {"beside_from", nameOrNull(entry.from)},
                           {"beside_until", nameOrNull(entry.until)}});
  }
  for (auto [index, bytes] : llvm::enumerate(peak.live))
    timeline.push_back(llvm::json::Object{{"op", facts.kernelNames[index]},
                                          {"kind", facts.getKind(index)},
                                          {"live_bytes", bytes}});
  for (const PlanFacts::Live &entry : facts.liveAtPeak) {
    llvm::json::Object object{
        {"value", entry.name}, {"bytes", entry.bytes}, {"kind", entry.kind}};
    if (!entry.transfer.empty())
      object["transfer"] = entry.transfer;
    live.push_back(std::move(object));
  }
  plan["saved"] = std::move(saved);
  plan["recomputed"] = std::move(recomputed);
  plan["pieces"] = std::move(pieces);
  plan["frees"] = std::move(frees);
  plan["in_place"] = std::move(inPlace);
  plan["transfers"] = std::move(transfers);
  plan["timeline"] = std::move(timeline);
  plan["peak_at"] = llvm::json::Object{
      {"op", peak.peakKernel < 0
                 ? llvm::json::Value(nullptr)
                 : llvm::json::Value(facts.kernelNames[peak.peakKernel])},
      {"kind", peak.peakKernel < 0
                   ? llvm::json::Value(nullptr)
                   : llvm::json::Value(facts.getKind(peak.peakKernel))},
      {"live", std::move(live)}};
  return plan;
}

LogicalResult mlir::fp8::writePlan(ModuleOp module, raw_ostream &os) {
  FailureOr<std::vector<PlanFacts>> all = readPlanFacts(module);
  if (failed(all))
    return failure();
  if (all->empty())
    return module.emitError(
        "expected a function with a body to plan, but the module has none");
  llvm::json::Object root = describe(all->front());
  root["schema"] = "fp8opt-plan-1";
  root["target"] = all->front().target->name;
  const Target &target = *all->front().target;
  root["target_calibrated"] = target.status == TargetStatus::Measured;
  root["target_source"] = target.source;
  root["model_error_pct"] = nullptr;
  if (target.modelErrorPct)
    root["model_error_pct"] = *target.modelErrorPct;
  else
    root["model_error_reason"] =
        "the estimate was never compared with measured steps on this target";
  llvm::json::Array functions;
  for (const PlanFacts &facts : *all)
    functions.push_back(describe(facts));
  root["functions"] = std::move(functions);
  os << llvm::formatv("{0:2}", llvm::json::Value(std::move(root))) << '\n';
  return success();
}
