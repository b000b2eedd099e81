//===- ContainerTest.cpp - Damage to files is found -----------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every single-byte change and every truncation of a small file is refused;
// what is written reads back; failed writes leave nothing.
//
//===----------------------------------------------------------------------===//

#include "fp8rt/Container.h"
#include "fp8rt/Sha256.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace fp8rt;

namespace {

const std::vector<std::pair<std::string, std::string_view>> kSections = {
    {"manifest", "{\"a\": 1}"},
    {"empty", ""},
    {"cpu.so", "\x7f"
               "ELF..."}};

std::string makeFile(ContainerKind kind = ContainerKind::Artifact) {
  std::string error;
  return *serializeContainer(kind, kSections, error);
}

/// The message that refuses `bytes`, or "accepted".
std::string refusal(const std::string &bytes) {
  std::string error;
  if (Container::parse(bytes, ContainerKind::Artifact, error))
    return "accepted";
  return error;
}

TEST(Container, ReadsBackWhatWasWritten) {
  std::string error;
  auto container = Container::parse(makeFile(), ContainerKind::Artifact, error);
  ASSERT_TRUE(container) << error;
  for (const auto &[name, data] : kSections)
    EXPECT_EQ(container->section(name), data);
  EXPECT_FALSE(container->section("absent"));
}

TEST(Container, Sha256IsTheStandards) {
  // FIPS 180-4 example.
  EXPECT_EQ(sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9c"
                              "b410ff61f20015ad");
}

TEST(Container, RefusesEveryChangedByte) {
  std::string good = makeFile();
  for (size_t i = 0; i < good.size(); ++i)
    for (int bit : {0, 3, 7}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      EXPECT_NE(refusal(bad), "accepted") << "byte " << i;
    }
}

TEST(Container, RefusesEveryTruncationAndExtension) {
  std::string good = makeFile();
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(refusal(good.substr(0, size)), "accepted") << size;
  EXPECT_NE(refusal(good + '\0'), "accepted");
}

TEST(Container, SaysWhatIsWrong) {
  std::string good = makeFile();
  auto changed = [&](size_t at, char to) {
    std::string bad = good;
    bad[at] = to;
    return refusal(bad);
  };
  EXPECT_EQ(refusal(""),
            "expected an fp8-opt artifact, but got a file of 0 bytes");
  EXPECT_EQ(refusal("// some other file"),
            "expected an fp8-opt artifact, but got a file with another magic "
            "number");
  EXPECT_EQ(refusal(makeFile(ContainerKind::Reference)),
            "expected an fp8-opt artifact, but got an fp8-opt reference");
  EXPECT_NE(changed(8, 2).find("expected format version 1, but got 2"),
            std::string::npos);
  EXPECT_EQ(changed(20, 'x'), "damaged header: its hash does not match");
  EXPECT_EQ(changed(good.size() - 1, 'x'),
            "damaged section 'cpu.so': its hash does not match");
  EXPECT_NE(refusal(good.substr(0, good.size() - 1)).find("truncated file"),
            std::string::npos);
}

TEST(Container, RefusesBadNames) {
  std::string error;
  for (const char *name : {"", "0123456789abcdef"})
    EXPECT_FALSE(
        serializeContainer(ContainerKind::Artifact, {{name, "x"}}, error));
  EXPECT_FALSE(serializeContainer(ContainerKind::Artifact,
                                  {{"a", "x"}, {"a", "y"}}, error));
  EXPECT_EQ(error, "section 'a' is given twice");
}

TEST(Container, WritesAtomically) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(testing::TempDir()) /
                    ("fp8rt-container-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::string path = folder / "a.fp8";
  std::string error;
  ASSERT_TRUE(writeFileAtomically(path, "old", error)) << error;
  ASSERT_TRUE(writeContainer(path, ContainerKind::Artifact, kSections, error));
  EXPECT_TRUE(Container::readFile(path, ContainerKind::Artifact, error));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);

  // A target that cannot be renamed over: nothing is left beside it.
  std::string directory = folder / "d";
  fs::create_directories(directory);
  EXPECT_FALSE(writeFileAtomically(directory, "x", error));
  EXPECT_FALSE(writeFileAtomically(folder / "absent" / "a", "x", error));
  EXPECT_EQ(error, "cannot write '" + (folder / "absent" / "a").string() +
                       "': No such file or directory");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);
  EXPECT_FALSE(Container::readFile(directory, ContainerKind::Artifact, error));
  fs::remove_all(folder);
}

} // namespace
