//===- RowKernel.cpp - whole rows in a block or a warp ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Thread t of a row holds the vectors t, t + threads, ... of eight columns.
// Everything that a row's maxima and sums are needed for follows while its
// elements are in registers.
//
// A block that gathers something over rows, or that reads rows ahead, takes the
// rows b, b + grid, ... Rows ahead are copied to shared memory by the thread
// that works on the elements, so that it waits for no other: when it has read a
// vector of this row, it starts to copy that of a later row to the same place.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Evaluator.h"
#include "fp8/Conversion/FP8ToCUDA/RowEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8;

void RowEmitter::makeSlots(OpBuilder &outside) {
  Device d(outside, loc);
  Value id = d.threadId();
  lane = d.bitAnd(id, kWarp - 1);
  warp = d.div(id, kWarp);
  thread = shape.rowsPerBlock > 1 ? lane : id;
  int64_t full = shape.vectors / shape.threads;
  for (int64_t u = 0; u < shape.perThread; ++u) {
    Value vector = d.add(thread, u * shape.threads);
    Value inside;
    if (u >= full) {
      inside = d.below(vector, shape.vectors);
      // Elsewhere the last vector is read, and not used.
      vector = d.select(inside, vector, d.i32(shape.vectors - 1));
    }
    valid.push_back(inside);
    int id = int(u);
    slots.push_back({Value(), d.mul(d.extend(vector), kVector), 0, id, 0, id});
  }
}

/// A sum needs a row in the order of its partial sums, then those, where the
/// one before it was: two barriers lie between what both do there. A maximum
/// needs one word a warp, for two rows in turn.
void RowEmitter::allocateScratch() {
  if (shape.warps() == 1)
    return;
  Value sums;
  for (Operation *op : local) {
    auto reduce = dyn_cast<ReduceOp>(op);
    bool sum = reduce && reduce.getKind() == ReduceKind::Sum;
    if (!sum && rules.extentOf(op->getResult(0), flipOf(op))->col == kTile)
      continue; // within a warp
    if (!sum)
      scratch[op] = c.shared.allocate(2 * shape.warps() * 4, c.entry(), loc);
    else if (!sums)
      sums = c.shared.allocate(sumBytes(), c.entry(), loc);
    if (sum)
      scratch[op] = sums;
  }
}

Geometry RowEmitter::emit() {
  collect();
  chooseShape();
  int64_t rows = rules.getSpace().rows;
  int64_t blocks = llvm::divideCeilSigned(rows, shape.rowsPerBlock);
  bool loops = !gathered.empty() || shape.ahead;
  int64_t grid =
      loops ? std::min(blocks, c.chip.multiprocessors * shape.blocks) : blocks;
  OpBuilder outside(c.entry().getTerminator());
  makeSlots(outside);
  allocateScratch();
  Device d(outside, loc);
  Value block = d.extend(d.blockId());
  Geometry geometry{grid, shape.threads * shape.rowsPerBlock, shape.blocks};
  if (shape.rowsPerBlock == 1)
    geometry.report = reportOf(
        workOf(), RowGeometry{shape.perThread, shape.blocks, shape.ahead});
  if (loops) {
    emitLoop(outside, block, grid);
    return geometry;
  }
  Value row = block;
  if (shape.rowsPerBlock > 1)
    row = d.add(d.mul(block, shape.rowsPerBlock), d.extend(warp));
  if (shape.rowsPerBlock == 1 || rows % shape.rowsPerBlock == 0) {
    OpBuilder body(c.entry().getTerminator());
    emitRow(body, outside, row, Value(), Value());
  } else {
    auto ifOp = scf::IfOp::create(outside, loc, d.below(row, rows),
                                  /*withElseRegion=*/false);
    outside.setInsertionPoint(ifOp);
    OpBuilder body(ifOp.thenBlock()->getTerminator());
    emitRow(body, outside, row, Value(), Value());
  }
  return geometry;
}

/// Block b takes the rows b, b + grid, ...
void RowEmitter::emitLoop(OpBuilder &outside, Value block, int64_t grid) {
  int64_t rows = rules.getSpace().rows;
  Device d(outside, loc);
  SmallVector<Value> initial = startGathering(outside);
  if (shape.ahead)
    copies = c.shared.allocateDynamic(copiedBytes(), c.entry(), loc);
  for (int64_t i = 0; i < shape.ahead; ++i)
    for (size_t u = 0; u < slots.size(); ++u) {
      Value row = d.add(block, i * grid);
      copyRow(u, row, d.i32(i), d.below(row, rows), outside);
    }
  Value low = d.i64(0), one = d.i64(1);
  Value left = arith::SubIOp::create(outside, loc, d.i64(rows - 1), block);
  Value high = d.add(d.div(left, grid), 1);
  auto loop = scf::ForOp::create(outside, loc, low, high, one, initial);
  outside.setInsertionPoint(loop);
  takeGathered(loop.getRegionIterArgs());
  if (initial.empty()) // the builder has yielded nothing
    loop.getBody()->getTerminator()->erase();
  OpBuilder body = OpBuilder::atBlockEnd(loop.getBody());
  Device inner(body, loc);
  Value i = loop.getInductionVar();
  Value row = inner.add(inner.mul(i, grid), block);
  emitRow(body, outside, row, inner.toInt(i, 32),
          inner.add(row, shape.ahead * grid));
  SmallVector<Value> yielded;
  for (const Gathered &max : gathered)
    for (const SmallVector<Value> &words : max.words)
      yielded.append(words.begin(), words.end());
  scf::YieldOp::create(body, loc, yielded);
  takeGathered(loop.getResults());
  OpBuilder after(c.entry().getTerminator());
  flush(after);
}

/// Where the vector of a leaf at a slot lies in shared memory, of the row with
/// this number (i32) among those of the block.
Value RowEmitter::copyAddress(size_t leaf, size_t slot, Value number,
                              OpBuilder &at) {
  Device d(at, loc);
  Type i8 = at.getI8Type();
  int64_t row = copiedBytes() / shape.ahead, before = 0;
  int64_t vectors = shape.perThread * shape.threads;
  for (size_t i = 0; i < leaf; ++i)
    before += vectors * vectorBytes(leaves[i]);
  int64_t width = vectorBytes(leaves[leaf]);
  Value offset = d.mul(thread, std::min<int64_t>(width, 16));
  Value address = d.address(copies, offset, i8);
  address = d.address(
      address, d.i32(before + int64_t(slot) * shape.threads * width), i8);
  if (shape.ahead > 1)
    address = d.address(address, d.mul(d.rem(number, shape.ahead), row), i8);
  return address;
}

/// Starts to copy all leaves of a slot, of row `row` (i64), as one group.
void RowEmitter::copyRow(size_t slot, Value row, Value number, Value enabled,
                         OpBuilder &at) {
  Device d(at, loc);
  VectorEvaluator e(rules, at, at, c.pointers, loc);
  Slot position = slots[slot];
  position.row = row;
  for (auto [i, leaf] : llvm::enumerate(leaves)) {
    Value to = copyAddress(i, slot, number, at);
    Value from = e.leafAddress(leaf, position);
    int64_t width = vectorBytes(leaf);
    // Pieces of 16 bytes of all threads follow each other.
    for (int64_t piece = 0; piece < width; piece += 16)
      d.copyAsync(d.address(to, d.i32(piece * shape.threads), at.getI8Type()),
                  d.address(from, d.i32(piece), at.getI8Type()),
                  std::min<int64_t>(width, 16), enabled);
  }
  d.commitCopies();
}

/// Waits for the leaves of a slot, and reads them.
void RowEmitter::readCopies(VectorEvaluator &e, size_t slot, Value number,
                            OpBuilder &body) {
  Device d(body, loc);
  d.awaitCopies(shape.ahead * shape.perThread - 1);
  for (auto [i, leaf] : llvm::enumerate(leaves))
    e.readLeaf(leaf, slots[slot], copyAddress(i, slot, number, body),
               16 * shape.threads);
}

/// `number` counts the rows of a block (i32), `next` is the row whose copy
/// starts now; null where there is no loop.
void RowEmitter::emitRow(OpBuilder &body, OpBuilder &outside, Value row,
                         Value number, Value next) {
  for (Slot &slot : slots)
    slot.row = row;
  VectorEvaluator e(rules, body, outside, c.pointers, loc);
  c.forEachStored(outside, [&](Value value, Value pointer) {
    e.setMemory(value, pointer);
  });
  if (loadsAhead())
    for (Value leaf : leaves)
      for (const Slot &slot : slots)
        e.evaluate(leaf, *rules.flipOf(leaf), slot);
  Value parity, enabled;
  if (number)
    parity = Device(body, loc).bitAnd(number, 1);
  if (shape.ahead)
    enabled = Device(body, loc).below(next, rules.getSpace().rows);

  unsigned last = 0;
  for (const LaunchItem &item : c.launch().items)
    last = std::max(last, stageOf(item.value));
  for (unsigned stage = 0; stage <= last; ++stage) {
    SmallVector<Operation *> maxima;
    for (Operation *op : local) {
      if (stageOf(op->getOperand(0)) + 1 != stage)
        continue;
      auto reduce = dyn_cast<ReduceOp>(op);
      if (reduce && reduce.getKind() == ReduceKind::Sum)
        reduceSum(op, e, body);
      else if (rules.extentOf(op->getResult(0), flipOf(op))->col == kTile)
        reduceBlocks(op, e, body);
      else
        maxima.push_back(op);
    }
    if (!maxima.empty())
      reduceMaxima(maxima, e, body, parity);
    if (stage > 0)
      e.shrink();
    // Slot by slot, so that what leaves the registers leaves them early.
    for (size_t u = 0; u < slots.size(); ++u) {
      bool copied = stage == 0 && shape.ahead;
      if (copied) {
        readCopies(e, u, number, body);
        for (Operation *op : local)
          if (stageOf(op->getOperand(0)) == 0)
            e.evaluate(op->getOperand(0), flipOf(op), slots[u]);
      }
      for (Gathered &max : gathered)
        if (stageOf(max.item->value) == stage)
          gather(max, u, e, body);
      if (copied)
        copyRow(u, next, number, enabled, body);
    }
    for (const LaunchItem &item : c.launch().items)
      if (!item.reduction && stageOf(item.value) == stage)
        storeItem(item, e, body);
  }
}

void RowEmitter::storeItem(const LaunchItem &item, VectorEvaluator &e,
                           OpBuilder &body) {
  Extent extent = *rules.extentOf(item.value, item.flip);
  Device d(body, loc);
  Value pointer = item.kept
                      ? c.reductionPointer(item.value.getDefiningOp(), body)
                      : c.resultPointer(item.result);
  auto guarded = [&](Value condition, const Slot &slot) {
    // The value itself is computed by all threads.
    e.prepareStore(item.value, item.flip, slot);
    if (!condition)
      return e.store(item.value, item.flip, slot, pointer);
    auto ifOp = scf::IfOp::create(body, loc, condition,
                                  /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(body);
    body.setInsertionPoint(ifOp.thenBlock()->getTerminator());
    e.store(item.value, item.flip, slot, pointer);
  };
  if (extent.isFull()) {
    for (auto [u, slot] : llvm::enumerate(slots))
      guarded(valid[u], slot);
    return;
  }
  if (extent.col == kTile) {
    for (auto [u, slot] : llvm::enumerate(slots)) {
      Value first = d.equals(d.bitAnd(lane, kTile / kVector - 1), 0);
      if (valid[u])
        first = arith::AndIOp::create(body, loc, first, valid[u]);
      guarded(first, slot);
    }
    return;
  }
  guarded(d.equals(thread, 0), slots.front());
}

Geometry mlir::fp8::emitRowLaunch(const LaunchContext &context) {
  return RowEmitter(context).emit();
}
