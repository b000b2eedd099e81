//===- Report.cpp - What a run writes and prints --------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys keep the order they are written in, so that two reports can be
// compared line by line.
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include "fp8rt/Container.h"
#include "fp8rt/Sha256.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

using namespace fp8run;
using namespace fp8rt;
using Json = nlohmann::ordered_json;

namespace {

std::string grouped(uint64_t value) {
  std::string text = std::to_string(value);
  for (size_t at = text.size(); at > 3; at -= 3)
    text.insert(at - 3, ",");
  return text;
}

/// JSON text; a name that is not UTF-8 is replaced, not refused.
std::string dump(const Json &json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json describeOutput(const Output &output) {
  return Json{{"name", output.name},
              {"shape", output.shape},
              {"dtype", dtypeName(output.dtype)},
              {"sha256", sha256Hex(output.bytes)}};
}

void line(const char *label, const std::string &value) {
  std::printf("  %-14s %s\n", label, value.c_str());
}

std::string timeText(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  double median = times[times.size() / 2];
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f ms", median < 10 ? 3 : 2, median);
  return text + (times.size() > 1
                     ? " (median of " + std::to_string(times.size()) + ")"
                     : std::string());
}

void printSlowest(const StepResults &results) {
  std::vector<const LedgerLine *> lines;
  double total = 0;
  for (const LedgerLine &entry : results.ledger) {
    total += entry.milliseconds;
    if (entry.op != "alloc" && entry.op != "free")
      lines.push_back(&entry);
  }
  // Equal times keep the order of the commands.
  std::sort(lines.begin(), lines.end(),
            [](const LedgerLine *a, const LedgerLine *b) {
              return a->milliseconds != b->milliseconds
                         ? a->milliseconds > b->milliseconds
                         : a < b;
            });
  if (lines.size() > 10)
    lines.resize(10);
  std::printf("\n  slowest commands of %.2f ms in all\n", total);
  for (const LedgerLine *entry : lines)
    std::printf("  %10.3f ms  %-7s %s%s%s\n", entry->milliseconds,
                entry->op.c_str(), entry->name.c_str(),
                entry->loc.empty() ? "" : "  at ", entry->loc.c_str());
}

} // namespace

std::vector<std::pair<std::string, float>>
fp8run::countersOf(const std::vector<Output> &outputs) {
  std::vector<std::pair<std::string, float>> counters;
  for (const Output &output : outputs)
    if (!output.counter.empty())
      counters.push_back(
          {output.counter, loadElement(output.bytes.data(), output.dtype, 0)});
  return counters;
}

std::string fp8run::resultsJson(const Options &options,
                                const StepResults &results,
                                const std::optional<Comparison> &comparison) {
  Json outputs = Json::array();
  for (const Output &output : results.outputs)
    outputs.push_back(describeOutput(output));
  Json json;
  json["function"] = results.function;
  json["backend"] = options.backend;
  json["memory"] = options.dynamic ? "dynamic" : "planned";
  json["steps"] = options.steps;
  json["microbatches"] = options.microbatches;
  json["seed"] = options.seed;
  json["planned_peak_bytes"] = results.plannedPeakBytes;
  json["measured_peak_bytes"] = results.measuredPeakBytes;
  Json functions = Json::array();
  for (const FunctionPeak &peak : results.functionPeaks)
    functions.push_back({{"name", peak.name},
                         {"planned_peak_bytes", peak.planned},
                         {"measured_peak_bytes", peak.measured},
                         {"caller_placed_bytes", peak.callerPlaced}});
  json["functions"] = std::move(functions);
  json["arena_bytes"] = results.arenaBytes;
  json["saved_bytes"] = results.savedBytes;
  json["host_bytes"] = results.hostBytes;
  json["step_ms"] = results.stepMilliseconds;
  if (options.isCuda()) {
    json["warmup"] = options.warmupSteps();
    json["graph"] = options.graph;
    json["streams"] = options.streams;
    json["device_bytes"] =
        results.deviceBytes ? Json(*results.deviceBytes) : Json();
    json["device_overhead_bytes"] =
        results.overheadBytes ? Json(*results.overheadBytes) : Json();
    json["pool_high_bytes"] =
        results.poolHighBytes >= 0 ? Json(results.poolHighBytes) : Json();
    json["tolerance"] = results.tolerance;
  }
  if (options.bench) {
    json["gemm_ms"] = results.gemmMilliseconds;
    json["copy_bytes_per_s"] = *results.copyBytesPerSecond;
  }
  if (!results.ranks.empty()) {
    json["transport"] = results.transport;
    Json ranks = Json::array();
    for (size_t rank = 0; rank < results.ranks.size(); ++rank) {
      const RankResults &entry = results.ranks[rank];
      ranks.push_back({{"rank", rank},
                       {"planned_peak_bytes", entry.plannedPeakBytes},
                       {"measured_peak_bytes", entry.measuredPeakBytes},
                       {"arena_bytes", entry.arenaBytes},
                       {"saved_bytes", entry.savedBytes},
                       {"step_ms", entry.stepMilliseconds}});
    }
    json["ranks"] = std::move(ranks);
  }
  json["max_rel_error"] =
      comparison ? Json(comparison->maxRelativeError) : Json();
  json["outputs"] = std::move(outputs);
  Json inexact = Json::array();
  for (const auto &[value, count] : countersOf(results.outputs))
    inexact.push_back({{"value", value}, {"elements", count}});
  if (!inexact.empty())
    json["inexact"] = std::move(inexact);
  return dump(json);
}

std::string fp8run::ledgerJson(const StepResults &results) {
  Json commands = Json::array();
  for (const LedgerLine &entry : results.ledger) {
    commands.push_back({{"function", entry.function},
                        {"op", entry.op},
                        {"name", entry.name},
                        {"loc", entry.loc},
                        {"ms", entry.milliseconds},
                        {"live_bytes", entry.liveBytes},
                        {"bytes", entry.bytes},
                        {"flops", entry.flops}});
    if (entry.transferMilliseconds > 0)
      commands.back()["transfer_ms"] = entry.transferMilliseconds;
  }
  return dump(Json{{"schema", "fp8opt-ledger-1"}, {"commands", commands}});
}

bool fp8run::dumpOutputs(const Options &options, const StepResults &results,
                         std::string &error) {
  namespace fs = std::filesystem;
  fs::path folder = options.dumpOutputs;
  std::error_code code;
  fs::create_directories(folder, code);
  Json index = Json::array();
  std::set<std::string> used;
  for (const Output &output : results.outputs) {
    std::string stem = output.name;
    for (char &c : stem)
      if (!std::isalnum(static_cast<unsigned char>(c)) &&
          !std::strchr("._-#:", c))
        c = '_';
    std::string file = stem + ".bin";
    for (int copy = 2; !used.insert(file).second; ++copy)
      file = stem + "-" + std::to_string(copy) + ".bin";
    if (!writeFileAtomically((folder / file).string(), output.bytes, error))
      return false;
    Json entry = describeOutput(output);
    entry["file"] = file;
    index.push_back(std::move(entry));
  }
  return writeFileAtomically((folder / "index.json").string(), dump(index),
                             error);
}

void fp8run::printSummary(const Options &options, const StepResults &results,
                          const std::optional<Comparison> &comparison) {
  std::printf("%s: %llu step(s) of %llu microbatch(es), %s, %s memory\n",
              results.function.c_str(),
              static_cast<unsigned long long>(options.steps),
              static_cast<unsigned long long>(options.microbatches),
              options.backend.c_str(), options.dynamic ? "dynamic" : "planned");
  if (!results.ranks.empty())
    line("ranks", std::to_string(results.ranks.size()) +
                      "; peaks are the largest of all; tensors travel by " +
                      results.transport);
  line("planned peak", grouped(results.plannedPeakBytes) + " B");
  line("measured peak",
       grouped(results.measuredPeakBytes) + " B" +
           (results.measuredPeakBytes == results.plannedPeakBytes
                ? ", equal"
                : ", NOT EQUAL"));
  line("arena", grouped(results.arenaBytes) + " B");
  line("saved", grouped(results.savedBytes) + " B");
  if (results.hostBytes)
    line("on the host", grouped(results.hostBytes) + " B");
  if (results.poolHighBytes >= 0)
    line("pool", grouped(static_cast<uint64_t>(results.poolHighBytes)) + " B");
  if (results.deviceBytes)
    line("device", grouped(*results.deviceBytes) + " B in use" +
                       (results.overheadBytes
                            ? ", " + grouped(*results.overheadBytes) +
                                  " B of them beside arguments, results and "
                                  "arena"
                            : ""));
  line("step", timeText(results.stepMilliseconds));
  char text[64];
  for (const auto &[value, count] : countersOf(results.outputs)) {
    std::snprintf(text, sizeof(text), "%.0f", count);
    line("new layout",
         value + ": " + text + " elements of the last step are not exact");
  }
  if (options.bench) {
    line("matmuls alone", timeText(results.gemmMilliseconds));
    std::snprintf(text, sizeof(text), "%.3f TB/s",
                  *results.copyBytesPerSecond * 1e-12);
    line("copy", text);
  }
  if (comparison) {
    std::snprintf(text, sizeof(text), "max relative error %.3g",
                  comparison->maxRelativeError);
    line("check", std::to_string(results.outputs.size()) + " outputs, " +
                      (comparison->firstDifference.empty()
                           ? "equal to the reference bit for bit"
                           : text));
  }
  if (options.printTime)
    printSlowest(results);
}
