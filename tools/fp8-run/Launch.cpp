//===- Launch.cpp - Starts the ranks of a run -----------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks find out by themselves when another one is gone, so nothing is ended
// here but with this process.
//
//===----------------------------------------------------------------------===//

#include "Launch.h"

#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace fp8run;

namespace {

/// A port at which nobody listens now; 0 on failure.
int findFreePort() {
  int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  auto *raw = reinterpret_cast<sockaddr *>(&address);
  int port = descriptor >= 0 && ::bind(descriptor, raw, bytes) == 0 &&
                     ::getsockname(descriptor, raw, &bytes) == 0
                 ? ntohs(address.sin_port)
                 : 0;
  if (descriptor >= 0)
    ::close(descriptor);
  return port;
}

[[noreturn]] void becomeRank(uint64_t rank, char **argv) {
  // Not left behind by a launcher that is ended.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  std::string number = std::to_string(rank);
  ::setenv("RANK", number.c_str(), 1);
  ::setenv("LOCAL_RANK", number.c_str(), 1);
  ::execv("/proc/self/exe", argv);
  static const char message[] = "fp8-run: error: cannot start a rank\n";
  (void)!::write(STDERR_FILENO, message, sizeof(message) - 1);
  ::_exit(1);
}

} // namespace

int fp8run::launchRanks(uint64_t count, char **argv, std::string &error) {
  int port = findFreePort();
  if (port == 0) {
    error = std::string("--ranks: cannot find a free port: ") +
            std::strerror(errno);
    return -1;
  }
  ::setenv("WORLD_SIZE", std::to_string(count).c_str(), 1);
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("FP8RT_PORT", std::to_string(port).c_str(), 1);
  std::vector<char *> arguments;
  for (char **argument = argv; *argument; ++argument)
    if (!std::string_view(*argument).starts_with("--ranks=") &&
        !std::string_view(*argument).starts_with("-ranks="))
      arguments.push_back(*argument);
  arguments.push_back(nullptr);
  std::vector<pid_t> children;
  for (uint64_t rank = 0; rank < count; ++rank) {
    pid_t child = ::fork();
    if (child == 0)
      becomeRank(rank, arguments.data());
    if (child < 0) {
      error = std::string("--ranks: cannot start a process: ") +
              std::strerror(errno);
      break;
    }
    children.push_back(child);
  }
  if (!error.empty())
    for (pid_t child : children)
      ::kill(child, SIGTERM);
  int code = 0;
  for (pid_t child : children) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      code = 1;
  }
  return error.empty() ? code : -1;
}
