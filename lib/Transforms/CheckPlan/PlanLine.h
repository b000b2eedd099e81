//===- PlanLine.h - a plan as the checker reads it --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The checker's own reading of planned IR: the ops that run, in one line, and
// the storage that each value names. It shares nothing with the analyses of the
// planner, since it exists to find their mistakes.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_TRANSFORMS_CHECKPLAN_PLANLINE_H
#define FP8_LIB_TRANSFORMS_CHECKPLAN_PLANLINE_H

#include "fp8/Dialect/FP8/IR/FP8.h"

namespace mlir::fp8::check {

/// A piece of memory: an argument of the function, or what one result of a
/// kernel is written to.
struct Storage {
  Value root;
  /// Position on the line of the kernel that writes it; -1 for an argument.
  int producer = -1;
  /// Which result of that kernel it is.
  unsigned result = 0;
  /// As requested; 0 for what takes no memory.
  int64_t bytes = 0;
  /// The bytes of the slot that it starts: more than its own where a gather's
  /// result takes the slot over, in which it is this rank's part.
  int64_t room = 0;
  /// Passed from the forward to the backward region.
  bool residual = false;
  /// A function result names it: it outlives the line.
  bool escapes = false;
  /// Function results that name it and that are placed in the caller's buffer,
  /// and those placed in the arena.
  bool inCaller = false, inArena = false;
  /// The storage whose bytes it takes, by `in_place`, or -1; and for that
  /// storage the one that took its bytes.
  int over = -1, overwriter = -1;
  /// Its bytes are those of an argument.
  bool inArgument = false;
  /// The kernels that write it, where each writes only a piece.
  int numPieces = 0;

  bool isArgument() const { return producer < 0; }
};

/// A collective, or a copy to or from the host, between its start and its wait.
struct Transfer {
  int start = 0;
  bool isCopy = false;
  /// The value in host memory that a copy makes, or -1.
  int host = -1;
  /// Position of the wait, or -1 where there is none.
  int wait = -1;
  /// The storages it reads, and the one it writes.
  SmallVector<int, 2> reads;
  int writes = -1;
};

/// What lies in host memory after a copy to it.
struct HostValue {
  Value root;
  /// Position of the kernel that starts the copy, the storage that it reads,
  /// and the transfer.
  int producer = 0, source = -1, transfer = -1;
  int64_t bytes = 0;
  /// Positions of the kernels that start to copy it back.
  SmallVector<int, 1> readers;
};

/// An update of a state argument by `fp8.push_amax`.
struct Push {
  int position = 0;
  int storage = 0;
  Operation *op = nullptr;
};

/// A part of a storage that one kernel writes, by `fp8.update_slice`.
struct Piece {
  int position = 0;
  int storage = 0;
  UpdateSliceOp op;
};

/// What one op of the line does to storages, as indices.
struct LineOp {
  Operation *op = nullptr;
  /// Storages that it reads or names, in operand order.
  SmallVector<int, 4> uses;
  /// Storages that it makes.
  SmallVector<int, 2> makes;
  /// Collectives that it starts and waits for.
  SmallVector<int, 1> starts, waits;
};

class PlanLine {
public:
  /// Reads `func`, which has a body. Emits an error and fails where that is not
  /// planned IR.
  static FailureOr<PlanLine> read(func::FuncOp func);

  /// The storage that `value` names, or -1 where it names none (a token).
  int getStorage(Value value) const {
    auto it = storageOf.find(value);
    return it == storageOf.end() ? -1 : it->second;
  }
  /// What a transfer is in messages.
  StringRef describeTransfer(int transfer) const {
    return transfers[transfer].isCopy ? "a copy" : "a collective";
  }
  /// The name of a storage in messages: its location's, else
  /// `op#ordinal.result`.
  std::string getName(int storage) const;

  func::FuncOp func;
  std::vector<LineOp> ops;
  /// Positions of the terminator of the forward region and of the first op of
  /// the backward region; -1 where there is no step.
  int forwardEnd = -1, firstBackward = -1;
  std::vector<Storage> storages;
  std::vector<Transfer> transfers;
  std::vector<HostValue> hosts;
  std::vector<Push> pushes;
  /// In the order in which they are written.
  std::vector<Piece> pieces;

  /// How many pieces of its storage were written when `value` got its name; 0
  /// for what is not made in pieces.
  int getVersion(Value value) const {
    auto it = versionOf.find(value);
    return it == versionOf.end() ? 0 : it->second;
  }

private:
  LogicalResult readBlock(Block &block);
  LogicalResult readStep(StepOp step);
  LogicalResult readKernel(KernelOp kernel);
  void readReturn(func::ReturnOp op);
  LogicalResult wait(Operation *op, Value data, Value token);
  /// Has `value` name the storage that `source` names.
  void alias(Value value, Value source) {
    if (int storage = getStorage(source); storage >= 0)
      storageOf[value] = storage;
    if (int version = getVersion(source))
      versionOf[value] = version;
    if (int host = getHost(source); host >= 0)
      hostOf[value] = host;
  }
  int addStorage(Value root, int producer, unsigned result);
  /// The value in host memory that `value` names, or -1.
  int getHost(Value value) const {
    auto it = hostOf.find(value);
    return it == hostOf.end() ? -1 : it->second;
  }

  DenseMap<Value, int> storageOf, versionOf, hostOf;
  DenseMap<Value, int> transferOf;
  /// The number of each op among those of its name, once a message needs it.
  mutable DenseMap<Operation *, unsigned> ordinals;
};

/// The bytes that a value of `type` takes at its bounds; 0 for a type that is
/// no tensor. Saturates.
int64_t countBytes(Type type);

} // namespace mlir::fp8::check

#endif // FP8_LIB_TRANSFORMS_CHECKPLAN_PLANLINE_H
