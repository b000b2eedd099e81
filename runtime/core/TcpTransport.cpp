//===- TcpTransport.cpp - Messages through sockets ------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every other rank introduces itself to rank 0 and says where it listens; rank
// 0 hands out what it was told, and each connects to those between it and 0. A
// message is a header and its bytes. What arrives before it is asked for is
// kept until then.
//
//===----------------------------------------------------------------------===//

#include "TcpTransport.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace fp8rt;

using Clock = std::chrono::steady_clock;

namespace {

/// Says that the other side speaks this protocol.
constexpr uint64_t kMagic = 0x3130534B4E415238; // "8RANKS01"

/// What a rank says of itself to the one it connects to, and rank 0 to all.
struct Introduction {
  uint64_t magic = kMagic;
  int32_t rank = 0, size = 0;
  /// Where it listens.
  sockaddr_storage address{};
  uint32_t addressBytes = 0;
};

struct Header {
  uint64_t channel = 0;
  uint64_t bytes = 0;
};

/// A file descriptor that is closed with it.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept
      : descriptor(std::exchange(other.descriptor, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~Socket() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  int get() const { return descriptor; }
  explicit operator bool() const { return descriptor >= 0; }

private:
  int descriptor = -1;
};

struct TcpRequest : Transport::Request {
  int peer = 0;
  Channel channel = Channel::Data;
  bool isSend = false, isDone = false;
  unsigned char *data = nullptr;
  /// Of the message; of a receive first the most that may come.
  size_t bytes = 0;
  Header header;
  /// Of header and bytes, those that are on their way.
  size_t moved = 0;
};

struct Peer {
  Socket socket;
  std::string fault;
  std::deque<TcpRequest *> sends;
  std::array<std::deque<TcpRequest *>, 2> receives;
  /// Arrived, but not asked for yet.
  std::array<std::deque<std::vector<unsigned char>>, 2> kept;
  /// The message that is arriving.
  Header header;
  size_t arrived = 0;
  TcpRequest *receive = nullptr;
  std::vector<unsigned char> keeping;
};

bool waitFor(int descriptor, short what, Clock::time_point end) {
  auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  pollfd entry{descriptor, what, 0};
  return left.count() > 0 &&
         ::poll(&entry, 1, static_cast<int>(left.count())) > 0;
}

/// Sends or receives all of `bytes` bytes before `end`.
template <typename Move>
bool moveAll(int descriptor, short what, size_t bytes, Clock::time_point end,
             Move move) {
  for (size_t at = 0; at < bytes;) {
    ssize_t moved = move(at);
    if (moved > 0) {
      at += static_cast<size_t>(moved);
      continue;
    }
    if (moved == 0 ||
        (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) ||
        !waitFor(descriptor, what, end))
      return false;
  }
  return true;
}

bool sendAll(int descriptor, const void *data, size_t bytes,
             Clock::time_point end) {
  return moveAll(descriptor, POLLOUT, bytes, end, [&](size_t at) {
    return ::send(descriptor, static_cast<const char *>(data) + at, bytes - at,
                  MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

bool receiveAll(int descriptor, void *data, size_t bytes,
                Clock::time_point end) {
  return moveAll(descriptor, POLLIN, bytes, end, [&](size_t at) {
    return ::recv(descriptor, static_cast<char *>(data) + at, bytes - at,
                  MSG_DONTWAIT);
  });
}

class TcpTransport : public Transport {
public:
  TcpTransport(const Rendezvous &rendezvous, std::chrono::milliseconds timeout)
      : own(rendezvous.rank), count(rendezvous.size),
        peers(static_cast<size_t>(rendezvous.size)), rendezvous(rendezvous),
        timeout(timeout), end(Clock::now() + timeout) {}

  bool open(std::string &error);

  int rank() const override { return own; }
  int size() const override { return count; }
  Request *send(int peer, Channel channel, const void *data, size_t bytes,
                std::string &error) override;
  Request *receive(int peer, Channel channel, void *data, size_t bytes,
                   std::string &error) override;
  bool test(Request *request, size_t *bytes, std::string &error) override;
  void cancel(Request *request) override;

private:
  bool listenAt(const sockaddr *address, socklen_t bytes, std::string &error);
  Socket connectTo(const sockaddr *address, socklen_t bytes);
  Socket acceptOne(Introduction &introduction);
  void adopt(int peer, Socket socket);
  bool meetAll(std::string &error);
  bool joinAll(std::string &error);
  Introduction introduceSelf() const;
  std::string late(const std::string &which) const {
    return "not all ranks have started within " +
           std::to_string(timeout.count() / 1000) + " s: " + which;
  }

  void write(Peer &peer, int number);
  void read(Peer &peer, int number);
  void deliver(Peer &peer);
  bool beginMessage(Peer &peer, int number);
  void give(TcpRequest &request, std::vector<unsigned char> &message,
            std::string &error);

  int own, count;
  std::vector<Peer> peers;
  const Rendezvous rendezvous;
  const std::chrono::milliseconds timeout;
  const Clock::time_point end;
  Socket listener;
};

//===----------------------------------------------------------------------===//
// Meeting
//===----------------------------------------------------------------------===//

std::string reason(const char *what) {
  return std::string(what) + ": " + std::strerror(errno);
}

bool TcpTransport::listenAt(const sockaddr *address, socklen_t bytes,
                            std::string &error) {
  listener = Socket(::socket(address->sa_family,
                             SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int yes = 1;
  if (listener &&
      ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes,
                   sizeof(yes)) == 0 &&
      ::bind(listener.get(), address, bytes) == 0 &&
      ::listen(listener.get(), 128) == 0)
    return true;
  error = reason("cannot listen for the other ranks");
  if (own == 0)
    error += " at port " + std::to_string(rendezvous.port) +
             "; set FP8RT_PORT to a free one on all ranks";
  return false;
}

/// One attempt.
Socket TcpTransport::connectTo(const sockaddr *address, socklen_t bytes) {
  Socket socket(::socket(address->sa_family,
                         SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket)
    return {};
  if (::connect(socket.get(), address, bytes) != 0) {
    int failure = 0;
    socklen_t size = sizeof(failure);
    if (errno != EINPROGRESS || !waitFor(socket.get(), POLLOUT, end) ||
        ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size) !=
            0 ||
        failure != 0)
      return {};
  }
  return socket;
}

/// The next rank that introduces itself. What is none is sent away.
Socket TcpTransport::acceptOne(Introduction &introduction) {
  while (waitFor(listener.get(), POLLIN, end)) {
    Socket socket(::accept4(listener.get(), nullptr, nullptr,
                            SOCK_NONBLOCK | SOCK_CLOEXEC));
    // A stranger must not hold up the others for long.
    Clock::time_point soon =
        std::min(end, Clock::now() + std::chrono::seconds(1));
    if (socket &&
        receiveAll(socket.get(), &introduction, sizeof(introduction), soon) &&
        introduction.magic == kMagic && introduction.rank > 0 &&
        introduction.rank < count && introduction.size == count)
      return socket;
  }
  return {};
}

void TcpTransport::adopt(int peer, Socket socket) {
  int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  peers[static_cast<size_t>(peer)].socket = std::move(socket);
}

Introduction TcpTransport::introduceSelf() const {
  Introduction introduction;
  introduction.rank = own;
  introduction.size = count;
  introduction.addressBytes = sizeof(introduction.address);
  ::getsockname(listener.get(),
                reinterpret_cast<sockaddr *>(&introduction.address),
                &introduction.addressBytes);
  return introduction;
}

/// Of rank 0.
bool TcpTransport::meetAll(std::string &error) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  // Every interface, but the address family of the name that ranks were given.
  std::string port = std::to_string(rendezvous.port);
  addrinfo *named = nullptr;
  if (::getaddrinfo(rendezvous.address.c_str(), port.c_str(), nullptr,
                    &named) == 0) {
    hints.ai_family = named->ai_family;
    ::freeaddrinfo(named);
  }
  int code = ::getaddrinfo(nullptr, port.c_str(), &hints, &found);
  if (code != 0) {
    error = std::string("cannot listen for the other ranks: ") +
            ::gai_strerror(code);
    return false;
  }
  bool listens = listenAt(found->ai_addr, found->ai_addrlen, error);
  ::freeaddrinfo(found);
  if (!listens)
    return false;
  std::vector<Introduction> all(peers.size());
  for (int missing = count - 1; missing > 0;) {
    Introduction introduction;
    Socket socket = acceptOne(introduction);
    if (!socket) {
      std::string which;
      for (int peer = 1; peer < count; ++peer)
        if (!peers[static_cast<size_t>(peer)].socket)
          which += (which.empty() ? "missing " : ", ") + std::to_string(peer);
      error = late(which);
      return false;
    }
    auto number = static_cast<size_t>(introduction.rank);
    if (peers[number].socket) {
      error = "two processes say that they are rank " + std::to_string(number);
      return false;
    }
    // It listens at every interface; the one that it came from is reachable.
    sockaddr_storage from{};
    socklen_t fromBytes = sizeof(from);
    ::getpeername(socket.get(), reinterpret_cast<sockaddr *>(&from),
                  &fromBytes);
    if (from.ss_family == AF_INET)
      reinterpret_cast<sockaddr_in &>(from).sin_port =
          reinterpret_cast<sockaddr_in &>(introduction.address).sin_port;
    else
      reinterpret_cast<sockaddr_in6 &>(from).sin6_port =
          reinterpret_cast<sockaddr_in6 &>(introduction.address).sin6_port;
    introduction.address = from;
    introduction.addressBytes = fromBytes;
    all[number] = introduction;
    adopt(introduction.rank, std::move(socket));
    --missing;
  }
  for (int peer = 1; peer < count; ++peer)
    if (!sendAll(peers[static_cast<size_t>(peer)].socket.get(), all.data(),
                 all.size() * sizeof(Introduction), end)) {
      error = "lost rank " + std::to_string(peer);
      return false;
    }
  return true;
}

/// Of the other ranks.
bool TcpTransport::joinAll(std::string &error) {
  Socket first;
  std::string why = late("missing 0");
  while (!first && Clock::now() < end) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    int code =
        ::getaddrinfo(rendezvous.address.c_str(),
                      std::to_string(rendezvous.port).c_str(), &hints, &found);
    if (code != 0) {
      why = "cannot find the machine '" + rendezvous.address +
            "' of MASTER_ADDR: " + ::gai_strerror(code);
    } else {
      for (addrinfo *entry = found; entry && !first; entry = entry->ai_next)
        first = connectTo(entry->ai_addr, entry->ai_addrlen);
      ::freeaddrinfo(found);
    }
    if (!first)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (!first) {
    error = why;
    return false;
  }
  sockaddr_storage here{};
  socklen_t bytes = sizeof(here);
  ::getsockname(first.get(), reinterpret_cast<sockaddr *>(&here), &bytes);
  if (here.ss_family == AF_INET)
    reinterpret_cast<sockaddr_in &>(here).sin_port = 0;
  else
    reinterpret_cast<sockaddr_in6 &>(here).sin6_port = 0;
  if (!listenAt(reinterpret_cast<sockaddr *>(&here), bytes, error))
    return false;
  Introduction introduction = introduceSelf();
  std::vector<Introduction> all(peers.size());
  if (!sendAll(first.get(), &introduction, sizeof(introduction), end) ||
      !receiveAll(first.get(), all.data(), all.size() * sizeof(Introduction),
                  end)) {
    error = late("rank 0 waits for others");
    return false;
  }
  adopt(0, std::move(first));
  for (int peer = 1; peer < own; ++peer) {
    const Introduction &other = all[static_cast<size_t>(peer)];
    Socket socket = connectTo(
        reinterpret_cast<const sockaddr *>(&other.address), other.addressBytes);
    if (!socket ||
        !sendAll(socket.get(), &introduction, sizeof(introduction), end)) {
      error = "cannot reach rank " + std::to_string(peer);
      return false;
    }
    adopt(peer, std::move(socket));
  }
  for (int missing = count - 1 - own; missing > 0; --missing) {
    Socket socket = acceptOne(introduction);
    if (!socket) {
      error = late(std::to_string(missing) + " of them have not called");
      return false;
    }
    adopt(introduction.rank, std::move(socket));
  }
  return true;
}

bool TcpTransport::open(std::string &error) {
  bool met = own == 0 ? meetAll(error) : joinAll(error);
  listener = Socket();
  return met;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

Transport::Request *TcpTransport::send(int peer, Channel channel,
                                       const void *data, size_t bytes,
                                       std::string &error) {
  Peer &entry = peers[static_cast<size_t>(peer)];
  if (!entry.fault.empty()) {
    error = entry.fault;
    return nullptr;
  }
  auto *request = new TcpRequest;
  request->peer = peer;
  request->channel = channel;
  request->isSend = true;
  request->data =
      const_cast<unsigned char *>(static_cast<const unsigned char *>(data));
  request->bytes = bytes;
  request->header = {static_cast<uint64_t>(channel), bytes};
  entry.sends.push_back(request);
  write(entry, peer);
  return request;
}

void TcpTransport::give(TcpRequest &request,
                        std::vector<unsigned char> &message,
                        std::string &error) {
  if (message.size() > request.bytes) {
    error = "rank " + std::to_string(request.peer) + " sent " +
            std::to_string(message.size()) + " bytes where at most " +
            std::to_string(request.bytes) + " are expected";
    return;
  }
  if (!message.empty())
    std::memcpy(request.data, message.data(), message.size());
  request.bytes = message.size();
  request.isDone = true;
}

Transport::Request *TcpTransport::receive(int peer, Channel channel, void *data,
                                          size_t bytes, std::string &error) {
  Peer &entry = peers[static_cast<size_t>(peer)];
  auto *request = new TcpRequest;
  request->peer = peer;
  request->channel = channel;
  request->data = static_cast<unsigned char *>(data);
  request->bytes = bytes;
  auto &kept = entry.kept[static_cast<size_t>(channel)];
  if (kept.empty()) {
    entry.receives[static_cast<size_t>(channel)].push_back(request);
    return request;
  }
  give(*request, kept.front(), error);
  kept.pop_front();
  if (request->isDone)
    return request;
  delete request;
  return nullptr;
}

void TcpTransport::write(Peer &peer, int number) {
  while (peer.fault.empty() && !peer.sends.empty()) {
    TcpRequest &request = *peer.sends.front();
    const unsigned char *from =
        reinterpret_cast<const unsigned char *>(&request.header) +
        request.moved;
    size_t left = sizeof(Header) - std::min(request.moved, sizeof(Header));
    if (left == 0) {
      from = request.data + (request.moved - sizeof(Header));
      left = request.bytes - (request.moved - sizeof(Header));
    }
    if (left > 0) {
      ssize_t moved =
          ::send(peer.socket.get(), from, left, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (moved < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
          peer.fault =
              "the connection to rank " + std::to_string(number) + " is closed";
        return;
      }
      request.moved += static_cast<size_t>(moved);
    }
    if (request.moved == sizeof(Header) + request.bytes) {
      request.isDone = true;
      peer.sends.pop_front();
    }
  }
}

/// The header is there: finds who gets the message.
bool TcpTransport::beginMessage(Peer &peer, int number) {
  if (peer.header.channel > 1 || peer.header.bytes > kMaxMessageBytes) {
    peer.fault = "rank " + std::to_string(number) + " sent no message";
    return false;
  }
  auto &receives = peer.receives[peer.header.channel];
  peer.receive = nullptr;
  if (receives.empty()) {
    peer.keeping.resize(peer.header.bytes);
    return true;
  }
  if (receives.front()->bytes < peer.header.bytes) {
    peer.fault = "rank " + std::to_string(number) + " sent " +
                 std::to_string(peer.header.bytes) + " bytes where at most " +
                 std::to_string(receives.front()->bytes) + " are expected";
    return false;
  }
  peer.receive = receives.front();
  receives.pop_front();
  return true;
}

/// All of a message is there.
void TcpTransport::deliver(Peer &peer) {
  if (peer.receive) {
    peer.receive->bytes = peer.header.bytes;
    peer.receive->isDone = true;
    peer.receive = nullptr;
  } else if (auto &receives = peer.receives[peer.header.channel];
             !receives.empty()) {
    // Asked for while it arrived.
    give(*receives.front(), peer.keeping, peer.fault);
    if (receives.front()->isDone)
      receives.pop_front();
  } else {
    peer.kept[peer.header.channel].push_back(std::move(peer.keeping));
  }
  peer.keeping = {};
  peer.arrived = 0;
}

void TcpTransport::read(Peer &peer, int number) {
  while (peer.fault.empty()) {
    unsigned char *to =
        reinterpret_cast<unsigned char *>(&peer.header) + peer.arrived;
    size_t left = sizeof(Header) - std::min(peer.arrived, sizeof(Header));
    if (left == 0) {
      size_t at = peer.arrived - sizeof(Header);
      to = (peer.receive ? peer.receive->data : peer.keeping.data()) + at;
      left = peer.header.bytes - at;
    }
    if (left > 0) {
      ssize_t moved = ::recv(peer.socket.get(), to, left, MSG_DONTWAIT);
      if (moved < 0 &&
          (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
      if (moved <= 0) {
        peer.fault =
            "the connection to rank " + std::to_string(number) + " is closed";
        return;
      }
      peer.arrived += static_cast<size_t>(moved);
      if (peer.arrived == sizeof(Header) && !beginMessage(peer, number))
        return;
    }
    if (peer.arrived >= sizeof(Header) &&
        peer.arrived == sizeof(Header) + peer.header.bytes)
      deliver(peer);
  }
}

bool TcpTransport::test(Request *request, size_t *bytes, std::string &error) {
  auto *own = static_cast<TcpRequest *>(request);
  Peer &peer = peers[static_cast<size_t>(own->peer)];
  if (!own->isDone) {
    read(peer, own->peer);
    write(peer, own->peer);
  }
  if (!own->isDone) {
    error = peer.fault;
    return false;
  }
  if (bytes)
    *bytes = own->bytes;
  delete own;
  return true;
}

void TcpTransport::cancel(Request *request) {
  auto *own = static_cast<TcpRequest *>(request);
  Peer &peer = peers[static_cast<size_t>(own->peer)];
  if (peer.receive == own) {
    // What still comes of the message is not wanted either.
    peer.fault = "the message was given up";
    peer.receive = nullptr;
  }
  std::erase(peer.receives[static_cast<size_t>(own->channel)], own);
  std::erase(peer.sends, own);
  delete own;
}

bool parseNumber(const char *name, const char *text, int low, int high,
                 int &number, std::string &error) {
  const char *last = text + std::strlen(text);
  auto [end, code] = std::from_chars(text, last, number);
  if (code == std::errc() && end == last && number >= low && number <= high)
    return true;
  error = std::string(name) + ": expected a number from " +
          std::to_string(low) + " to " + std::to_string(high) + ", but got '" +
          text + "'";
  return false;
}

} // namespace

bool fp8rt::readRendezvous(std::optional<Rendezvous> &rendezvous,
                           std::string &error) {
  rendezvous.reset();
  const char *rank = std::getenv("RANK"), *size = std::getenv("WORLD_SIZE"),
             *address = std::getenv("MASTER_ADDR"),
             *port = std::getenv("MASTER_PORT"),
             *ownPort = std::getenv("FP8RT_PORT");
  if (!rank || !size || !address || (!port && !ownPort))
    return true;
  Rendezvous read;
  read.address = address;
  if (!parseNumber("WORLD_SIZE", size, 1, 1 << 20, read.size, error) ||
      !parseNumber("RANK", rank, 0, read.size - 1, read.rank, error))
    return false;
  if (ownPort) {
    if (!parseNumber("FP8RT_PORT", ownPort, 1, 65535, read.port, error))
      return false;
  } else {
    if (!parseNumber("MASTER_PORT", port, 1, 65534, read.port, error))
      return false;
    ++read.port;
  }
  if (read.size > 1)
    rendezvous = read;
  return true;
}

std::unique_ptr<Transport>
fp8rt::createTcpTransport(const Rendezvous &rendezvous,
                          std::chrono::milliseconds timeout,
                          std::string &error) {
  auto transport = std::make_unique<TcpTransport>(rendezvous, timeout);
  return transport->open(error) ? std::move(transport) : nullptr;
}
