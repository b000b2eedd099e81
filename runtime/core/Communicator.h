//===- Communicator.h - The ranks of a job ----------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One thread that carries the messages of this rank, so that a collective goes
// on while its caller computes, and that knows whether the other ranks are
// there: each tells the others every second that it lives, and why it stops
// where it has to. A rank that is slow is waited for; one that is not heard of,
// or that says it has failed, makes everything here fail with its number.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_COMMUNICATOR_H
#define FP8RT_CORE_COMMUNICATOR_H

#include "Exchange.h"
#include "Transport.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace fp8rt {

/// Whether a job has lost a rank. Shared with devices, which wait for what
/// other ranks send; outlives the communicator.
class RankWatch {
public:
  /// True, with `reason` set, once a rank is lost or has failed.
  bool failed(std::string &reason) const {
    std::lock_guard lock(mutex);
    reason = failure;
    return !failure.empty();
  }
  /// `handler` is called once, in another thread, when a rank is lost, to end
  /// what would wait for it for ever. Null takes it back: it is not running
  /// after that.
  void onFailure(std::function<void()> newHandler) {
    std::lock_guard lock(handlerMutex);
    handler = std::move(newHandler);
  }

private:
  friend class Communicator;
  void fail(const std::string &reason) {
    {
      std::lock_guard lock(mutex);
      failure = reason;
    }
    std::lock_guard lock(handlerMutex);
    if (handler)
      handler();
  }

  mutable std::mutex mutex;
  std::mutex handlerMutex;
  std::string failure;
  std::function<void()> handler;
};

class Communicator {
public:
  /// Makes the transport, in the thread that is to use it; null with the
  /// message set on failure.
  using Factory = std::function<std::unique_ptr<Transport>(std::string &)>;
  using Milliseconds = std::chrono::milliseconds;

  struct Options {
    /// A rank that says nothing for so long is lost. Also how long all ranks
    /// may take to be there at first.
    Milliseconds timeout{20000};
    /// How often a rank says that it lives.
    Milliseconds beat{1000};
  };

  /// Meets the other ranks. Null with `error` set on failure.
  static std::unique_ptr<Communicator>
  open(Factory factory, const Options &options, std::string &error);
  /// Ends without waiting for anyone; `close` first where all went well.
  ~Communicator();
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  int rank() const { return ownRank; }
  int size() const { return count; }

  /// A collective under way.
  struct Job;
  using JobPtr = std::shared_ptr<Job>;

  /// Begins an exchange, whose memory stays untouched until `wait`. Exchanges
  /// run one after another in the order in which they are begun, which must be
  /// the same on all ranks of a group.
  JobPtr start(Exchange &exchange, const void *source, void *target);
  /// Waits for it. False with `error` set where a rank is lost or has failed.
  bool wait(const JobPtr &job, std::string &error);

  /// Gives all ranks the bytes that rank 0 has.
  bool broadcast(std::string &bytes, std::string &error);
  /// Gives rank 0 the bytes of all, by rank; the others get nothing.
  bool gather(const std::string &bytes, std::vector<std::string> &all,
              std::string &error);
  /// Gives all ranks the bytes of all.
  bool allGather(const std::string &bytes, std::vector<std::string> &all,
                 std::string &error);

  /// Tells all others that this rank stops, and why, unless it does since one
  /// of them has. Nothing can be exchanged after it.
  void fail(const std::string &reason);
  /// Waits until all ranks are done. False with `error` set as in `wait`.
  bool close(std::string &error);

  /// For tests: before exchange number `number` begun here (all of them if
  /// negative) the caller sleeps.
  void delay(int64_t number, Milliseconds time) {
    delayNumber = number;
    delayTime = time;
  }
  /// Called before each exchange that a device does itself; `start` does so.
  void sleepIfDelayed();

  const std::shared_ptr<RankWatch> &watch() const { return rankWatch; }

private:
  struct Peer;

  explicit Communicator(const Options &options);
  void serve(const Factory &factory);
  bool meet(const Factory &factory);
  bool runJob(Job &job);
  bool runExchange(Job &job);
  JobPtr enqueue(JobPtr job);
  bool sendBytes(int peer, const std::string &bytes);
  bool receiveBytes(int peer, std::string &bytes);
  /// Waits for messages and looks after the others meanwhile.
  bool finishRequests(std::vector<Transport::Request *> &requests);
  bool lookAfterPeers();
  bool readControl(Peer &peer, int number, size_t bytes);
  void say(char what, const std::string &text);
  void stop(const std::string &reason);
  void drainSends(Milliseconds most);

  const Options options;
  const std::shared_ptr<RankWatch> rankWatch = std::make_shared<RankWatch>();
  int ownRank = 0, count = 1;
  int64_t delayNumber = 0;
  Milliseconds delayTime{0};
  int64_t numStarted = 0;

  std::mutex mutex;
  std::condition_variable changed;
  // Under the mutex:
  std::deque<JobPtr> queue;
  std::string failure;
  bool isMet = false, isClosing = false, isClosed = false, isLeaving = false;
  bool isHeard = false; ///< the failure is another rank's
  std::string farewell; ///< what `fail` has to say

  // Of the thread:
  std::unique_ptr<Transport> transport;
  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<unsigned char> staging;
  std::thread thread;
};

} // namespace fp8rt

#endif // FP8RT_CORE_COMMUNICATOR_H
