//===- CheckPlacement.cpp - offsets in the arena ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replays the line on a map of the arena: a slot is entered where its kernel
// runs and taken out at its free, and may at no time touch another one.
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

#include "llvm/Support/MathExtras.h"
#include <map>

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::check;

namespace {

/// Slots are requested bytes rounded up to this.
constexpr int64_t kSlotAlignment = 256;

class PlacementChecker {
public:
  PlacementChecker(const PlanLine &line, int64_t arenaBytes)
      : line(line), arenaBytes(arenaBytes), entered(line.storages.size()) {}

  LogicalResult run();

private:
  /// What lies in a slot: a storage, or the workspace of the kernel that runs.
  struct Slot {
    int64_t end;
    int storage;
  };
  using Arena = std::map<int64_t, Slot>;

  void checkKernel(KernelOp kernel, const LineOp &lineOp);
  /// Enters `bytes` at `offset`; -1 for a workspace.
  std::optional<Arena::iterator> enter(KernelOp kernel, int64_t offset,
                                       int64_t bytes, int storage);
  void leave(int storage);

  std::string describe(int storage, int64_t bytes) const {
    std::string name =
        storage < 0 ? "workspace" : "'" + line.getName(storage) + "'";
    return (name + " (" + Twine(bytes) + " bytes)").str();
  }
  InFlightDiagnostic error(Operation *op) {
    failed = true;
    return op->emitOpError();
  }

  const PlanLine &line;
  const int64_t arenaBytes;
  Arena arena;
  std::vector<std::optional<Arena::iterator>> entered;
  bool failed = false;
};

} // namespace

std::optional<PlacementChecker::Arena::iterator>
PlacementChecker::enter(KernelOp kernel, int64_t offset, int64_t bytes,
                        int storage) {
  int64_t end = llvm::SaturatingAdd(
      static_cast<uint64_t>(offset),
      llvm::alignTo(static_cast<uint64_t>(bytes), kSlotAlignment));
  if (end < 0 || end > arenaBytes)
    error(kernel) << "places " << describe(storage, bytes) << " at " << offset
                  << " to " << static_cast<uint64_t>(end)
                  << ", beyond the end of the arena at " << arenaBytes;
  // The slots in the map are disjoint, so only two can be met first.
  auto next = arena.lower_bound(offset);
  auto met = arena.end();
  if (next != arena.begin() && std::prev(next)->second.end > offset)
    met = std::prev(next);
  else if (next != arena.end() && next->first < end)
    met = next;
  if (met == arena.end())
    return arena.insert(next, {offset, {end, storage}});
  InFlightDiagnostic diag = error(kernel);
  diag << "places " << describe(storage, bytes) << " at " << offset << " to "
       << end << ", where ";
  int other = met->second.storage;
  if (other < 0)
    diag << "its workspace lies";
  else
    diag << describe(other, line.storages[other].bytes) << " is live";
  diag << " at " << met->first << " to " << met->second.end;
  if (other >= 0)
    diag.attachNote(line.ops[line.storages[other].producer].op->getLoc())
        << "placed here";
  return std::nullopt;
}

void PlacementChecker::leave(int storage) {
  if (!entered[storage])
    return;
  arena.erase(*entered[storage]);
  entered[storage].reset();
}

void PlacementChecker::checkKernel(KernelOp kernel, const LineOp &lineOp) {
  std::optional<ArrayRef<int64_t>> offsets = kernel.getOffsets();
  for (int id : lineOp.makes) {
    const Storage &storage = line.storages[id];
    if (!offsets || storage.result >= offsets->size()) {
      error(kernel) << "expected an offset for " << describe(id, storage.bytes);
      continue;
    }
    int64_t offset = (*offsets)[storage.result];
    if (storage.inCaller && storage.inArena) {
      error(kernel) << "makes " << describe(id, storage.bytes)
                    << ", which is a result in the arena and a result in the "
                       "caller's buffer";
      continue;
    }
    if (storage.inArgument) {
      if (offset != -1)
        error(kernel) << "places " << describe(id, storage.bytes) << " at "
                      << offset
                      << ", but it is written over an argument; expected "
                         "offset -1";
      continue;
    }
    if (storage.inCaller && offset != -1) {
      error(kernel) << "places " << describe(id, storage.bytes) << " at "
                    << offset
                    << ", but it is a result in the caller's buffer; expected "
                       "offset -1";
      continue;
    }
    if (!storage.inCaller && offset < 0) {
      error(kernel) << "expected an offset in the arena for "
                    << describe(id, storage.bytes) << ", but got " << offset;
      continue;
    }
    if (storage.over >= 0 && entered[storage.over]) {
      Arena::iterator slot = *entered[storage.over];
      if (offset != slot->first) {
        error(kernel) << "places " << describe(id, storage.bytes) << " at "
                      << offset << ", but it is written over "
                      << describe(storage.over,
                                  line.storages[storage.over].bytes)
                      << " at " << slot->first;
        continue;
      }
      slot->second.storage = id;
      entered[storage.over].reset();
      entered[id] = slot;
      continue;
    }
    if (!storage.inCaller)
      entered[id] = enter(kernel, offset, storage.room, id);
  }
  for (OpResult result : kernel->getResults()) {
    unsigned number = result.getResultNumber();
    if (offsets && number < offsets->size() && (*offsets)[number] != -1 &&
        getAliasedOperand(result))
      error(kernel) << "places result " << number << " at "
                    << (*offsets)[number]
                    << ", but it stays where an operand is; expected offset -1";
  }
  if (kernel.getWorkspace() <= 0)
    return;
  std::optional<uint64_t> offset = kernel.getWorkspaceOffset();
  if (!offset) {
    error(kernel) << "expected a 'workspace_offset' for a workspace of "
                  << kernel.getWorkspace() << " bytes";
    return;
  }
  // The workspace is live while the kernel runs, with operands and results.
  if (auto slot = enter(kernel, static_cast<int64_t>(*offset),
                        kernel.getWorkspace(), -1))
    arena.erase(*slot);
}

LogicalResult PlacementChecker::run() {
  for (const LineOp &lineOp : line.ops) {
    if (auto kernel = dyn_cast<KernelOp>(lineOp.op))
      checkKernel(kernel, lineOp);
    else if (auto op = dyn_cast<FreeOp>(lineOp.op))
      for (Value value : op.getValues())
        if (int storage = line.getStorage(value); storage >= 0)
          leave(storage);
  }
  return success(!failed);
}

LogicalResult check::checkPlacement(const PlanLine &line) {
  auto arena = line.func->getAttrOfType<IntegerAttr>(kArenaBytesAttr);
  if (!arena) {
    for (const LineOp &lineOp : line.ops)
      if (auto kernel = dyn_cast<KernelOp>(lineOp.op))
        if (kernel.getOffsets() || kernel.getWorkspaceOffset())
          return kernel.emitOpError("has an offset, but its function has no '")
                 << kArenaBytesAttr << "'";
    return success();
  }
  return PlacementChecker(line, arena.getValue().getSExtValue()).run();
}
