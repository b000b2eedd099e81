//===- CheckPieces.cpp - tensors that are made in pieces --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks the line and counts, for each storage that several kernels write a
// piece of, which elements are there: nothing may read it before all of them
// are, nor by a name from before the last piece.
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::check;

namespace {

class PieceChecker {
public:
  explicit PieceChecker(const PlanLine &line)
      : line(line), written(line.storages.size()),
        elements(line.storages.size(), 0) {}

  LogicalResult run();

private:
  void checkRead(Operation *op, OpOperand &operand);
  void write(const Piece &piece);

  InFlightDiagnostic error(Operation *op) {
    failed = true;
    return op->emitOpError();
  }
  Location locOf(int piece) const {
    return line.ops[line.pieces[piece].position].op->getLoc();
  }

  const PlanLine &line;
  /// Of each storage, the pieces that are there, and how many elements they
  /// have.
  std::vector<SmallVector<int>> written;
  std::vector<int64_t> elements;
  bool failed = false;
};

} // namespace

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// True where the kernel writes a piece of its operand `number`, and does
/// nothing else with it.
static bool isDestination(KernelOp kernel, unsigned number) {
  BlockArgument argument = kernel.getBody().front().getArgument(number);
  if (!argument.hasOneUse())
    return false;
  auto update = dyn_cast<UpdateSliceOp>(*argument.user_begin());
  return update && update.getDest() == argument;
}

void PieceChecker::checkRead(Operation *op, OpOperand &operand) {
  int id = line.getStorage(operand.get());
  if (id < 0 || line.storages[id].numPieces == 0)
    return;
  ArrayRef<int> pieces = written[id];
  int version = line.getVersion(operand.get());
  if (version < static_cast<int>(pieces.size())) {
    error(op)
            .append("uses '", line.getName(id),
                    "' by a name from before a piece of it was written")
            .attachNote(locOf(pieces[version]))
        << "written here";
    return;
  }
  auto kernel = dyn_cast<KernelOp>(op);
  if (kernel && isDestination(kernel, operand.getOperandNumber()))
    return;
  int64_t all = ShapedType::getNumElements(getShape(line.storages[id].root));
  // A barrier or a view reads nothing by itself.
  if (elements[id] != all && (kernel || isa<YieldOp, func::ReturnOp>(op)))
    error(op) << "reads '" << line.getName(id) << "', of which " << elements[id]
              << " of " << all << " elements are written";
}

void PieceChecker::write(const Piece &piece) {
  UpdateSliceOp op = piece.op;
  ArrayRef<int64_t> shape = getShape(op.getPiece());
  for (int other : written[piece.storage]) {
    UpdateSliceOp before = line.pieces[other].op;
    bool overlaps = true;
    for (auto [dim, size] : llvm::enumerate(shape))
      overlaps &= op.getOffsets()[dim] < before.getOffsets()[dim] +
                                             getShape(before.getPiece())[dim] &&
                  before.getOffsets()[dim] < op.getOffsets()[dim] + size;
    if (overlaps)
      error(line.ops[piece.position].op)
              .append("writes a piece of '", line.getName(piece.storage),
                      "' over another one")
              .attachNote(locOf(other))
          << "written here";
  }
  elements[piece.storage] += ShapedType::getNumElements(shape);
  written[piece.storage].push_back(&piece - line.pieces.data());
}

LogicalResult PieceChecker::run() {
  size_t next = 0;
  for (auto [position, lineOp] : llvm::enumerate(line.ops)) {
    if (!isa<FreeOp>(lineOp.op))
      for (OpOperand &operand : lineOp.op->getOpOperands())
        checkRead(lineOp.op, operand);
    for (; next < line.pieces.size() &&
           line.pieces[next].position == static_cast<int>(position);
         ++next)
      write(line.pieces[next]);
  }
  return success(!failed);
}

LogicalResult check::checkPieces(const PlanLine &line) {
  return PieceChecker(line).run();
}
