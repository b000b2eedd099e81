//===- SplitRows.cpp - fp8-split-rows ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a region of ops that are independent by rows out piece by piece.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/PlanGraph.h"
#include "fp8/Analysis/ValueNames.h"
#include "fp8/Transforms/Passes.h"
#include "fp8/Transforms/RowRegions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8SPLITROWSPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// Rewrites one region.
class RegionSplitter {
public:
  RegionSplitter(const RowRegion &region, int64_t pieces)
      : region(region), numPieces(region.countPieces(pieces)),
        pieceRows(region.getPieceRows(pieces)),
        shardRows(region.rows / region.ranks), builder(region.seeds[0]) {
    // Splitting another region may have moved them.
    for (auto &[op, split] : region.ops)
      ops.push_back(op);
    llvm::sort(
        ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    builder.setInsertionPoint(ops.back());
  }

  void run();

private:
  /// The rows before those that `part` counts from.
  int64_t skippedBy(RowPart part) const {
    return part.of == RowPart::Of::Region ? rank * shardRows : 0;
  }
  /// First entry and number of entries of the current piece along the rows of
  /// a part.
  int64_t beginOf(RowPart part) const {
    return (skippedBy(part) + firstRow) / part.factor;
  }
  int64_t countOf(RowPart part) const {
    return llvm::divideCeil(skippedBy(part) + endRow, part.factor) -
           beginOf(part);
  }
  RankedTensorType typeOf(Value value, RowPart part) const;
  SmallVector<int64_t> offsetsOf(Value value, RowPart part) const;
  /// Where the current rank's `part` begins in the gathered piece of `value`.
  SmallVector<int64_t> blockOffsetsOf(Value value, RowPart part) const {
    SmallVector<int64_t> offsets = offsetsOf(value, part);
    offsets[part.dim] = rank * countOf(part);
    return offsets;
  }
  Location locOf(Value value) const;
  Location wholeLocOf(Value value) const;
  Value read(Value value, RowPart part);
  /// True for what is made once for all ranks' rows.
  static bool isShared(Operation *op, const RowSplit &split) {
    return split.result.of == RowPart::Of::Shard ||
           (isa<AllGatherOp>(op) && split.operands[0].of == RowPart::Of::Shard);
  }
  void emit(Operation *op, const RowSplit &split);
  void emitShard();
  void emitRank();
  void moveReaders();

  const RowRegion &region;
  const int64_t numPieces, pieceRows, shardRows;
  OpBuilder builder;
  SmallVector<Operation *> ops; ///< in program order
  int64_t piece = 0, firstRow = 0, endRow = 0, rank = 0;
  bool isOfShard = false;       ///< what is emitted belongs to no one rank
  DenseMap<Value, Value> made;  ///< in the current piece; looked up only
  DenseMap<Value, Value> whole; ///< of all pieces so far; looked up only
};

} // namespace

RankedTensorType RegionSplitter::typeOf(Value value, RowPart part) const {
  auto type = cast<RankedTensorType>(value.getType());
  if (part.isWhole())
    return type;
  SmallVector<int64_t> shape(type.getShape());
  shape[part.dim] = countOf(part);
  return RankedTensorType::get(shape, type.getElementType(),
                               type.getEncoding());
}

SmallVector<int64_t> RegionSplitter::offsetsOf(Value value,
                                               RowPart part) const {
  SmallVector<int64_t> offsets(
      cast<RankedTensorType>(value.getType()).getRank(), 0);
  offsets[part.dim] = beginOf(part);
  return offsets;
}

/// The type of what `gather` gives for `piece` of its operand.
static RankedTensorType gatheredTypeOf(AllGatherOp gather, Value piece) {
  auto all = cast<RankedTensorType>(gather.getResult().getType()),
       shard = cast<RankedTensorType>(gather.getX().getType()),
       part = cast<RankedTensorType>(piece.getType());
  int64_t dim = gather.getDim();
  SmallVector<int64_t> shape(part.getShape());
  shape[dim] *= all.getDimSize(dim) / shard.getDimSize(dim);
  return RankedTensorType::get(shape, all.getElementType(), all.getEncoding());
}

/// The location of the current piece of `value`: its name and which piece.
Location RegionSplitter::locOf(Value value) const {
  Location loc = value.getLoc();
  StringRef name = getLocationName(loc);
  if (name.empty())
    return loc;
  int64_t ranks = isOfShard ? 1 : region.ranks;
  auto child = dyn_cast<NameLoc>(loc);
  return NameLoc::get(StringAttr::get(loc.getContext(),
                                      name + "[" +
                                          Twine(piece * ranks + rank + 1) +
                                          "/" + Twine(numPieces * ranks) + "]"),
                      child ? child.getChildLoc() : loc);
}

/// The location of `value` with the pieces up to the current one.
Location RegionSplitter::wholeLocOf(Value value) const {
  bool isLast = piece + 1 == numPieces && rank + 1 == region.ranks;
  return isLast ? value.getLoc() : locOf(value);
}

/// What the current piece reads of `value`.
Value RegionSplitter::read(Value value, RowPart part) {
  if (Value known = made.lookup(value))
    return known;
  if (part.isWhole())
    return value;
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue())) {
      auto resized = splat.resizeSplat(typeOf(value, part));
      return made[value] = arith::ConstantOp::create(builder, constant.getLoc(),
                                                     cast<TypedAttr>(resized));
    }
  return SliceOp::create(builder, locOf(value), typeOf(value, part), value,
                         offsetsOf(value, part));
}

/// Clones `op` for the current piece.
void RegionSplitter::emit(Operation *op, const RowSplit &split) {
  SmallVector<Value> operands;
  for (auto [operand, part] :
       llvm::zip_equal(op->getOperands(), split.operands))
    operands.push_back(read(operand, part));
  Value result = op->getResult(0);
  Operation *clone = builder.clone(*op);
  clone->setOperands(operands);
  for (StringLiteral name :
       {kCheckpointAttr, kPolicyAttr, kPiecesAttr, kOffloadAttr})
    clone->removeAttr(name);
  Value mine = clone->getResult(0);
  if (auto gather = dyn_cast<AllGatherOp>(clone);
      gather && split.operands[0].dim == static_cast<int>(gather.getDim()))
    mine.setType(gatheredTypeOf(cast<AllGatherOp>(op), gather.getX()));
  else if (!split.combines)
    mine.setType(typeOf(result, split.result));
  if (auto slice = dyn_cast<SliceOp>(clone)) {
    // One rank's block of a piece that is gathered.
    SmallVector<int64_t> offsets(slice.getOffsets());
    int dim = split.result.dim;
    offsets[dim] /= cast<RankedTensorType>(result.getType()).getDimSize(dim);
    offsets[dim] *= slice.getType().getDimSize(dim);
    slice.setOffsets(offsets);
  }
  mine.setLoc(locOf(result));
  made[result] = mine;
}

/// Emits what all ranks' products read of the current piece: what is made of
/// the shard, and gathers of it.
void RegionSplitter::emitShard() {
  made.clear();
  isOfShard = true;
  for (Operation *op : ops)
    if (const RowSplit &split = region.ops.find(op)->second;
        isShared(op, split))
      emit(op, split);
  isOfShard = false;
}

/// Emits what is made of one rank's rows of the current piece.
void RegionSplitter::emitRank() {
  for (Operation *op : ops) {
    const RowSplit &split = region.ops.find(op)->second;
    Value result = op->getResult(0);
    if (isShared(op, split)) {
      if (isa<AllGatherOp>(op))
        made[result] = SliceOp::create(
            builder, locOf(result), typeOf(result, split.result),
            made.lookup(result), blockOffsetsOf(result, split.result));
      continue;
    }
    emit(op, split);
    if (split.combines || !llvm::is_contained(region.results, result))
      continue;
    Value &all = whole[result];
    all = UpdateSliceOp::create(builder, wholeLocOf(result), result.getType(),
                                made.lookup(result), all,
                                offsetsOf(result, split.result));
  }
  // Last, and what this piece made first: so a maximum is taken up to a piece
  // in the kernel that makes the piece, and no earlier one waits for it.
  for (Value result : region.results) {
    if (!region.ops.find(result.getDefiningOp())->second.combines)
      continue;
    Value &all = whole[result];
    Value mine = made.lookup(result);
    all = all ? Value(arith::MaximumFOp::create(builder, wholeLocOf(result),
                                                mine, all))
              : mine;
  }
}

/// Moves what stands between the ops of the region and reads them, or what
/// does, behind it.
void RegionSplitter::moveReaders() {
  DenseSet<Operation *> behind; // looked up only
  SmallVector<Operation *> moved;
  Operation *last = ops.back();
  for (Operation *op = ops.front(); op != last; op = op->getNextNode()) {
    if (region.ops.contains(op))
      continue;
    bool reads = llvm::any_of(op->getOperands(), [&](Value operand) {
      Operation *producer = operand.getDefiningOp();
      return region.ops.contains(producer) || behind.contains(producer);
    });
    if (!reads)
      continue;
    behind.insert(op);
    moved.push_back(op);
  }
  Operation *after = last;
  for (Operation *op : moved) {
    op->moveAfter(after);
    after = op;
  }
}

void RegionSplitter::run() {
  moveReaders();
  for (; firstRow < shardRows; firstRow = endRow, ++piece) {
    endRow = std::min(firstRow + pieceRows, shardRows);
    emitShard();
    const DenseMap<Value, Value> shared = made; // looked up only
    for (rank = 0; rank < region.ranks; ++rank) {
      made = shared;
      emitRank();
    }
    rank = 0;
  }
  for (Value result : region.results) {
    Value all = whole.lookup(result);
    // What is to wait in host memory goes there when it is whole.
    if (Attribute mark = result.getDefiningOp()->getAttr(kOffloadAttr))
      all.getDefiningOp()->setAttr(kOffloadAttr, mark);
    result.replaceAllUsesWith(all);
  }
  for (Operation *op : llvm::reverse(ops))
    op->erase();
}

std::optional<int64_t> RowRegion::getMark() const {
  std::optional<int64_t> count;
  for (ArrayRef<Operation *> marked : {ArrayRef(seeds), ArrayRef(gathers)})
    for (Operation *op : marked)
      if (auto mark = op->getAttrOfType<IntegerAttr>(kPiecesAttr))
        count = mark.getInt();
  return count;
}

void mlir::fp8::splitRegion(const RowRegion &region, int64_t pieces) {
  if (region.countPieces(pieces) > 1)
    RegionSplitter(region, pieces).run();
}

void mlir::fp8::forEachProgramBlock(func::FuncOp func,
                                    function_ref<void(Block &)> visit) {
  for (Block &block : func.getBody()) {
    // Beside a step stand only constants.
    if (block.getOps<StepOp>().empty())
      visit(block);
    for (StepOp step : block.getOps<StepOp>()) {
      visit(step.getForward().front());
      visit(step.getBackward().front());
    }
  }
}

void mlir::fp8::splitRows(func::FuncOp func, const Target &target,
                          int64_t pieces) {
  auto isMarked = [](Operation *op) { return op->hasAttr(kPiecesAttr); };
  forEachProgramBlock(func, [&](Block &block) {
    if (pieces <= 1 && llvm::none_of(llvm::make_pointer_range(block), isMarked))
      return;
    for (const RowRegion &region : findRowRegions(
             block, target, pieces > 1 ? Gathers::All : Gathers::Marked))
      if (int64_t count = region.getMark().value_or(pieces); count > 1)
        splitRegion(region, count);
  });
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

struct SplitRowsPass : fp8::impl::FP8SplitRowsPassBase<SplitRowsPass> {
  using FP8SplitRowsPassBase::FP8SplitRowsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (pieces < 0 || pieces > kMostPieces) {
      module.emitError("expected 'pieces' from 0 to ")
          << kMostPieces << ", but got " << int64_t(pieces);
      return signalPassFailure();
    }
    const Target *target = getTargetOf(module);
    if (!target)
      return signalPassFailure();
    for (auto func : module.getOps<func::FuncOp>())
      if (!func.isExternal())
        splitRows(func, *target, pieces);
  }
};

} // namespace
