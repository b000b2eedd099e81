//===- RunHarness.h - Runs hand-written artifacts on a backend --*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One run of a manifest through the C interface, on the CPU or on a GPU; what
// the tests of runs and of manifests share.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_UNITTESTS_RUNHARNESS_H
#define FP8RT_UNITTESTS_RUNHARNESS_H

#include "TestArtifact.h"

#include "fp8rt.h"
#include "fp8rt/CpuGemm.h"
#include "fp8rt/CudaGemm.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fp8rt::test {

/// What one run of the first function came to.
struct Outcome {
  std::string error;
  int64_t measured = -1;
  std::vector<float> out;
  /// The last argument.
  std::vector<float> state;
  int64_t poolHigh = -1;
};

struct RunOptions {
  fp8rt_memory memory = FP8RT_PLANNED;
  bool watch = true;
  bool poison = false;
  int runs = 1;
  bool graph = false;
  unsigned streams = 1;
};

inline std::string take(fp8rt_error *error) {
  std::string message = fp8rt_error_message(error);
  fp8rt_free_error(error);
  return message;
}

/// Why programs cannot be run on a GPU here; empty if they can.
inline const std::string &missingGpu() {
  static const std::string reason = [] {
    Json empty = manifest({{{"name", "step"},
                            {"arguments", Json::array()},
                            {"buffers", Json::array()},
                            {"results", Json::array()},
                            {"peak_bytes", 0},
                            {"arena_bytes", 0},
                            {"saved_bytes", 0},
                            {"commands", Json::array()}}});
    empty["target"] = "h200";
    std::string error, text = empty.dump();
    std::string bytes = *serializeContainer(ContainerKind::Artifact,
                                            {{"manifest", text}}, error);
    fp8rt_program *program = nullptr;
    fp8rt_error *failure = nullptr;
    if (fp8rt_load_memory(bytes.data(), bytes.size(), "cuda", &program,
                          &failure))
      return take(failure);
    fp8rt_unload(program);
    return std::string();
  }();
  return reason;
}

/// `manifest` for a GPU: every launch is one block of 64 threads.
inline Json forGpu(Json manifest) {
  manifest["target"] = "h200";
  for (Json &function : manifest["functions"])
    for (Json &command : function["commands"])
      if (command["op"] == "launch" && !command.contains("grid")) {
        command["grid"] = {1, 1, 1};
        command["block"] = {64, 1, 1};
        command["shared"] = 0;
      }
  return manifest;
}

inline std::string artifactFor(const std::string &backend,
                               const Json &manifest) {
  if (backend == "cpu")
    return artifact(manifest);
#ifdef FP8RT_TEST_CUBIN
  std::string error, text = forGpu(manifest).dump();
  std::optional<std::string> kernels =
      readWholeFile(testFile(FP8RT_TEST_CUBIN), error);
  if (!kernels) {
    ADD_FAILURE() << error;
    return "";
  }
  return *serializeContainer(ContainerKind::Artifact,
                             {{"manifest", text}, {"cuda.cubin", *kernels}},
                             error);
#else
  ADD_FAILURE() << "no kernels for a GPU in this build";
  return "";
#endif
}

/// A loaded program with its memory on the device.
class LoadedProgram {
public:
  LoadedProgram(const std::string &backend, const std::string &bytes) {
    fp8rt_error *failure = nullptr;
    if (fp8rt_load_memory(bytes.data(), bytes.size(), backend.c_str(), &handle,
                          &failure)) {
      error = take(failure);
      handle = nullptr;
    }
  }
  ~LoadedProgram() {
    for (void *pointer : pointers)
      fp8rt_release(handle, pointer);
    if (handle)
      fp8rt_unload(handle);
  }
  LoadedProgram(const LoadedProgram &) = delete;
  LoadedProgram &operator=(const LoadedProgram &) = delete;

  /// Memory that lives as long as the program.
  void *allocate(size_t bytes) {
    fp8rt_error *failure = nullptr;
    void *pointer = nullptr;
    if (fp8rt_allocate(handle, bytes, &pointer, &failure)) {
      ADD_FAILURE() << take(failure);
      return nullptr;
    }
    pointers.push_back(pointer);
    return pointer;
  }
  template <typename T>
  void *upload(const std::vector<T> &values) {
    void *pointer = allocate(values.size() * sizeof(T));
    check(fp8rt_upload(handle, pointer, values.data(),
                       values.size() * sizeof(T), &failure));
    return pointer;
  }
  template <typename T>
  std::vector<T> download(const void *pointer, size_t count) {
    std::vector<T> values(count);
    check(fp8rt_synchronize(handle, nullptr, &failure));
    check(fp8rt_download(handle, values.data(), pointer, count * sizeof(T),
                         &failure));
    return values;
  }
  void check(int code) {
    if (code)
      ADD_FAILURE() << take(failure);
  }

  fp8rt_program *handle = nullptr;
  /// Why it could not be loaded.
  std::string error;
  fp8rt_error *failure = nullptr;

private:
  std::vector<void *> pointers;
};

/// Runs the first function of `manifest` with x[i] = i (every argument).
inline Outcome runManifest(const Json &manifest, RunOptions options = {},
                           const std::string &backend = "cpu") {
  Outcome outcome;
  LoadedProgram program(backend, artifactFor(backend, manifest));
  if (!program.handle) {
    outcome.error = program.error;
    return outcome;
  }
  fp8rt_function_info info;
  fp8rt_get_function(program.handle, 0, &info);
  std::vector<void *> argumentData, resultData;
  size_t lastCount = 0;
  for (size_t i = 0; i < info.argument_count; ++i) {
    fp8rt_argument_info argument;
    fp8rt_get_argument(program.handle, 0, i, &argument);
    lastCount = argument.bytes / 4;
    std::vector<float> values(lastCount);
    for (size_t e = 0; e < lastCount; ++e)
      values[e] = static_cast<float>(e);
    argumentData.push_back(program.upload(values));
  }
  for (size_t i = 0; i < info.result_count; ++i) {
    fp8rt_result_info result;
    fp8rt_get_result(program.handle, 0, i, &result);
    resultData.push_back(program.allocate(result.caller_bytes));
  }

  fp8rt_runner_options request{};
  request.struct_size = sizeof(request);
  request.memory = options.memory;
  request.watch = options.watch && !options.graph && options.streams == 1;
  request.poison = options.poison;
  request.graph = options.graph;
  request.streams = options.streams;
  fp8rt_runner *runner = nullptr;
  fp8rt_error *failure = nullptr;
  if (fp8rt_create_runner(program.handle, 0, &request, &runner, &failure)) {
    outcome.error = take(failure);
    return outcome;
  }
  size_t arenaBytes = fp8rt_runner_arena_bytes(runner);
  void *arena = program.allocate(arenaBytes);
  for (int i = 0; i < options.runs && outcome.error.empty(); ++i)
    if (fp8rt_run(runner, argumentData.data(), resultData.data(), arena,
                  arenaBytes, nullptr, &failure) ||
        fp8rt_synchronize(program.handle, nullptr, &failure))
      outcome.error = take(failure);
  outcome.measured = fp8rt_runner_measured_peak_bytes(runner);
  outcome.poolHigh = fp8rt_runner_pool_high_bytes(runner);
  if (outcome.error.empty() && info.result_count)
    outcome.out =
        program.download<float>(fp8rt_runner_result_data(runner, 0), 64);
  if (outcome.error.empty() && !argumentData.empty())
    outcome.state = program.download<float>(argumentData.back(), lastCount);
  fp8rt_destroy_runner(runner);
  return outcome;
}

/// The good function with its first launch's kernel replaced.
inline Json withKernel(const std::string &kernel) {
  Json function = goodFunction();
  function["commands"][1]["kernel"] = kernel;
  return manifest({function});
}

/// out[8, 8] = x[8, 8] * transpose(x), then a copy of it.
inline Json gemmFunction(int64_t workspace = kCpuGemmWorkspaceBytes) {
  Json operand = {{"arg", 0}, {"dtype", "f32"}, {"offset", 0}};
  Json a = operand, b = operand, d = buf(0);
  a["strides"] = {8, 1};
  b["strides"] = {1, 8};
  d.update({{"dtype", "f32"}, {"offset", 0}, {"strides", {8, 1}}});
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

} // namespace fp8rt::test

#endif // FP8RT_UNITTESTS_RUNHARNESS_H
