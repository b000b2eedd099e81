//===- RunTest.cpp - Running and watching artifacts -----------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A right artifact runs and measures its peak in both memory modes; artifacts
// with one planted fault each fail with the message of that fault.
//
//===----------------------------------------------------------------------===//

#include "TestArtifact.h"

#include "fp8rt.h"
#include "fp8rt/CpuGemm.h"

#include <cstdlib>
#include <memory>
#include <new>

using namespace fp8rt;
using namespace fp8rt::test;

namespace {
size_t newCount = 0;
} // namespace

// Counts the allocations of the whole program; see RunsWithoutAllocating. Not
// inlined, or GCC takes the pair for a mismatch.
__attribute__((noinline)) void *operator new(size_t size) {
  ++newCount;
  if (void *pointer = std::malloc(size ? size : 1))
    return pointer;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void *pointer) noexcept {
  std::free(pointer);
}
__attribute__((noinline)) void operator delete(void *pointer, size_t) noexcept {
  std::free(pointer);
}

namespace {

/// What one run of the first function came to.
struct Outcome {
  std::string error;
  int64_t measured = -1;
  std::vector<float> out;
  std::vector<float> state;
  /// Allocations by the last run itself.
  size_t allocations = 0;
};

std::string take(fp8rt_error *error) {
  std::string message = fp8rt_error_message(error);
  fp8rt_free_error(error);
  return message;
}

struct Options {
  fp8rt_memory memory = FP8RT_PLANNED;
  bool watch = true;
  bool poison = false;
  int runs = 1;
};

/// Runs the first function of `manifest` with x[i] = i (every argument).
Outcome runManifest(const Json &manifest, Options options = {}) {
  Outcome outcome;
  std::string bytes = artifact(manifest);
  fp8rt_program *program = nullptr;
  fp8rt_error *error = nullptr;
  if (fp8rt_load_memory(bytes.data(), bytes.size(), "cpu", &program, &error)) {
    outcome.error = take(error);
    return outcome;
  }
  fp8rt_function_info info;
  fp8rt_get_function(program, 0, &info);
  std::vector<std::vector<float>> arguments(info.argument_count);
  std::vector<void *> argumentData, resultData;
  for (size_t i = 0; i < info.argument_count; ++i) {
    fp8rt_argument_info argument;
    fp8rt_get_argument(program, 0, i, &argument);
    arguments[i].resize(argument.bytes / 4);
    for (size_t e = 0; e < arguments[i].size(); ++e)
      arguments[i][e] = static_cast<float>(e);
    argumentData.push_back(arguments[i].data());
  }
  std::vector<std::vector<float>> callers(info.result_count);
  for (size_t i = 0; i < info.result_count; ++i) {
    fp8rt_result_info result;
    fp8rt_get_result(program, 0, i, &result);
    callers[i].resize(result.caller_bytes / 4);
    resultData.push_back(callers[i].data());
  }

  fp8rt_runner_options request{};
  request.struct_size = sizeof(request);
  request.memory = options.memory;
  request.watch = options.watch;
  request.poison = options.poison;
  fp8rt_runner *runner = nullptr;
  if (fp8rt_create_runner(program, 0, &request, &runner, &error)) {
    outcome.error = take(error);
    fp8rt_unload(program);
    return outcome;
  }
  size_t arenaBytes = fp8rt_runner_arena_bytes(runner);
  std::unique_ptr<void, void (*)(void *)> arena(
      std::aligned_alloc(256, (arenaBytes / 256 + 1) * 256), std::free);
  for (int i = 0; i < options.runs && outcome.error.empty(); ++i) {
    size_t before = newCount;
    if (fp8rt_run(runner, argumentData.data(), resultData.data(), arena.get(),
                  arenaBytes, nullptr, &error))
      outcome.error = take(error);
    outcome.allocations = newCount - before;
  }
  outcome.measured = fp8rt_runner_measured_peak_bytes(runner);
  if (outcome.error.empty() && info.result_count) {
    const auto *data =
        static_cast<const float *>(fp8rt_runner_result_data(runner, 0));
    outcome.out.assign(data, data + 64);
  }
  if (!arguments.empty())
    outcome.state = arguments.back();
  fp8rt_destroy_runner(runner);
  fp8rt_unload(program);
  return outcome;
}

/// The good function with its first launch's kernel replaced.
Json withKernel(const std::string &kernel) {
  Json function = goodFunction();
  function["commands"][1]["kernel"] = kernel;
  return manifest({function});
}

Json gemmFunction();

TEST(Run, RightArtifactMeasuresItsPeak) {
  for (fp8rt_memory memory : {FP8RT_PLANNED, FP8RT_DYNAMIC})
    for (bool poison : {false, true}) {
      Outcome outcome =
          runManifest(manifest({goodFunction()}), {memory, true, poison, 3});
      EXPECT_EQ(outcome.error, "");
      EXPECT_EQ(outcome.measured, 512);
      ASSERT_EQ(outcome.out.size(), 64u);
      for (int i = 0; i < 64; ++i)
        EXPECT_EQ(outcome.out[i], 5.0f * static_cast<float>(i));
    }
}

TEST(Run, UnwatchedRunDoesNotMeasure) {
  Outcome outcome =
      runManifest(manifest({goodFunction()}), {FP8RT_PLANNED, false, false, 1});
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.measured, -1);
  EXPECT_EQ(outcome.out[7], 35.0f);
}

TEST(Run, RunsWithoutAllocating) {
  for (const Json &function : {goodFunction(), gemmFunction()}) {
    Json program = manifest({function});
    EXPECT_EQ(runManifest(program, {FP8RT_PLANNED, false}).allocations, 0u);
    // The counter works: dynamic mode allocates.
    EXPECT_GT(runManifest(program, {FP8RT_DYNAMIC}).allocations, 0u);
  }
}

TEST(Run, CallerPlacedResultCountsInThePeakOnly) {
  Json function = goodFunction();
  function["buffers"][2]["offset"] = -1;
  function["results"][0]["placement"] = "caller";
  for (fp8rt_memory memory : {FP8RT_PLANNED, FP8RT_DYNAMIC}) {
    Outcome outcome = runManifest(manifest({function}), {memory});
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.measured, 512);
    EXPECT_EQ(outcome.out[7], 35.0f);
  }
}

TEST(Run, StateIsUpdatedInPlace) {
  Json function = goodFunction();
  function["arguments"].push_back(argument("s", "state"));
  function["commands"].push_back(
      launch("accumulate", {buf(2), arg(1)}, "push"));
  Outcome outcome = runManifest(manifest({function}));
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.state[7], 42.0f);
}

TEST(Run, LiveFromTheFirstWriteOnly) {
  // `w` is allocated at once but written last: it is not live at the peak.
  Json function = goodFunction();
  function["arena_bytes"] = 1024;
  function["buffers"].push_back(buffer("w", 512, "result"));
  function["results"].push_back(result("w", buf(3)));
  auto &commands = function["commands"];
  commands.insert(commands.begin(), alloc(3));
  commands.push_back(launch("twice", {arg(0), buf(3)}, "last"));
  EXPECT_EQ(runManifest(manifest({function})).measured, 512);
  EXPECT_EQ(runManifest(manifest({function}), {FP8RT_DYNAMIC}).measured, 768);
}

//===----------------------------------------------------------------------===//
// Planted faults
//===----------------------------------------------------------------------===//

TEST(Watch, BufferTooSmall) {
  Json function = goodFunction();
  function["buffers"][0]["bytes"] = 128;
  EXPECT_EQ(runManifest(manifest({function})).error,
            "launch 'first' (first.mlir:1:2) wrote arena byte 128, outside "
            "every buffer: 0 bytes past the end of buffer 'y' of 128 bytes");
  EXPECT_EQ(
      runManifest(manifest({function}), {FP8RT_DYNAMIC, true, true}).error,
      "buffer 'y' of 128 bytes was written 0 bytes past its end");
}

TEST(Watch, BufferTooLarge) {
  Json function = goodFunction();
  function["buffers"][1]["bytes"] = 264;
  function["arena_bytes"] = 768;
  EXPECT_EQ(runManifest(manifest({function})).error,
            "buffer 'z' requests 264 bytes, but its end is never written: it "
            "is larger than its contents");
  EXPECT_EQ(runManifest(withKernel("twice_half")).error,
            "buffer 'y' requests 256 bytes, but its end is never written: it "
            "is larger than its contents");
}

TEST(Watch, ResultTooLarge) {
  Json function = goodFunction();
  function["buffers"][2] = buffer("out", 512, "result", 512);
  function["arena_bytes"] = 1024;
  EXPECT_EQ(runManifest(manifest({function})).error,
            "buffer 'out' requests 512 bytes, but its end is never written: it "
            "is larger than its contents");
}

TEST(Watch, NeverWritten) {
  EXPECT_EQ(runManifest(withKernel("nothing")).error,
            "buffer 'y' of 256 bytes is never written");
}

TEST(Watch, MissingFree) {
  Json function = goodFunction();
  function["commands"].erase(7);
  EXPECT_EQ(runManifest(manifest({function})).error,
            "buffer 'z' of 256 bytes is never freed, and no result reads it");
}

TEST(Watch, MissingFreeRaisesTheMeasuredPeak) {
  // Without the free of y the plan's 512 bytes are not what is measured.
  Json function = goodFunction();
  function["commands"].erase(4);
  function["buffers"][2]["offset"] = 512;
  function["arena_bytes"] = 768;
  EXPECT_EQ(runManifest(manifest({function})).measured, 768);
  EXPECT_EQ(runManifest(manifest({function}), {FP8RT_DYNAMIC}).measured, 768);
}

TEST(Watch, LateFree) {
  Json function = goodFunction();
  auto &commands = function["commands"];
  commands.erase(4);
  commands.push_back(release(0));
  function["buffers"][2]["offset"] = 512;
  function["arena_bytes"] = 768;
  EXPECT_EQ(runManifest(manifest({function})).error,
            "buffer 'y' is freed late: 1 commands ran since its last use, the "
            "last of them launch 'third' (third.mlir:1:2)");
  EXPECT_EQ(runManifest(manifest({function}), {FP8RT_DYNAMIC}).measured, 768);
}

TEST(Watch, PlacedOverALiveBuffer) {
  Json function = goodFunction();
  function["buffers"][1]["offset"] = 0;
  EXPECT_EQ(runManifest(manifest({function})).error,
            "buffer 'z' is allocated at arena byte 0 over buffer 'y' at byte 0 "
            "(256 bytes), which is not freed yet");
}

TEST(Watch, WriteOutsideTheSlot) {
  Json function = goodFunction();
  function["buffers"][1]["offset"] = 512;
  function["arena_bytes"] = 1024;
  function["commands"][1]["kernel"] = "twice_past_end";
  EXPECT_EQ(runManifest(manifest({function})).error,
            "launch 'first' (first.mlir:1:2) wrote arena byte 256, outside "
            "every buffer: 0 bytes past the end of buffer 'y' of 256 bytes");
}

TEST(Watch, WriteAboveTheArena) {
  EXPECT_EQ(runManifest(withKernel("twice_far")).error,
            "launch 'first' (first.mlir:1:2) wrote above the arena, at byte "
            "4096 of an arena of 512 bytes");
}

TEST(Watch, WriteIntoAnotherBuffer) {
  // The second launch writes z and, one float before it, the end of y.
  Json function = goodFunction();
  function["commands"][3]["kernel"] = "twice_before";
  EXPECT_EQ(runManifest(manifest({function})).error,
            "launch 'second' (second.mlir:1:2) changed byte 254 of buffer 'y', "
            "which it does not declare to write");
}

TEST(Watch, WriteIntoAFreedBuffer) {
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
  EXPECT_EQ(runManifest(manifest({function})).error,
            "launch 'third' (third.mlir:1:2) wrote arena byte 764, which "
            "belongs to buffer 'z', already freed");
}

TEST(Watch, UndeclaredWrite) {
  Json function = goodFunction();
  function["commands"][3]["writes"] = Json::array();
  EXPECT_EQ(runManifest(manifest({function})).error,
            "launch 'second' (second.mlir:1:2) changed byte 0 of buffer 'z', "
            "which it does not declare to write");
}

TEST(Watch, WriteIntoAnInput) {
  EXPECT_EQ(runManifest(withKernel("twice_and_touch")).error,
            "byte 22 of argument 'x', which is neither state nor donated, "
            "changed in function 'step'");
}

TEST(Watch, ReadingPoisonShows) {
  // What the kernel makes of a poisoned slot is poison again (a NaN keeps its
  // bits), so that the slot seems never to be written.
  EXPECT_EQ(runManifest(withKernel("read_own_result")).error, "");
  EXPECT_EQ(
      runManifest(withKernel("read_own_result"), {FP8RT_PLANNED, true, true})
          .error,
      "buffer 'y' of 256 bytes is never written");
}

//===----------------------------------------------------------------------===//
// gemm and copy commands
//===----------------------------------------------------------------------===//

/// out[8, 8] = x[8, 8] * transpose(x), then a copy of it.
Json gemmFunction() {
  Json operand = {{"arg", 0}, {"dtype", "f32"}, {"offset", 0}};
  Json a = operand, b = operand, d = buf(0);
  a["strides"] = {8, 1};
  b["strides"] = {1, 8};
  d.update({{"dtype", "f32"}, {"offset", 0}, {"strides", {8, 1}}});
  int64_t workspace = kCpuGemmWorkspaceBytes;
  return {{"name", "step"},
          {"arguments", {argument("x", "input")}},
          {"buffers",
           {buffer("product", 0), buffer("ws", 256, "workspace", workspace),
            buffer("out", 256, "result")}},
          {"results", {result("out", buf(2))}},
          {"peak_bytes", 256 + workspace},
          {"arena_bytes", 256 + workspace},
          {"saved_bytes", 0},
          {"commands",
           {alloc(0),
            alloc(1),
            {{"op", "gemm"},
             {"m", 8},
             {"n", 8},
             {"k", 8},
             {"a", a},
             {"b", b},
             {"d", d},
             {"workspace", buf(1)},
             {"name", "mm"},
             {"loc", ""}},
            release(1),
            alloc(2),
            {{"op", "copy"},
             {"src", buf(0)},
             {"dst", buf(2)},
             {"bytes", 256},
             {"name", "cp"}},
            release(0)}}};
}

TEST(Run, GemmAndCopy) {
  for (fp8rt_memory memory : {FP8RT_PLANNED, FP8RT_DYNAMIC}) {
    Outcome outcome = runManifest(manifest({gemmFunction()}), {memory});
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.measured,
              static_cast<int64_t>(256 + kCpuGemmWorkspaceBytes));
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

//===----------------------------------------------------------------------===//
// Manifests that are refused when they are loaded
//===----------------------------------------------------------------------===//

/// The good manifest with the value at `pointer` (in functions[0]) replaced;
/// the error it gives.
std::string refusal(const Json &function, const std::string &pointer,
                    const Json &value) {
  Json changed = function;
  changed[Json::json_pointer(pointer)] = value;
  return runManifest(manifest({changed})).error;
}

TEST(Manifest, RefusesWithTheReason) {
  Json good = goodFunction();
  const std::string head = "manifest: function 'step': ";
  const std::string place = "manifest: /functions[0]";
  EXPECT_EQ(refusal(good, "/buffers/0/bytes", -1),
            place + "/buffers[0]/bytes: expected an integer of at least 0, but "
                    "got -1");
  EXPECT_EQ(refusal(good, "/buffers/0/bytes", 0),
            head + "buffer 'y' has no bytes");
  EXPECT_EQ(refusal(good, "/buffers/0/bytes", "x"),
            place + "/buffers[0]/bytes: expected an integer of at least 0, but "
                    "got \"x\"");
  EXPECT_EQ(refusal(good, "/buffers/0/offset", 8),
            head + "buffer 'y': expected an arena offset that is a multiple of "
                   "256, but got 8");
  EXPECT_EQ(refusal(good, "/arena_bytes", 511),
            head + "buffer 'z' at bytes 256 to 512 leaves the arena of 511 "
                   "bytes");
  EXPECT_EQ(refusal(good, "/arguments/0/dtype", "f16"),
            place + "/arguments[0]/dtype: expected one of bf16, f32, f8E4M3FN, "
                    "f8E5M2, i32, but got 'f16'");
  EXPECT_EQ(refusal(good, "/arguments/0/bytes", 128),
            head + "argument 'x': expected 256 bytes for its shape, but got "
                   "128");
  EXPECT_EQ(refusal(good, "/arguments/0/shape", Json{1LL << 62, 8}),
            head + "argument 'x': expected fewer bytes for its shape, but got "
                   "256");
  EXPECT_EQ(refusal(good, "/results/0/strides/0", 2),
            head + "result 'out' reaches element 126 of buffer 'out', which "
                   "has 64 elements");
  EXPECT_EQ(refusal(good, "/results/0/placement", "caller"),
            head + "result 'out': a result is placed by the caller exactly "
                   "when its buffer has the offset -1");
  EXPECT_EQ(refusal(good, "/commands/1/args/0/arg", 1),
            place + "/commands[1]/args[0]/arg: expected an integer of at least "
                    "0, at most 0, but got 1");
  EXPECT_EQ(refusal(good, "/commands/1/writes/0", 2),
            place + "/commands[1]/writes: expected positions in 'args', but "
                    "got 2");
  EXPECT_EQ(refusal(good, "/commands/1/writes/0", 0),
            head + "launch 'first' (first.mlir:1:2) writes argument 'x', which "
                   "is neither state nor donated");
  EXPECT_EQ(refusal(good, "/commands/1/kernel", "absent"),
            "launch 'first' (first.mlir:1:2): the artifact has no kernel "
            "'absent'");
  EXPECT_EQ(refusal(good, "/commands/0/buffer", 1),
            head + "launch 'first' (first.mlir:1:2) uses buffer 'y' while it "
                   "is not allocated");
  EXPECT_EQ(refusal(good, "/commands/2/buffer", 0),
            head + "buffer 'y' is allocated twice");
  EXPECT_EQ(refusal(good, "/commands/4/buffer", 2),
            head + "buffer 'out' is freed while it is not allocated");
  EXPECT_EQ(refusal(good, "/commands/7/buffer", 2),
            head + "buffer 'out' is freed, but a result reads it");
  EXPECT_EQ(refusal(good, "/commands", Json::array()),
            head + "result 'out' reads buffer 'out', which is never allocated");
}

TEST(Manifest, RefusesBadGemms) {
  Json good = gemmFunction();
  const std::string head = "manifest: function 'step': ";
  EXPECT_EQ(refusal(good, "/commands/2/k", 9),
            head + "gemm 'mm': a reaches element 64 of argument 'x', which has "
                   "64 elements");
  EXPECT_EQ(refusal(good, "/commands/2/b/offset", INT64_MAX),
            head + "gemm 'mm': b reaches element beyond 2^63 of argument 'x', "
                   "which has 64 elements");
  EXPECT_EQ(refusal(good, "/commands/2/a/dtype", "i32"),
            head + "gemm 'mm': a: expected bf16, f32 or f8, but got i32");
  EXPECT_EQ(refusal(good, "/commands/2/d/dtype", "f8E5M2"),
            head + "gemm 'mm': d: expected bf16 or f32, but got f8E5M2");
  EXPECT_EQ(refusal(good, "/buffers/1/bytes", 1024),
            head + "gemm 'mm': expected a workspace buffer of 262144 bytes, "
                   "but got buffer 'ws' of 1024 bytes");
  Json scale = {
      {"arg", 0}, {"group", {1, 4}}, {"strides", {2, 1}}, {"offset", 0}};
  EXPECT_EQ(refusal(good, "/commands/2/scale_a", scale), "");
  scale["offset"] = 49;
  EXPECT_EQ(refusal(good, "/commands/2/scale_a", scale),
            head + "gemm 'mm': scale_a reaches element 64 of argument 'x', "
                   "which has 64 elements");
  scale["offset"] = 0;
  scale["group"] = {1, 129};
  EXPECT_EQ(refusal(good, "/commands/2/scale_a", scale),
            head + "gemm 'mm': expected a group along k of at most 128, but "
                   "got 129");
  EXPECT_EQ(refusal(good, "/commands/5/bytes", 257),
            head + "copy 'cp' copies 257 bytes, but buffer 'product' has 256");
}

TEST(Manifest, RefusesForeignDocuments) {
  Json bad = manifest({goodFunction()});
  bad["schema"] = "fp8opt-artifact-2";
  EXPECT_EQ(runManifest(bad).error,
            "manifest: /schema: expected 'fp8opt-artifact-1', but got "
            "'fp8opt-artifact-2'");
  bad = manifest({goodFunction()});
  bad["target"] = "h200";
  EXPECT_EQ(runManifest(bad).error,
            "expected an artifact for target 'cpu', but got 'h200'");
  EXPECT_EQ(runManifest(manifest({})).error,
            "manifest: /functions: expected at least one function");
  EXPECT_EQ(runManifest(manifest({goodFunction(), goodFunction()})).error,
            "manifest: two functions are called 'step'");
  EXPECT_EQ(runManifest(Json(3)).error, "manifest: expected a JSON object");
}

TEST(Manifest, EveryRemovedKeyIsAnError) {
  // Names and places of commands are optional; every other key is needed. An
  // element removed from an array may leave a good manifest, but not a crash.
  Json good = manifest({gemmFunction()});
  Json flat = good.flatten();
  for (const auto &[pointer, value] : flat.items()) {
    Json changed = good;
    Json::json_pointer at(pointer);
    std::string key = at.back();
    Json &parent = changed[at.parent_pointer()];
    if (parent.is_array()) {
      parent.erase(std::stoul(key));
      runManifest(changed);
      continue;
    }
    parent.erase(key);
    bool isOptional = pointer.find("/commands/") != std::string::npos &&
                      (key == "name" || key == "loc");
    std::string error = runManifest(changed).error;
    EXPECT_TRUE(isOptional || !error.empty()) << pointer;
  }
}

} // namespace
