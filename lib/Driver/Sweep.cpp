//===- Sweep.cpp - the frontier of peak and time ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each point is a whole plan, read from the same plan.json that
// `--emit=plan` writes at that budget.
//
//===----------------------------------------------------------------------===//

#include "Sweep.h"

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Plan.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::fp8;

/// The plan of a clone of `module` within `budget`; without a limit where that
/// is empty.
static FailureOr<llvm::json::Object> makePlan(ModuleOp module,
                                              const CompileOptions &options,
                                              std::optional<int64_t> budget) {
  OwningOpRef<ModuleOp> clone = module.clone();
  CompileOptions limited;
  limited.copyOptionValuesFrom(options);
  if (budget)
    limited.budget = std::to_string(*budget);
  PassManager manager(module.getContext());
  buildCompilePipeline(manager, limited, Phase::Placed);
  std::string text;
  llvm::raw_string_ostream os(text);
  if (failed(manager.run(*clone)) || failed(writePlan(*clone, os)))
    return failure();
  llvm::Expected<llvm::json::Value> plan = llvm::json::parse(text);
  if (!plan)
    return clone->emitError("cannot read the plan of the module: ")
           << llvm::toString(plan.takeError());
  return std::move(*plan->getAsObject());
}

/// What a plan of all functions says of one step: the largest peak, with the
/// casts that are kept for the step, as a budget counts them, the largest
/// arena, and the times of all, of what microbatches but the first run as often
/// as that.
static SweepPoint readPoint(const llvm::json::Object &plan, int microbatches) {
  SweepPoint point;
  std::optional<double> bound = 0;
  for (const llvm::json::Value &value : *plan.getArray("functions")) {
    const llvm::json::Object &function = *value.getAsObject();
    int64_t kept = 0;
    for (const llvm::json::Value &segment : *function.getArray("segments"))
      if (segment.getAsObject()->getString("name") == "step")
        kept = segment.getAsObject()->getInteger("bytes").value_or(0);
    point.peak = std::max(point.peak,
                          function.getInteger("peak_bytes").value_or(0) + kept);
    point.arena =
        std::max(point.arena, function.getInteger("arena_bytes").value_or(0));
    point.host =
        std::max(point.host, function.getInteger("host_bytes").value_or(0));
    point.smallest =
        std::max(point.smallest,
                 function.getInteger("min_feasible_peak_bytes").value_or(0));
    bool isLater = function.getString("function")
                       .value_or("")
                       .ends_with(kAccumulateSuffix);
    double times = isLater ? microbatches - 1 : 1;
    point.stepUs += times * function.getNumber("step_us").value_or(0);
    point.recomputeUs += times * function.getNumber("recompute_us").value_or(0);
    std::optional<double> least = function.getNumber("step_lower_bound_us");
    bound =
        bound && least ? std::optional(*bound + times * *least) : std::nullopt;
  }
  if (plan.getArray("functions")->size() == 1)
    point.gapPct = plan.getNumber("gap_pct");
  else if (bound && *bound > 0)
    point.gapPct = 100 * (point.stepUs / *bound - 1);
  return point;
}

FailureOr<Sweep> mlir::fp8::sweep(ModuleOp module,
                                  const CompileOptions &options, int points) {
  FailureOr<llvm::json::Object> fastest =
      makePlan(module, options, std::nullopt);
  if (failed(fastest))
    return failure();
  SweepPoint first = readPoint(*fastest, options.microbatches);
  int64_t most = first.peak, least = std::min(first.smallest, most);
  Sweep result;
  result.target = fastest->getString("target").value_or("").str();
  result.isCalibrated =
      fastest->getBoolean("target_calibrated").value_or(false);
  result.modelErrorPct = fastest->getNumber("model_error_pct");
  for (int index = 0; index < points; ++index) {
    // In two steps, or the product might be too large.
    int64_t room = most - least, last = points - 1;
    int64_t budget = most - room / last * index - room % last * index / last;
    FailureOr<llvm::json::Object> plan = makePlan(module, options, budget);
    if (failed(plan))
      return failure();
    result.points.push_back(readPoint(*plan, options.microbatches));
    result.points.back().budget = budget;
  }
  return result;
}

std::string mlir::fp8::toCsv(const Sweep &sweep) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "budget_bytes,peak_bytes,arena_bytes,step_us,recompute_us,gap_pct,host_"
        "bytes\n";
  for (const SweepPoint &point : sweep.points) {
    os << point.budget << ',' << point.peak << ',' << point.arena << ','
       << llvm::formatv("{0:F3},{1:F3},", point.stepUs, point.recomputeUs);
    if (point.gapPct)
      os << llvm::formatv("{0:F4}", *point.gapPct);
    os << ',' << point.host << '\n';
  }
  return text;
}

llvm::json::Value mlir::fp8::toJson(const Sweep &sweep) {
  llvm::json::Array array;
  for (const SweepPoint &point : sweep.points)
    array.push_back(llvm::json::Object{
        {"budget_bytes", point.budget},
        {"peak_bytes", point.peak},
        {"arena_bytes", point.arena},
        {"step_us", point.stepUs},
        {"recompute_us", point.recomputeUs},
        {"gap_pct", point.gapPct ? llvm::json::Value(*point.gapPct)
                                 : llvm::json::Value(nullptr)},
        {"host_bytes", point.host}});
  return llvm::json::Object{
      {"schema", "fp8opt-sweep-1"},
      {"target", sweep.target},
      {"target_calibrated", sweep.isCalibrated},
      {"model_error_pct", sweep.modelErrorPct
                              ? llvm::json::Value(*sweep.modelErrorPct)
                              : llvm::json::Value(nullptr)},
      {"points", std::move(array)}};
}

std::string mlir::fp8::toTable(const Sweep &sweep) {
  std::string text;
  llvm::raw_string_ostream os(text);
  // A column that is empty says nothing.
  bool hasHost = llvm::any_of(
      sweep.points, [](const SweepPoint &point) { return point.host > 0; });
  os << "target " << sweep.target;
  if (!sweep.isCalibrated)
    os << ", never run there: times are by rates that were not measured on it";
  else if (sweep.modelErrorPct)
    os << llvm::formatv(
        ": a step took at most {0:F2} % more or less than its estimate",
        *sweep.modelErrorPct);
  os << '\n';
  os << llvm::formatv("{0,18} {1,18} {2,18} {3,14} {4,14} {5,8}", "budget B",
                      "peak B", "arena B", "step us", "recompute us", "gap %");
  if (hasHost)
    os << llvm::formatv(" {0,18}", "on the host B");
  os << '\n';
  for (const SweepPoint &point : sweep.points) {
    std::string gap =
        point.gapPct ? llvm::formatv("{0:F2}", *point.gapPct).str() : "-";
    os << llvm::formatv("{0,18} {1,18} {2,18} {3,14} {4,14} {5,8}",
                        point.budget, point.peak, point.arena,
                        llvm::formatv("{0:F3}", point.stepUs).str(),
                        llvm::formatv("{0:F3}", point.recomputeUs).str(), gap);
    if (hasHost)
      os << llvm::formatv(" {0,18}", point.host);
    os << '\n';
  }
  return text;
}
