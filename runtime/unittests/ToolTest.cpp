//===- ToolTest.cpp - fp8-run from the outside ----------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the program as users do, on artifacts and references written by hand,
// and with a script in place of the compiler.
//
//===----------------------------------------------------------------------===//

#include "RunHarness.h"

#include "fp8rt/Inputs.h"
#include "fp8rt/Sha256.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

using namespace fp8rt;
using namespace fp8rt::test;
namespace fs = std::filesystem;

namespace {

struct Ended {
  int code;
  std::string text;
};

class Tool : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::path(testing::TempDir()) /
             ("fp8-run-test-" + std::to_string(::getpid()));
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string path(const std::string &name) const { return folder / name; }

  void write(const std::string &name, const std::string &bytes) {
    std::string error;
    ASSERT_TRUE(writeFileAtomically(path(name), bytes, error)) << error;
  }
  std::string read(const std::string &name) {
    std::string error;
    std::optional<std::string> bytes = readWholeFile(path(name), error);
    EXPECT_TRUE(bytes) << error;
    return bytes.value_or("");
  }
  Json readJson(const std::string &name) { return Json::parse(read(name)); }

  Ended run(const std::string &arguments,
            const std::string &tool = testFile(FP8RUN_PATH)) {
    std::string command = "cd '" + folder.string() + "' && '" + tool + "' " +
                          arguments + " > out.txt 2>&1";
    int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("out.txt")};
  }

  fs::path folder;
};

/// `step` adds its result to the state; `end_of_step` halves it.
Json stepAndEnd(const char *init = "normal") {
  Json step = goodFunction();
  step["arguments"][0]["init"] = init;
  step["arguments"].push_back(argument("s", "state"));
  step["arguments"][1]["init"] = "one";
  step["commands"].push_back(launch("accumulate", {buf(2), arg(1)}, "push"));
  Json end = {{"name", "end_of_step"},
              {"arguments", {argument("s", "state")}},
              {"buffers", Json::array()},
              {"results", Json::array()},
              {"peak_bytes", 0},
              {"arena_bytes", 0},
              {"saved_bytes", 0},
              {"commands", {launch("halve", {arg(0)}, "roll")}}};
  end["arguments"][0]["init"] = "one";
  return manifest({end, step});
}

/// What stepAndEnd's outputs are, by the definition of its kernels.
struct Expected {
  std::vector<float> out = std::vector<float>(64);
  std::vector<float> state = std::vector<float>(64, 1.0f);
};
Expected expectedOutputs(uint64_t seed, int steps, int microbatches) {
  Expected expected;
  std::vector<float> x(64);
  for (int t = 0; t < steps; ++t) {
    for (int m = 0; m < microbatches; ++m) {
      fillInput(x.data(), DType::F32, 64, Init::Normal, 1.0f, "x", Role::Input,
                seed, t, m);
      for (int i = 0; i < 64; ++i) {
        expected.out[i] = 4.0f * x[i] + x[i];
        expected.state[i] += expected.out[i];
      }
    }
    for (float &value : expected.state)
      value *= 0.5f;
  }
  return expected;
}

std::string_view bytesOf(const std::vector<float> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * 4};
}

/// A reference for stepAndEnd; `edit` may change its manifest.
std::string reference(uint64_t seed, int steps, int microbatches,
                      const Expected &expected,
                      void (*edit)(Json &) = nullptr) {
  std::string data(bytesOf(expected.out));
  data += bytesOf(expected.state);
  auto output = [&](const char *name, size_t offset) {
    return Json{
        {"name", name},
        {"dtype", "f32"},
        {"shape", {64}},
        {"offset", offset},
        {"bytes", 256},
        {"sha256", sha256Hex(std::string_view(data).substr(offset, 256))}};
  };
  Json json = {{"schema", "fp8opt-reference-1"},
               {"program", ""},
               {"seed", seed},
               {"steps", steps},
               {"microbatches", microbatches},
               {"outputs", {output("out", 0), output("state:s", 256)}}};
  if (edit)
    edit(json);
  std::string text = json.dump(), error;
  return *serializeContainer(ContainerKind::Reference,
                             {{"manifest", text}, {"data", data}}, error);
}

TEST_F(Tool, StepsMicrobatchesAndState) {
  write("a.fp8", artifact(stepAndEnd()));
  Expected expected = expectedOutputs(5, 3, 2);
  for (std::string memory : {"planned", "dynamic"}) {
    Ended ended =
        run("a.fp8 --steps=3 --microbatches=2 --seed=5 --memory=" + memory +
            " --json=r.json --dump-outputs=d");
    EXPECT_EQ(ended.code, 0) << ended.text;
    Json json = readJson("r.json");
    EXPECT_EQ(json["function"], "step");
    EXPECT_EQ(json["backend"], "cpu");
    EXPECT_EQ(json["planned_peak_bytes"], 512);
    EXPECT_EQ(json["measured_peak_bytes"], 512);
    EXPECT_EQ(json["arena_bytes"], 512);
    EXPECT_EQ(json["saved_bytes"], 0);
    EXPECT_EQ(json["step_ms"].size(), 3u);
    EXPECT_TRUE(json["max_rel_error"].is_null());
    ASSERT_EQ(json["outputs"].size(), 2u);
    Json out = {{"name", "out"},
                {"shape", {64}},
                {"dtype", "f32"},
                {"sha256", sha256Hex(bytesOf(expected.out))}};
    EXPECT_EQ(json["outputs"][0], out);
    EXPECT_EQ(json["outputs"][1]["name"], "state:s");
    EXPECT_EQ(json["outputs"][1]["sha256"], sha256Hex(bytesOf(expected.state)));
    EXPECT_EQ(read("d/out.bin"), bytesOf(expected.out));
    EXPECT_EQ(readJson("d/index.json")[1]["file"], "state:s.bin");
    EXPECT_EQ(read("d/state:s.bin"), bytesOf(expected.state));
  }
}

TEST_F(Tool, OneStepIsTimedToo) {
  write("a.fp8", artifact(stepAndEnd()));
  Ended ended = run("a.fp8 --json=r.json --ledger=l.json --print-time");
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(ended.text.find("measured peak  512 B, equal"), std::string::npos);
  EXPECT_NE(ended.text.find("slowest commands"), std::string::npos);
  Json json = readJson("r.json");
  EXPECT_EQ(json["step_ms"].size(), 1u);
  EXPECT_EQ(json["outputs"][1]["sha256"],
            sha256Hex(bytesOf(expectedOutputs(0, 1, 1).state)));
  Json ledger = readJson("l.json")["commands"];
  ASSERT_EQ(ledger.size(), 10u);
  EXPECT_EQ(ledger[3]["name"], "second");
  EXPECT_EQ(ledger[3]["loc"], "second.mlir:1:2");
  EXPECT_EQ(ledger[3]["live_bytes"], 512);
  EXPECT_EQ(ledger[4]["op"], "free");
  EXPECT_EQ(ledger[4]["live_bytes"], 256);
  EXPECT_GT(ledger[3]["ms"], 0.0);
  EXPECT_EQ(ledger[9]["function"], "end_of_step");
}

TEST_F(Tool, PeakThatIsNotThePlans) {
  Json bad = stepAndEnd();
  bad["functions"][1]["peak_bytes"] = 513;
  write("a.fp8", artifact(bad));
  for (std::string memory : {"planned", "dynamic"}) {
    Ended ended = run("a.fp8 --json=r.json --memory=" + memory);
    EXPECT_EQ(ended.code, 1);
    EXPECT_NE(ended.text.find("error: the measured peak of 'step' is 512 "
                              "bytes, but the plan says 513\n"),
              std::string::npos)
        << ended.text;
    EXPECT_EQ(readJson("r.json")["measured_peak_bytes"], 512);
    fs::remove(path("r.json"));
  }
}

TEST_F(Tool, IsHeldToThePlan) {
  // The plan section decides, whether it holds one function or several.
  Json entry = {{"function", "step"}, {"peak_bytes", 512}};
  Json end = {{"function", "end_of_step"}, {"peak_bytes", 0}};
  for (Json plan : {entry, Json{{"functions", {end, entry}}}}) {
    write("a.fp8", artifact(stepAndEnd(), plan));
    EXPECT_EQ(run("a.fp8").code, 0);
  }
  entry["peak_bytes"] = 768;
  for (Json plan : {entry, Json{{"functions", {end, entry}}}}) {
    write("a.fp8", artifact(stepAndEnd(), plan));
    Ended ended = run("a.fp8 --json=r.json");
    EXPECT_EQ(ended.code, 1);
    EXPECT_NE(ended.text.find("error: the measured peak of 'step' is 512 "
                              "bytes, but the plan says 768\n"),
              std::string::npos)
        << ended.text;
    EXPECT_NE(ended.text.find("error: the plan of 'step' says a peak of 768 "
                              "bytes, but its command list 512\n"),
              std::string::npos)
        << ended.text;
    EXPECT_EQ(readJson("r.json")["planned_peak_bytes"], 768);
  }
}

TEST_F(Tool, FaultyArtifactWritesNoResults) {
  Json bad = stepAndEnd();
  bad["functions"][1]["commands"].erase(7);
  write("a.fp8", artifact(bad));
  Ended ended = run("a.fp8 --json=r.json");
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.text.find("error: buffer 'z' of 256 bytes is never freed"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(path("r.json")));
}

TEST_F(Tool, ReadsOfEmptyStorageShow) {
  Json bad = stepAndEnd();
  bad["functions"][1]["commands"][1]["kernel"] = "read_own_result";
  write("a.fp8", artifact(bad));
  Ended ended = run("a.fp8");
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.text.find("error: output 'out' differs between the watched "
                            "and the timed run"),
            std::string::npos)
      << ended.text;
}

TEST_F(Tool, Check) {
  write("a.fp8", artifact(stepAndEnd()));
  Expected expected = expectedOutputs(5, 2, 2);
  write("good.ref", reference(5, 2, 2, expected));
  std::string arguments = "a.fp8 --steps=2 --microbatches=2 --seed=5 ";
  for (std::string memory : {"planned", "dynamic"}) {
    Ended ended =
        run(arguments + "--check=good.ref --json=r.json --memory=" + memory);
    EXPECT_EQ(ended.code, 0) << ended.text;
    EXPECT_EQ(readJson("r.json")["max_rel_error"], 0.0);
    EXPECT_NE(ended.text.find("equal to the reference bit for bit"),
              std::string::npos);
  }

  Expected off = expected;
  off.state[3] *= 1.5f;
  write("off.ref", reference(5, 2, 2, off));
  Ended ended = run(arguments + "--check=off.ref --json=r.json");
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.text.find("error: output 'state:s' differs from the "
                            "reference in 1 of 64 elements, first at [3]"),
            std::string::npos)
      << ended.text;
  double norm = 0;
  for (float value : off.state)
    norm += double(value) * value;
  EXPECT_NEAR(readJson("r.json")["max_rel_error"].get<double>(),
              std::fabs(off.state[3] - expected.state[3]) / std::sqrt(norm),
              1e-9);

  // A zero of the other sign has no error in value, but other bits; two NaNs
  // are equal whatever their bits.
  write("zero.fp8", artifact(stepAndEnd("zero")));
  Expected zero = {std::vector<float>(64, 0.0f), std::vector<float>(64, 0.25f)};
  zero.out[7] = -0.0f;
  write("zero.ref", reference(5, 2, 2, zero));
  std::string zeroArguments = "zero.fp8" + arguments.substr(5);
  ended = run(zeroArguments + "--check=zero.ref --json=r.json");
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(readJson("r.json")["max_rel_error"], 0.0);
  EXPECT_NE(ended.text.find("in 1 of 64 elements, first at [7]: expected -0, "
                            "but got 0\n"),
            std::string::npos)
      << ended.text;

  Json ratio = stepAndEnd("zero");
  ratio["functions"][1]["commands"][1]["kernel"] = "ratio";
  write("nan.fp8", artifact(ratio));
  for (uint32_t bits : {0x7FC00000u, 0xFFC00000u}) {
    Expected nan = {std::vector<float>(64, floatOfBits(bits)),
                    std::vector<float>(64, floatOfBits(bits))};
    write("nan.ref", reference(5, 2, 2, nan));
    ended = run("nan.fp8" + arguments.substr(5) + "--check=nan.ref");
    EXPECT_EQ(ended.code, 0) << ended.text;
  }

  auto refused = [&](const std::string &bytes, const std::string &message) {
    write("bad.ref", bytes);
    Ended ended = run(arguments + "--check=bad.ref");
    EXPECT_EQ(ended.code, 1);
    EXPECT_NE(ended.text.find("error: 'bad.ref': " + message),
              std::string::npos)
        << ended.text;
  };
  refused(reference(6, 2, 2, expected),
          "the reference is for seed 6, but the run has 5");
  refused(reference(5, 1, 2, expected),
          "the reference is for steps 1, but the run has 2");
  refused(reference(5, 2, 2, expected,
                    [](Json &json) { json["outputs"][0]["name"] = "other"; }),
          "the reference has no output 'out'");
  refused(reference(5, 2, 2, expected,
                    [](Json &json) { json["outputs"].erase(1); }),
          "expected 2 outputs, but the reference has 1");
  refused(reference(5, 2, 2, expected,
                    [](Json &json) { json["outputs"][0]["shape"] = {8, 8}; }),
          "expected output 'out' as f32 [64], but the reference has \"f32\" "
          "[8,8]");
  refused(reference(5, 2, 2, expected,
                    [](Json &json) { json["outputs"][1]["offset"] = 257; }),
          "output 'state:s' leaves the data");
  refused(reference(5, 2, 2, expected).substr(0, 300), "truncated file");
  refused(artifact(stepAndEnd()),
          "expected an fp8-opt reference, but got an fp8-opt artifact");
}

TEST_F(Tool, ChoosesTheFunction) {
  write("a.fp8", artifact(stepAndEnd()));
  Ended ended = run("a.fp8 --function=end_of_step --json=r.json");
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_EQ(readJson("r.json")["function"], "end_of_step");
  EXPECT_EQ(readJson("r.json")["outputs"].size(), 1u);
  ended = run("a.fp8 --function=absent");
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.text.find("error: --function: the artifact has no function "
                            "'absent'"),
            std::string::npos);
}

TEST_F(Tool, RefusesBadCommandLines) {
  write("a.fp8", artifact(stepAndEnd()));
  const std::pair<const char *, const char *> cases[] = {
      {"", "expected an input"},
      {"a.fp8 b.fp8", "expected one input, but got 'a.fp8' and 'b.fp8'"},
      {"a.fp8 --stpes=2", "unknown option '--stpes=2'"},
      {"a.fp8 --steps=0", "--steps: expected an integer from 1 to 1000000, but "
                          "got '0'"},
      {"a.fp8 --seed=-1", "--seed: expected an integer from 0"},
      {"a.fp8 --seed=", "--seed: expected a value after '='"},
      {"a.fp8 --memory=x", "--memory: expected planned or dynamic, but got"},
      {"a.fp8 --backend=tpu", "--backend: expected cpu or cuda, but got 'tpu'"},
      {"a.fp8 --backend=cuda", "expected an artifact for a GPU, but got 'cpu'"},
      {"a.fp8 --graph", "--graph: expected --backend=cuda and"},
      {"a.fp8 --backend=cuda --graph --memory=dynamic", "--graph: expected"},
      {"a.fp8 --bench --memory=dynamic", "--bench: expected --memory=planned"},
      {"a.fp8 --warmup=-1", "--warmup: expected an integer from 0 to 1000000"},
      {"a.fp8 --tolerance=x", "--tolerance: expected a number of at least 0"},
      {"a.fp8 --policy=auto", "an artifact is compiled already"},
      {"a.fp8 --check", "--check: expected a reference file"},
      {"absent.fp8", "cannot read 'absent.fp8': No such file or directory"},
      {".", "cannot read '.': Is a directory"},
      {"out.txt", "expected an fp8-opt artifact, but got a file of 0 bytes"},
      {"a.fp8 --json=no/such/folder/r.json", "cannot write 'no/such/folder"},
      {"a.fp8 --ledger=.", "cannot write '.': Is a directory"},
      {"a.fp8 --dump-outputs=a.fp8", "cannot write 'a.fp8/out.bin': Not a"},
  };
  for (auto [arguments, message] : cases) {
    Ended ended = run(arguments);
    EXPECT_EQ(ended.code, 1) << arguments;
    EXPECT_NE(ended.text.find(std::string("fp8-run: error: ")),
              std::string::npos)
        << arguments;
    EXPECT_NE(ended.text.find(message), std::string::npos)
        << arguments << ": " << ended.text;
  }
}

TEST_F(Tool, RefusesWhatTheMachineCannotHold) {
  Json big = stepAndEnd();
  big["functions"][1]["arena_bytes"] = 1LL << 60;
  write("a.fp8", artifact(big));
  Ended ended = run("a.fp8");
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.text.find("error: the run needs about 2305843009213694"),
            std::string::npos)
      << ended.text;
}

TEST_F(Tool, RunsOnAGpu) {
  std::string error, text = forGpu(stepAndEnd()).dump();
  if (!missingGpu().empty()) {
    write("g.fp8", *serializeContainer(ContainerKind::Artifact,
                                       {{"manifest", text}}, error));
    Ended ended = run("g.fp8 --backend=cuda");
    EXPECT_EQ(ended.code, 1);
    EXPECT_EQ(ended.text, "fp8-run: error: 'g.fp8': " + missingGpu() + "\n");
    return;
  }
  write("g.fp8", artifactFor("cuda", stepAndEnd()));
  write("good.ref", reference(3, 3, 2, expectedOutputs(3, 3, 2)));
  for (const char *mode :
       {"", "--graph", "--memory=dynamic", "--bench", "--warmup=0",
        "--ledger=l.json", "--graph --ledger=l.json --bench"}) {
    Ended ended = run("g.fp8 --backend=cuda --seed=3 --steps=3 "
                      "--microbatches=2 --tolerance=0 --check=good.ref "
                      "--json=r.json " +
                      std::string(mode));
    EXPECT_EQ(ended.code, 0) << mode << ": " << ended.text;
    EXPECT_NE(ended.text.find("equal to the reference bit for bit"),
              std::string::npos)
        << mode << ": " << ended.text;
    Json results = readJson("r.json");
    EXPECT_EQ(results["measured_peak_bytes"], 512) << mode;
    EXPECT_EQ(results["step_ms"].size(), 3u) << mode;
    EXPECT_EQ(results["max_rel_error"], 0.0) << mode;
    EXPECT_TRUE(results["device_bytes"].is_number_unsigned()) << mode;
  }
  Expected wrong = expectedOutputs(3, 3, 2);
  wrong.out[7] *= 1.5f;
  write("bad.ref", reference(3, 3, 2, wrong));
  Ended ended = run("g.fp8 --backend=cuda --seed=3 --steps=3 "
                    "--microbatches=2 --check=bad.ref");
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.text.find("error: output 'out' differs from the reference "
                            "by "),
            std::string::npos)
      << ended.text;
}

TEST_F(Tool, DamagedArtifactsAreRefused) {
  std::string good = artifact(stepAndEnd());
  for (size_t i = 0; i < good.size(); i += good.size() / 40) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    write("a.fp8", bad);
    Ended ended = run("a.fp8");
    EXPECT_EQ(ended.code, 1) << i;
    EXPECT_NE(ended.text.find("error: 'a.fp8': "), std::string::npos)
        << ended.text;
  }
}

TEST_F(Tool, CompilesProgramsWithTheCompilerBesideIt) {
  // A copy of the tool beside a script that stands for the compiler: it copies
  // the output asked for and keeps its arguments.
  fs::copy_file(testFile(FP8RUN_PATH), path("fp8-run"));
  write("a.fp8", artifact(stepAndEnd()));
  write("good.ref", reference(5, 1, 1, expectedOutputs(5, 1, 1)));
  write("p.mlir", "module {}");
  ::setenv("XDG_CACHE_HOME", path("cache").c_str(), 1);
  std::string tool = path("fp8-run");
  Ended ended = run("p.mlir", tool);
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.text.find("error: cannot find the compiler"),
            std::string::npos);

  write("fp8-opt", "#!/bin/sh\n"
                   "echo \"$@\" >> log.txt\n"
                   "for last in \"$@\"; do :; done\n"
                   "case \"$*\" in\n"
                   "*broken*) echo 'p.mlir:1:1: error: broken' >&2; exit 1;;\n"
                   "*emit=reference*) cp good.ref \"$last\";;\n"
                   "*) cp a.fp8 \"$last\";;\n"
                   "esac\n");
  fs::permissions(path("fp8-opt"), fs::perms::owner_all);
  std::string arguments =
      "p.mlir --policy=min-cut --budget=1GiB --seed=5 --check";
  for (int i = 0; i < 2; ++i) {
    ended = run(arguments, tool);
    EXPECT_EQ(ended.code, 0) << ended.text;
  }
  // Compiled twice; the reference was made once.
  std::string log = read("log.txt");
  std::string compile =
      "p.mlir --compile=target=cpu,policy=min-cut,budget=1GiB "
      "--emit=artifact -o ";
  std::string make = "p.mlir --compile --emit=reference --seed=5 --steps=1 "
                     "--microbatches=1 -o ";
  size_t first = log.find(make);
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find(make, first + 1), std::string::npos) << log;
  EXPECT_NE(log.find(compile, first), std::string::npos) << log;

  // Another program text needs another reference.
  write("p.mlir", "module { }");
  EXPECT_EQ(run(arguments, tool).code, 0);
  EXPECT_NE(read("log.txt").find(make, first + 1), std::string::npos);
  // A damaged one in the cache is made again.
  for (const auto &entry : fs::directory_iterator(path("cache/fp8-opt"))) {
    std::string error;
    ASSERT_TRUE(writeFileAtomically(entry.path(), "damaged", error));
  }
  EXPECT_EQ(run(arguments, tool).code, 0);

  ended = run("p.mlir --policy=broken", tool);
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.text.find("p.mlir:1:1: error: broken"), std::string::npos);
  // Nothing stays in the cache but references.
  for (const auto &entry : fs::directory_iterator(path("cache/fp8-opt")))
    EXPECT_EQ(entry.path().extension(), ".reference");
}

} // namespace
