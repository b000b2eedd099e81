//===- Communicator.cpp - The ranks of a job ------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pieces travel in parts of 64 KiB through memory of the communicator's own, a
// part to and from every rank at a time. So a reduction needs no room for the
// tensors of all ranks, and what the communicator holds does not depend on the
// program; like the buffers of any library of collectives it is no part of the
// plan.
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace fp8rt;

using Clock = std::chrono::steady_clock;

namespace {

/// Bytes of a piece that travel in one message.
constexpr size_t kPartBytes = 64 * 1024;
/// Bytes of a control message: what it is for, then text.
constexpr size_t kControlBytes = 1024;

/// What a control message says.
constexpr char kAlive = 'a', kFailed = 'f', kDone = 'd';

} // namespace

struct Communicator::Job {
  enum class Kind { Exchange, Broadcast, Gather };

  Kind kind = Kind::Exchange;
  Exchange *exchange = nullptr;
  const void *source = nullptr;
  void *target = nullptr;
  std::string bytes;
  std::vector<std::string> all;
  bool done = false;
};

/// What is known of another rank, and the messages with it that are under way.
struct Communicator::Peer {
  std::array<char, kControlBytes> incoming{}, outgoing{};
  Transport::Request *receive = nullptr, *send = nullptr;
  Clock::time_point heard = Clock::now(), told{};
  bool isDone = false;
};

Communicator::Communicator(const Options &options) : options(options) {}

std::unique_ptr<Communicator> Communicator::open(Factory factory,
                                                 const Options &options,
                                                 std::string &error) {
  std::unique_ptr<Communicator> ranks(new Communicator(options));
  ranks->thread =
      std::thread([raw = ranks.get(), factory = std::move(factory)] {
        raw->serve(factory);
      });
  std::unique_lock lock(ranks->mutex);
  // A transport that keeps to the timeout itself can say who is missing.
  bool isBack =
      ranks->changed.wait_for(lock, options.timeout + Milliseconds(500), [&] {
        return ranks->isMet || !ranks->failure.empty();
      });
  if (isBack && ranks->failure.empty()) {
    lock.unlock();
    return ranks;
  }
  error = isBack ? ranks->failure
                 : "not all ranks have started within " +
                       std::to_string(options.timeout.count() / 1000) + " s";
  lock.unlock();
  if (isBack)
    return nullptr;
  // The thread hangs in the transport and cannot be ended, so what it uses
  // stays.
  ranks->thread.detach();
  (void)ranks.release();
  return nullptr;
}

Communicator::~Communicator() {
  {
    std::lock_guard lock(mutex);
    isLeaving = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

//===----------------------------------------------------------------------===//
// What callers ask for
//===----------------------------------------------------------------------===//

Communicator::JobPtr Communicator::enqueue(JobPtr job) {
  {
    std::lock_guard lock(mutex);
    queue.push_back(job);
  }
  changed.notify_all();
  return job;
}

void Communicator::sleepIfDelayed() {
  if (delayTime.count() > 0 && (delayNumber < 0 || delayNumber == numStarted))
    std::this_thread::sleep_for(delayTime);
  ++numStarted;
}

Communicator::JobPtr Communicator::start(Exchange &exchange, const void *source,
                                         void *target) {
  sleepIfDelayed();
  auto job = std::make_shared<Job>();
  job->exchange = &exchange;
  job->source = source;
  job->target = target;
  return enqueue(std::move(job));
}

bool Communicator::wait(const JobPtr &job, std::string &error) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return job->done || !failure.empty(); });
  if (job->done)
    return true;
  error = failure;
  return false;
}

bool Communicator::broadcast(std::string &bytes, std::string &error) {
  auto job = std::make_shared<Job>();
  job->kind = Job::Kind::Broadcast;
  job->bytes = bytes;
  if (!wait(enqueue(job), error))
    return false;
  bytes = std::move(job->bytes);
  return true;
}

bool Communicator::gather(const std::string &bytes,
                          std::vector<std::string> &all, std::string &error) {
  auto job = std::make_shared<Job>();
  job->kind = Job::Kind::Gather;
  job->bytes = bytes;
  if (!wait(enqueue(job), error))
    return false;
  all = std::move(job->all);
  return true;
}

bool Communicator::allGather(const std::string &bytes,
                             std::vector<std::string> &all,
                             std::string &error) {
  if (!gather(bytes, all, error))
    return false;
  all.resize(static_cast<size_t>(count));
  for (std::string &entry : all)
    if (!broadcast(entry, error))
      return false;
  return true;
}

void Communicator::fail(const std::string &reason) {
  {
    std::lock_guard lock(mutex);
    if (isHeard)
      return;
    farewell = reason;
    if (failure.empty())
      failure = reason;
    isLeaving = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

bool Communicator::close(std::string &error) {
  std::unique_lock lock(mutex);
  isClosing = true;
  changed.notify_all();
  changed.wait(lock, [&] { return isClosed || !failure.empty(); });
  error = failure;
  return failure.empty();
}

//===----------------------------------------------------------------------===//
// The thread
//===----------------------------------------------------------------------===//

/// Everything fails from here on.
void Communicator::stop(const std::string &reason) {
  std::lock_guard lock(mutex);
  if (failure.empty())
    failure = reason;
  changed.notify_all();
}

bool Communicator::meet(const Factory &factory) {
  std::string error;
  transport = factory(error);
  if (!transport) {
    stop(error);
    return false;
  }
  ownRank = transport->rank();
  count = transport->size();
  for (int peer = 0; peer < count; ++peer) {
    Peer &entry = *peers.emplace_back(std::make_unique<Peer>());
    if (peer == ownRank)
      continue;
    entry.receive = transport->receive(
        peer, Channel::Control, entry.incoming.data(), kControlBytes, error);
    if (!entry.receive) {
      stop(error);
      return false;
    }
  }
  staging.resize(2 * static_cast<size_t>(count) * kPartBytes);
  std::lock_guard lock(mutex);
  isMet = true;
  changed.notify_all();
  return true;
}

void Communicator::serve(const Factory &factory) {
  bool isGood = meet(factory);
  bool saidDone = false;
  while (isGood) {
    JobPtr job;
    bool closing = false;
    {
      std::unique_lock lock(mutex);
      changed.wait_for(lock, Milliseconds(isClosing ? 1 : 5),
                       [&] { return !queue.empty() || isLeaving; });
      if (isLeaving)
        break;
      if (!queue.empty()) {
        job = queue.front();
        queue.pop_front();
      }
      closing = isClosing;
    }
    if (job) {
      isGood = runJob(*job);
      std::lock_guard lock(mutex);
      job->done = isGood;
      changed.notify_all();
      continue;
    }
    isGood = lookAfterPeers();
    if (!closing || !isGood)
      continue;
    if (!saidDone)
      say(kDone, "");
    saidDone = true;
    bool allDone = true;
    for (int peer = 0; peer < count; ++peer)
      allDone &= peer == ownRank || peers[peer]->isDone;
    if (allDone)
      break;
  }
  if (!transport)
    return;
  std::string last;
  bool heard, isOwn;
  {
    std::lock_guard lock(mutex);
    isOwn = !farewell.empty();
    last = isOwn ? farewell : failure;
    heard = isHeard;
  }
  if (!last.empty() && !heard)
    say(kFailed, last);
  drainSends(Milliseconds(last.empty() ? 5000 : 2000));
  // Where this rank stops by itself it knows.
  if (!last.empty() && !isOwn)
    rankWatch->fail(last);
  for (std::unique_ptr<Peer> &peer : peers)
    if (peer->receive)
      transport->cancel(peer->receive);
  // Ending MPI waits for the others, who are not there after a failure.
  if (!last.empty())
    (void)transport.release();
  transport.reset();
  std::lock_guard lock(mutex);
  isClosed = true;
  changed.notify_all();
}

/// Sends a control message to every other rank, after what is on its way.
void Communicator::say(char what, const std::string &text) {
  drainSends(Milliseconds(500));
  for (int number = 0; number < count; ++number) {
    Peer &peer = *peers[number];
    if (number == ownRank || peer.send)
      continue;
    size_t length = std::min(text.size(), kControlBytes - 1);
    peer.outgoing[0] = what;
    std::memcpy(peer.outgoing.data() + 1, text.data(), length);
    std::string ignored;
    peer.send = transport->send(number, Channel::Control, peer.outgoing.data(),
                                length + 1, ignored);
    peer.told = Clock::now();
  }
}

void Communicator::drainSends(Milliseconds most) {
  Clock::time_point end = Clock::now() + most;
  bool waiting = true;
  while (waiting) {
    waiting = false;
    for (std::unique_ptr<Peer> &peer : peers) {
      std::string fault;
      if (peer->send &&
          (transport->test(peer->send, nullptr, fault) || !fault.empty()))
        peer->send = nullptr;
      waiting |= peer->send != nullptr;
    }
    if (Clock::now() > end)
      return;
    if (waiting)
      std::this_thread::sleep_for(Milliseconds(1));
  }
}

/// Acts on a control message of `bytes` bytes.
bool Communicator::readControl(Peer &peer, int number, size_t bytes) {
  peer.receive = nullptr;
  if (bytes > 0 && peer.incoming[0] == kFailed) {
    std::string reason(peer.incoming.data() + 1, bytes - 1);
    std::lock_guard lock(mutex);
    isHeard = true;
    if (failure.empty())
      failure = "rank " + std::to_string(number) + " stopped: " + reason;
    changed.notify_all();
    return false;
  }
  peer.isDone |= bytes > 0 && peer.incoming[0] == kDone;
  if (peer.isDone)
    return true; // It says nothing more.
  std::string error;
  peer.receive = transport->receive(number, Channel::Control,
                                    peer.incoming.data(), kControlBytes, error);
  if (!peer.receive)
    stop(error);
  return peer.receive != nullptr;
}

bool Communicator::lookAfterPeers() {
  Clock::time_point now = Clock::now();
  for (int number = 0; number < count; ++number) {
    Peer &peer = *peers[number];
    if (number == ownRank)
      continue;
    std::string error;
    size_t bytes = 0;
    while (peer.receive && transport->test(peer.receive, &bytes, error)) {
      peer.heard = now;
      if (!readControl(peer, number, bytes))
        return false;
    }
    if (peer.send && transport->test(peer.send, nullptr, error))
      peer.send = nullptr;
    if (!error.empty()) {
      stop("lost rank " + std::to_string(number) + ": " + error);
      return false;
    }
    if (!peer.isDone && now - peer.heard > options.timeout) {
      stop("lost rank " + std::to_string(number) +
           ": nothing heard of it for " +
           std::to_string(options.timeout.count() / 1000) + " s");
      return false;
    }
    if (!peer.send && now - peer.told >= options.beat) {
      peer.outgoing[0] = kAlive;
      peer.send = transport->send(number, Channel::Control,
                                  peer.outgoing.data(), 1, error);
      peer.told = now;
    }
  }
  std::lock_guard lock(mutex);
  return !isLeaving;
}

bool Communicator::finishRequests(std::vector<Transport::Request *> &requests) {
  std::chrono::microseconds pause(20);
  while (true) {
    bool moved = false;
    for (Transport::Request *&request : requests) {
      std::string error;
      if (request && transport->test(request, nullptr, error)) {
        request = nullptr;
        moved = true;
      }
      if (!error.empty()) {
        // A rank that stopped has said why before it was gone.
        if (lookAfterPeers())
          stop(error);
        return false;
      }
    }
    std::erase(requests, nullptr);
    if (requests.empty())
      return true;
    if (!lookAfterPeers())
      return false;
    pause = moved ? std::chrono::microseconds(20)
                  : std::min(pause * 2, std::chrono::microseconds(1000));
    std::this_thread::sleep_for(pause);
  }
}

bool Communicator::runJob(Job &job) {
  if (job.kind == Job::Kind::Exchange)
    return runExchange(job);
  if (job.kind == Job::Kind::Broadcast) {
    if (ownRank != 0)
      return receiveBytes(0, job.bytes);
    for (int peer = 1; peer < count; ++peer)
      if (!sendBytes(peer, job.bytes))
        return false;
    return true;
  }
  if (ownRank != 0)
    return sendBytes(0, job.bytes);
  job.all.resize(static_cast<size_t>(count));
  job.all[0] = job.bytes;
  for (int peer = 1; peer < count; ++peer)
    if (!receiveBytes(peer, job.all[static_cast<size_t>(peer)]))
      return false;
  return true;
}

bool Communicator::sendBytes(int peer, const std::string &bytes) {
  uint64_t size = bytes.size();
  std::string error;
  std::vector<Transport::Request *> requests = {
      transport->send(peer, Channel::Data, &size, sizeof(size), error)};
  for (size_t at = 0; at < size; at += Transport::kMaxMessageBytes)
    requests.push_back(transport->send(
        peer, Channel::Data, bytes.data() + at,
        std::min(size - at, Transport::kMaxMessageBytes), error));
  if (!error.empty()) {
    stop("cannot reach rank " + std::to_string(peer) + ": " + error);
    return false;
  }
  return finishRequests(requests);
}

bool Communicator::receiveBytes(int peer, std::string &bytes) {
  uint64_t size = 0;
  std::string error;
  auto take = [&](void *data, size_t length) {
    std::vector<Transport::Request *> requests = {
        transport->receive(peer, Channel::Data, data, length, error)};
    if (requests[0])
      return finishRequests(requests);
    stop("cannot hear rank " + std::to_string(peer) + ": " + error);
    return false;
  };
  if (!take(&size, sizeof(size)))
    return false;
  bytes.resize(size);
  for (size_t at = 0; at < size; at += Transport::kMaxMessageBytes)
    if (!take(bytes.data() + at,
              std::min(size - at, Transport::kMaxMessageBytes)))
      return false;
  return true;
}

bool Communicator::runExchange(Job &job) {
  Exchange &exchange = *job.exchange;
  const std::vector<int> &group = exchange.group();
  auto partElements =
      static_cast<int64_t>(kPartBytes / exchange.elementBytes());
  auto place = [&](size_t number) {
    return staging.data() + number * kPartBytes;
  };
  std::vector<const unsigned char *> arrived(group.size());
  for (size_t member = 0; member < group.size(); ++member)
    arrived[member] = place(group.size() + member);
  int64_t count = exchange.elementCount();
  for (int64_t first = 0; first < count; first += partElements) {
    int64_t last = std::min(count, first + partElements);
    size_t bytes = static_cast<size_t>(last - first) * exchange.elementBytes();
    std::vector<Transport::Request *> requests;
    std::string error;
    for (size_t member = 0; member < group.size(); ++member) {
      bool isOwn = member == exchange.member();
      unsigned char *packed = place(isOwn ? group.size() + member : member);
      exchange.pack(job.source, member, first, last, packed);
      if (isOwn)
        continue;
      requests.push_back(transport->receive(group[member], Channel::Data,
                                            place(group.size() + member), bytes,
                                            error));
      requests.push_back(
          transport->send(group[member], Channel::Data, packed, bytes, error));
    }
    if (!error.empty()) {
      stop(error);
      return false;
    }
    if (!finishRequests(requests))
      return false;
    exchange.unpack(job.target, arrived, first, last);
  }
  return true;
}
