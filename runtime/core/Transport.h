//===- Transport.h - Messages between ranks ---------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The narrow interface below the communicator: numbered ranks, and messages
// between two of them that complete later. MPI is one (mpi/MpiTransport.cpp,
// opened when it is needed), sockets another (TcpTransport.h); tests have one
// in memory. Only one thread calls a transport.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_TRANSPORT_H
#define FP8RT_CORE_TRANSPORT_H

#include <cstddef>
#include <string>

namespace fp8rt {

/// What a message is for; messages of two kinds do not overtake each other's
/// order, as each kind between two ranks is a sequence of its own.
enum class Channel { Data, Control };

class Transport {
public:
  /// A message under way; transports have their own kind.
  struct Request {};

  /// The most bytes of one message.
  static constexpr size_t kMaxMessageBytes = size_t(1) << 30;

  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Starts a message to or from `peer`; the memory stays untouched until
  /// `test` is true. Null with `error` set on failure.
  virtual Request *send(int peer, Channel channel, const void *data,
                        size_t bytes, std::string &error) = 0;
  /// `bytes` is the most that may arrive.
  virtual Request *receive(int peer, Channel channel, void *data, size_t bytes,
                           std::string &error) = 0;
  /// True once the message is through, which ends the request; `bytes`, if
  /// given, is then what arrived. False, with `error` set where it failed.
  virtual bool test(Request *request, size_t *bytes, std::string &error) = 0;
  /// Gives up a receive that nothing will answer.
  virtual void cancel(Request *request) = 0;
};

/// What libfp8rt_mpi.so exports: the ranks that mpirun started, or null with
/// `error` set.
inline constexpr char kCreateMpiTransportName[] = "fp8rt_create_mpi_transport";
using CreateTransportFn = Transport *(*)(std::string * error);

} // namespace fp8rt

#endif // FP8RT_CORE_TRANSPORT_H
