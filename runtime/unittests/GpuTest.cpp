//===- GpuTest.cpp - What only a GPU has ----------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels of the runtime against the host's code, graphs, lack of memory,
// faults of kernels, and kernels compiled from PTX. Skipped without a GPU.
//
//===----------------------------------------------------------------------===//

#include "RunHarness.h"

#include "CpuMemory.h"
#include "CudaMemory.h"
#include "fp8rt/Inputs.h"

#include <cstring>

using namespace fp8rt;
using namespace fp8rt::test;

namespace {

class Gpu : public testing::Test {
protected:
  void SetUp() override {
    if (!missingGpu().empty())
      GTEST_SKIP() << missingGpu();
  }
};

TEST_F(Gpu, InputsHaveTheHostsBits) {
  const int64_t count = 1000003;
  std::vector<Json> arguments;
  for (DType type :
       {DType::BF16, DType::F32, DType::F8E4M3FN, DType::F8E5M2, DType::I32})
    for (const char *init : {"normal", "one", "zero"}) {
      Json argument = {{"name", dtypeName(type) + std::string(init)},
                       {"dtype", dtypeName(type)},
                       {"shape", {count}},
                       {"bytes", count * dtypeBytes(type)},
                       {"role", "input"},
                       {"init", init},
                       {"init_scale", type == DType::I32 ? 1000.0 : 0.37}};
      arguments.push_back(argument);
    }
  Json function = {{"name", "step"},           {"arguments", arguments},
                   {"buffers", Json::array()}, {"results", Json::array()},
                   {"peak_bytes", 0},          {"arena_bytes", 0},
                   {"saved_bytes", 0},         {"commands", Json::array()}};
  LoadedProgram program("cuda", artifactFor("cuda", manifest({function})));
  ASSERT_EQ(program.error, "");
  for (size_t i = 0; i < arguments.size(); ++i) {
    fp8rt_argument_info info;
    fp8rt_get_argument(program.handle, 0, i, &info);
    void *data = program.allocate(info.bytes);
    program.check(fp8rt_fill_argument(program.handle, 0, i, 5, 2, 1, data,
                                      nullptr, &program.failure));
    std::vector<uint8_t> expected(info.bytes);
    fillInput(expected.data(), static_cast<DType>(info.dtype), count,
              static_cast<Init>(info.init), static_cast<float>(info.init_scale),
              info.name, Role::Input, 5, 2, 1);
    EXPECT_TRUE(program.download<uint8_t>(data, info.bytes) == expected)
        << info.name;
  }
}

TEST_F(Gpu, MemoryComparesAndFillsAsTheHostDoes) {
  std::string error;
  std::unique_ptr<CudaDevice> device = CudaDevice::open(error);
  ASSERT_TRUE(device) << error;
  std::unique_ptr<CudaMemory> memory = CudaMemory::create(*device, error);
  ASSERT_TRUE(memory) << error;
  memory->begin(nullptr);
  CpuMemory host;
  const size_t size = 1 << 20;
  auto *a = static_cast<unsigned char *>(memory->allocate(size));
  auto *b = static_cast<unsigned char *>(memory->allocate(size));
  ASSERT_TRUE(a && b);
  auto put = [&](unsigned char *at, unsigned char value) {
    memory->set(at, value, 1);
  };

  std::vector<Comparison> comparisons;
  for (size_t offset : {0, 1, 7, 15, 16, 33})
    for (size_t other : {0, 1, 16})
      for (size_t bytes : {1, 5, 16, 100, 70001})
        for (size_t at : {size_t(0), bytes / 2, bytes - 1, bytes}) {
          memory->pattern(a, size, 0);
          memory->copy(b + other, a + offset, bytes);
          // Differences before and after the range do not count.
          if (other + bytes < size)
            put(b + other + bytes, 0x77);
          if (at < bytes)
            memory->set(b + other + at, 0x77, bytes - at);
          comparisons = {{a + offset, b + other, 0, bytes, 0}};
          memory->compare(comparisons);
          ASSERT_EQ(memory->failure(), "");
          uint64_t found = comparisons[0].at;
          // The byte at `at` may happen to be 0x77 in the pattern too.
          std::vector<unsigned char> expected(offset + bytes);
          host.pattern(expected.data(), expected.size(), 0);
          uint64_t first = at;
          while (first < bytes && expected[offset + first] == 0x77)
            ++first;
          EXPECT_EQ(found, first) << offset << ' ' << other << ' ' << bytes;
        }

  memory->set(a, 0xA5, size);
  put(a + 4099, 0);
  comparisons = {{a + 3, nullptr, 0xA5, 8192, 0},
                 {a + 4100, nullptr, 0xA5, 8192, 0},
                 {a, nullptr, 0xA4, 16, 0},
                 {a, nullptr, 0xA5, 0, 0}};
  memory->compare(comparisons);
  EXPECT_EQ(comparisons[0].at, 4096u);
  EXPECT_EQ(comparisons[1].at, 8192u);
  EXPECT_EQ(comparisons[2].at, 0u);
  EXPECT_EQ(comparisons[3].at, 0u);

  for (size_t bytes : {1, 8, 13, 4096, 70003}) {
    memory->set(a, 0, size);
    memory->pattern(a, bytes, 512);
    std::vector<unsigned char> got(bytes + 8), expected(bytes + 8);
    host.pattern(expected.data(), bytes, 512);
    CudaDevice::Scope scope(*device);
    device->driver.cuMemcpyDtoH(got.data(), deviceAddress(a), got.size());
    EXPECT_TRUE(got == expected) << bytes;
  }
  memory->release(a);
  memory->release(b);
}

TEST_F(Gpu, PoolCountsWhatIsAllocated) {
  Outcome outcome =
      runManifest(manifest({goodFunction()}), {FP8RT_DYNAMIC, false}, "cuda");
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.measured, 512);
  // Two buffers of 256 bytes, each rounded up by the pool.
  EXPECT_GE(outcome.poolHigh, 512);
  EXPECT_LE(outcome.poolHigh, 4096);
}

TEST_F(Gpu, GraphRefusesMovedStorage) {
  LoadedProgram program("cuda",
                        artifactFor("cuda", manifest({goodFunction()})));
  ASSERT_EQ(program.error, "");
  fp8rt_runner_options request{};
  request.struct_size = sizeof(request);
  request.graph = 1;
  fp8rt_runner *runner = nullptr;
  program.check(fp8rt_create_runner(program.handle, 0, &request, &runner,
                                    &program.failure));
  std::vector<float> ones(64, 1.0f);
  void *x = program.upload(ones), *moved = program.upload(ones);
  void *arena = program.allocate(512), *other = program.allocate(512);
  auto run = [&](void *argument, void *storage) -> std::string {
    if (fp8rt_run(runner, &argument, nullptr, storage, 512, nullptr,
                  &program.failure))
      return take(program.failure);
    return "";
  };
  EXPECT_EQ(run(x, arena), "");
  EXPECT_EQ(run(moved, arena),
            "argument 'x' has moved since the graph was recorded: pass the "
            "same addresses in every run, or create a runner without a graph");
  EXPECT_EQ(run(x, other),
            "the arena or a result has moved since the graph was recorded: "
            "pass the same addresses in every run, or create a runner without "
            "a graph");
  EXPECT_EQ(run(x, arena), "");
  EXPECT_EQ(program.download<float>(fp8rt_runner_result_data(runner, 0), 1)[0],
            5.0f);
  fp8rt_destroy_runner(runner);
}

TEST_F(Gpu, LackOfMemoryIsReportedAndSurvived) {
  Json function = goodFunction();
  function["buffers"][1]["bytes"] = 1ll << 50;
  function["buffers"][2]["offset"] = (1ll << 50) + 256;
  function["arena_bytes"] = (1ll << 50) + 512;
  std::string error =
      runManifest(manifest({function}), {FP8RT_DYNAMIC, false}, "cuda").error;
  EXPECT_EQ(error.find("out of memory: cannot allocate 1125899906842624 bytes "
                       "for buffer 'z' beside 256 bytes of other buffers; the "
                       "plan's peak is 512 bytes, and "),
            0u)
      << error;
  LoadedProgram program("cuda",
                        artifactFor("cuda", manifest({goodFunction()})));
  void *pointer = nullptr;
  ASSERT_TRUE(
      fp8rt_allocate(program.handle, 1ull << 50, &pointer, &program.failure));
  error = take(program.failure);
  EXPECT_EQ(
      error.find("out of memory: cannot allocate 1125899906842624 bytes; "), 0u)
      << error;
  EXPECT_NE(error.find(" bytes are free"), std::string::npos) << error;
  EXPECT_EQ(runManifest(manifest({goodFunction()}), {}, "cuda").error, "");
}

TEST_F(Gpu, LargeSharedMemory) {
  Json changed = forGpu(withKernel("reverse"));
  changed["functions"][0]["commands"][1]["shared"] = 65536;
  Outcome outcome = runManifest(changed, {}, "cuda");
  EXPECT_EQ(outcome.error, "");
  ASSERT_EQ(outcome.out.size(), 64u);
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(outcome.out[i],
              2.0f * static_cast<float>(63 - i) + static_cast<float>(i));
  changed["functions"][0]["commands"][1]["shared"] = 1 << 20;
  EXPECT_EQ(runManifest(changed, {}, "cuda")
                .error.find("launch 'first' (first.mlir:1:2): 1048576 bytes of "
                            "shared memory are refused: "),
            0u);
}

TEST_F(Gpu, AbsentKernel) {
  EXPECT_EQ(runManifest(withKernel("absent"), {}, "cuda").error,
            "launch 'first' (first.mlir:1:2): the artifact has no kernel "
            "'absent'");
}

TEST_F(Gpu, KernelsHaveAPointerForEachArgument) {
  EXPECT_EQ(runManifest(withKernel("add"), {}, "cuda").error,
            "launch 'first' (first.mlir:1:2): expected kernel 'add' to have 2 "
            "parameters, one pointer for each argument, but it has 3");
  EXPECT_EQ(runManifest(withKernel("scaled"), {}, "cuda").error,
            "launch 'first' (first.mlir:1:2): expected kernel 'scaled' to have "
            "2 parameters, one pointer for each argument, but one has 4 bytes");
}

TEST_F(Gpu, LedgerTimesCommands) {
  LoadedProgram program("cuda",
                        artifactFor("cuda", manifest({goodFunction()})));
  fp8rt_runner_options request{};
  request.struct_size = sizeof(request);
  request.ledger = 1;
  fp8rt_runner *runner = nullptr;
  program.check(fp8rt_create_runner(program.handle, 0, &request, &runner,
                                    &program.failure));
  void *x = program.upload(std::vector<float>(64, 1.0f));
  void *arena = program.allocate(512);
  program.check(
      fp8rt_run(runner, &x, nullptr, arena, 512, nullptr, &program.failure));
  fp8rt_ledger_entry entry;
  ASSERT_EQ(fp8rt_runner_get_ledger(runner, 1, &entry), 0);
  EXPECT_STREQ(entry.op, "launch");
  EXPECT_GT(entry.milliseconds, 0);
  EXPECT_EQ(entry.bytes, 512u);
  ASSERT_EQ(fp8rt_runner_get_ledger(runner, 0, &entry), 0);
  EXPECT_EQ(entry.milliseconds, 0);
  EXPECT_EQ(fp8rt_runner_get_ledger(runner, 8, &entry), 1);
  fp8rt_destroy_runner(runner);
}

#ifdef FP8RT_TEST_PTX
/// An artifact of the good function with the sections given.
std::string withSections(
    const std::vector<std::pair<std::string, std::string_view>> &kernels) {
  std::string error, text = forGpu(manifest({goodFunction()})).dump();
  std::vector<std::pair<std::string, std::string_view>> sections = kernels;
  sections.emplace_back("manifest", text);
  return *serializeContainer(ContainerKind::Artifact, sections, error);
}

TEST_F(Gpu, KernelsAreCompiledFromPtx) {
  std::string error;
  std::optional<std::string> ptx =
      readWholeFile(testFile(FP8RT_TEST_PTX), error);
  ASSERT_TRUE(ptx) << error;
  // Also where the machine code is for another device.
  for (std::string_view cubin : {"", "not a cubin"}) {
    std::string bytes =
        cubin.empty()
            ? withSections({{"cuda.ptx", *ptx}})
            : withSections({{"cuda.cubin", cubin}, {"cuda.ptx", *ptx}});
    LoadedProgram program("cuda", bytes);
    EXPECT_EQ(program.error, "");
  }
  LoadedProgram broken("cuda", withSections({{"cuda.ptx", "not PTX"}}));
  EXPECT_EQ(broken.error.find("cannot load the kernels: cuModuleLoadDataEx: "
                              "CUDA_ERROR_INVALID_"),
            0u)
      << broken.error;
}
#endif

TEST_F(Gpu, FaultsNameTheCommand) {
  // A fault spoils the process's context: another process has it.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::string error = runManifest(withKernel("fault"), {}, "cuda").error;
        std::fprintf(stderr, "%s\n", error.c_str());
        std::_Exit(0);
      },
      testing::ExitedWithCode(0),
      "launch 'first' .first.mlir:1:2.: .*CUDA_ERROR_ILLEGAL_ADDRESS");
}

} // namespace
