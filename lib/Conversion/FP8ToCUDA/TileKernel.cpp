//===- TileKernel.cpp - 128x128 elements in a block -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 256 threads; thread (g, v) holds rows 8g to 8g+7 of the columns 8v to 8v+7.
// So it has eight rows of each of its columns, which a transposed result stores
// next to each other: they are packed a few at a time and meet those of the
// other threads in shared memory, from where whole 128-byte columns go out.
//
// Where no maximum has to be complete first, a thread loops over its rows two
// at a time ("streams"), so that kernels with many operands and results still
// leave room for enough warps.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Evaluator.h"
#include "fp8/Conversion/FP8ToCUDA/Emit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8;

static constexpr int64_t kThreads = 256;
static constexpr int64_t kWarps = kThreads / 32;
/// Vectors of columns and groups of rows of a tile.
static constexpr int64_t kVectors = kTile / kVector;
/// Rows of a thread.
static constexpr int64_t kRows = 8;
/// Shared memory for transposed results: what a block has without asking.
static constexpr int64_t kStagingBytes = 48 * 1024;

namespace {

class TileEmitter {
public:
  explicit TileEmitter(const LaunchContext &context)
      : c(context), rules(*context.plan.rules), loc(context.loc()),
        body(context.entry().getTerminator()),
        outside(context.entry().getTerminator()), d(body, loc),
        e(rules, body, outside, context.pointers, loc) {}

  Geometry emit();

private:
  /// A maximum over columns of the tile's rows, or over all of the tile, that
  /// the block is combining.
  struct Pending {
    Operation *op;
    bool flip;
    Extent extent;
    bool grid;
    SmallVector<Value> words = {};
    Value scratch = {};
    Value scales = {}; ///< in shared memory, where all there is to do is scale
  };
  /// A transposed result on its way through shared memory.
  struct Transposed {
    const LaunchItem *item;
    int64_t offset = 0; ///< in `staging`
  };

  void collect();
  unsigned stageOf(Value value);
  bool isTransposed(const LaunchItem &item) {
    return !item.reduction && item.flip &&
           rules.extentOf(item.value, true)->isFull();
  }
  void makeColumns();
  void makeRows(Value offset, int64_t count);
  void load(const Slot &slot) {
    for (Value leaf : leaves)
      (void)e.evaluate(leaf, *rules.flipOf(leaf), slot);
  }
  void stream();
  void visitRows(unsigned stage);
  void emitTransposed(unsigned stage);
  void reduceRow(Operation *op, bool flip, size_t k, bool grid);
  void completeReductions();
  void shareScales(MutableArrayRef<Pending> pending);
  void gather(const Pending &pending, ArrayRef<Value> words);
  void storePlain(const LaunchItem &item, size_t k);
  Value addressInStaging(const Transposed &result, Value first);
  void collectColumns(Transposed &result, size_t slot, int64_t step, Value to);
  void writeTransposed(const Transposed &result);
  void guarded(Value condition, function_ref<void()> emit);
  Value both(Value x, Value y) {
    if (!x || !y)
      return x ? x : y;
    return arith::AndIOp::create(body, loc, x, y);
  }

  const LaunchContext &c;
  SpaceRules &rules;
  Location loc;
  OpBuilder body, outside;
  Device d;
  VectorEvaluator e;
  SmallVector<Operation *> local;
  SmallVector<Pending> pending;
  SmallVector<Value> leaves;
  std::map<Operation *, unsigned> stages; // looked up only
  Value id, vector, group, tileRow, tileCol, column;
  SmallVector<Slot> slots;
  SmallVector<Value> rowValid; // null where always true
  Value colValid;
  Value staging;
  int64_t stagingBytes = 0;
  bool stagingUsed = false;
};

} // namespace

/// The saturating cast that `value` is a transpose of, and its orientation.
static CastOp castBehind(Value value, bool &flip) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto cast = dyn_cast<CastOp>(op))
      return cast.getSaturate() ? cast : CastOp();
    if (!isa<PermuteOp, TransposeOp>(op))
      return {};
    ArrayRef<int64_t> perm = isa<PermuteOp>(op)
                                 ? cast<PermuteOp>(op).getPerm()
                                 : cast<TransposeOp>(op).getPerm();
    flip ^= !llvm::is_sorted(perm);
    value = op->getOperand(0);
  }
  return {};
}

static bool isBF16(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType().isBF16();
}

/// The width in bytes of an element.
static int64_t bytesOf(Value value) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  return element.getIntOrFloatBitWidth() / 8;
}

void TileEmitter::collect() {
  SetVector<Value> seen;
  SmallVector<Value> work;
  for (const LaunchItem &item : c.launch().items)
    work.push_back(item.value);
  DenseSet<Value> stored; // looked up only
  for (const StoredValue &value : c.plan.stored)
    if (value.from <= c.number)
      stored.insert(value.value);
  DenseSet<Operation *> needed; // looked up only
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (stored.contains(value) || !seen.insert(value))
      continue;
    if (getLeaf(value)) {
      std::optional<bool> flip = rules.flipOf(value);
      if (flip && rules.extentOf(value, *flip)->isFull())
        leaves.push_back(value);
      continue;
    }
    needed.insert(value.getDefiningOp());
    llvm::append_range(work, value.getDefiningOp()->getOperands());
  }
  for (Operation &op : c.body.without_terminator())
    if (needed.contains(&op) && isReduction(&op) &&
        rules.placeOf(&op) == ReductionPlace::Local)
      local.push_back(&op);
}

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
  Value first = d.add(tileRow, d.mul(d.extend(group), kRows));
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
  makeColumns();
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
  bool streams = !reduces && leaves.size() > 1 && all <= kStagingBytes;
  stagingBytes = std::max(
      largest, std::min(all, reduces ? kStagingBytes / 2 : kStagingBytes));
  if (stagingBytes)
    staging = c.shared.allocate(stagingBytes, c.entry(), loc);
  c.forEachStored(
      body, [&](Value value, Value pointer) { e.setMemory(value, pointer); });
  // All loads at once, where they fit beside the rest.
  bool ahead = !streams && leaves.size() <= 2;
  if (streams) {
    stream();
  } else {
    makeRows(d.i32(0), kRows);
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
  for (Value leaf : leaves)
    held.remove(leaf);
  // A few spilled registers cost less than one block a multiprocessor does.
  int64_t registers = 64;
  if (!streams)
    registers =
        std::min<int64_t>(40 + int64_t(leaves.size()) * (ahead ? 32 : 8) +
                              8 * transposed + 32 * int64_t(held.size()),
                          128);
  int64_t blocks = std::clamp<int64_t>(
      c.chip.registers / (kThreads * int64_t(llvm::alignTo(registers, 8))), 1,
      c.chip.maxThreads / kThreads);
  return {llvm::divideCeilSigned(rows, kTile) *
              llvm::divideCeilSigned(cols, kTile),
          kThreads, blocks};
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
    p.scratch = c.shared.allocate(kWarps * lanes * count * 4, c.entry(), loc);
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
      for (int64_t w = 0; w < kWarps; ++w) {
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
      Value from = d.bitAnd(lane, kWarps - 1);
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
    int64_t parts = kThreads / kTile;
    guarded(d.equals(d.div(id, kTile), number++ % parts), [&] {
      MaxEmitter m(body, loc);
      Value column = d.bitAnd(id, kTile - 1), word;
      Value from = d.address(p.scratch, d.div(column, kTile / words), i32);
      for (int64_t w = 0; w < kWarps; ++w) {
        Value part = d.load(d.address(from, d.i32(w * words), i32), i32, 4);
        word = word ? m.combine(form, word, part) : part;
      }
      if (form == MaxForm::Pairs)
        word = d.select(d.equals(d.bitAnd(column, 1), 0), d.shiftLeft(word, 16),
                        d.bitAnd(word, int32_t(0xFFFF0000)));
      VectorEvaluator one(rules, body, body, c.pointers, loc);
      Lanes lanes;
      lanes.floats.push_back(m.finish(form, word));
      one.setLanes(p.op->getResult(0), p.flip, slots.front(), lanes);
      Value scale = *p.op->user_begin()->result_begin();
      d.store(d.address(p.scales, column, i32),
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

void TileEmitter::emitTransposed(unsigned stage) {
  SmallVector<Transposed> transposed;
  for (const LaunchItem &item : c.launch().items)
    if (isTransposed(item) && stageOf(item.value) == stage)
      transposed.push_back({&item});
  // As many transposed results at once as shared memory holds.
  for (size_t from = 0, to = 0; from < transposed.size(); from = to) {
    int64_t bytes = 0;
    for (; to < transposed.size(); ++to) {
      int64_t more = kTile * kTile * bytesOf(transposed[to].item->value);
      if (bytes + more > stagingBytes)
        break;
      transposed[to].offset = bytes;
      bytes += more;
    }
    auto round = MutableArrayRef(transposed).slice(from, to - from);
    if (stagingUsed)
      d.barrier();
    stagingUsed = true;
    // A few rows at a time, so that what is computed on the way leaves the
    // registers early.
    for (int64_t first = 0; first < kRows; first += 4)
      for (Transposed &result : round)
        collectColumns(result, first, 4,
                       addressInStaging(result, d.i32(first)));
    d.barrier();
    for (Transposed &result : round)
      writeTransposed(result);
  }
}

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
      scf::ForOp::create(body, loc, d.i32(0), d.i32(kRows), d.i32(step));
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

/// Where row `first` of the thread stands in its first column. Column c of the
/// tile has 128 elements in shared memory, in pieces of 16 bytes whose order is
/// swizzled by the vector that c is in, so that neither the writes nor the
/// reads of a warp meet in a bank; within the pieces of the upper vectors the
/// words (8-bit elements) or the halves (16-bit) are in reverse.
Value TileEmitter::addressInStaging(const Transposed &result, Value first) {
  int64_t width = bytesOf(result.item->value), pitch = kTile * width;
  auto exclusiveOr = [&](Value x, Value y) -> Value {
    return arith::XOrIOp::create(body, loc, x, y);
  };
  Value upper = d.div(vector, 8), within = d.mul(first, width), piece;
  if (width == 1) {
    piece = exclusiveOr(d.div(group, 2), d.bitAnd(vector, 7));
    within = d.add(within, d.mul(d.bitAnd(group, 1), 8));
    within = exclusiveOr(within, d.mul(upper, 12));
  } else {
    piece = exclusiveOr(group, vector);
    within = exclusiveOr(within, d.mul(upper, 8));
  }
  Value offset = d.add(d.mul(vector, kVector * pitch), result.offset);
  return d.address(staging, d.add(d.add(offset, d.mul(piece, 16)), within),
                   body.getI8Type());
}

/// Packs `step` rows of each column, from the slot `first` on, and writes them
/// to shared memory; `to` is where those of the first column go.
void TileEmitter::collectColumns(Transposed &result, size_t first, int64_t step,
                                 Value to) {
  Value value = result.item->value;
  int64_t width = bytesOf(value);
  bool flip = true;
  SmallVector<SmallVector<Value>> parts(kVector); // a column
  CastOp cast = width == 1 ? castBehind(value, flip) : CastOp();
  if (width == 2 || cast) {
    for (size_t k = first; k < first + step; k += 2) {
      const Slot &low = slots[k], &high = slots[k + 1];
      if (cast) {
        // The conversion itself packs neighbours along the column.
        Type format = cast.getType().getElementType();
        SmallVector<Value> a = e.castProducts(cast, flip, low);
        SmallVector<Value> b = e.castProducts(cast, flip, high);
        for (int64_t j = 0; j < kVector; ++j)
          parts[j].push_back(d.packF8(b[j], a[j], format));
        continue;
      }
      ArrayRef<Value> a = e.pairsOf(e.evaluate(value, true, low));
      ArrayRef<Value> b = e.pairsOf(e.evaluate(value, true, high));
      for (int64_t j = 0; j < kVector; ++j)
        parts[j].push_back(d.permuteBytes(a[a.size() == 1 ? 0 : j / 2],
                                          b[b.size() == 1 ? 0 : j / 2],
                                          j % 2 ? 0x7632 : 0x5410));
    }
  } else {
    // Bytes that are there already: four rows make a word of each column.
    for (size_t half : {0, 1}) {
      Value w[4];
      for (size_t k = 0; k < 4; ++k)
        w[k] = e.evaluate(value, true, slots[first + k]).codes[half];
      Value low01 = d.permuteBytes(w[0], w[1], 0x5140);
      Value low23 = d.permuteBytes(w[2], w[3], 0x5140);
      Value high01 = d.permuteBytes(w[0], w[1], 0x7362);
      Value high23 = d.permuteBytes(w[2], w[3], 0x7362);
      for (int64_t j : {0, 1}) {
        int64_t selector = j ? 0x7632 : 0x5410;
        parts[4 * half + j] = {d.permuteBytes(low01, low23, selector)};
        parts[4 * half + 2 + j] = {d.permuteBytes(high01, high23, selector)};
      }
    }
  }
  for (auto [j, part] : llvm::enumerate(parts)) {
    Value data = part.size() == 1 ? part[0] : d.pack(part);
    d.store(d.address(to, d.i32(j * kTile * width), body.getI8Type()), data,
            step * width);
  }
}

/// Writes what all threads put into shared memory.
void TileEmitter::writeTransposed(const Transposed &result) {
  auto [rows, cols] = rules.getSpace();
  Type i8 = body.getI8Type(), i32 = body.getI32Type();
  int64_t width = bytesOf(result.item->value);
  int64_t pitch = kTile * width, pieces = pitch / 16;
  for (int64_t first = 0; first < kTile * pieces; first += kThreads) {
    Value number = d.add(id, first);
    Value tileColumn = d.div(number, pieces), piece = d.rem(number, pieces);
    Value owner = d.div(tileColumn, kVector);
    Value where =
        arith::XOrIOp::create(body, loc, piece, d.bitAnd(owner, pieces - 1));
    Value offset = d.add(d.mul(tileColumn, pitch), d.mul(where, 16));
    Value from = d.address(staging, d.add(offset, result.offset), i8);
    SmallVector<Value> w =
        d.unpack(d.load(from, VectorType::get({4}, i32), 16));
    Value lower = d.below(owner, 8);
    SmallVector<Value> data;
    for (int64_t i = 0; i < 4; ++i)
      data.push_back(d.select(lower, w[i], w[i ^ (width == 1 ? 3 : 2)]));
    Value col = d.add(tileCol, d.extend(tileColumn));
    Value row = d.add(tileRow, d.extend(d.mul(piece, 16 / width)));
    Value inside;
    if (cols % kTile != 0)
      inside = d.below(col, cols);
    if (rows % kTile != 0)
      inside = both(inside, d.below(row, rows));
    guarded(inside, [&] {
      Value position = d.add(d.mul(col, rows), row);
      d.store(d.address(c.resultPointer(result.item->result), position,
                        width == 1 ? i8 : Type(body.getI16Type())),
              d.pack(data), 16);
    });
  }
}

Geometry mlir::fp8::emitTileLaunch(const LaunchContext &context) {
  return TileEmitter(context).emit();
}
