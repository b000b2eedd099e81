//===- TileKernel.cpp - 128x128 elements in a block -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 256 threads; thread (g, v) holds rows 8g to 8g+7 of the columns 8v to 8v+7
// (512 threads and four rows each where several values are held until a maximum
// is complete). So it has neighbours of each column, which a transposed result
// stores next to each other: they are packed a few at a time and meet those of
// the other threads in shared memory, from where whole 128-byte columns go out.
//
// Where no maximum has to be complete first, a thread loops over its rows two
// at a time ("streams"), so that kernels with many operands and results still
// leave room for enough warps.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Evaluator.h"
#include "fp8/Conversion/FP8ToCUDA/TileEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8;

static bool isBF16(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType().isBF16();
}

void TileEmitter::collect() { c.collectNeeded(rules, leaves, local); }

unsigned TileEmitter::stageOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return 0;
  if (auto it = stages.find(op); it != stages.end())
    return it->second;
  unsigned stage = 0;
  bool complete = isReduction(op) && rules.placeOf(op) != ReductionPlace::Local;
  if (!complete)
    for (Value operand : op->getOperands())
      stage = std::max(stage, stageOf(operand));
  // A maximum along the tile's part of a row is there at once.
  if (isReduction(op) && !complete &&
      rules.extentOf(value, *rules.flipOf(op->getOperand(0)))->row != 1)
    ++stage;
  stages[op] = stage;
  return stage;
}

/// Whether threads may have fewer rows: partial maxima of more warps have to
/// fit in shared memory.
bool TileEmitter::canSplit() {
  int64_t bytes = stagingBytes;
  auto add = [&](Operation *op, bool flip) {
    Extent extent = *rules.extentOf(op->getResult(0), flip);
    if (extent.row != 1 && extent.col == 1)
      bytes += kTile / kHeldRows / 2 * kVectors * 4 *
                   (MaxEmitter::formOf(op) == MaxForm::Pairs ? 4 : 8) +
               kTile * 4;
  };
  for (Operation *op : local)
    add(op, *rules.flipOf(op->getOperand(0)));
  for (const LaunchItem &item : c.launch().items)
    if (item.reduction)
      add(item.reduction, item.flip);
  return bytes <= kStagingBytes;
}

/// Whether this launch can have a given geometry.
bool TileEmitter::follows(const TileGeometry &geometry, bool reduces) {
  int64_t rows = geometry.rows;
  if ((rows != kHeldRows && rows != kTile / kVectors) ||
      (rows == kHeldRows && reduces && !canSplit()))
    return false;
  int64_t threads = kVectors * kTile / rows;
  return geometry.blocks > 0 && geometry.blocks * threads <= c.chip.maxThreads;
}

void TileEmitter::makeColumns() {
  auto [rows, cols] = rules.getSpace();
  int64_t tilesAcross = llvm::divideCeilSigned(cols, kTile);
  id = d.threadId();
  Value block = d.blockId();
  vector = d.bitAnd(id, kVectors - 1);
  group = d.div(id, kVectors);
  tileRow = d.mul(d.extend(d.div(block, tilesAcross)), kTile);
  tileCol = d.mul(d.extend(d.rem(block, tilesAcross)), kTile);
  column = d.add(tileCol, d.mul(d.extend(vector), kVector));
  if (cols % kTile != 0) {
    // Elsewhere the last elements are read, and not used.
    colValid = d.below(column, cols);
    column = d.select(colValid, column, d.i64(cols - kVector));
  }
}

/// Slots of `count` rows, from row `offset` of the thread on.
void TileEmitter::makeRows(Value offset, int64_t count) {
  int64_t rows = rules.getSpace().rows;
  Value first = d.add(tileRow, d.mul(d.extend(group), rowsOfThread));
  first = d.add(first, d.extend(offset));
  for (int64_t k = 0; k < count; ++k) {
    Value row = d.add(first, k), inside;
    if (rows % kTile != 0) {
      inside = d.below(row, rows);
      row = d.select(inside, row, d.i64(rows - 1));
    }
    rowValid.push_back(inside);
    slots.push_back({row, column, int(k), 0, 0, 0});
  }
}

void TileEmitter::guarded(Value condition, function_ref<void()> emit) {
  if (!condition)
    return emit();
  auto ifOp = scf::IfOp::create(body, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(body);
  body.setInsertionPoint(ifOp.thenBlock()->getTerminator());
  emit();
}

Geometry TileEmitter::emit() {
  collect();
  bool reduces = !local.empty();
  unsigned last = 0;
  int64_t largest = 0, all = 0, transposed = 0;
  SetVector<Value> held; // until maxima are complete
  for (const LaunchItem &item : c.launch().items) {
    reduces |= item.reduction != nullptr;
    last = std::max(last, stageOf(item.value));
    if (isTransposed(item)) {
      int64_t bytes = kTile * kTile * bytesOf(item.value);
      largest = std::max(largest, bytes);
      all += bytes;
      transposed += bytesOf(item.value);
    }
    bool flip = item.flip;
    if (rules.dependsOnLocal(item.value) &&
        rules.extentOf(item.value, flip)->isFull()) {
      CastOp cast = castBehind(item.value, flip);
      held.insert(cast ? cast.getX() : item.value);
    }
  }
  for (Value leaf : leaves)
    held.remove(leaf);
  stagingBytes =
      reduces ? largest : std::max(largest, std::min(all, kStagingBytes));
  TileWork work{0, int64_t(held.size()), transposed};
  for (Value leaf : leaves)
    work.read += bytesOf(leaf);
  std::optional<TileGeometry> tuned = c.geometries.find(work);
  if (tuned && !follows(*tuned, reduces))
    tuned = std::nullopt;
  if (tuned ? tuned->rows == kHeldRows : held.size() > 1 && canSplit()) {
    rowsOfThread = kHeldRows;
    threads = kVectors * kTile / rowsOfThread;
    warps = threads / 32;
  }
  makeColumns();
  bool streams = !reduces && leaves.size() > 1 && all <= kStagingBytes;
  if (stagingBytes)
    staging = c.shared.allocate(stagingBytes, c.entry(), loc);
  c.forEachStored(
      body, [&](Value value, Value pointer) { e.setMemory(value, pointer); });
  // All loads at once, where they fit beside the rest.
  bool ahead = !streams && leaves.size() <= 2;
  if (streams) {
    stream();
  } else {
    makeRows(d.i32(0), rowsOfThread);
    if (ahead)
      for (const Slot &slot : slots)
        load(slot);
    for (unsigned stage = 0; stage <= last; ++stage) {
      visitRows(stage);
      emitTransposed(stage);
      completeReductions();
    }
  }
  auto [rows, cols] = rules.getSpace();
  // A few spilled registers cost less than one block a multiprocessor does.
  int64_t registers = streams ? 64 : 128;
  if (!streams && rowsOfThread == 8)
    registers =
        std::min<int64_t>(40 + int64_t(leaves.size()) * (ahead ? 32 : 8) +
                              8 * transposed + 32 * int64_t(held.size()),
                          128);
  int64_t blocks = std::clamp<int64_t>(
      c.chip.registers / (threads * int64_t(llvm::alignTo(registers, 8))), 1,
      c.chip.maxThreads / threads);
  if (tuned)
    blocks = tuned->blocks;
  return {llvm::divideCeilSigned(rows, kTile) *
              llvm::divideCeilSigned(cols, kTile),
          threads, blocks, reportOf(work, TileGeometry{rowsOfThread, blocks})};
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// The maximum of slot `k` along the row: 16 lanes hold the tile's part of it.
void TileEmitter::reduceRow(Operation *op, bool flip, size_t k, bool grid) {
  MaxEmitter m(body, loc);
  MaxForm form = MaxEmitter::formOf(op), folded = MaxEmitter::foldedForm(form);
  const Slot &slot = slots[k];
  Value word = m.fold(form, m.wordsOf(e, op, flip, slot, colValid));
  for (int64_t mask = kVectors / 2; mask >= 1; mask /= 2)
    word = m.combine(folded, word, d.shuffleXor(word, mask));
  if (!grid) {
    Lanes lanes;
    lanes.floats.push_back(m.finish(form, word));
    e.setLanes(op->getResult(0), flip, slot, lanes);
    return;
  }
  Value base = c.reductionPointer(op, body);
  guarded(both(d.equals(vector, 0), rowValid[k]), [&] {
    d.atomicMax(d.address(base, slot.row, body.getI32Type()),
                m.finishBits(form, word));
  });
}

/// All that is done with the elements of `stage` row by row: their maxima, and
/// the results that are not transposed. Of a row that is done only pairs stay.
void TileEmitter::visitRows(unsigned stage) {
  if (stage > 0)
    e.shrink();
  auto add = [&](Operation *op, bool flip, bool grid) {
    pending.push_back(
        {op, flip, *rules.extentOf(op->getResult(0), flip), grid});
  };
  SmallVector<const LaunchItem *> plain;
  for (Operation *op : local)
    if (stageOf(op->getOperand(0)) == stage)
      add(op, *rules.flipOf(op->getOperand(0)), /*grid=*/false);
  for (const LaunchItem &item : c.launch().items) {
    if (stageOf(item.value) != stage)
      continue;
    if (item.reduction)
      add(item.reduction, item.flip, /*grid=*/true);
    else if (!isTransposed(item))
      plain.push_back(&item);
  }
  if (pending.empty() && plain.empty())
    return;
  MaxEmitter m(body, loc);
  for (size_t k = 0; k < slots.size(); ++k) {
    // One row ahead.
    if (stage == 0)
      for (size_t next = k; next < std::min(k + 2, slots.size()); ++next)
        load(slots[next]);
    for (Pending &p : pending) {
      if (p.extent.row == 1)
        reduceRow(p.op, p.flip, k, p.grid);
      else
        m.combine(
            MaxEmitter::formOf(p.op), p.words,
            m.wordsOf(e, p.op, p.flip, slots[k], both(rowValid[k], colValid)));
    }
    for (const LaunchItem *item : plain)
      storePlain(*item, k);
    if (!pending.empty())
      e.shrink();
  }
  llvm::erase_if(pending, [](const Pending &p) { return p.extent.row == 1; });
}

/// Combines over the block what `visitRows` left in each thread.
void TileEmitter::completeReductions() {
  if (pending.empty())
    return;
  MaxEmitter m(body, loc);
  Type i32 = body.getI32Type();
  Value lane = d.bitAnd(id, 31), warp = d.div(id, 32);
  for (Pending &p : pending) {
    MaxForm form = MaxEmitter::formOf(p.op);
    if (p.extent.col == 1)
      for (Value &word : p.words)
        word = m.combine(form, word, d.shuffleXor(word, kVectors));
    else
      p.words = {m.acrossWarp(form, m.fold(form, p.words))};
    int64_t lanes = p.extent.col == 1 ? kVectors : 1;
    int64_t count = p.words.size();
    p.scratch = c.shared.allocate(warps * lanes * count * 4, c.entry(), loc);
    guarded(d.below(lane, lanes), [&] {
      Value to = d.address(p.scratch,
                           d.mul(d.add(d.mul(warp, lanes), lane), count), i32);
      for (int64_t i = 0; i < count; i += 4) {
        ArrayRef<Value> part =
            ArrayRef(p.words).slice(i, std::min<int64_t>(4, count - i));
        d.store(d.address(to, d.i32(i), i32),
                part.size() == 1 ? part[0] : d.pack(part), part.size() * 4);
      }
    });
  }
  d.barrier();
  shareScales(pending);
  for (Pending &p : pending) {
    MaxForm form = MaxEmitter::formOf(p.op);
    int64_t count = p.words.size();
    if (p.scales) {
      Lanes lanes;
      Value from = d.address(p.scales, d.mul(vector, kVector), i32);
      Type type = VectorType::get({4}, body.getF32Type());
      for (int64_t half : {0, 4})
        lanes.floats.append(
            d.unpack(d.load(d.address(from, d.i32(half), i32), type, 16)));
      e.setLanes(*p.op->user_begin()->result_begin(), p.flip, slots.front(),
                 lanes);
      continue;
    }
    SmallVector<Value> words;
    if (p.extent.col == 1) {
      for (int64_t w = 0; w < warps; ++w) {
        SmallVector<Value> part;
        Value from = d.address(p.scratch,
                               d.mul(d.add(vector, w * kVectors), count), i32);
        for (int64_t i = 0; i < count; i += 4)
          part.append(d.unpack(d.load(d.address(from, d.i32(i), i32),
                                      VectorType::get({4}, i32), 16)));
        m.combine(form, words, part);
      }
      words = m.columns(form, words);
    } else {
      Value from = d.bitAnd(lane, warps - 1);
      words = {
          m.acrossWarp(form, d.load(d.address(p.scratch, from, i32), i32, 4))};
    }
    if (p.grid) {
      gather(p, words);
      continue;
    }
    Lanes lanes;
    for (Value word : words)
      lanes.floats.push_back(m.finish(form, word));
    e.setLanes(p.op->getResult(0), p.flip, slots.front(), lanes);
  }
  pending.clear();
}

/// Computes the scales that maxima over columns are only there for, each once a
/// block instead of in all threads that have the column.
void TileEmitter::shareScales(MutableArrayRef<Pending> pending) {
  Type i32 = body.getI32Type();
  int64_t number = 0;
  for (Pending &p : pending) {
    if (p.grid || p.extent.col != 1 || !p.op->hasOneUse() ||
        !isa<ScaleOp>(*p.op->user_begin()))
      continue;
    p.scales = c.shared.allocate(kTile * 4, c.entry(), loc);
    MaxForm form = MaxEmitter::formOf(p.op);
    int64_t words = kVectors * p.words.size();
    int64_t parts = threads / kTile;
    guarded(d.equals(d.div(id, kTile), number++ % parts), [&] {
      MaxEmitter m(body, loc);
      // Hidden offsets: of branches that differ in addresses only LLVM would
      // make one with a table of them, which PTX cannot hold.
      Value column = d.bitAnd(id, kTile - 1), word;
      Value hidden = d.hide(column);
      Value from = d.address(p.scratch, d.div(hidden, kTile / words), i32);
      for (int64_t w = 0; w < warps; ++w) {
        Value part = d.load(d.address(from, d.i32(w * words), i32), i32, 4);
        word = word ? m.combine(form, word, part) : part;
      }
      if (form == MaxForm::Pairs)
        word = m.upperMagnitude(d.select(d.equals(d.bitAnd(column, 1), 0),
                                         d.shiftLeft(word, 16), word));
      VectorEvaluator one(rules, body, body, c.pointers, loc);
      Lanes lanes;
      lanes.floats.push_back(m.finish(form, word));
      one.setLanes(p.op->getResult(0), p.flip, slots.front(), lanes);
      Value scale = *p.op->user_begin()->result_begin();
      d.store(d.address(p.scales, hidden, i32),
              one.floatsOf(one.evaluate(scale, p.flip, slots.front()))[0], 4);
    });
  }
  if (number)
    d.barrier();
}

void TileEmitter::gather(const Pending &p, ArrayRef<Value> words) {
  MaxForm form = MaxEmitter::formOf(p.op);
  Value base = c.reductionPointer(p.op, body);
  Type i32 = body.getI32Type();
  bool columns = p.extent.col == 1;
  Value first = columns ? both(d.equals(group, 0), colValid) : d.equals(id, 0);
  guarded(first, [&] {
    Value to = columns ? d.address(base, slots.front().col, i32) : base;
    for (auto [j, word] : llvm::enumerate(words))
      d.atomicMax(d.address(to, d.i32(j), i32),
                  MaxEmitter(body, loc).finishBits(form, word));
  });
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// All of a launch that combines nothing.
void TileEmitter::stream() {
  SmallVector<Transposed> transposed;
  SmallVector<const LaunchItem *> plain;
  int64_t step = 2, bytes = 0;
  for (const LaunchItem &item : c.launch().items) {
    if (!isTransposed(item)) {
      plain.push_back(&item);
      continue;
    }
    bool flip = true;
    int64_t width = bytesOf(item.value);
    if (width == 1 && !castBehind(item.value, flip))
      step = 4; // packed by four
    transposed.push_back({&item, bytes});
    bytes += kTile * kTile * width;
  }
  auto loop =
      scf::ForOp::create(body, loc, d.i32(0), d.i32(rowsOfThread), d.i32(step));
  body.setInsertionPoint(loop.getBody()->getTerminator());
  Value first = loop.getInductionVar();
  // What belongs to columns (scales) is read again for each pair of rows: a
  // zero that the compiler does not know keeps it from holding all of it.
  outside.setInsertionPoint(loop.getBody()->getTerminator());
  Value zero = arith::ShRUIOp::create(body, loc, d.hide(first), d.i32(31));
  column = d.add(column, d.extend(zero));
  makeRows(first, step);
  for (const Slot &slot : slots)
    load(slot);
  // Of a row that is done only what is cast stays, in pairs.
  for (int64_t k = 0; k < step; ++k) {
    for (const LaunchItem *item : plain)
      storePlain(*item, k);
    for (Transposed &result : transposed) {
      bool flip = true;
      CastOp cast = castBehind(result.item->value, flip);
      if (cast && isBF16(cast.getX()))
        (void)e.pairsOf(e.evaluate(cast.getX(), flip, slots[k]));
      else if (!cast)
        (void)e.evaluate(result.item->value, true, slots[k]);
    }
    e.shrink();
  }
  for (Transposed &result : transposed)
    collectColumns(result, 0, step, addressInStaging(result, first));
  body.setInsertionPoint(c.entry().getTerminator());
  if (transposed.empty())
    return;
  d.barrier();
  for (const Transposed &result : transposed)
    writeTransposed(result);
}

void TileEmitter::storePlain(const LaunchItem &item, size_t k) {
  Extent extent = *rules.extentOf(item.value, item.flip);
  if (extent.row != 1 && k != 0)
    return; // one for all rows of the tile
  Value condition = extent.row == 1 ? rowValid[k] : d.equals(group, 0);
  condition = both(condition, extent.col == 1 ? colValid : d.equals(vector, 0));
  e.prepareStore(item.value, item.flip, slots[k]);
  guarded(condition, [&] {
    e.store(item.value, item.flip, slots[k], c.resultPointer(item.result));
  });
}

Geometry mlir::fp8::emitTileLaunch(const LaunchContext &context) {
  return TileEmitter(context).emit();
}
