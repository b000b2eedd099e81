//===- RanksTest.cpp - Exchanges between ranks ----------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks are threads here, and messages go through memory: collectives of all
// kinds against index arithmetic written out, slow ranks, and ranks that fail,
// fall silent or never come.
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <thread>
#include <tuple>

using namespace fp8rt;
using namespace std::chrono_literals;

namespace {

struct MemoryRequest : Transport::Request {
  MemoryRequest(int from, int to, Channel channel, void *data, size_t bytes,
                bool isSend)
      : from(from), to(to), channel(channel), data(data), bytes(bytes),
        isSend(isSend) {}
  int from = 0, to = 0;
  Channel channel = Channel::Data;
  void *data = nullptr;
  size_t bytes = 0;
  bool isSend = false;
};

/// The messages of all ranks that nobody has taken yet.
struct Mail {
  std::mutex mutex;
  std::map<std::tuple<int, int, Channel>, std::deque<std::string>> boxes;
};

class MemoryTransport : public Transport {
public:
  MemoryTransport(Mail &mail, int rank, int size)
      : mail(mail), own(rank), count(size) {}
  int rank() const override { return own; }
  int size() const override { return count; }
  Request *send(int peer, Channel channel, const void *data, size_t bytes,
                std::string &) override {
    std::lock_guard lock(mail.mutex);
    mail.boxes[{own, peer, channel}].emplace_back(
        static_cast<const char *>(data), bytes);
    return new MemoryRequest(own, peer, channel, nullptr, bytes, true);
  }
  Request *receive(int peer, Channel channel, void *data, size_t bytes,
                   std::string &) override {
    return new MemoryRequest(peer, own, channel, data, bytes, false);
  }
  bool test(Request *opaque, size_t *bytes, std::string &error) override {
    auto *request = static_cast<MemoryRequest *>(opaque);
    if (!request->isSend) {
      std::lock_guard lock(mail.mutex);
      auto &box = mail.boxes[{request->from, own, request->channel}];
      if (box.empty())
        return false;
      if (box.front().size() > request->bytes) {
        error = "a message is longer than expected";
        return false;
      }
      std::memcpy(request->data, box.front().data(), box.front().size());
      if (bytes)
        *bytes = box.front().size();
      box.pop_front();
    }
    delete request;
    return true;
  }
  void cancel(Request *request) override {
    delete static_cast<MemoryRequest *>(request);
  }

private:
  Mail &mail;
  int own, count;
};

std::unique_ptr<Communicator> join(Mail &mail, int rank, int size,
                                   Communicator::Milliseconds timeout) {
  std::string error;
  auto ranks = Communicator::open(
      [&mail, rank, size](std::string &) {
        return std::make_unique<MemoryTransport>(mail, rank, size);
      },
      {timeout, 20ms}, error);
  EXPECT_EQ(error, "");
  return ranks;
}

/// Runs `body(rank, communicator)` on `size` ranks.
template <typename Body>
void onRanks(int size, Body body, Communicator::Milliseconds timeout = 10s) {
  Mail mail;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      auto ranks = join(mail, rank, size, timeout);
      if (ranks)
        body(rank, *ranks);
    });
  for (std::thread &thread : threads)
    thread.join();
}

/// What rank `rank` holds at element `e`.
float valueAt(int rank, size_t e) {
  auto hash = static_cast<uint32_t>(rank * 7919 + static_cast<int>(e) * 104729);
  hash ^= hash >> 7;
  hash *= 2654435761u;
  return (static_cast<float>(hash >> 8) / 8388608.0f - 1.0f) *
         (hash % 5 == 0 ? 1000.0f : 0.01f);
}

/// Runs `command` with f32 tensors on a line of `size` ranks and returns what
/// each gets.
std::vector<std::vector<float>> runAll(CollectiveCommand command, int size,
                                       size_t resultElements, int slow = -1) {
  command.axis = "x";
  command.dtype = DType::F32;
  if (command.strides.empty()) {
    command.strides.assign(command.shape.size(), 1);
    for (size_t d = command.shape.size(); d > 1; --d)
      command.strides[d - 2] = command.strides[d - 1] * command.shape[d - 1];
  }
  size_t count = 1;
  for (int64_t length : command.shape)
    count *= static_cast<size_t>(length);
  std::vector<std::vector<float>> results(static_cast<size_t>(size));
  onRanks(size, [&](int rank, Communicator &ranks) {
    if (rank == slow)
      ranks.delay(-1, 30ms);
    std::vector<float> source(count);
    for (size_t e = 0; e < count; ++e)
      source[e] = valueAt(rank, e);
    std::vector<float> &result = results[static_cast<size_t>(rank)];
    result.assign(resultElements, -1.0f);
    Exchange exchange(command, groupOf({{"x", size}}, "x", rank),
                      static_cast<size_t>(rank));
    std::string error;
    EXPECT_TRUE(
        ranks.wait(ranks.start(exchange, source.data(), result.data()), error))
        << error;
    EXPECT_TRUE(ranks.close(error)) << error;
  });
  return results;
}

TEST(Ranks, GroupsFollowTheGrid) {
  std::vector<GridAxis> grid = {{"dp", 2}, {"tp", 3}};
  EXPECT_EQ(groupOf(grid, "tp", 4), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(groupOf(grid, "dp", 4), (std::vector<int>{1, 4}));
  EXPECT_EQ(groupOf(grid, "dp", 0), (std::vector<int>{0, 3}));
}

TEST(Ranks, AllGatherJoinsAlongAnyDimension) {
  for (int size : {1, 2, 3, 8})
    for (int64_t dim : {0, 1, 2}) {
      CollectiveCommand command;
      command.shape = {3, 4, 5};
      command.concat = dim;
      auto results = runAll(command, size, 60 * static_cast<size_t>(size));
      for (auto &result : results)
        for (int64_t r = 0; r < size; ++r)
          for (int64_t i = 0; i < 3; ++i)
            for (int64_t j = 0; j < 4; ++j)
              for (int64_t k = 0; k < 5; ++k) {
                int64_t n[3] = {3, 4, 5}, at[3] = {i, j, k};
                at[dim] += r * n[dim];
                n[dim] *= size;
                ASSERT_EQ(result[static_cast<size_t>(
                              (at[0] * n[1] + at[1]) * n[2] + at[2])],
                          valueAt(static_cast<int>(r),
                                  static_cast<size_t>((i * 4 + j) * 5 + k)));
              }
    }
}

TEST(Ranks, SumsAreTakenInRankOrder) {
  for (int size : {1, 2, 4, 8})
    for (bool isScattered : {false, true}) {
      CollectiveCommand command;
      command.shape = {16, 4};
      command.reduce = ReduceKind::Sum;
      if (isScattered)
        command.split = 0;
      size_t part = isScattered ? 64 / static_cast<size_t>(size) : 64;
      auto results = runAll(command, size, part);
      for (int rank = 0; rank < size; ++rank)
        for (size_t e = 0; e < part; ++e) {
          size_t whole = isScattered ? static_cast<size_t>(rank) * part + e : e;
          volatile float sum = valueAt(0, whole);
          for (int r = 1; r < size; ++r)
            sum = sum + valueAt(r, whole);
          ASSERT_EQ(results[static_cast<size_t>(rank)][e], sum);
        }
    }
}

TEST(Ranks, PiecesAreExchanged) {
  int size = 4;
  CollectiveCommand command;
  command.shape = {8, 6};
  command.split = 0;
  command.concat = 1;
  auto results = runAll(command, size, 48);
  for (int rank = 0; rank < size; ++rank)
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 24; ++j)
        ASSERT_EQ(results[static_cast<size_t>(rank)][i * 24 + j],
                  valueAt(static_cast<int>(j / 6),
                          (static_cast<size_t>(rank) * 2 + i) * 6 + j % 6));
}

TEST(Ranks, SourcesMayBeViews) {
  CollectiveCommand command; // the transpose of a [5, 4]
  command.shape = {4, 5};
  command.strides = {1, 4};
  command.concat = 0;
  auto results = runAll(command, 2, 40);
  for (int r = 0; r < 2; ++r)
    for (size_t i = 0; i < 4; ++i)
      for (size_t j = 0; j < 5; ++j)
        ASSERT_EQ(results[1][(static_cast<size_t>(r) * 4 + i) * 5 + j],
                  valueAt(r, j * 4 + i));
}

TEST(Ranks, LargeTensorsTravelInParts) {
  CollectiveCommand command;
  command.shape = {70'001, 3};
  command.concat = 1;
  auto results = runAll(command, 2, 420'006);
  for (size_t e = 0; e < 420'006; ++e)
    ASSERT_EQ(results[0][e], valueAt(e % 6 < 3 ? 0 : 1, e / 6 * 3 + e % 3));
}

TEST(Ranks, ASlowRankChangesNothing) {
  CollectiveCommand command;
  command.shape = {64};
  command.reduce = ReduceKind::Sum;
  auto expected = runAll(command, 4, 64);
  for (int slow = 0; slow < 4; ++slow)
    EXPECT_EQ(runAll(command, 4, 64, slow), expected);
}

TEST(Ranks, NaNsAndZerosInMaxima) {
  CollectiveCommand command;
  command.axis = "x";
  command.shape = {3};
  command.strides = {1};
  command.reduce = ReduceKind::Max;
  onRanks(2, [&](int rank, Communicator &ranks) {
    float source[3] = {rank ? NAN : 1.0f, rank ? 0.0f : -0.0f,
                       rank ? -2.0f : -3.0f};
    uint32_t result[3];
    Exchange exchange(command, {0, 1}, static_cast<size_t>(rank));
    std::string error;
    EXPECT_TRUE(ranks.wait(ranks.start(exchange, source, result), error));
    EXPECT_EQ(result[0], 0x7FC00000u);
    EXPECT_EQ(result[1], 0u);
    EXPECT_EQ(result[2], 0xC0000000u);
    EXPECT_TRUE(ranks.close(error));
  });
}

TEST(Ranks, BytesAreGatheredAndHandedOut) {
  onRanks(3, [](int rank, Communicator &ranks) {
    std::string text = rank ? "" : "all", error;
    EXPECT_TRUE(ranks.broadcast(text, error));
    EXPECT_EQ(text, "all");
    std::vector<std::string> all;
    EXPECT_TRUE(ranks.allGather(std::string(1, char('a' + rank)), all, error));
    EXPECT_EQ(all, (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_TRUE(ranks.close(error));
  });
}

TEST(Ranks, AFailureIsHandedOn) {
  onRanks(3, [](int rank, Communicator &ranks) {
    if (rank == 1)
      return ranks.fail("out of paper");
    CollectiveCommand command;
    command.shape = {4};
    command.strides = {1};
    command.reduce = ReduceKind::Sum;
    Exchange exchange(command, {0, 1, 2}, static_cast<size_t>(rank));
    float data[4] = {}, result[4];
    std::string error;
    EXPECT_FALSE(ranks.wait(ranks.start(exchange, data, result), error));
    EXPECT_EQ(error, "rank 1 stopped: out of paper");
    EXPECT_FALSE(ranks.close(error));
  });
}

TEST(Ranks, ASilentRankIsNamed) {
  Mail mail;
  // The second is patient, or it may be the one to tell the first.
  auto first = join(mail, 0, 3, 300ms), second = join(mail, 1, 3, 60s);
  // Rank 2 never comes; the others hear each other.
  CollectiveCommand command;
  command.shape = {4};
  command.strides = {1};
  command.reduce = ReduceKind::Sum;
  Exchange exchange(command, {0, 1, 2}, 0);
  float data[4] = {}, result[4];
  std::string error;
  auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(first->wait(first->start(exchange, data, result), error));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  EXPECT_EQ(error, "lost rank 2: nothing heard of it for 0 s");
}

TEST(Ranks, RanksThatDoNotStartAreNoticed) {
  std::string error;
  auto ranks = Communicator::open(
      [](std::string &) -> std::unique_ptr<Transport> {
        std::this_thread::sleep_for(1s);
        return nullptr;
      },
      {100ms, 20ms}, error);
  EXPECT_EQ(ranks, nullptr);
  EXPECT_EQ(error, "not all ranks have started within 0 s");
  // The thread that hangs uses what stays behind.
  std::this_thread::sleep_for(1500ms);
}

/// A gather of x into g on four ranks, with `commands` in the place of the
/// usual ones; what is wrong with it, or nothing.
std::string check(const std::string &commands, const std::string &axis = "tp") {
  std::string json =
      R"({"schema": "fp8opt-artifact-1", "compiler": "", "target": "cpu",
          "grid": [{"name": "tp", "size": 4}], "functions": [{"name": "f",
          "arguments": [{"name": "x", "dtype": "f32", "shape": [64, 2],
                         "bytes": 512, "role": "donated"}],
          "buffers": [{"name": "g", "bytes": 2048, "offset": 0,
                       "kind": "result"}],
          "results": [{"name": "g", "dtype": "f32", "shape": [256, 2],
                       "placement": "arena", "ref": {"buffer": 0},
                       "offset": 0, "strides": [2, 1]}],
          "peak_bytes": 2048, "arena_bytes": 2048, "saved_bytes": 0,
          "commands": [{"op": "alloc", "buffer": 0}, )" +
      commands + "]}]}";
  for (size_t at; (at = json.find("@AXIS")) != std::string::npos;)
    json.replace(at, 5, axis);
  std::string error;
  std::optional<Manifest> manifest = parseManifest(json, error);
  if (manifest)
    checkManifest(*manifest, error);
  return error;
}

const std::string kGather =
    R"({"op": "collective", "name": "g", "axis": "@AXIS", "dtype": "f32",
        "shape": [64, 2], "concat": 0, "dst": {"buffer": 0},
        "src": {"arg": 0, "offset": 0, "strides": [2, 1]})";

TEST(Collectives, ManifestsAreChecked) {
  std::string start = kGather + R"(, "ticket": 7})";
  std::string wait = R"({"op": "wait", "name": "w", "ticket": 7})";
  EXPECT_EQ(check(kGather + "}"), "");
  EXPECT_EQ(check(start + ", " + wait), "");
  auto expectError = [](const std::string &got, const char *text) {
    EXPECT_NE(got.find(text), std::string::npos) << got;
  };
  expectError(check(kGather + "}", "dp"), "the grid has no axis 'dp'");
  expectError(check(start), "the collective with the ticket 7 is never waited");
  expectError(check(wait),
              "expected the number of a collective or a copy that was "
              "started before, but got 7");
  expectError(check(start + ", " + wait + ", " + wait),
              "nothing with the ticket 7 is under way");
  expectError(check(start + ", " + start + ", " + wait),
              "uses buffer 'g' before the wait");
  expectError(check(start + R"(, {"op": "fill", "dst": [{"arg": 0}],
                                 "bytes": [4], "name": "z"}, )" +
                    wait),
              "uses argument 'x' before the wait for a collective that reads");
  expectError(check(start + R"(, {"op": "free", "buffer": 0}, )" + wait),
              "is freed before the wait for a collective");
  expectError(check(kGather + R"(, "split": 0})"),
              "expected a result of 512 bytes, but buffer 'g' has 2048");
  expectError(check(kGather + R"(, "reduce": "sum"})"),
              "expected either 'reduce' or 'concat'");
}

/// This rank's part of the result, which is gathered in place.
std::string partOf(const std::string &text) {
  std::string part = R"({"buffer": 0, "axis": "@AXIS")", changed = text;
  changed.replace(changed.find(R"({"arg": 0)"), 9, part);
  return changed;
}

TEST(Collectives, PartsOfBuffersAreChecked) {
  std::string copy = R"({"op": "copy", "name": "c", "bytes": 512,
                         "src": {"arg": 0}, "dst": )";
  std::string part = R"({"buffer": 0, "axis": "@AXIS"}})";
  EXPECT_EQ(check(copy + part + ", " + partOf(kGather) + "}"), "");
  auto expectError = [](const std::string &got, const char *text) {
    EXPECT_NE(got.find(text), std::string::npos) << got;
  };
  expectError(check(copy + R"({"buffer": 0, "axis": "xp"}})"),
              "expected an axis of the grid, of a buffer");
  expectError(check(copy + R"({"arg": 0, "axis": "@AXIS"}})"),
              "expected an axis of the grid, of a buffer");
  // All of the buffer is no part of it.
  expectError(check(partOf(kGather) + R"(, "split": 0})"),
              "expected a result of");
  std::string whole = kGather + "}";
  whole.replace(whole.find(R"({"arg": 0)"), 9, R"({"buffer": 0)");
  expectError(check(whole), "source and result are one storage, buffer 'g'");
  std::string transposed = partOf(kGather) + "}";
  transposed.replace(transposed.find("[2, 1]"), 6, "[1, 64]");
  expectError(check(transposed), "source and result are one storage");
}

} // namespace
