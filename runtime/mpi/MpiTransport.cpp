//===- MpiTransport.cpp - Messages through MPI ----------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A library of its own, opened by programs that mpirun started: no other needs
// MPI on its machine. Collectives are not MPI's own, whose order of summation
// depends on message sizes and algorithms.
//
//===----------------------------------------------------------------------===//

#include "Transport.h"

#include <memory>
#include <mpi.h>

using namespace fp8rt;

namespace {

struct MpiRequest : Transport::Request {
  MPI_Request handle = MPI_REQUEST_NULL;
};

bool succeeded(int code, std::string &error) {
  if (code == MPI_SUCCESS)
    return true;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  error = "MPI: " + std::string(text, static_cast<size_t>(length));
  return false;
}

class MpiTransport : public Transport {
public:
  bool open(std::string &error) {
    int provided = 0;
    if (!succeeded(
            MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
            error))
      return false;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return succeeded(MPI_Comm_rank(MPI_COMM_WORLD, &ownRank), error) &&
           succeeded(MPI_Comm_size(MPI_COMM_WORLD, &count), error);
  }
  ~MpiTransport() override { MPI_Finalize(); }

  int rank() const override { return ownRank; }
  int size() const override { return count; }

  Request *send(int peer, Channel channel, const void *data, size_t bytes,
                std::string &error) override {
    return start(error, MPI_Isend, data, peer, channel, bytes);
  }

  Request *receive(int peer, Channel channel, void *data, size_t bytes,
                   std::string &error) override {
    return start(error, MPI_Irecv, data, peer, channel, bytes);
  }

  bool test(Request *opaque, size_t *bytes, std::string &error) override {
    auto *request = static_cast<MpiRequest *>(opaque);
    int done = 0;
    MPI_Status status;
    if (!succeeded(MPI_Test(&request->handle, &done, &status), error) || !done)
      return false;
    if (bytes) {
      int arrived = 0;
      MPI_Get_count(&status, MPI_BYTE, &arrived);
      *bytes = static_cast<size_t>(arrived);
    }
    delete request;
    return true;
  }

  void cancel(Request *opaque) override {
    auto *request = static_cast<MpiRequest *>(opaque);
    MPI_Cancel(&request->handle);
    MPI_Request_free(&request->handle);
    delete request;
  }

private:
  /// A transfer that `function` begins; null after an error.
  template <typename FunctionT, typename DataT>
  Request *start(std::string &error, FunctionT function, DataT *data, int peer,
                 Channel channel, size_t bytes) {
    auto request = std::make_unique<MpiRequest>();
    if (!succeeded(function(data, static_cast<int>(bytes), MPI_BYTE, peer,
                            static_cast<int>(channel), MPI_COMM_WORLD,
                            &request->handle),
                   error))
      return nullptr;
    return request.release();
  }

  int ownRank = 0, count = 1;
};

} // namespace

extern "C" Transport *fp8rt_create_mpi_transport(std::string *error) {
  auto *transport = new MpiTransport;
  if (transport->open(*error))
    return transport;
  // Not deleted: MPI may not be there to be ended.
  return nullptr;
}
