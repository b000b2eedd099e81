//===- TestArtifact.h - Artifacts written by hand ---------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds small manifests and wraps them into artifacts with the kernels of
// TestKernels.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_UNITTESTS_TESTARTIFACT_H
#define FP8RT_UNITTESTS_TESTARTIFACT_H

#include "fp8rt/Container.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace fp8rt::test {

using Json = nlohmann::json;

/// `path`, or where that is not there (the tests were copied to another
/// machine) the file of that name beside this program.
inline std::string testFile(const char *path) {
  namespace fs = std::filesystem;
  std::error_code code;
  if (fs::exists(path, code))
    return path;
  fs::path self = fs::read_symlink("/proc/self/exe", code);
  return self.parent_path() / fs::path(path).filename();
}

inline Json arg(int i) { return {{"arg", i}}; }
inline Json buf(int i) { return {{"buffer", i}}; }

/// An argument of 64 floats.
inline Json argument(const std::string &name, const std::string &role) {
  return {{"name", name},
          {"dtype", "f32"},
          {"shape", {64}},
          {"bytes", 256},
          {"role", role}};
}

inline Json buffer(const std::string &name, int64_t offset,
                   const std::string &kind = "local", int64_t bytes = 256) {
  return {{"name", name}, {"bytes", bytes}, {"offset", offset}, {"kind", kind}};
}

inline Json alloc(int i) { return {{"op", "alloc"}, {"buffer", i}}; }
inline Json release(int i) { return {{"op", "free"}, {"buffer", i}}; }

/// A launch that writes its last argument.
inline Json launch(const std::string &kernel, std::vector<Json> args,
                   const std::string &name) {
  int last = static_cast<int>(args.size()) - 1;
  return {{"op", "launch"}, {"kernel", kernel},
          {"args", args},   {"writes", {last}},
          {"bytes", 512},   {"flops", 64},
          {"name", name},   {"loc", name + ".mlir:1:2"}};
}

inline Json result(const std::string &name, const Json &ref,
                   const std::string &placement = "arena") {
  return {{"name", name},           {"dtype", "f32"}, {"shape", {64}},
          {"placement", placement}, {"ref", ref},     {"offset", 0},
          {"strides", {1}}};
}

/// y = 2x; z = 2y; out = z + x, with `out` where `y` was: peak 512 bytes.
inline Json goodFunction() {
  return {{"name", "step"},
          {"arguments", {argument("x", "input")}},
          {"buffers",
           {buffer("y", 0), buffer("z", 256), buffer("out", 0, "result")}},
          {"results", {result("out", buf(2))}},
          {"peak_bytes", 512},
          {"arena_bytes", 512},
          {"saved_bytes", 0},
          {"commands",
           {alloc(0), launch("twice", {arg(0), buf(0)}, "first"), alloc(1),
            launch("twice", {buf(0), buf(1)}, "second"), release(0), alloc(2),
            launch("add", {buf(1), arg(0), buf(2)}, "third"), release(1)}}};
}

inline Json manifest(std::vector<Json> functions) {
  return {{"schema", "fp8opt-artifact-1"},
          {"compiler", "by hand"},
          {"target", "cpu"},
          {"functions", std::move(functions)}};
}

/// The bytes of an artifact with `manifest` and `plan`.
inline std::string artifact(const Json &manifest,
                            const Json &plan = Json::object()) {
  std::string error;
  std::string text = manifest.dump(), planText = plan.dump();
  std::optional<std::string> kernels =
      readWholeFile(testFile(FP8RT_TEST_KERNELS), error);
  if (!kernels) {
    ADD_FAILURE() << error;
    return "";
  }
  return *serializeContainer(
      ContainerKind::Artifact,
      {{"manifest", text}, {"plan", planText}, {"cpu.so", *kernels}}, error);
}

} // namespace fp8rt::test

#endif // FP8RT_UNITTESTS_TESTARTIFACT_H
