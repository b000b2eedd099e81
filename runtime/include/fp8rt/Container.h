//===- Container.h - The file format of artifacts ---------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reader and atomic writer of the container that artifacts and references
// share: named sections behind a hashed header (docs/artifact.md). Every byte
// of a file is covered by a hash or by a value it must have, so a damaged,
// truncated, foreign or newer file is refused with a message that says what
// is wrong. No function throws.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CONTAINER_H
#define FP8RT_CONTAINER_H

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fp8rt {

/// What a container is for; it decides the magic number.
enum class ContainerKind { Artifact, Reference };

/// A container in memory: the bytes of the file and where its sections lie.
class Container {
public:
  /// Reads and checks the file at `path`. On failure returns nothing and sets
  /// `error` to "`path`: what is wrong".
  static std::optional<Container>
  readFile(const std::string &path, ContainerKind kind, std::string &error);

  /// Checks `bytes`, the contents of a file. On failure returns nothing and
  /// sets `error`.
  static std::optional<Container> parse(std::string bytes, ContainerKind kind,
                                        std::string &error);

  /// The contents of the section called `name`, or nothing. They live as long
  /// as the container is neither moved nor destroyed.
  std::optional<std::string_view> section(std::string_view name) const;

private:
  struct Entry {
    std::string name;
    size_t offset;
    size_t size;
  };
  std::string bytes;
  std::vector<Entry> entries;
};

/// The bytes of a container with `sections` in the order given. Names are 1 to
/// 15 bytes and differ. On failure returns nothing and sets `error`.
std::optional<std::string> serializeContainer(
    ContainerKind kind,
    const std::vector<std::pair<std::string, std::string_view>> &sections,
    std::string &error);

/// Writes such a container to `path` atomically. On failure returns false,
/// sets `error`, and leaves what was at `path` as it was.
bool writeContainer(
    const std::string &path, ContainerKind kind,
    const std::vector<std::pair<std::string, std::string_view>> &sections,
    std::string &error);

/// Whole contents of the file at `path`. On failure returns nothing and sets
/// `error` to "cannot read 'path': why".
std::optional<std::string> readWholeFile(const std::string &path,
                                         std::string &error);

/// Writes `bytes` to `path` atomically: into a temporary beside it, synced,
/// then renamed over it. A `path` that names something other than a regular
/// file (/dev/stdout) is written directly. On failure returns false and sets
/// `error` to "cannot write 'path': why".
bool writeFileAtomically(const std::string &path, std::string_view bytes,
                         std::string &error);

} // namespace fp8rt

#endif // FP8RT_CONTAINER_H
