//===- HostCopiesTest.cpp - What waits in host memory ---------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A vector goes to host memory, others take its place, and it comes back: the
// bits are those it left with, and the peak is that of what was on the device.
// Manifests that get the order or the place of copies wrong are refused. On the
// CPU and on a GPU, where there is one.
//
//===----------------------------------------------------------------------===//

#include "RunHarness.h"

using namespace fp8rt;
using namespace fp8rt::test;

namespace {

Json offload(int buffer, int64_t host, int ticket) {
  return {{"op", "offload"}, {"src", buf(buffer)}, {"host", host},
          {"bytes", 256},    {"ticket", ticket},   {"name", "out"}};
}
Json prefetch(int64_t host, int buffer, int ticket) {
  return {{"op", "prefetch"}, {"host", host},     {"dst", buf(buffer)},
          {"bytes", 256},     {"ticket", ticket}, {"name", "back"}};
}
Json wait(int ticket) {
  return {{"op", "wait"}, {"ticket", ticket}, {"name", "wait"}};
}

/// t = 2x goes to the host; u = 2x and v = 2u where it was and beside it; t
/// comes back where u was; out = v + t = 6x. Never more than two vectors.
Json function() {
  return {
      {"name", "step"},
      {"arguments", {argument("x", "input")}},
      {"buffers",
       {buffer("t", 0), buffer("u", 0), buffer("v", 256), buffer("t2", 0),
        buffer("out", 512, "result")}},
      {"results", {result("out", buf(4))}},
      {"peak_bytes", 768},
      {"arena_bytes", 768},
      {"saved_bytes", 0},
      {"host_bytes", 512},
      {"commands",
       {alloc(0), launch("twice", {arg(0), buf(0)}, "t"), offload(0, 256, 0),
        wait(0), release(0), alloc(1), launch("twice", {arg(0), buf(1)}, "u"),
        alloc(2), launch("twice", {buf(1), buf(2)}, "v"), release(1), alloc(3),
        prefetch(256, 3, 1), wait(1), alloc(4),
        launch("add", {buf(2), buf(3), buf(4)}, "out"), release(2),
        release(3)}}};
}

class HostCopies : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (GetParam() == std::string("cuda") && !missingGpu().empty())
      GTEST_SKIP() << missingGpu();
  }
  Outcome run(const Json &function, RunOptions options = {}) const {
    return runManifest(manifest({function}), options, GetParam());
  }
  void expectRight(const Outcome &outcome) {
    EXPECT_EQ(outcome.error, "");
    ASSERT_EQ(outcome.out.size(), 64u);
    for (int i = 0; i < 64; ++i)
      EXPECT_EQ(outcome.out[i], 6.0f * static_cast<float>(i));
  }
  void expectError(const Json &function, const char *text) {
    Outcome outcome = run(function);
    EXPECT_NE(outcome.error.find(text), std::string::npos) << outcome.error;
  }
};

TEST_P(HostCopies, WhatComesBackIsWhatLeft) {
  for (fp8rt_memory memory : {FP8RT_PLANNED, FP8RT_DYNAMIC})
    for (bool poison : {false, true}) {
      Outcome outcome = run(function(), {memory, true, poison, 3});
      expectRight(outcome);
      EXPECT_EQ(outcome.measured, 768);
    }
  expectRight(run(function(), {FP8RT_PLANNED, false, false, 3}));
}

TEST_P(HostCopies, RunInGraphsAndOnSeveralStreams) {
  for (unsigned streams : {1u, 2u, 3u})
    for (bool graph : {false, true}) {
      if (graph && GetParam() == std::string("cpu"))
        continue;
      RunOptions options;
      options.watch = false;
      options.runs = 3;
      options.graph = graph;
      options.streams = streams;
      expectRight(run(function(), options));
    }
}

TEST_P(HostCopies, WaitsComeBeforeUses) {
  Json early = function();
  early["commands"].erase(3);
  early["commands"].insert(early["commands"].begin() + 4, wait(0));
  expectError(early, "buffer 't' is freed before the wait for a copy that uses "
                     "it");
  Json never = function();
  never["commands"].erase(12);
  expectError(never, "uses buffer 't2' before the wait for a copy that writes "
                     "it");
  Json written = function();
  written["commands"].insert(written["commands"].begin() + 3,
                             launch("twice", {arg(0), buf(0)}, "again"));
  expectError(written, "uses buffer 't' before the wait for a copy that reads "
                       "it");
}

TEST_P(HostCopies, OnceThereAndOnceBack) {
  Json twice = function();
  twice["commands"].insert(twice["commands"].begin() + 4, wait(2));
  twice["commands"].insert(twice["commands"].begin() + 4, offload(0, 256, 2));
  expectError(twice, "writes host memory that holds what offload 'out' copied "
                     "there");
  Json elsewhere = function();
  elsewhere["commands"][11] = prefetch(0, 3, 1);
  expectError(elsewhere, "copies back what was not copied to byte 0");
  Json again = function();
  again["commands"].insert(again["commands"].begin() + 13, wait(2));
  again["commands"].insert(again["commands"].begin() + 13, prefetch(256, 3, 2));
  expectError(again, "copies back what was not copied to byte 256");
}

TEST_P(HostCopies, StayInTheirMemory) {
  Json outside = function();
  outside["host_bytes"] = 500;
  expectError(outside, "leave the host memory of 500 bytes");
  Json odd = function();
  odd["commands"][2] = offload(0, 128, 0);
  expectError(odd, "a multiple of 256, but got 128");
  Json part = function();
  part["commands"][2]["bytes"] = 128;
  expectError(part, "copies 128 bytes, but buffer 't' has 256");
  Json argument = function();
  argument["commands"][2]["src"] = arg(0);
  expectError(argument, "expected a buffer");
}

std::string backendName(const testing::TestParamInfo<const char *> &info) {
  return info.param;
}
INSTANTIATE_TEST_SUITE_P(Backends, HostCopies, testing::Values("cpu", "cuda"),
                         backendName);

} // namespace
