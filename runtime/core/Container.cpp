//===- Container.cpp - Reading and writing the file format ----------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Layout (little endian): magic[8], version u32, count u32, count entries of
// {name[16], offset u64, size u64, sha256[32]}, SHA-256 of everything so far,
// then the sections in the order of the table, without gaps, to the end of
// the file.
//
//===----------------------------------------------------------------------===//

#include "fp8rt/Container.h"

#include "fp8rt/Sha256.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fp8rt;

namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kNameBytes = 16;
constexpr size_t kEntryBytes = kNameBytes + 8 + 8 + 32;
constexpr size_t kPreambleBytes = 8 + 4 + 4;
/// More than any artifact has; bounds the table of a hostile file.
constexpr uint32_t kMaxSections = 64;

std::string_view magicOf(ContainerKind kind) {
  return kind == ContainerKind::Artifact ? std::string_view("FP8OPT\0\1", 8)
                                         : std::string_view("FP8REF\0\1", 8);
}

const char *nameOf(ContainerKind kind) {
  return kind == ContainerKind::Artifact ? "an fp8-opt artifact"
                                         : "an fp8-opt reference";
}

template <typename T>
T loadLittle(const char *data) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<unsigned char>(data[i])) << (8 * i);
  return value;
}

template <typename T>
void appendLittle(std::string &out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    out += static_cast<char>((value >> (8 * i)) & 0xFF);
}

std::string_view asView(const Sha256Digest &digest) {
  return {reinterpret_cast<const char *>(digest.data()), digest.size()};
}

} // namespace

std::optional<Container> Container::parse(std::string bytes, ContainerKind kind,
                                          std::string &error) {
  std::string_view all = bytes;
  if (all.size() < 8 || all.substr(0, 8) != magicOf(kind)) {
    ContainerKind other = kind == ContainerKind::Artifact
                              ? ContainerKind::Reference
                              : ContainerKind::Artifact;
    error = std::string("expected ") + nameOf(kind) + ", but got ";
    if (all.size() >= 8 && all.substr(0, 8) == magicOf(other))
      error += nameOf(other);
    else if (all.size() < 8)
      error += "a file of " + std::to_string(all.size()) + " bytes";
    else
      error += "a file with another magic number";
    return std::nullopt;
  }
  if (all.size() < kPreambleBytes) {
    error = "truncated file: the header ends after " +
            std::to_string(all.size()) + " bytes";
    return std::nullopt;
  }
  auto version = loadLittle<uint32_t>(all.data() + 8);
  if (version != kVersion) {
    error = "expected format version " + std::to_string(kVersion) +
            ", but got " + std::to_string(version) +
            "; build the file with the matching fp8-opt";
    return std::nullopt;
  }
  auto count = loadLittle<uint32_t>(all.data() + 12);
  if (count > kMaxSections) {
    error = "damaged header: " + std::to_string(count) +
            " sections are more than the format allows";
    return std::nullopt;
  }
  size_t tableEnd = kPreambleBytes + count * kEntryBytes;
  size_t dataBegin = tableEnd + sizeof(Sha256Digest);
  if (all.size() < dataBegin) {
    error = "truncated file: expected a table of " + std::to_string(dataBegin) +
            " bytes, but the file has " + std::to_string(all.size());
    return std::nullopt;
  }
  if (asView(sha256(all.substr(0, tableEnd))) !=
      all.substr(tableEnd, sizeof(Sha256Digest))) {
    error = "damaged header: its hash does not match";
    return std::nullopt;
  }

  // From here on the table is what the writer wrote; what remains is to hold
  // the writer to the format and to find damage in the sections.
  Container container;
  size_t expectedOffset = dataBegin;
  for (uint32_t i = 0; i < count; ++i) {
    const char *entry = all.data() + kPreambleBytes + i * kEntryBytes;
    if (entry[kNameBytes - 1] != '\0') {
      error = "damaged table: the name of section " + std::to_string(i) +
              " is not terminated";
      return std::nullopt;
    }
    std::string name(entry);
    auto offset = loadLittle<uint64_t>(entry + kNameBytes);
    auto size = loadLittle<uint64_t>(entry + kNameBytes + 8);
    if (offset != expectedOffset) {
      error = "damaged table: expected section '" + name + "' at byte " +
              std::to_string(expectedOffset) + ", but got " +
              std::to_string(offset);
      return std::nullopt;
    }
    if (size > all.size() - expectedOffset) {
      error = "truncated file: section '" + name + "' needs " +
              std::to_string(size) + " bytes, but " +
              std::to_string(all.size() - expectedOffset) + " are left";
      return std::nullopt;
    }
    if (asView(sha256(all.substr(offset, size))) !=
        std::string_view(entry + kNameBytes + 16, sizeof(Sha256Digest))) {
      error = "damaged section '" + name + "': its hash does not match";
      return std::nullopt;
    }
    container.entries.push_back({std::move(name), offset, size});
    expectedOffset += size;
  }
  if (expectedOffset != all.size()) {
    error = "expected " + std::to_string(expectedOffset) +
            " bytes, but the file has " + std::to_string(all.size());
    return std::nullopt;
  }
  container.bytes = std::move(bytes);
  return container;
}

std::optional<Container> Container::readFile(const std::string &path,
                                             ContainerKind kind,
                                             std::string &error) {
  std::optional<std::string> bytes = readWholeFile(path, error);
  if (!bytes)
    return std::nullopt;
  std::optional<Container> container = parse(std::move(*bytes), kind, error);
  if (!container)
    error = "'" + path + "': " + error;
  return container;
}

std::optional<std::string_view>
Container::section(std::string_view name) const {
  for (const Entry &entry : entries)
    if (entry.name == name)
      return std::string_view(bytes).substr(entry.offset, entry.size);
  return std::nullopt;
}

std::optional<std::string> fp8rt::serializeContainer(
    ContainerKind kind,
    const std::vector<std::pair<std::string, std::string_view>> &sections,
    std::string &error) {
  if (sections.size() > kMaxSections) {
    error = "expected at most " + std::to_string(kMaxSections) +
            " sections, but got " + std::to_string(sections.size());
    return std::nullopt;
  }
  std::string out(magicOf(kind));
  appendLittle<uint32_t>(out, kVersion);
  appendLittle<uint32_t>(out, static_cast<uint32_t>(sections.size()));
  size_t offset =
      kPreambleBytes + sections.size() * kEntryBytes + sizeof(Sha256Digest);
  std::vector<std::string_view> seen;
  for (const auto &[name, data] : sections) {
    if (name.empty() || name.size() >= kNameBytes ||
        name.find('\0') != std::string::npos) {
      error =
          "expected a section name of 1 to 15 bytes, but got '" + name + "'";
      return std::nullopt;
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      error = "section '" + name + "' is given twice";
      return std::nullopt;
    }
    seen.push_back(name);
    std::string padded = name;
    padded.resize(kNameBytes, '\0');
    out += padded;
    appendLittle<uint64_t>(out, offset);
    appendLittle<uint64_t>(out, data.size());
    out += asView(sha256(data));
    offset += data.size();
  }
  out += asView(sha256(out));
  out.reserve(offset);
  for (const auto &[name, data] : sections)
    out += data;
  return out;
}

bool fp8rt::writeContainer(
    const std::string &path, ContainerKind kind,
    const std::vector<std::pair<std::string, std::string_view>> &sections,
    std::string &error) {
  std::optional<std::string> bytes = serializeContainer(kind, sections, error);
  return bytes && writeFileAtomically(path, *bytes, error);
}

std::optional<std::string> fp8rt::readWholeFile(const std::string &path,
                                                std::string &error) {
  auto fail = [&](int code) {
    error = "cannot read '" + path + "': " + std::strerror(code);
    return std::nullopt;
  };
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return fail(errno);
  std::string bytes;
  struct stat info;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
    bytes.reserve(static_cast<size_t>(info.st_size) + 1);
  std::vector<char> chunk(1 << 20);
  for (;;) {
    ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0) {
      int code = errno;
      ::close(fd);
      return fail(code);
    }
    if (got == 0)
      break;
    bytes.append(chunk.data(), static_cast<size_t>(got));
  }
  ::close(fd);
  return bytes;
}

bool fp8rt::writeFileAtomically(const std::string &path, std::string_view bytes,
                                std::string &error) {
  auto fail = [&](int code) {
    error = "cannot write '" + path + "': " + std::strerror(code);
    return false;
  };
  auto writeAll = [&](int fd) -> int {
    size_t done = 0;
    while (done < bytes.size()) {
      ssize_t put = ::write(fd, bytes.data() + done, bytes.size() - done);
      if (put < 0 && errno == EINTR)
        continue;
      if (put < 0)
        return errno;
      done += static_cast<size_t>(put);
    }
    return 0;
  };

  struct stat info;
  bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode))
    return fail(EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0)
      return fail(errno);
    int code = writeAll(fd);
    ::close(fd);
    return code == 0 || fail(code);
  }

  // O_EXCL makes the name ours; the mode passes through the umask as for any
  // new file, and an existing file keeps its own.
  std::string temporary;
  int fd = -1;
  for (int attempt = 0; fd < 0 && attempt < 100; ++attempt) {
    temporary = path + ".tmp" + std::to_string(::getpid()) + "-" +
                std::to_string(attempt);
    fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                0666);
    if (fd < 0 && errno != EEXIST)
      break;
  }
  if (fd < 0)
    return fail(errno);
  int code =
      exists && ::fchmod(fd, info.st_mode & 07777) != 0 ? errno : writeAll(fd);
  if (code == 0 && ::fsync(fd) != 0)
    code = errno;
  if (::close(fd) != 0 && code == 0)
    code = errno;
  if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0)
    code = errno;
  if (code != 0) {
    ::unlink(temporary.c_str());
    return fail(code);
  }
  return true;
}
