//===- ManifestTest.cpp - Manifests that are refused ----------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One thing wrong in a good manifest, and the message it gives; and that a run
// of a good one allocates nothing.
//
//===----------------------------------------------------------------------===//

#include "Manifest.h"
#include "RunHarness.h"

#include <cstdlib>
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

TEST(Run, RunsWithoutAllocating) {
  for (const Json &function : {goodFunction(), gemmFunction()}) {
    std::string bytes = artifact(manifest({function}));
    LoadedProgram program("cpu", bytes);
    ASSERT_EQ(program.error, "");
    void *x = program.upload(std::vector<float>(64, 1.0f));
    for (fp8rt_memory memory : {FP8RT_PLANNED, FP8RT_DYNAMIC}) {
      fp8rt_runner_options request{};
      request.struct_size = sizeof(request);
      request.memory = memory;
      fp8rt_runner *runner = nullptr;
      program.check(fp8rt_create_runner(program.handle, 0, &request, &runner,
                                        &program.failure));
      size_t arenaBytes = fp8rt_runner_arena_bytes(runner);
      void *arena = program.allocate(arenaBytes);
      size_t before = newCount;
      program.check(fp8rt_run(runner, &x, nullptr, arena, arenaBytes, nullptr,
                              &program.failure));
      size_t allocations = newCount - before;
      // The counter works: dynamic mode allocates.
      EXPECT_EQ(allocations == 0, memory == FP8RT_PLANNED) << allocations;
      fp8rt_destroy_runner(runner);
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
                    "f8E5M2, i32, i8, but got 'f16'");
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
  Json groups = {{"offsets", {{"arg", 0}}}, {"count", 64}, {"align", 2},
                 {"of_sum", false},         {"stride", 0}, {"scale_stride", 0}};
  EXPECT_EQ(refusal(good, "/commands/2/groups", groups),
            head + "gemm 'mm': offsets reaches element 64 of argument 'x', "
                   "which has 64 elements");
  groups["count"] = 2;
  groups["stride"] = 1;
  EXPECT_EQ(refusal(good, "/commands/2/groups", groups),
            head + "gemm 'mm': b reaches element 64 of argument 'x', which has "
                   "64 elements");
  groups["of_sum"] = true;
  EXPECT_EQ(refusal(good, "/commands/2/groups", groups),
            head + "gemm 'mm': d reaches element 64 of buffer 'product', which "
                   "has 64 elements");
  groups["stride"] = 0;
  Json grouped = good;
  grouped["commands"][2]["groups"] = groups;
  scale["group"] = {1, 4};
  EXPECT_EQ(refusal(grouped, "/commands/2/scale_a", scale),
            head + "gemm 'mm': expected groups that begin at multiples of 4 "
                   "rows, which share a scale, but got 2");
  EXPECT_EQ(refusal(grouped, "/commands/2/c", good["commands"][2]["d"]),
            head + "gemm 'mm': expected no 'c' with groups, but got one");
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

/// The manifest for a GPU with the value at `pointer` (in functions[0])
/// replaced; the error that reading and checking it give.
std::string gpuRefusal(const Json &function, const std::string &pointer,
                       const Json &value) {
  Json changed = forGpu(manifest({function}));
  changed["functions"][0][Json::json_pointer(pointer)] = value;
  std::string error;
  std::optional<Manifest> read = parseManifest(changed.dump(), error);
  if (read)
    checkManifest(*read, error);
  return error;
}

TEST(Manifest, RefusesBadCommandsForAGpu) {
  Json good = goodFunction();
  Json fill = {{"op", "fill"},
               {"dst", Json::array({buf(0)})},
               {"bytes", Json::array({16})},
               {"name", "zero"},
               {"loc", "zero.mlir:1:2"}};
  good["commands"].insert(good["commands"].begin() + 1, fill);
  const std::string head = "manifest: function 'step': ";
  const std::string filling = head + "fill 'zero' (zero.mlir:1:2)";
  const std::string first = head + "launch 'first' (first.mlir:1:2)";
  const std::string place = "manifest: /functions[0]/commands";
  EXPECT_EQ(gpuRefusal(good, "/saved_bytes", 0), "");
  EXPECT_EQ(gpuRefusal(good, "/commands/1/bytes/0", 257),
            filling + " fills 257 bytes, but buffer 'y' has 256");
  EXPECT_EQ(gpuRefusal(good, "/commands/1/bytes/0", 0),
            place +
                "[1]/bytes[0]: expected an integer of at least 1, but got 0");
  EXPECT_EQ(gpuRefusal(good, "/commands/1/bytes", Json::array({1, 2})),
            place + "[1]/bytes: expected as many sizes as 'dst' has refs, and "
                    "at least one, but got 2 for 1");
  EXPECT_EQ(gpuRefusal(good, "/commands/1/dst/0", arg(0)),
            filling +
                " writes argument 'x', which is neither state nor donated");
  EXPECT_EQ(gpuRefusal(good, "/commands/2/grid", Json()),
            first + ": expected 'grid', 'block' and 'shared' for a kernel on "
                    "a GPU");
  EXPECT_EQ(gpuRefusal(good, "/commands/2/block", Json()),
            place + "[2]: expected the key 'block'");
  EXPECT_EQ(gpuRefusal(good, "/commands/2/grid", {1, 1}),
            place + "[2]/grid: expected 3 entries, but got 2");
  EXPECT_EQ(gpuRefusal(good, "/commands/2/grid/0", 0),
            place +
                "[2]/grid[0]: expected an integer of at least 1, but got 0");
  EXPECT_EQ(gpuRefusal(good, "/commands/2/grid/1", 65536),
            first + ": expected a grid of at most 65535 blocks along y and z, "
                    "but got 65536");
  EXPECT_EQ(gpuRefusal(good, "/commands/2/block/2", 65),
            first + ": expected a block of at most 1024 x 1024 x 64 threads, "
                    "but got 65 along z");
  EXPECT_EQ(gpuRefusal(good, "/commands/2/block/1", 32),
            first + ": expected a block of at most 1024 threads, but got 2048");
  EXPECT_EQ(gpuRefusal(good, "/commands/2/shared", -1),
            place + "[2]/shared: expected an integer of at least 0, at most "
                    "2147483647, but got -1");
  EXPECT_EQ(refusal(good, "/commands/2/grid", {1, 1, 1}),
            place + "[2]: expected the key 'block'");

  Json gemm = gemmFunction(kCudaGemmWorkspaceBytes);
  EXPECT_EQ(gpuRefusal(gemm, "/saved_bytes", 0), "");
  EXPECT_EQ(gpuRefusal(gemm, "/buffers/1/bytes", 4194303),
            head + "gemm 'mm': expected a workspace buffer of 4194304 bytes, "
                   "but got buffer 'ws' of 4194303 bytes");
  EXPECT_EQ(gpuRefusal(gemm, "/commands/2/groups",
                       {{"offsets", {{"arg", 0}}},
                        {"count", 1},
                        {"align", 1},
                        {"of_sum", false},
                        {"stride", 0},
                        {"scale_stride", 0}}),
            head + "gemm 'mm': expected no groups on a GPU, but got some");
  EXPECT_EQ(gpuRefusal(gemm, "/commands/2/a/dtype", "bf16"),
            head + "gemm 'mm': expected a and b both f8 or of one type, but "
                   "got bf16 and f32");
}

TEST(Manifest, WorkOfCommands) {
  Json function = goodFunction();
  function["commands"].push_back({{"op", "fill"},
                                  {"dst", Json::array({buf(1), buf(2)})},
                                  {"bytes", {4, 12}},
                                  {"name", "z"}});
  std::string error;
  std::optional<Manifest> read =
      parseManifest(manifest({function, gemmFunction()}).dump(), error);
  ASSERT_TRUE(read) << error;
  std::vector<std::pair<uint64_t, uint64_t>> work;
  for (const Function &one : read->functions)
    for (const Command &command : one.commands)
      if (command.op != CommandOp::Alloc && command.op != CommandOp::Free)
        work.emplace_back(workOf(command).bytes, workOf(command).flops);
  // Three launches and a fill; a gemm and a copy.
  EXPECT_EQ(
      work,
      (std::vector<std::pair<uint64_t, uint64_t>>{
          {512, 64}, {512, 64}, {512, 64}, {16, 0}, {768, 1024}, {512, 0}}));
}

} // namespace
