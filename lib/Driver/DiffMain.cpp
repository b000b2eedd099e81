//===- DiffMain.cpp - fp8-opt --diff ----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads plans as they are written (docs/plan.md), not the IR behind them: a
// plan kept from last week is compared with today's.
//
//===----------------------------------------------------------------------===//

#include "fp8/Driver/DiffMain.h"

#include "fp8/Analysis/Decisions.h"
#include "fp8/Support/ByteSize.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace mlir;
using namespace mlir::fp8;
using llvm::StringRef;

bool mlir::fp8::isDiffCommand(int argc, char **argv) {
  return llvm::any_of(llvm::ArrayRef(argv, argc).drop_front(),
                      [](StringRef argument) {
                        return argument == "--diff" || argument == "-diff";
                      });
}

namespace {

/// One value that a plan keeps, on the device or the host, or computes again.
struct Entry {
  int64_t bytes = 0;
  double microseconds = 0;
  std::string op, loc, form;
};
using Entries = std::map<std::string, Entry>;

/// What is compared of one function.
struct FunctionPlan {
  std::string name, peakAt;
  std::string target;
  bool isCalibrated = false; ///< whether the target's rates were measured
  int64_t peak = 0, arena = 0, saved = 0, host = 0;
  double stepUs = 0;
  Entries kept, recomputed, offloaded;
  std::map<std::string, int64_t> pieces; ///< how many, by value
};

int fail(const std::string &message) {
  llvm::errs() << "error: " << message << '\n';
  return 1;
}

Entries readEntries(const llvm::json::Object &plan, StringRef key) {
  Entries entries;
  const llvm::json::Array *list = plan.getArray(key);
  if (!list)
    return entries;
  for (const llvm::json::Value &value : *list)
    if (const llvm::json::Object *object = value.getAsObject()) {
      auto text = [&](StringRef field) {
        return object->getString(field).value_or("").str();
      };
      Entry &entry = entries[text("value")];
      entry.bytes += object->getInteger("bytes").value_or(0);
      entry.microseconds += object->getNumber("cost_us").value_or(0);
      entry.op = text("op");
      entry.loc = text("loc");
      entry.form = text("form");
    }
  return entries;
}

/// The functions of the plan at `path`, or nothing after an error.
std::optional<std::vector<FunctionPlan>> readPlans(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    fail("cannot read '" + path + "': " + buffer.getError().message());
    return std::nullopt;
  }
  llvm::Expected<llvm::json::Value> json =
      llvm::json::parse((*buffer)->getBuffer());
  if (!json) {
    fail(path + ": " + llvm::toString(json.takeError()));
    return std::nullopt;
  }
  const llvm::json::Object *root = json->getAsObject();
  const llvm::json::Array *functions =
      root && root->getString("schema") == "fp8opt-plan-1"
          ? root->getArray("functions")
          : nullptr;
  if (!functions) {
    fail(path + ": expected a plan as --emit=plan writes it (schema "
                "\"fp8opt-plan-1\")");
    return std::nullopt;
  }
  std::vector<FunctionPlan> plans;
  for (const llvm::json::Value &value : *functions) {
    const llvm::json::Object *object = value.getAsObject();
    std::optional<StringRef> name =
        object ? object->getString("function") : std::nullopt;
    std::optional<int64_t> peak =
        object ? object->getInteger("peak_bytes") : std::nullopt;
    if (!name || !peak) {
      fail(path + ": expected 'function' and 'peak_bytes' in each of "
                  "'functions'");
      return std::nullopt;
    }
    FunctionPlan &plan = plans.emplace_back();
    plan.name = name->str();
    plan.peak = *peak;
    plan.target = root->getString("target").value_or("").str();
    plan.isCalibrated = root->getBoolean("target_calibrated").value_or(false);
    plan.arena = object->getInteger("arena_bytes").value_or(0);
    plan.saved = object->getInteger("saved_bytes").value_or(0);
    plan.stepUs = object->getNumber("step_us").value_or(0);
    if (const llvm::json::Object *at = object->getObject("peak_at"))
      plan.peakAt = at->getString("op").value_or("").str();
    plan.kept = readEntries(*object, "saved");
    plan.recomputed = readEntries(*object, "recomputed");
    plan.host = object->getInteger("host_bytes").value_or(0);
    plan.offloaded = readEntries(*object, "offloaded");
    if (const llvm::json::Array *regions = object->getArray("pieces"))
      for (const llvm::json::Value &region : *regions)
        if (const llvm::json::Object *entry = region.getAsObject())
          plan.pieces[entry->getString("value").value_or("").str()] =
              entry->getInteger("pieces").value_or(0);
  }
  return plans;
}

/// `+1,234 B`, with a sign always.
std::string signedBytes(int64_t bytes) {
  return (bytes < 0 ? "-" : "+") + formatBytes(bytes < 0 ? -bytes : bytes);
}

std::string describe(const std::string &value, const Entry &entry) {
  std::string text = value;
  if (!entry.op.empty())
    text += " (" + entry.op + ")";
  if (!entry.loc.empty())
    text += " at " + entry.loc;
  return text;
}

/// One line of a list, with what it is sorted by.
struct Line {
  double weight;
  std::string text;
};

void printLines(StringRef title, std::vector<Line> lines) {
  if (lines.empty())
    return;
  llvm::stable_sort(
      lines, [](const Line &a, const Line &b) { return a.weight > b.weight; });
  llvm::outs() << "  " << title << '\n';
  for (const Line &line : lines)
    llvm::outs() << "    " << line.text << '\n';
}

/// Prints what differs; true where anything does.
bool printDifference(const FunctionPlan &before, const FunctionPlan &after) {
  bool differs = false;
  std::string numbers;
  llvm::raw_string_ostream os(numbers);
  auto compare = [&](StringRef label, int64_t a, int64_t b,
                     const std::string &note = "") {
    if (a == b)
      return;
    differs = true;
    os << llvm::formatv("  {0,-8}{1,22} -> {2,22}   {3}{4}\n", label,
                        formatBytes(a), formatBytes(b), signedBytes(b - a),
                        note);
  };
  if (before.target != after.target) {
    differs = true;
    os << llvm::formatv("  {0,-8}{1,22} -> {2,22}\n", "target", before.target,
                        after.target);
  }
  std::string place = after.peakAt;
  if (!before.peakAt.empty() && before.peakAt != after.peakAt)
    place += " (before at " + before.peakAt + ")";
  compare("peak", before.peak, after.peak,
          place.empty() ? "" : ", at " + place);
  compare("arena", before.arena, after.arena);
  compare("kept", before.saved, after.saved);
  compare("host", before.host, after.host);
  if (before.stepUs != after.stepUs) {
    differs = true;
    os << llvm::formatv(
        "  {0,-8}{1,19:F3} us -> {2,19:F3} us   {3}{4:F3} us{5}\n", "step",
        before.stepUs, after.stepUs, after.stepUs < before.stepUs ? "" : "+",
        after.stepUs - before.stepUs,
        before.isCalibrated && after.isCalibrated
            ? ""
            : ", by rates that were not measured on the device");
  }

  std::vector<Line> kept, dropped, changed, added, removed;
  for (auto &[value, entry] : after.kept) {
    auto known = before.kept.find(value);
    if (known == before.kept.end())
      kept.push_back({double(entry.bytes), signedBytes(entry.bytes) + "  " +
                                               describe(value, entry)});
    else if (known->second.form != entry.form ||
             known->second.bytes != entry.bytes)
      changed.push_back({std::abs(double(entry.bytes - known->second.bytes)),
                         signedBytes(entry.bytes - known->second.bytes) + "  " +
                             describe(value, entry) + ": " +
                             known->second.form + " -> " + entry.form});
  }
  // What `from` lists and `to` does not, with its bytes.
  auto list = [](const Entries &from, const Entries &to, int64_t sign) {
    std::vector<Line> lines;
    for (auto &[value, entry] : from)
      if (!to.contains(value))
        lines.push_back(
            {double(entry.bytes),
             signedBytes(sign * entry.bytes) + "  " + describe(value, entry)});
    return lines;
  };
  dropped = list(before.kept, after.kept, -1);
  std::vector<Line> offloaded = list(after.offloaded, before.offloaded, 1),
                    returned = list(before.offloaded, after.offloaded, -1);
  auto cost = [](const Entry &entry, StringRef sign) {
    return llvm::formatv("{0}{1:F3} us  ", sign, entry.microseconds).str();
  };
  for (auto &[value, entry] : after.recomputed)
    if (!before.recomputed.contains(value))
      added.push_back(
          {entry.microseconds, cost(entry, "+") + describe(value, entry)});
  for (auto &[value, entry] : before.recomputed)
    if (!after.recomputed.contains(value))
      removed.push_back(
          {entry.microseconds, cost(entry, "-") + describe(value, entry)});
  std::vector<Line> pieces;
  auto countIn = [](const FunctionPlan &plan, const std::string &value) {
    auto it = plan.pieces.find(value);
    return it == plan.pieces.end() ? int64_t(1) : it->second;
  };
  std::map<std::string, int64_t> split = before.pieces;
  split.insert(after.pieces.begin(), after.pieces.end());
  for (const auto &[value, count] : split)
    if (int64_t was = countIn(before, value), is = countIn(after, value);
        was != is)
      pieces.push_back(
          {0, llvm::formatv("{0} -> {1}  {2}", was, is, value).str()});
  differs |= !pieces.empty();
  differs |= !kept.empty() || !dropped.empty() || !changed.empty() ||
             !added.empty() || !removed.empty() || !offloaded.empty() ||
             !returned.empty();
  if (!differs)
    return false;
  llvm::outs() << '@' << after.name << '\n' << numbers;
  printLines("kept for backward now", std::move(kept));
  printLines("no longer kept", std::move(dropped));
  printLines("kept otherwise", std::move(changed));
  printLines("waits in host memory now", std::move(offloaded));
  printLines("no longer waits in host memory", std::move(returned));
  printLines("computed again now", std::move(added));
  printLines("no longer computed again", std::move(removed));
  printLines("runs in other numbers of pieces", std::move(pieces));
  return true;
}

} // namespace

int mlir::fp8::diffMain(int argc, char **argv) {
  llvm::InitLLVM initialise(argc, argv);
  llvm::cl::OptionCategory category{"fp8-opt --diff"};
  llvm::cl::opt<bool> diff{"diff", llvm::cl::desc("Compare two plans"),
                           llvm::cl::cat(category)};
  llvm::cl::list<std::string> paths{llvm::cl::Positional,
                                    llvm::cl::desc("<A.json> <B.json>"),
                                    llvm::cl::cat(category)};
  llvm::cl::opt<std::string> most{
      "max-increase", llvm::cl::value_desc("size"),
      llvm::cl::desc("Fail where a peak rises by more, such as 0 or 64MiB"),
      llvm::cl::cat(category)};
  llvm::cl::HideUnrelatedOptions(category);
  // LLVM says what is wrong, but not that it is an error.
  if (!llvm::cl::ParseCommandLineOptions(
          argc, argv, "fp8-opt --diff: compares two plans\n", &llvm::errs()))
    return fail("unexpected command line; --help lists the options");
  if (paths.size() != 2)
    return fail("expected two plans after '--diff', but got " +
                std::to_string(paths.size()));
  std::optional<int64_t> limit;
  if (most.getNumOccurrences() > 0) {
    limit = most == "0" ? 0 : parseByteSize(most);
    if (!limit)
      return fail("expected '--max-increase' to be bytes such as 64MiB or 0, "
                  "but got '" +
                  most + "'");
  }
  auto before = readPlans(paths[0]), after = readPlans(paths[1]);
  if (!before || !after)
    return 1;
  auto find = [](const std::vector<FunctionPlan> &plans, StringRef name) {
    return llvm::find_if(
        plans, [&](const FunctionPlan &plan) { return plan.name == name; });
  };
  bool differs = false;
  std::vector<std::string> risen;
  for (const FunctionPlan &plan : *after) {
    auto known = find(*before, plan.name);
    if (known == before->end())
      llvm::outs() << '@' << plan.name << " is new: peak "
                   << formatBytes(plan.peak) << '\n';
    else
      differs |= printDifference(*known, plan);
    int64_t old = known == before->end() ? 0 : known->peak;
    differs |= known == before->end();
    if (limit && plan.peak - old > *limit)
      risen.push_back("the peak of '" + plan.name + "' rises by " +
                      formatBytes(plan.peak - old) + ", more than " +
                      formatBytes(*limit));
  }
  for (const FunctionPlan &plan : *before)
    if (find(*after, plan.name) == after->end()) {
      llvm::outs() << '@' << plan.name << " is gone: peak "
                   << formatBytes(plan.peak) << '\n';
      differs = true;
    }
  if (!differs)
    llvm::outs() << "no difference\n";
  llvm::outs().flush();
  if (llvm::outs().has_error()) {
    std::string reason = llvm::outs().error().message();
    llvm::outs().clear_error();
    return fail("cannot write to standard output: " + reason);
  }
  for (const std::string &message : risen)
    fail(message);
  return risen.empty() ? 0 : 1;
}
