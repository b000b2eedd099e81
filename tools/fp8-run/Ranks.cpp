//===- Ranks.cpp - A run on several ranks ---------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All ranks run the same program with the same options, so that what they have
// to report is of equal size and can be gathered in one piece.
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"

#include "Device.h"

#include "fp8rt/Sha256.h"

#include <algorithm>
#include <cstring>

using namespace fp8run;

namespace {

/// Bytes of the text of a fault that are handed on.
constexpr size_t kFaultBytes = 512;

/// What a run depends on beside its artifact.
std::string describeOptions(const Options &options) {
  std::string text = options.function + '\n' + options.backend;
  for (uint64_t number :
       {uint64_t(options.dynamic), options.steps, options.microbatches,
        options.seed, uint64_t(options.check), options.warmupSteps(),
        uint64_t(options.graph), uint64_t(options.bench),
        uint64_t(!options.ledger.empty()), uint64_t(options.printTime)})
    text += '\n' + std::to_string(number);
  return text;
}

struct Figures {
  uint64_t planned, measured, arena, saved;
  char fault[kFaultBytes];
};

} // namespace

Ranks::~Ranks() { abandon("it ended early"); }

bool Ranks::abandon(const std::string &reason) {
  if (!ranks)
    return false;
  fp8rt_abandon_ranks(ranks, reason.c_str());
  ranks = nullptr;
  return true;
}

bool Ranks::open(const Options &options, std::string &error) {
  fp8rt_error *failure = nullptr;
  if (fp8rt_open_ranks(options.timeout * 1000, &ranks, &failure))
    return takeError(failure, error);
  if (ranks && options.delay && options.delay->rank == fp8rt_rank(ranks))
    fp8rt_delay_collective(ranks, options.delay->collective,
                           options.delay->milliseconds);
  return true;
}

bool Ranks::shareArtifact(std::string &artifact, std::string &error) {
  if (!ranks)
    return true;
  uint64_t size = artifact.size();
  fp8rt_error *failure = nullptr;
  if (fp8rt_broadcast(ranks, &size, sizeof(size), &failure))
    return takeError(failure, error);
  artifact.resize(size);
  if (fp8rt_broadcast(ranks, artifact.data(), size, &failure))
    return takeError(failure, error);
  return true;
}

bool Ranks::checkEqual(const std::string &artifact, const Options &options,
                       std::string &error) {
  if (!ranks)
    return true;
  for (auto [what, text] :
       {std::pair("artifact", artifact),
        std::pair("set of options", describeOptions(options))}) {
    std::string own = fp8rt::sha256Hex(text);
    std::string all(own.size() * static_cast<size_t>(count()), '\0');
    fp8rt_error *failure = nullptr;
    if (fp8rt_all_gather(ranks, own.data(), own.size(), all.data(), &failure))
      return takeError(failure, error);
    for (size_t rank = 1; rank < static_cast<size_t>(count()); ++rank) {
      std::string other = all.substr(rank * own.size(), own.size());
      if (all.compare(0, own.size(), other) == 0)
        continue;
      error = "rank " + std::to_string(rank) + " has another " + what +
              " than rank 0 (sha256 " + other.substr(0, 12) + " and " +
              all.substr(0, 12) + "); start all ranks with the same one";
      return false;
    }
  }
  return true;
}

bool Ranks::join(fp8rt_program *program, std::string &error) {
  fp8rt_error *failure = nullptr;
  if (fp8rt_set_ranks(program, ranks, &failure))
    return takeError(failure, error);
  return true;
}

bool Ranks::gather(const std::string &own, std::vector<std::string> &all,
                   std::string &error) {
  std::string bytes(isFirst() ? own.size() * static_cast<size_t>(count()) : 0,
                    '\0');
  fp8rt_error *failure = nullptr;
  if (fp8rt_gather(ranks, own.data(), own.size(), bytes.data(), &failure))
    return takeError(failure, error);
  for (size_t at = 0; at < bytes.size(); at += own.size())
    all.push_back(bytes.substr(at, own.size()));
  return true;
}

bool Ranks::collect(StepResults &results, std::string &error) {
  if (!ranks)
    return true;
  Figures own{results.plannedPeakBytes,
              results.measuredPeakBytes,
              results.arenaBytes,
              results.savedBytes,
              {}};
  if (!results.faults.empty())
    std::strncpy(own.fault, results.faults.front().c_str(), kFaultBytes - 1);
  std::vector<std::string> figures, outputs, times;
  std::string ownOutputs;
  for (const Output &output : results.outputs)
    ownOutputs += output.bytes;
  if (!gather({reinterpret_cast<const char *>(&own), sizeof(own)}, figures,
              error) ||
      !gather({reinterpret_cast<const char *>(results.stepMilliseconds.data()),
               results.stepMilliseconds.size() * sizeof(double)},
              times, error) ||
      (!ownOutputs.empty() && !gather(ownOutputs, outputs, error)))
    return false;
  std::vector<Output> merged;
  for (size_t rank = 0; rank < figures.size(); ++rank) {
    Figures entry;
    std::memcpy(&entry, figures[rank].data(), sizeof(entry));
    RankResults &line = results.ranks.emplace_back();
    line.plannedPeakBytes = entry.planned;
    line.measuredPeakBytes = entry.measured;
    line.arenaBytes = entry.arena;
    line.savedBytes = entry.saved;
    line.stepMilliseconds.resize(times[rank].size() / sizeof(double));
    std::memcpy(line.stepMilliseconds.data(), times[rank].data(),
                times[rank].size());
    results.plannedPeakBytes =
        std::max(results.plannedPeakBytes, entry.planned);
    results.measuredPeakBytes =
        std::max(results.measuredPeakBytes, entry.measured);
    if (rank > 0 && entry.fault[0])
      results.faults.push_back("rank " + std::to_string(rank) + ": " +
                               entry.fault);
    size_t at = 0;
    for (Output output : results.outputs) {
      output.name += "@" + std::to_string(rank);
      if (!output.counter.empty())
        output.counter += "@" + std::to_string(rank);
      output.bytes = outputs[rank].substr(at, output.bytes.size());
      at += output.bytes.size();
      merged.push_back(std::move(output));
    }
  }
  if (isFirst())
    results.outputs = std::move(merged);
  return true;
}

bool Ranks::close(std::string &error) {
  if (!ranks)
    return true;
  fp8rt_error *failure = nullptr;
  int code = fp8rt_close_ranks(ranks, &failure);
  ranks = nullptr;
  return code == 0 || takeError(failure, error);
}
