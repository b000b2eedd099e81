//===- StreamsTest.cpp - Order of commands on several streams -------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Against a byte by byte comparison of every pair of commands, on random
// accesses: what must keep its order does on any number of streams, and what a
// command waits for is something it must wait for.
//
//===----------------------------------------------------------------------===//

#include "Streams.h"

#include <gtest/gtest.h>

#include <random>

using namespace fp8rt;

namespace {

bool conflicts(const std::vector<Access> &a, const std::vector<Access> &b) {
  for (const Access &x : a)
    for (const Access &y : b)
      if (x.writes || y.writes)
        for (uint64_t byte = x.begin; byte < x.end; ++byte)
          if (byte >= y.begin && byte < y.end)
            return true;
  return false;
}

Function functionOf(const std::vector<CommandOp> &ops) {
  Function function;
  for (CommandOp op : ops) {
    Command command;
    command.op = op;
    function.commands.push_back(command);
  }
  return function;
}

struct Random {
  explicit Random(unsigned seed) : engine(seed) {}
  uint64_t below(uint64_t n) { return engine() % n; }

  std::vector<std::vector<Access>> accesses(size_t commands) {
    std::vector<std::vector<Access>> all(commands);
    for (std::vector<Access> &one : all)
      for (uint64_t i = below(5); i > 0; --i) {
        uint64_t begin = below(40);
        one.push_back({begin, begin + below(12), below(3) == 0});
      }
    return all;
  }
  std::vector<CommandOp> ops(size_t commands) {
    std::vector<CommandOp> all;
    for (size_t i = 0; i < commands; ++i)
      all.push_back(below(2) ? CommandOp::Gemm : CommandOp::Launch);
    return all;
  }

  std::mt19937 engine;
};

TEST(DependencyTracker, WaitsForConflictsOnly) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    auto accesses = random.accesses(25);
    DependencyTracker tracker;
    for (uint32_t i = 0; i < accesses.size(); ++i)
      for (uint32_t earlier : tracker.add(i, accesses[i])) {
        ASSERT_LT(earlier, i);
        EXPECT_TRUE(conflicts(accesses[earlier], accesses[i]));
      }
  }
}

TEST(PlanStreams, ConflictsKeepTheirOrder) {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    size_t count = 25;
    auto accesses = random.accesses(count);
    uint32_t streams = 1 + static_cast<uint32_t>(random.below(5));
    std::vector<StreamStep> steps =
        planStreams(functionOf(random.ops(count)), accesses, streams);
    // happens[i][j]: j is complete before i starts.
    std::vector<std::vector<bool>> happens(count, std::vector<bool>(count));
    for (size_t i = 0; i < count; ++i) {
      ASSERT_LT(steps[i].stream, streams);
      auto follow = [&](size_t earlier) {
        happens[i][earlier] = true;
        for (size_t k = 0; k < count; ++k)
          if (happens[earlier][k])
            happens[i][k] = true;
      };
      for (size_t j = 0; j < i; ++j)
        if (steps[j].stream == steps[i].stream && !accesses[j].empty())
          follow(j);
      for (uint32_t earlier : steps[i].waits) {
        ASSERT_LT(earlier, i);
        EXPECT_TRUE(steps[earlier].recorded);
        EXPECT_NE(steps[earlier].stream, steps[i].stream);
        follow(earlier);
      }
      for (size_t j = 0; j < i; ++j) {
        if (conflicts(accesses[j], accesses[i]))
          EXPECT_TRUE(happens[i][j]) << j << " before " << i;
      }
    }
    for (uint32_t stream = 1; stream < streams; ++stream)
      for (size_t i = count; i-- > 0;)
        if (steps[i].stream == stream && !accesses[i].empty()) {
          EXPECT_TRUE(steps[i].recorded);
          break;
        }
  }
}

/// 0: a cast of a weight, 1: a matmul of it, 2: a kernel that reads the
/// product, 3: a matmul of the product that nobody reads, 4: a kernel.
TEST(PlanStreams, UnreadMatmulsAndRootsLeaveTheCallersStream) {
  std::vector<std::vector<Access>> accesses = {
      {{0, 10, false}, {100, 110, true}},
      {{100, 110, false}, {120, 130, true}},
      {{120, 130, false}, {140, 150, true}},
      {{120, 130, false}, {160, 170, true}},
      {{140, 150, false}, {180, 190, true}}};
  Function function =
      functionOf({CommandOp::Launch, CommandOp::Gemm, CommandOp::Launch,
                  CommandOp::Gemm, CommandOp::Launch});
  auto streamsOf = [&](uint32_t streams) {
    std::vector<uint32_t> out;
    for (const StreamStep &step : planStreams(function, accesses, streams))
      out.push_back(step.stream);
    return out;
  };
  EXPECT_EQ(streamsOf(1), (std::vector<uint32_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(streamsOf(2), (std::vector<uint32_t>{0, 0, 0, 1, 0}));
  EXPECT_EQ(streamsOf(3), (std::vector<uint32_t>{1, 0, 0, 2, 0}));
  std::vector<StreamStep> steps = planStreams(function, accesses, 3);
  EXPECT_EQ(steps[1].waits, (std::vector<uint32_t>{0}));
  EXPECT_EQ(steps[3].waits, (std::vector<uint32_t>{1}));
  EXPECT_TRUE(steps[2].waits.empty());
  // The next kernel that writes over what the matmul reads waits for it.
  accesses.push_back({{125, 126, true}});
  function.commands.emplace_back().op = CommandOp::Fill;
  steps = planStreams(function, accesses, 2);
  EXPECT_EQ(steps[5].stream, 0u);
  EXPECT_EQ(steps[5].waits, (std::vector<uint32_t>{3}));
}

} // namespace
