//===- Replay.cpp - planned IR with its transfers in time -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Replay.h.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Replay.h"

using namespace mlir;
using namespace mlir::fp8;

/// The collective in a kernel, whole or its start, or null.
static Operation *getCollectiveIn(Operation *op) {
  if (auto kernel = dyn_cast<KernelOp>(op))
    for (Operation &inner : kernel.getBody().front())
      if (getCollective(&inner))
        return &inner;
  return nullptr;
}

Replay mlir::fp8::replay(const PlannedProgram &planned) {
  Replay result;
  DenseMap<Operation *, size_t> started; // looked up only
  std::vector<double> ends;              // of transfers
  double now = 0, linkFree = 0, outFree = 0, backFree = 0;
  int last = -1;                  // The kernel that ran last.
  SmallVector<size_t> unfollowed; // Transfers with no kernel after them yet.
  auto add = [&](TransferRun::Kind kind, int position, double &free,
                 double seconds) {
    free = std::max(now, free) + seconds;
    unfollowed.push_back(result.transfers.size());
    result.transfers.push_back({kind, position, position, -1, -1, seconds, 0});
    ends.push_back(free);
  };
  for (auto [index, kernel] : llvm::enumerate(planned.kernels.kernels)) {
    int position = index;
    Operation *op = planned.getOp(position);
    if (auto wait = dyn_cast<WaitOp>(op)) {
      auto it = started.find(wait.getToken().getDefiningOp());
      if (it == started.end())
        continue;
      TransferRun &transfer = result.transfers[it->second];
      double exposed = std::max(0.0, ends[it->second] - now);
      now += exposed;
      transfer.hiddenSeconds = std::max(0.0, transfer.seconds - exposed);
      transfer.wait = position;
      transfer.lastBefore = last;
      continue;
    }
    if (isHostCopyKernelOrWait(op)) {
      bool isOut = isa<HostType>(op->getResult(0).getType());
      started[op] = result.transfers.size();
      add(isOut ? TransferRun::ToHost : TransferRun::FromHost, position,
          isOut ? outFree : backFree, kernel.seconds);
      continue;
    }
    Operation *collective = getCollectiveIn(op);
    if (collective && isCollectiveStart(collective)) {
      started[op] = result.transfers.size();
      add(TransferRun::Exchange, position, linkFree, kernel.seconds);
      continue;
    }
    last = position;
    for (size_t number : unfollowed)
      result.transfers[number].firstAfter = position;
    unfollowed.clear();
    if (!collective) {
      now += kernel.seconds;
      continue;
    }
    add(TransferRun::Exchange, position, linkFree, kernel.seconds);
    unfollowed.pop_back();
    now = linkFree;
  }
  result.seconds = now;
  return result;
}
