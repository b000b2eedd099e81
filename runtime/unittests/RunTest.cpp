//===- RunTest.cpp - Running and watching artifacts -----------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A right artifact runs and measures its peak in both memory modes; artifacts
// with one planted fault each fail with the message of that fault. On the CPU
// and on a GPU, where there is one.
//
//===----------------------------------------------------------------------===//

#include "RunHarness.h"

using namespace fp8rt;
using namespace fp8rt::test;

namespace {

class OnBackend : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (onGpu() && !missingGpu().empty())
      GTEST_SKIP() << missingGpu();
  }
  bool onGpu() const { return GetParam() == std::string("cuda"); }
  Outcome run(const Json &manifest, RunOptions options = {}) const {
    return runManifest(manifest, options, GetParam());
  }
};
class Run : public OnBackend {};
class Watch : public OnBackend {};

std::string backendName(const testing::TestParamInfo<const char *> &info) {
  return info.param;
}

TEST_P(Run, RightArtifactMeasuresItsPeak) {
  for (fp8rt_memory memory : {FP8RT_PLANNED, FP8RT_DYNAMIC})
    for (bool poison : {false, true}) {
      Outcome outcome =
          run(manifest({goodFunction()}), {memory, true, poison, 3});
      EXPECT_EQ(outcome.error, "");
      EXPECT_EQ(outcome.measured, 512);
      ASSERT_EQ(outcome.out.size(), 64u);
      for (int i = 0; i < 64; ++i)
        EXPECT_EQ(outcome.out[i], 5.0f * static_cast<float>(i));
    }
}

TEST_P(Run, UnwatchedRunDoesNotMeasure) {
  Outcome outcome =
      run(manifest({goodFunction()}), {FP8RT_PLANNED, false, false, 1});
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.measured, -1);
  EXPECT_EQ(outcome.out[7], 35.0f);
}

TEST_P(Run, SeveralStreamsGiveTheSameOutputs) {
  for (unsigned streams : {2u, 3u, 16u})
    for (bool graph : {false, true}) {
      if (graph && !onGpu())
        continue;
      RunOptions options;
      options.runs = 3;
      options.graph = graph;
      options.streams = streams;
      Outcome outcome = run(manifest({goodFunction()}), options);
      EXPECT_EQ(outcome.error, "");
      ASSERT_EQ(outcome.out.size(), 64u);
      for (int i = 0; i < 64; ++i)
        EXPECT_EQ(outcome.out[i], 5.0f * static_cast<float>(i));
    }
}

TEST_P(Run, SeveralStreamsNeedPlannedMemory) {
  RunOptions options;
  options.memory = FP8RT_DYNAMIC;
  options.streams = 2;
  EXPECT_NE(run(manifest({goodFunction()}), options)
                .error.find("several streams need planned memory"),
            std::string::npos);
  options.memory = FP8RT_PLANNED;
  options.streams = 17;
  EXPECT_NE(run(manifest({goodFunction()}), options)
                .error.find("expected 1 to 16 streams, but got 17"),
            std::string::npos);
}

TEST_P(Run, CallerPlacedResultCountsInThePeakOnly) {
  Json function = goodFunction();
  function["buffers"][2]["offset"] = -1;
  function["results"][0]["placement"] = "caller";
  for (fp8rt_memory memory : {FP8RT_PLANNED, FP8RT_DYNAMIC}) {
    Outcome outcome = run(manifest({function}), {memory});
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.measured, 512);
    EXPECT_EQ(outcome.out[7], 35.0f);
  }
}

TEST_P(Run, StateIsUpdatedInPlace) {
  Json function = goodFunction();
  function["arguments"].push_back(argument("s", "state"));
  function["commands"].push_back(
      launch("accumulate", {buf(2), arg(1)}, "push"));
  Outcome outcome = run(manifest({function}));
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.state[7], 42.0f);
}

TEST_P(Run, ReuseInPlaceIsOneBufferThatTwoCommandsWrite) {
  Json function = goodFunction();
  function["commands"].push_back(
      launch("accumulate", {arg(0), buf(2)}, "again"));
  for (fp8rt_memory memory : {FP8RT_PLANNED, FP8RT_DYNAMIC}) {
    Outcome outcome = run(manifest({function}), {memory});
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.measured, 512);
    EXPECT_EQ(outcome.out[7], 42.0f);
  }
}

TEST_P(Run, LiveFromTheFirstWriteOnly) {
  // `w` is allocated at once but written last: it is not live at the peak.
  Json function = goodFunction();
  function["arena_bytes"] = 1024;
  function["buffers"].push_back(buffer("w", 512, "result"));
  function["results"].push_back(result("w", buf(3)));
  auto &commands = function["commands"];
  commands.insert(commands.begin(), alloc(3));
  commands.push_back(launch("twice", {arg(0), buf(3)}, "last"));
  EXPECT_EQ(run(manifest({function})).measured, 512);
  EXPECT_EQ(run(manifest({function}), {FP8RT_DYNAMIC}).measured, 768);
}

//===----------------------------------------------------------------------===//
// Planted faults
//===----------------------------------------------------------------------===//

TEST_P(Watch, BufferTooSmall) {
  Json function = goodFunction();
  function["buffers"][0]["bytes"] = 128;
  EXPECT_EQ(run(manifest({function})).error,
            "launch 'first' (first.mlir:1:2) wrote arena byte 128, outside "
            "every buffer: 0 bytes past the end of buffer 'y' of 128 bytes");
  EXPECT_EQ(run(manifest({function}), {FP8RT_DYNAMIC, true, true}).error,
            "buffer 'y' of 128 bytes was written 0 bytes past its end");
}

TEST_P(Watch, BufferTooLarge) {
  Json function = goodFunction();
  function["buffers"][1]["bytes"] = 264;
  function["arena_bytes"] = 768;
  EXPECT_EQ(run(manifest({function})).error,
            "buffer 'z' requests 264 bytes, but its end is never written: it "
            "is larger than its contents");
  EXPECT_EQ(run(withKernel("twice_half")).error,
            "buffer 'y' requests 256 bytes, but its end is never written: it "
            "is larger than its contents");
}

TEST_P(Watch, ResultTooLarge) {
  Json function = goodFunction();
  function["buffers"][2] = buffer("out", 512, "result", 512);
  function["arena_bytes"] = 1024;
  EXPECT_EQ(run(manifest({function})).error,
            "buffer 'out' requests 512 bytes, but its end is never written: it "
            "is larger than its contents");
}

TEST_P(Watch, NeverWritten) {
  EXPECT_EQ(run(withKernel("nothing")).error,
            "buffer 'y' of 256 bytes is never written");
}

TEST_P(Watch, MissingFree) {
  Json function = goodFunction();
  function["commands"].erase(7);
  EXPECT_EQ(run(manifest({function})).error,
            "buffer 'z' of 256 bytes is never freed, and no result reads it");
}

TEST_P(Watch, MissingFreeRaisesTheMeasuredPeak) {
  // Without the free of y the plan's 512 bytes are not what is measured.
  Json function = goodFunction();
  function["commands"].erase(4);
  function["buffers"][2]["offset"] = 512;
  function["arena_bytes"] = 768;
  EXPECT_EQ(run(manifest({function})).measured, 768);
  EXPECT_EQ(run(manifest({function}), {FP8RT_DYNAMIC}).measured, 768);
}

TEST_P(Watch, LateFree) {
  Json function = goodFunction();
  auto &commands = function["commands"];
  commands.erase(4);
  commands.push_back(release(0));
  function["buffers"][2]["offset"] = 512;
  function["arena_bytes"] = 768;
  EXPECT_EQ(run(manifest({function})).error,
            "buffer 'y' is freed late: 1 commands ran since its last use, the "
            "last of them launch 'third' (third.mlir:1:2)");
  EXPECT_EQ(run(manifest({function}), {FP8RT_DYNAMIC}).measured, 768);
}

TEST_P(Watch, PlacedOverALiveBuffer) {
  Json function = goodFunction();
  function["buffers"][1]["offset"] = 0;
  EXPECT_EQ(run(manifest({function})).error,
            "buffer 'z' is allocated at arena byte 0 over buffer 'y' at byte 0 "
            "(256 bytes), which is not freed yet");
}

TEST_P(Watch, WriteOutsideTheSlot) {
  Json function = goodFunction();
  function["buffers"][1]["offset"] = 512;
  function["arena_bytes"] = 1024;
  function["commands"][1]["kernel"] = "twice_past_end";
  EXPECT_EQ(run(manifest({function})).error,
            "launch 'first' (first.mlir:1:2) wrote arena byte 256, outside "
            "every buffer: 0 bytes past the end of buffer 'y' of 256 bytes");
}

TEST_P(Watch, WriteAboveTheArena) {
  EXPECT_EQ(run(withKernel("twice_far")).error,
            "launch 'first' (first.mlir:1:2) wrote above the arena, at byte "
            "4096 of an arena of 512 bytes");
}

TEST_P(Watch, WriteIntoAnotherBuffer) {
  // The second launch writes z and, one float before it, the end of y.
  Json function = goodFunction();
  function["commands"][3]["kernel"] = "twice_before";
  EXPECT_EQ(run(manifest({function})).error,
            "launch 'second' (second.mlir:1:2) changed byte 254 of buffer 'y', "
            "which it does not declare to write");
}

TEST_P(Watch, WriteIntoAFreedBuffer) {
  // The third launch writes one float before its result, where z is no more.
  Json function = goodFunction();
  function["buffers"][0]["offset"] = 256;
  function["buffers"][1]["offset"] = 512;
  function["buffers"][2]["offset"] = 768;
  function["arena_bytes"] = 1024;
  auto &commands = function["commands"];
  commands = {alloc(0),   launch("twice", {arg(0), buf(0)}, "first"),
              alloc(1),   launch("twice", {buf(0), buf(1)}, "second"),
              release(0), release(1),
              alloc(2),   launch("twice_before", {arg(0), buf(2)}, "third")};
  EXPECT_EQ(run(manifest({function})).error,
            "launch 'third' (third.mlir:1:2) wrote arena byte 764, which "
            "belongs to buffer 'z', already freed");
}

TEST_P(Watch, UndeclaredWrite) {
  Json function = goodFunction();
  function["commands"][3]["writes"] = Json::array();
  EXPECT_EQ(run(manifest({function})).error,
            "launch 'second' (second.mlir:1:2) changed byte 0 of buffer 'z', "
            "which it does not declare to write");
}

TEST_P(Watch, UndeclaredWriteOfAnArgumentThatMayBeWritten) {
  for (const char *role : {"state", "donated"}) {
    Json function = goodFunction();
    function["arguments"].push_back(argument("s", role));
    function["commands"].push_back(
        launch("accumulate", {buf(2), arg(1)}, "push"));
    EXPECT_EQ(run(manifest({function})).error, "");
    function["commands"].back()["writes"] = Json::array();
    EXPECT_EQ(run(manifest({function})).error,
              "launch 'push' (push.mlir:1:2) changed byte 6 of argument 's', "
              "which it does not declare to write");
  }
}

TEST_P(Watch, WriteIntoAnInput) {
  EXPECT_EQ(run(withKernel("twice_and_touch")).error,
            "byte 22 of argument 'x', which is neither state nor donated, "
            "changed in function 'step'");
}

TEST_P(Watch, ReadingPoisonShows) {
  // What the kernel makes of a poisoned slot is poison again (a NaN keeps its
  // bits), so that the slot seems never to be written.
  EXPECT_EQ(run(withKernel("read_own_result")).error, "");
  EXPECT_EQ(
      run(withKernel("read_own_result"), {FP8RT_PLANNED, true, true}).error,
      "buffer 'y' of 256 bytes is never written");
}

//===----------------------------------------------------------------------===//
// gemm and copy commands
//===----------------------------------------------------------------------===//

TEST_P(Run, GemmAndCopy) {
  int64_t workspace =
      onGpu() ? kCudaGemmWorkspaceBytes : kCpuGemmWorkspaceBytes;
  for (fp8rt_memory memory : {FP8RT_PLANNED, FP8RT_DYNAMIC}) {
    Outcome outcome = run(manifest({gemmFunction(workspace)}), {memory});
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.measured, 256 + workspace);
    ASSERT_EQ(outcome.out.size(), 64u);
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 8; ++j) {
        int expected = 0;
        for (int k = 0; k < 8; ++k)
          expected += (8 * i + k) * (8 * j + k);
        EXPECT_EQ(outcome.out[8 * i + j], static_cast<float>(expected));
      }
  }
}

TEST_P(Run, FillsAndSeveralLaunchesOfAKernel) {
  // The CPU has no kernels of several launches, but fills.
  Json function = goodFunction();
  Json fill = {{"op", "fill"},
               {"dst", Json::array({buf(2)})},
               {"bytes", Json::array({20})},
               {"name", "z"},
               {"loc", ""}};
  function["commands"].push_back(fill);
  Outcome outcome = run(manifest({function}));
  EXPECT_EQ(outcome.error, "");
  ASSERT_EQ(outcome.out.size(), 64u);
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(outcome.out[i], i < 5 ? 0.0f : 5.0f * static_cast<float>(i));
  if (!onGpu())
    return;
  function = goodFunction();
  fill["dst"] = Json::array({buf(0)});
  fill["bytes"] = Json::array({4});
  auto &commands = function["commands"];
  commands[1] = launch("spread", {arg(0), buf(0)}, "first");
  commands.insert(commands.begin() + 1,
                  launch("total", {arg(0), buf(0)}, "first"));
  commands.insert(commands.begin() + 1, fill);
  outcome = run(manifest({function}));
  EXPECT_EQ(outcome.error, "");
  ASSERT_EQ(outcome.out.size(), 64u);
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(outcome.out[i],
              2.0f * (2016.0f + static_cast<float>(i)) + static_cast<float>(i));
}

TEST_P(Run, GraphsAreReplayed) {
  Json function = goodFunction();
  function["arguments"].push_back(argument("s", "state"));
  function["commands"].push_back(
      launch("accumulate", {buf(2), arg(1)}, "push"));
  RunOptions options;
  options.graph = true;
  options.runs = 3;
  Outcome outcome = run(manifest({function}), options);
  if (!onGpu()) {
    EXPECT_EQ(outcome.error, "the CPU has no graphs to record a run in");
    return;
  }
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.state[7], 7.0f + 3 * 35.0f);
  options.memory = FP8RT_DYNAMIC;
  EXPECT_EQ(run(manifest({function}), options).error,
            "a graph needs planned memory, and a run that is neither watched "
            "nor has a ledger");
}

INSTANTIATE_TEST_SUITE_P(Backends, Run, testing::Values("cpu", "cuda"),
                         backendName);
INSTANTIATE_TEST_SUITE_P(Backends, Watch, testing::Values("cpu", "cuda"),
                         backendName);

} // namespace
