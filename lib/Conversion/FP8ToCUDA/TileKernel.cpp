//===- TileKernel.cpp - 128x128 elements in a block -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 256 threads; thread (g, v) holds rows 8g to 8g+7 of the columns 8v to 8v+7.
// So it has eight rows of each of its columns, which a transposed result stores
// next to each other: they are packed in registers and meet those of the other
// threads in shared memory, from where whole 128-byte columns go out.
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

namespace {

class TileEmitter {
public:
  explicit TileEmitter(const LaunchContext &context)
      : c(context), rules(*context.plan.rules), loc(context.loc()),
        body(context.entry().getTerminator()), d(body, loc),
        e(rules, body, body, context.pointers, loc) {}

  Geometry emit();

private:
  /// A maximum over columns of the tile's rows, or over all of the tile, that
  /// the block is combining.
  struct Pending {
    Operation *op;
    bool flip;
    Extent extent;
    SmallVector<Value> words;
    Value scratch;
    bool grid;
  };
  /// A transposed result: 32-bit words of each column.
  struct Transposed {
    const LaunchItem *item;
    SmallVector<SmallVector<Value>> words; // a column
  };

  void collect();
  unsigned stageOf(Value value);
  void makeSlots();
  void emitStage(unsigned stage);
  void reduce(unsigned stage);
  void gather(const Pending &pending, ArrayRef<Value> words);
  void storePlain(const LaunchItem &item, size_t k);
  void collectColumns(Transposed &result, size_t first);
  void writeTransposed(ArrayRef<Transposed> results);
  void guarded(Value condition, function_ref<void()> emit);
  Value both(Value x, Value y) {
    if (!x || !y)
      return x ? x : y;
    return arith::AndIOp::create(body, loc, x, y);
  }

  const LaunchContext &c;
  SpaceRules &rules;
  Location loc;
  OpBuilder body;
  Device d;
  VectorEvaluator e;
  SmallVector<Operation *> local;
  SmallVector<Value> leaves;
  std::map<Operation *, unsigned> stages; // looked up only
  Value id, vector, group, tileRow, tileCol;
  SmallVector<Slot> slots;
  SmallVector<Value> rowValid; // null where always true
  Value colValid;
  Value staging;
};

} // namespace

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
  if (isReduction(op) && !complete)
    ++stage;
  stages[op] = stage;
  return stage;
}

void TileEmitter::makeSlots() {
  auto [rows, cols] = rules.getSpace();
  int64_t tilesAcross = llvm::divideCeilSigned(cols, kTile);
  id = d.threadId();
  Value block = d.blockId();
  vector = d.bitAnd(id, kVectors - 1);
  group = d.div(id, kVectors);
  tileRow = d.mul(d.extend(d.div(block, tilesAcross)), kTile);
  tileCol = d.mul(d.extend(d.rem(block, tilesAcross)), kTile);
  Value col = d.add(tileCol, d.mul(d.extend(vector), kVector));
  if (cols % kTile != 0) {
    // Elsewhere the last elements are read, and not used.
    colValid = d.below(col, cols);
    col = d.select(colValid, col, d.i64(cols - kVector));
  }
  Value first = d.add(tileRow, d.mul(d.extend(group), kRows));
  for (int64_t k = 0; k < kRows; ++k) {
    Value row = d.add(first, k), inside;
    if (rows % kTile != 0) {
      inside = d.below(row, rows);
      row = d.select(inside, row, d.i64(rows - 1));
    }
    rowValid.push_back(inside);
    slots.push_back({row, col, int(k), 0, 0, 0});
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
  makeSlots();
  int64_t stagingBytes = 0, transposed = 0, held = 0;
  for (const LaunchItem &item : c.launch().items) {
    bool columns = !item.reduction && item.flip &&
                   rules.extentOf(item.value, true)->isFull();
    if (columns) {
      stagingBytes =
          std::max(stagingBytes, kTile * kTile * bytesOf(item.value));
      transposed += bytesOf(item.value);
    }
    held += rules.dependsOnLocal(item.value) &&
            rules.extentOf(item.value, item.flip)->isFull();
  }
  if (stagingBytes)
    staging = c.shared.allocate(stagingBytes, c.entry(), loc);
  c.forEachStored(
      body, [&](Value value, Value pointer) { e.setMemory(value, pointer); });
  // All loads at once, where they fit beside the rest.
  bool ahead = leaves.size() <= 2 || !local.empty();
  if (ahead)
    for (Value leaf : leaves)
      for (const Slot &slot : slots)
        e.evaluate(leaf, *rules.flipOf(leaf), slot);
  unsigned last = 0;
  for (const LaunchItem &item : c.launch().items)
    last = std::max(last, stageOf(item.value));
  for (unsigned stage = 0; stage <= last + 1; ++stage) {
    reduce(stage);
    if (stage <= last)
      emitStage(stage);
  }
  auto [rows, cols] = rules.getSpace();
  int64_t registers = 40 + int64_t(leaves.size()) * (ahead ? 32 : 8) +
                      16 * transposed + 32 * held;
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

/// Completes the local reductions of `stage`, and gathers the launch's
/// reductions of values of the stage before.
void TileEmitter::reduce(unsigned stage) {
  if (stage == 0)
    return;
  MaxEmitter m(body, loc);
  SmallVector<Pending> pending;
  auto start = [&](Operation *op, bool flip, bool grid) {
    MaxForm form = MaxEmitter::formOf(op),
            folded = MaxEmitter::foldedForm(form);
    Extent extent = *rules.extentOf(op->getResult(0), flip);
    if (extent.row == 1) {
      // Along the row: 16 lanes hold the tile's part of it.
      for (auto [k, slot] : llvm::enumerate(slots)) {
        Value word = m.fold(form, m.wordsOf(e, op, flip, slot, colValid));
        for (int64_t mask = kVectors / 2; mask >= 1; mask /= 2)
          word = m.combine(folded, word, d.shuffleXor(word, mask));
        if (!grid) {
          Lanes lanes;
          lanes.floats.push_back(m.finish(form, word));
          e.setLanes(op->getResult(0), flip, slot, lanes);
          continue;
        }
        Value base = c.reductionPointer(op, body);
        guarded(both(d.equals(vector, 0), rowValid[k]), [&] {
          d.atomicMax(d.address(base, slot.row, body.getI32Type()),
                      m.finishBits(form, word));
        });
      }
      return;
    }
    SmallVector<Value> words;
    for (auto [k, slot] : llvm::enumerate(slots))
      m.combine(form, words,
                m.wordsOf(e, op, flip, slot, both(rowValid[k], colValid)));
    if (extent.col == 1)
      for (Value &word : words)
        word = m.combine(form, word, d.shuffleXor(word, kVectors));
    else
      words = {m.acrossWarp(form, m.fold(form, words))};
    int64_t lanes = extent.col == 1 ? kVectors : 1;
    Value scratch =
        c.shared.allocate(kWarps * lanes * words.size() * 4, c.entry(), loc);
    pending.push_back({op, flip, extent, words, scratch, grid});
  };
  for (Operation *op : local)
    if (stageOf(op->getOperand(0)) + 1 == stage)
      start(op, *rules.flipOf(op->getOperand(0)), /*grid=*/false);
  for (const LaunchItem &item : c.launch().items)
    if (item.reduction && stageOf(item.value) + 1 == stage)
      start(item.reduction, item.flip, /*grid=*/true);
  if (pending.empty())
    return;

  Type i32 = body.getI32Type();
  Value lane = d.bitAnd(id, 31), warp = d.div(id, 32);
  for (Pending &p : pending) {
    int64_t lanes = p.extent.col == 1 ? kVectors : 1;
    int64_t count = p.words.size();
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
  for (Pending &p : pending) {
    MaxForm form = MaxEmitter::formOf(p.op);
    int64_t count = p.words.size();
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

void TileEmitter::emitStage(unsigned stage) {
  if (stage > 0)
    e.shrink();
  SmallVector<Transposed> transposed;
  SmallVector<const LaunchItem *> plain;
  for (const LaunchItem &item : c.launch().items) {
    if (item.reduction || stageOf(item.value) != stage)
      continue;
    if (item.flip && rules.extentOf(item.value, true)->isFull())
      transposed.push_back({&item, SmallVector<SmallVector<Value>>(kVector)});
    else
      plain.push_back(&item);
  }
  // Two rows at a time, so that what is computed on the way leaves the
  // registers early.
  for (size_t first = 0; first < kRows; first += 2) {
    for (size_t k : {first, first + 1})
      for (const LaunchItem *item : plain)
        storePlain(*item, k);
    for (Transposed &result : transposed)
      collectColumns(result, first);
  }
  writeTransposed(transposed);
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

/// Packs the rows `first` and `first` + 1 of each column.
void TileEmitter::collectColumns(Transposed &result, size_t first) {
  Value value = result.item->value;
  bool flip = true;
  const Slot &low = slots[first], &high = slots[first + 1];
  if (bytesOf(value) == 2) {
    ArrayRef<Value> a = e.pairsOf(e.evaluate(value, true, low));
    ArrayRef<Value> b = e.pairsOf(e.evaluate(value, true, high));
    for (int64_t j = 0; j < kVector; ++j)
      result.words[j].push_back(d.permuteBytes(a[a.size() == 1 ? 0 : j / 2],
                                               b[b.size() == 1 ? 0 : j / 2],
                                               j % 2 ? 0x7632 : 0x5410));
    return;
  }
  if (CastOp cast = castBehind(value, flip)) {
    // The conversion itself packs neighbours along the column.
    Type format = cast.getType().getElementType();
    SmallVector<Value> a = e.castProducts(cast, flip, low);
    SmallVector<Value> b = e.castProducts(cast, flip, high);
    for (int64_t j = 0; j < kVector; ++j) {
      Value half = d.toInt(d.packF8(b[j], a[j], format), 32);
      if (first % 4 == 0)
        result.words[j].push_back(half);
      else
        result.words[j].back() =
            d.permuteBytes(result.words[j].back(), half, 0x5410);
    }
    return;
  }
  // Bytes that are there already: four rows make a word of each column.
  if (first % 4 == 0)
    return;
  for (size_t half : {0, 1}) {
    Value w[4];
    for (size_t k = 0; k < 4; ++k)
      w[k] = e.evaluate(value, true, slots[first - 2 + k]).codes[half];
    Value low01 = d.permuteBytes(w[0], w[1], 0x5140);
    Value low23 = d.permuteBytes(w[2], w[3], 0x5140);
    Value high01 = d.permuteBytes(w[0], w[1], 0x7362);
    Value high23 = d.permuteBytes(w[2], w[3], 0x7362);
    result.words[4 * half].push_back(d.permuteBytes(low01, low23, 0x5410));
    result.words[4 * half + 1].push_back(d.permuteBytes(low01, low23, 0x7632));
    result.words[4 * half + 2].push_back(
        d.permuteBytes(high01, high23, 0x5410));
    result.words[4 * half + 3].push_back(
        d.permuteBytes(high01, high23, 0x7632));
  }
}

/// Through shared memory: column c of the tile has 128 elements there, in
/// pieces of 16 bytes whose order is swizzled by the vector that c is in, so
/// that neither the writes nor the reads of a warp meet in a bank.
void TileEmitter::writeTransposed(ArrayRef<Transposed> results) {
  auto [rows, cols] = rules.getSpace();
  Type i8 = body.getI8Type(), i32 = body.getI32Type();
  bool used = false;
  for (const Transposed &result : results) {
    int64_t width = bytesOf(result.item->value);
    int64_t pitch = kTile * width, pieces = pitch / 16;
    if (used)
      d.barrier();
    used = true;
    // A thread's rows are 8 bytes (half a piece) or 16 (a piece).
    Value offset;
    if (width == 1) {
      Value piece = arith::XOrIOp::create(body, loc, d.div(group, 2),
                                          d.bitAnd(vector, 7));
      Value half = arith::XOrIOp::create(body, loc, d.bitAnd(group, 1),
                                         d.div(vector, 8));
      offset = d.add(d.mul(piece, 16), d.mul(half, 8));
    } else {
      offset = d.mul(arith::XOrIOp::create(body, loc, group, vector), 16);
    }
    Value to =
        d.address(staging, d.add(d.mul(vector, kVector * pitch), offset), i8);
    for (int64_t j = 0; j < kVector; ++j)
      d.store(d.address(to, d.i32(j * pitch), i8), d.pack(result.words[j]),
              result.words[j].size() * 4);
    d.barrier();
    for (int64_t first = 0; first < kTile * pieces; first += kThreads) {
      Value number = d.add(id, first);
      Value column = d.div(number, pieces), piece = d.rem(number, pieces);
      Value owner = d.div(column, kVector);
      Value where =
          arith::XOrIOp::create(body, loc, piece, d.bitAnd(owner, pieces - 1));
      Value from =
          d.address(staging, d.add(d.mul(column, pitch), d.mul(where, 16)), i8);
      Value data = d.load(from, VectorType::get({4}, i32), 16);
      if (width == 1) {
        // The halves of a piece lie swapped for the upper vectors.
        SmallVector<Value> w = d.unpack(data);
        Value swapped =
            arith::XOrIOp::create(body, loc, d.below(owner, 8), d.flag(true));
        data = d.pack(
            {d.select(swapped, w[2], w[0]), d.select(swapped, w[3], w[1]),
             d.select(swapped, w[0], w[2]), d.select(swapped, w[1], w[3])});
      }
      Value col = d.add(tileCol, d.extend(column));
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
                data, 16);
      });
    }
  }
}

Geometry mlir::fp8::emitTileLaunch(const LaunchContext &context) {
  return TileEmitter(context).emit();
}
