//===- TcpTransport.h - Messages through sockets ----------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks that were started by torchrun, by fp8-run --ranks or by hand meet at an
// address that all of them know, and talk over one connection a pair. On GPUs
// only small things travel so; on CPUs tensors do too.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_TCPTRANSPORT_H
#define FP8RT_CORE_TCPTRANSPORT_H

#include "Transport.h"

#include <chrono>
#include <memory>
#include <optional>

namespace fp8rt {

/// Where ranks meet.
struct Rendezvous {
  int rank = 0, size = 1;
  /// Of the machine of rank 0, which listens at `port`.
  std::string address;
  int port = 0;
};

/// What RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say; nothing where they
/// are not all there, or there is one rank only. MASTER_PORT itself is the
/// launcher's: ranks meet at the port after it, or at FP8RT_PORT. False with
/// `error` set where a value is no number of a rank or port.
bool readRendezvous(std::optional<Rendezvous> &rendezvous, std::string &error);

/// Meets all other ranks. Null with `error` set, which names ranks that are
/// missing, where they are not there within `timeout`.
std::unique_ptr<Transport> createTcpTransport(const Rendezvous &rendezvous,
                                              std::chrono::milliseconds timeout,
                                              std::string &error);

} // namespace fp8rt

#endif // FP8RT_CORE_TCPTRANSPORT_H
