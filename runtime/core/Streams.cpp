//===- Streams.cpp - Which commands may run side by side ------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dependencies by a map of disjoint byte ranges; streams by two rules.
//
//===----------------------------------------------------------------------===//

#include "Streams.h"

#include <algorithm>
#include <set>

using namespace fp8rt;

/// Makes `at` a border of segments.
void DependencyTracker::split(uint64_t at) {
  auto next = segments.upper_bound(at);
  if (next == segments.begin())
    return;
  auto inside = std::prev(next);
  if (inside->first == at || inside->second.end <= at)
    return;
  Segment tail = inside->second;
  inside->second.end = at;
  segments.emplace_hint(next, at, std::move(tail));
}

std::vector<uint32_t>
DependencyTracker::add(uint32_t index, const std::vector<Access> &accesses) {
  std::set<uint32_t> found;
  for (const Access &access : accesses) {
    if (access.begin == access.end)
      continue;
    split(access.begin);
    split(access.end);
    uint64_t at = access.begin;
    while (at < access.end) {
      auto segment = segments.lower_bound(at);
      if (segment == segments.end() || segment->first > at) {
        uint64_t gapEnd = segment == segments.end()
                              ? access.end
                              : std::min(access.end, segment->first);
        segment = segments.emplace_hint(segment, at, Segment{gapEnd, {}, {}});
      }
      Segment &bytes = segment->second;
      if (bytes.writer)
        found.insert(*bytes.writer);
      if (access.writes) {
        found.insert(bytes.readers.begin(), bytes.readers.end());
        bytes.readers.clear();
        bytes.writer = index;
      } else if (bytes.readers.empty() || bytes.readers.back() != index) {
        bytes.readers.push_back(index);
      }
      at = bytes.end;
    }
  }
  // What it touches twice.
  found.erase(index);
  return {found.begin(), found.end()};
}

namespace {

/// What each command's place depends on.
struct Shape {
  /// Reads nothing that an earlier command wrote.
  bool isRoot = true;
  /// A later command reads what it wrote.
  bool isRead = false;
};

bool overlaps(const Access &a, const Access &b) {
  return a.begin < b.end && b.begin < a.end;
}

std::vector<Shape>
shapesOf(const std::vector<std::vector<Access>> &accesses,
         const std::vector<std::vector<uint32_t>> &dependencies) {
  std::vector<Shape> shapes(accesses.size());
  for (size_t i = 0; i < accesses.size(); ++i)
    for (uint32_t earlier : dependencies[i])
      for (const Access &written : accesses[earlier])
        for (const Access &read : accesses[i])
          if (written.writes && !read.writes && overlaps(written, read)) {
            shapes[earlier].isRead = true;
            shapes[i].isRoot = false;
          }
  return shapes;
}

} // namespace

std::vector<StreamStep>
fp8rt::planStreams(const Function &function,
                   const std::vector<std::vector<Access>> &accesses,
                   uint32_t streams) {
  std::vector<StreamStep> steps(accesses.size());
  std::vector<std::vector<uint32_t>> dependencies(accesses.size());
  DependencyTracker tracker;
  for (uint32_t i = 0; i < accesses.size(); ++i)
    dependencies[i] = tracker.add(i, accesses[i]);
  std::vector<Shape> shapes = shapesOf(accesses, dependencies);

  // The last command of each stream that each stream has waited for.
  std::vector<std::vector<std::optional<uint32_t>>> seen(
      streams, std::vector<std::optional<uint32_t>>(streams));
  std::vector<std::optional<uint32_t>> last(streams);
  for (uint32_t i = 0; i < accesses.size(); ++i) {
    if (accesses[i].empty())
      continue;
    StreamStep &step = steps[i];
    if (streams > 1 && function.commands[i].op == CommandOp::Gemm &&
        !shapes[i].isRead)
      step.stream = streams - 1;
    else if (streams > 2 && shapes[i].isRoot)
      step.stream = streams - 2;
    last[step.stream] = i;
    // Of each other stream only the latest matters, and only if it is later
    // than what this stream has waited for already.
    std::vector<std::optional<uint32_t>> latest(streams);
    for (uint32_t earlier : dependencies[i])
      latest[steps[earlier].stream] = earlier;
    for (uint32_t other = 0; other < streams; ++other) {
      if (other == step.stream || !latest[other] ||
          (seen[step.stream][other] &&
           *seen[step.stream][other] >= *latest[other]))
        continue;
      seen[step.stream][other] = latest[other];
      step.waits.push_back(*latest[other]);
      steps[*latest[other]].recorded = true;
    }
  }
  for (uint32_t stream = 1; stream < streams; ++stream)
    if (last[stream])
      steps[*last[stream]].recorded = true;
  return steps;
}
