//===- CheckLifetimes.cpp - frees, waits and pushes -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks the line once with the state of every storage: live, freed, or in use
// by a collective in flight.
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

#include <set>

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::check;

namespace {

class LifetimeChecker {
public:
  explicit LifetimeChecker(const PlanLine &line)
      : line(line), freedAt(line.storages.size(), -1),
        inFlight(line.storages.size()), written(line.storages.size(), -1) {}

  LogicalResult run();

private:
  void checkUses(const LineOp &lineOp, int position);
  void checkFree(FreeOp op, int position);
  void checkPushes();

  /// "'name' (123 bytes)".
  std::string describe(int storage) const {
    return ("'" + line.getName(storage) + "' (" +
            Twine(line.storages[storage].bytes) + " bytes)")
        .str();
  }
  Location locAt(int position) const { return line.ops[position].op->getLoc(); }
  InFlightDiagnostic error(Operation *op) {
    failed = true;
    return op->emitOpError();
  }

  const PlanLine &line;
  std::vector<int> freedAt;
  /// Collectives in flight that read or write each storage, in start order.
  std::vector<std::set<int>> inFlight;
  /// The collective in flight that writes each storage, or -1.
  std::vector<int> written;
  bool failed = false;
};

} // namespace

void LifetimeChecker::checkUses(const LineOp &lineOp, int position) {
  for (auto [index, storage] : llvm::enumerate(lineOp.uses)) {
    // Once an op, however often it reads the value.
    if (llvm::is_contained(ArrayRef(lineOp.uses).take_front(index), storage))
      continue;
    if (freedAt[storage] >= 0)
      error(lineOp.op)
              .append("uses ", describe(storage), " after it was freed")
              .attachNote(locAt(freedAt[storage]))
          << "freed here";
    if (int by = line.storages[storage].overwriter;
        by >= 0 && line.storages[by].producer < position)
      error(lineOp.op)
              .append("uses ", describe(storage), " after '", line.getName(by),
                      "' was written over it")
              .attachNote(locAt(line.storages[by].producer))
          << "written here";
    bool isWaited = llvm::is_contained(lineOp.waits, written[storage]);
    if (written[storage] >= 0 && !isWaited && isa<KernelOp>(lineOp.op))
      error(lineOp.op)
              .append("reads ", describe(storage), " before the wait for it")
              .attachNote(locAt(line.transfers[written[storage]].start))
          << "in flight since here";
  }
}

void LifetimeChecker::checkFree(FreeOp op, int position) {
  for (Value value : op.getValues()) {
    int id = line.getStorage(value);
    if (id < 0) {
      error(op) << "expected a value that has storage, but got one of type "
                << value.getType();
      continue;
    }
    const Storage &storage = line.storages[id];
    if (storage.isArgument()) {
      error(op) << "frees " << describe(id)
                << ", but it is an argument of the function";
      continue;
    }
    if (storage.inArgument) {
      error(op) << "frees " << describe(id)
                << ", but it is written over an argument of the function";
      continue;
    }
    if (storage.overwriter >= 0) {
      error(op)
              .append("frees ", describe(id), ", but '",
                      line.getName(storage.overwriter), "' is written over it")
              .attachNote(locAt(line.storages[storage.overwriter].producer))
          << "written here";
      continue;
    }
    // A residual argument stands for the value that was passed.
    if (value != storage.root && value.getDefiningOp()) {
      error(op) << "expected a storage root, but got a view of "
                << describe(id);
      continue;
    }
    if (freedAt[id] >= 0) {
      error(op)
              .append("frees ", describe(id), " a second time")
              .attachNote(locAt(freedAt[id]))
          << "first freed here";
      continue;
    }
    freedAt[id] = position;
    if (storage.escapes)
      error(op) << "frees " << describe(id)
                << ", but it is a result of the function";
    if (storage.residual && position < line.firstBackward)
      error(op)
              .append("frees ", describe(id),
                      " in the forward region, but it is kept for backward")
              .attachNote(locAt(line.forwardEnd))
          << "passed on as a residual here";
    if (!inFlight[id].empty())
      error(op)
              .append("frees ", describe(id), " before the wait for ",
                      line.describeTransfer(*inFlight[id].begin()),
                      " that uses it")
              .attachNote(locAt(line.transfers[*inFlight[id].begin()].start))
          << "started here";
  }
}

void LifetimeChecker::checkPushes() {
  if (line.firstBackward < 0)
    return;
  std::vector<const Push *> forward(line.storages.size(), nullptr);
  for (const Push &push : line.pushes) {
    if (push.position < line.firstBackward) {
      forward[push.storage] = &push;
    } else if (const Push *first = forward[push.storage]) {
      error(push.op)
              .append("pushes ", describe(push.storage),
                      " again in the backward region; a recomputation "
                      "must not repeat an update of state")
              .attachNote(first->op->getLoc())
          << "first pushed here";
    }
  }
  // A recomputation reads through a barrier what forward read before the push.
  for (const LineOp &lineOp : ArrayRef(line.ops).drop_front(line.firstBackward))
    if (isa<RematBarrierOp>(lineOp.op))
      for (int storage : lineOp.uses)
        if (const Push *push = forward[storage])
          error(lineOp.op)
                  .append("reads ", describe(storage),
                          " again for a recomputation, after it was updated")
                  .attachNote(push->op->getLoc())
              << "updated here";
}

LogicalResult LifetimeChecker::run() {
  for (auto [index, lineOp] : llvm::enumerate(line.ops)) {
    int position = static_cast<int>(index);
    checkUses(lineOp, position);
    for (int id : lineOp.waits) {
      const Transfer &transfer = line.transfers[id];
      for (int storage : transfer.reads)
        inFlight[storage].erase(id);
      if (transfer.writes >= 0) {
        inFlight[transfer.writes].erase(id);
        written[transfer.writes] = -1;
      }
    }
    if (auto op = dyn_cast<FreeOp>(lineOp.op))
      checkFree(op, position);
    for (int made : lineOp.makes)
      if (int over = line.storages[made].over;
          over >= 0 && !inFlight[over].empty())
        error(lineOp.op)
                .append("writes '", line.getName(made), "' over ",
                        describe(over), " before the wait for ",
                        line.describeTransfer(*inFlight[over].begin()),
                        " that uses it")
                .attachNote(
                    locAt(line.transfers[*inFlight[over].begin()].start))
            << "started here";
    for (int id : lineOp.starts) {
      const Transfer &transfer = line.transfers[id];
      for (int storage : transfer.reads)
        inFlight[storage].insert(id);
      if (transfer.writes >= 0) {
        inFlight[transfer.writes].insert(id);
        written[transfer.writes] = id;
      }
    }
  }
  for (auto [id, transfer] : llvm::enumerate(line.transfers))
    if (transfer.wait < 0)
      error(line.ops[transfer.start].op)
          << "starts " << line.describeTransfer(id)
          << " that nothing waits for";
  for (auto [id, storage] : llvm::enumerate(line.storages)) {
    if (storage.isArgument() || storage.inArgument || storage.escapes ||
        storage.overwriter >= 0 || freedAt[id] >= 0)
      continue;
    InFlightDiagnostic diag = error(line.ops[storage.producer].op);
    diag << "makes " << describe(static_cast<int>(id))
         << ", which is never freed";
    if (storage.residual)
      diag.attachNote(locAt(line.forwardEnd))
          << "expected an 'fp8.free' in the backward region, since it is "
             "passed on as a residual here";
  }
  checkPushes();
  return success(!failed);
}

LogicalResult check::checkLifetimes(const PlanLine &line) {
  return LifetimeChecker(line).run();
}
