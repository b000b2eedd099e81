//===- RowKernel.cpp - whole rows in a block or a warp ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Thread t of a row holds the vectors t, t + threads, ... of eight columns.
// Everything that a row's maxima and sums are needed for follows while its
// elements are in registers. Maxima over columns stay in shared memory over all
// rows of a block, or in registers where there is not enough of it, and are
// combined by atomics at the end.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Evaluator.h"
#include "fp8/Conversion/FP8ToCUDA/Emit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fp8;

static constexpr int64_t kWarp = 32;
static constexpr int64_t kPartials = 256;
/// More warps of a multiprocessor do not make loads faster.
static constexpr int64_t kMaxWarps = 48;
/// Shared memory of a block beside the maxima over columns.
static constexpr int64_t kOtherShared = 8 << 10;

namespace {

/// How rows are spread over threads.
struct RowShape {
  int64_t vectors;      ///< of a row
  int64_t threads;      ///< of a row
  int64_t perThread;    ///< vectors
  int64_t rowsPerBlock; ///< above 1 only where a warp takes a row
  int64_t blocks;       ///< a multiprocessor has to hold
  int64_t warps() const { return threads / kWarp; }
};

class RowEmitter {
public:
  explicit RowEmitter(const LaunchContext &context)
      : c(context), rules(*context.plan.rules), loc(context.loc()) {}

  Geometry emit();

private:
  /// A maximum that is gathered over rows.
  struct Gathered {
    const LaunchItem *item;
    MaxForm form;
    bool columns;
    SmallVector<SmallVector<Value>> words; // a slot; one entry for `all`
    bool inShared = false;
    Value shared;
    size_t wordCount() const {
      return form == MaxForm::Pairs ? kVector / 2 : kVector;
    }
  };

  void collect();
  void chooseShape();
  unsigned stageOf(Value value);
  void makeSlots(OpBuilder &outside);
  void emitRow(OpBuilder &body, OpBuilder &outside, Value row, Value parity);
  void reduceMaxima(ArrayRef<Operation *> reductions, VectorEvaluator &e,
                    OpBuilder &body, Value parity);
  void reduceBlocks(Operation *reduction, VectorEvaluator &e, OpBuilder &body);
  void reduceSum(Operation *reduction, VectorEvaluator &e, OpBuilder &body);
  void setRowResult(Operation *reduction, VectorEvaluator &e, Value result,
                    OpBuilder &body);
  void storeItem(const LaunchItem &item, VectorEvaluator &e, OpBuilder &body);
  int64_t placeGathered();
  bool loadsAhead() const;
  Value sharedWords(const Gathered &max, size_t slot, OpBuilder &at);
  void gatherShared(const Gathered &max, size_t slot, ArrayRef<Value> words,
                    OpBuilder &body);
  void flush(OpBuilder &after);
  void flushShared(const Gathered &max, OpBuilder &after);
  bool flipOf(Operation *reduction) {
    return *rules.flipOf(reduction->getOperand(0));
  }

  const LaunchContext &c;
  SpaceRules &rules;
  Location loc;
  RowShape shape;
  SmallVector<Operation *> local;         // reductions, in program order
  SmallVector<Value> leaves;              // what is read at every position
  std::map<Operation *, unsigned> stages; // looked up only
  std::vector<Gathered> gathered;
  // The same in every row:
  Value thread, lane, warp;             // i32; of the row
  SmallVector<Slot> slots;              // without rows
  SmallVector<Value> valid;             // null where always true
  std::map<Operation *, Value> scratch; // shared memory; looked up only
};

} // namespace

/// Reductions and leaves that the launch's items need.
void RowEmitter::collect() {
  c.collectNeeded(rules, leaves, local);
  for (const LaunchItem &item : c.launch().items) {
    if (!item.reduction)
      continue;
    Extent group = *rules.extentOf(item.reduction->getResult(0), item.flip);
    gathered.push_back(
        {&item, MaxEmitter::formOf(item.reduction), group == Extent{0, 1}, {}});
  }
}

/// A warp takes a short row; a block takes a longer one, with as many vectors a
/// thread as keep several loads in flight and the registers of half the threads
/// that a multiprocessor could hold.
void RowEmitter::chooseShape() {
  int64_t cols = rules.getSpace().cols;
  shape.vectors = cols / kVector;
  auto threadsFor = [&](int64_t perThread) {
    return int64_t(
        llvm::alignTo(llvm::divideCeilSigned(shape.vectors, perThread), kWarp));
  };
  if (shape.vectors <= 4 * kWarp && gathered.empty()) {
    shape.threads = kWarp;
    shape.perThread = llvm::divideCeilSigned(shape.vectors, kWarp);
    shape.rowsPerBlock = 8;
  } else {
    shape.rowsPerBlock = 1;
    shape.perThread = 1;
    while (threadsFor(shape.perThread) > 512 ||
           (shape.perThread == 1 && shape.vectors >= 512))
      shape.perThread *= 2;
    if (shape.perThread > 4)
      shape.perThread = threadsFor(4) <= 1024 ? 4 : shape.perThread;
    shape.threads = threadsFor(shape.perThread);
  }
  int64_t shared = placeGathered();
  // An estimate of the registers of a thread: what it holds of each vector.
  int64_t columnSets = 0, held = 0;
  for (const Gathered &max : gathered)
    if (max.columns && !max.inShared)
      columnSets += max.form == MaxForm::Pairs ? 1 : 2;
  for (const LaunchItem &item : c.launch().items)
    held += !item.reduction && rules.dependsOnLocal(item.value) &&
            rules.extentOf(item.value, item.flip)->isFull();
  // What is read leaves the registers as what is held enters them.
  int64_t read = leaves.size();
  int64_t vectors = loadsAhead()
                        ? shape.perThread * (std::max(read, held) + columnSets)
                        : shape.perThread * (held + columnSets) + read;
  int64_t registers = 28 + 4 * vectors;
  int64_t block = shape.threads * shape.rowsPerBlock;
  int64_t most = std::min({kMaxWarps * kWarp / block, c.chip.maxThreads / block,
                           c.chip.sharedBytes / (shared + kOtherShared)});
  shape.blocks = std::clamp<int64_t>(
      c.chip.registers / (block * int64_t(llvm::alignTo(registers, 8))), 1,
      std::max<int64_t>(most, 1));
}

/// Maxima over columns go to shared memory where two blocks have enough of it.
/// Returns the bytes of a block.
int64_t RowEmitter::placeGathered() {
  int64_t bytes = 0, limit = c.chip.sharedBytes / 2 - kOtherShared;
  for (Gathered &max : gathered) {
    int64_t more =
        shape.threads * shape.perThread * int64_t(max.wordCount()) * 4;
    max.inShared = max.columns && bytes + more <= limit;
    bytes += max.inShared ? more : 0;
  }
  return bytes;
}

/// All loads at once, where they leave registers for the rest; else those of a
/// slot when it is its turn.
bool RowEmitter::loadsAhead() const {
  constexpr int64_t kMaxAhead = 32;
  return 4 * int64_t(leaves.size()) * shape.perThread <= kMaxAhead;
}

unsigned RowEmitter::stageOf(Value value) {
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

Geometry RowEmitter::emit() {
  collect();
  chooseShape();
  int64_t rows = rules.getSpace().rows;
  int64_t blocks = llvm::divideCeilSigned(rows, shape.rowsPerBlock);
  bool loops = !gathered.empty();
  int64_t grid =
      loops ? std::min(blocks, c.chip.multiprocessors * shape.blocks) : blocks;

  OpBuilder outside(c.entry().getTerminator());
  makeSlots(outside);
  for (Operation *op : local) {
    if (shape.warps() == 1)
      break;
    auto reduce = dyn_cast<ReduceOp>(op);
    bool sum = reduce && reduce.getKind() == ReduceKind::Sum;
    if (!sum && rules.extentOf(op->getResult(0), flipOf(op))->col == kTile)
      continue; // within a warp
    // A sum: a row in the order of its partial sums, then those. A maximum: one
    // word a warp, for two rows in turn.
    int64_t bytes =
        sum ? (llvm::divideCeilSigned(shape.vectors, kWarp) + 1) * kPartials * 4
            : 2 * shape.warps() * 4;
    scratch[op] = c.shared.allocate(bytes, c.entry(), loc);
  }
  Device d(outside, loc);
  Value block = d.extend(d.blockId());
  Value firstRow = block;
  if (shape.rowsPerBlock > 1)
    firstRow = d.add(d.mul(block, shape.rowsPerBlock), d.extend(warp));

  if (!loops) {
    if (shape.rowsPerBlock == 1 || rows % shape.rowsPerBlock == 0) {
      OpBuilder body(c.entry().getTerminator());
      emitRow(body, outside, firstRow, Value());
    } else {
      auto ifOp = scf::IfOp::create(outside, loc, d.below(firstRow, rows),
                                    /*withElseRegion=*/false);
      outside.setInsertionPoint(ifOp);
      OpBuilder body(ifOp.thenBlock()->getTerminator());
      emitRow(body, outside, firstRow, Value());
    }
    return {grid, shape.threads * shape.rowsPerBlock, shape.blocks};
  }

  // Block b takes the rows b, b + grid, ...
  SmallVector<Value> initial;
  for (Gathered &max : gathered) {
    Value lowest = MaxEmitter(outside, loc).lowest(max.form);
    if (!max.inShared) {
      int64_t sets = max.columns ? shape.perThread : 1;
      initial.append(sets * max.wordCount(), lowest);
      continue;
    }
    int64_t bytes = shape.threads * shape.perThread * max.wordCount() * 4;
    max.shared = c.shared.allocateDynamic(bytes, c.entry(), loc);
    Value four = d.pack(SmallVector<Value>(4, lowest));
    for (size_t u = 0; u < slots.size(); ++u)
      for (size_t i = 0; i < max.wordCount(); i += 4)
        d.store(d.address(sharedWords(max, u, outside), d.i32(i),
                          outside.getI32Type()),
                four, 16);
  }
  Value low = d.i64(0), one = d.i64(1);
  Value left = arith::SubIOp::create(outside, loc, d.i64(rows - 1), block);
  Value high = d.add(d.div(left, grid), 1);
  auto loop = scf::ForOp::create(outside, loc, low, high, one, initial);
  outside.setInsertionPoint(loop);
  auto take = [&](ValueRange values) {
    size_t next = 0;
    for (Gathered &max : gathered) {
      if (max.inShared)
        continue;
      max.words.assign(max.columns ? shape.perThread : 1, {});
      for (SmallVector<Value> &words : max.words)
        for (size_t i = 0; i < max.wordCount(); ++i)
          words.push_back(values[next++]);
    }
  };
  take(loop.getRegionIterArgs());
  if (initial.empty()) // the builder has yielded nothing
    loop.getBody()->getTerminator()->erase();
  OpBuilder body = OpBuilder::atBlockEnd(loop.getBody());
  Device inner(body, loc);
  Value i = loop.getInductionVar();
  Value row = inner.add(inner.mul(i, grid), block);
  emitRow(body, outside, row, inner.bitAnd(inner.toInt(i, 32), 1));
  SmallVector<Value> yielded;
  for (const Gathered &max : gathered)
    for (const SmallVector<Value> &words : max.words)
      yielded.append(words.begin(), words.end());
  scf::YieldOp::create(body, loc, yielded);
  take(loop.getResults());
  OpBuilder after(c.entry().getTerminator());
  flush(after);
  return {grid, shape.threads, shape.blocks};
}

void RowEmitter::emitRow(OpBuilder &body, OpBuilder &outside, Value row,
                         Value parity) {
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

  MaxEmitter m(body, loc);
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
    for (auto [u, slot] : llvm::enumerate(slots)) {
      for (Gathered &max : gathered) {
        if (stageOf(max.item->value) != stage)
          continue;
        // In shared memory there is room for columns that are none.
        SmallVector<Value> words =
            m.wordsOf(e, max.item->reduction, max.item->flip, slot,
                      max.inShared ? Value() : valid[u]);
        if (max.inShared)
          gatherShared(max, u, words, body);
        else
          m.combine(max.form, max.words[max.columns ? u : 0], words);
      }
    }
    for (const LaunchItem &item : c.launch().items)
      if (!item.reduction && stageOf(item.value) == stage)
        storeItem(item, e, body);
  }
}

void RowEmitter::setRowResult(Operation *reduction, VectorEvaluator &e,
                              Value result, OpBuilder &body) {
  Lanes lanes;
  Value value = reduction->getResult(0);
  if (cast<RankedTensorType>(value.getType()).getElementType().isBF16())
    lanes.pairs.push_back(Device(body, loc).packBF16(result, result));
  else
    lanes.floats.push_back(result);
  e.setLanes(value, flipOf(reduction), slots.front(), lanes);
}

/// Maxima along rows: all of a stage meet at one barrier.
void RowEmitter::reduceMaxima(ArrayRef<Operation *> reductions,
                              VectorEvaluator &e, OpBuilder &body,
                              Value parity) {
  Device d(body, loc);
  MaxEmitter m(body, loc);
  Type i32 = body.getI32Type();
  SmallVector<Value> words;
  for (Operation *op : reductions) {
    MaxForm form = MaxEmitter::formOf(op);
    SmallVector<Value> all;
    for (auto [u, slot] : llvm::enumerate(slots))
      m.combine(form, all, m.wordsOf(e, op, flipOf(op), slot, valid[u]));
    words.push_back(m.acrossWarp(form, m.fold(form, all)));
  }
  if (shape.warps() > 1) {
    SmallVector<Value> rows;
    for (Operation *op : reductions) {
      Value base = scratch[op];
      if (parity)
        base = d.address(base, d.mul(parity, shape.warps()), i32);
      rows.push_back(base);
    }
    auto first = scf::IfOp::create(body, loc, d.equals(lane, 0),
                                   /*withElseRegion=*/false);
    OpBuilder then(first.thenBlock()->getTerminator());
    Device writer(then, loc);
    for (auto [base, word] : llvm::zip_equal(rows, words))
      writer.store(writer.address(base, warp, i32), word, 4);
    d.barrier();
    for (auto [op, base, word] : llvm::zip_equal(reductions, rows, words)) {
      MaxForm form = MaxEmitter::formOf(op);
      // Lanes beyond the last warp read the first one's again.
      Value from = lane;
      if (shape.warps() < kWarp)
        from = d.select(d.below(lane, shape.warps()), lane, d.i32(0));
      word = m.acrossWarp(form, d.load(d.address(base, from, i32), i32, 4));
    }
  }
  for (auto [op, word] : llvm::zip_equal(reductions, words))
    setRowResult(op, e, m.finish(MaxEmitter::formOf(op), word), body);
}

/// Maxima of 128 columns: 16 lanes hold one group.
void RowEmitter::reduceBlocks(Operation *op, VectorEvaluator &e,
                              OpBuilder &body) {
  Device d(body, loc);
  MaxEmitter m(body, loc);
  MaxForm form = MaxEmitter::formOf(op);
  MaxForm folded = MaxEmitter::foldedForm(form);
  for (auto [u, slot] : llvm::enumerate(slots)) {
    Value word = m.fold(form, m.wordsOf(e, op, flipOf(op), slot, valid[u]));
    for (int64_t mask = kTile / kVector / 2; mask >= 1; mask /= 2)
      word = m.combine(folded, word, d.shuffleXor(word, mask));
    Lanes lanes;
    lanes.floats.push_back(m.finish(form, word));
    e.setLanes(op->getResult(0), flipOf(op), slot, lanes);
  }
}

/// A sum in the order of docs/architecture.md: the partial sum of column i is
/// number i mod 256, so that lane l of any warp holds those of 8 * l and on.
void RowEmitter::reduceSum(Operation *op, VectorEvaluator &e, OpBuilder &body) {
  Device d(body, loc);
  Type f32 = body.getF32Type();
  bool flip = flipOf(op);
  auto plus = [&](Value x, Value y) -> Value {
    return arith::AddFOp::create(body, loc, x, y);
  };
  auto elements = [&](size_t u) {
    SmallVector<Value> x(
        e.floatsOf(e.evaluate(op->getOperand(0), flip, slots[u])));
    if (x.size() == 1)
      x.assign(kVector, x[0]);
    // Adding +0 changes no partial sum: they start from +0.
    if (valid[u])
      for (Value &value : x)
        value = d.select(valid[u], value, d.f32(0.0f));
    return x;
  };
  Value total;
  if (shape.warps() == 1) {
    SmallVector<Value> p(kVector, d.f32(0.0f));
    for (size_t u = 0; u < slots.size(); ++u)
      for (auto [sum, x] : llvm::zip_equal(p, elements(u)))
        sum = plus(sum, x);
    for (int64_t mask = kWarp / 2; mask >= 1; mask /= 2)
      for (Value &sum : p)
        sum = plus(sum, d.shuffleXor(sum, mask));
    for (size_t half = kVector / 2; half >= 1; half /= 2)
      for (size_t j = 0; j < half; ++j)
        p[j] = plus(p[j], p[j + half]);
    total = p[0];
  } else {
    int64_t groups = llvm::divideCeilSigned(shape.vectors, kWarp);
    Value base = scratch[op];
    Value partials = d.address(base, d.i32(groups * kPartials), f32);
    for (size_t u = 0; u < slots.size(); ++u) {
      SmallVector<Value> x = elements(u);
      // Group number u * warps + warp of 256 columns, but only where there is
      // one: the last slot may stand for columns that are none.
      Value group = d.add(warp, u * shape.warps());
      auto write = [&](OpBuilder &at) {
        Device w(at, loc);
        Value to = w.address(
            base, w.add(w.mul(group, kPartials), w.mul(lane, kVector)), f32);
        w.store(to, w.pack(ArrayRef(x).take_front(4)), 16);
        w.store(w.address(to, w.i32(4), f32), w.pack(ArrayRef(x).drop_front(4)),
                16);
      };
      if (int64_t(u + 1) * shape.warps() <= groups) {
        write(body);
        continue;
      }
      auto inside = scf::IfOp::create(body, loc, d.below(group, groups),
                                      /*withElseRegion=*/false);
      OpBuilder then(inside.thenBlock()->getTerminator());
      write(then);
    }
    d.barrier();
    for (int64_t j = 0; j < kPartials; j += shape.threads) {
      Value number = d.add(thread, j);
      auto sum = [&](OpBuilder &at) {
        Device w(at, loc);
        Value p = w.f32(0.0f);
        for (int64_t g = 0; g < groups; ++g) {
          Value from = w.address(base, w.add(number, g * kPartials), f32);
          p = arith::AddFOp::create(at, loc, p, w.load(from, f32, 4));
        }
        w.store(w.address(partials, number, f32), p, 4);
      };
      if (j + shape.threads <= kPartials) {
        sum(body);
        continue;
      }
      auto inside = scf::IfOp::create(body, loc, d.below(number, kPartials),
                                      /*withElseRegion=*/false);
      OpBuilder then(inside.thenBlock()->getTerminator());
      sum(then);
    }
    d.barrier();
    SmallVector<Value> p;
    for (int64_t q = 0; q < kPartials; q += kWarp)
      p.push_back(d.load(d.address(partials, d.add(lane, q), f32), f32, 4));
    for (size_t half = p.size() / 2; half >= 1; half /= 2)
      for (size_t j = 0; j < half; ++j)
        p[j] = plus(p[j], p[j + half]);
    total = p[0];
    for (int64_t mask = kWarp / 2; mask >= 1; mask /= 2)
      total = plus(total, d.shuffleXor(total, mask));
  }
  setRowResult(op, e, total, body);
}

void RowEmitter::storeItem(const LaunchItem &item, VectorEvaluator &e,
                           OpBuilder &body) {
  Extent extent = *rules.extentOf(item.value, item.flip);
  Value pointer = c.resultPointer(item.result);
  Device d(body, loc);
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

/// Where a thread gathers the maxima of a slot's columns.
Value RowEmitter::sharedWords(const Gathered &max, size_t slot, OpBuilder &at) {
  Device d(at, loc);
  int64_t count = max.wordCount();
  Value offset = d.mul(d.add(thread, int64_t(slot) * shape.threads), count);
  return d.address(max.shared, offset, at.getI32Type());
}

void RowEmitter::gatherShared(const Gathered &max, size_t slot,
                              ArrayRef<Value> words, OpBuilder &body) {
  Device d(body, loc);
  MaxEmitter m(body, loc);
  Type i32 = body.getI32Type();
  Value base = sharedWords(max, slot, body);
  for (size_t i = 0; i < words.size(); i += 4) {
    Value at = d.address(base, d.i32(i), i32);
    SmallVector<Value> known =
        d.unpack(d.load(at, VectorType::get({4}, i32), 16));
    m.combine(max.form, known, words.slice(i, 4));
    d.store(at, d.pack(known), 16);
  }
}

/// Combines what a block has gathered, neighbouring threads neighbouring
/// columns.
void RowEmitter::flushShared(const Gathered &max, OpBuilder &after) {
  Device d(after, loc);
  Value base = c.reductionPointer(max.item->reduction, after);
  int64_t cols = rules.getSpace().cols;
  Value low = d.i32(0),
        high = d.i32(llvm::divideCeilSigned(cols, shape.threads));
  auto loop = scf::ForOp::create(after, loc, low, high, d.i32(1));
  OpBuilder body(loc.getContext());
  body.setInsertionPoint(loop.getBody()->getTerminator());
  Device inner(body, loc);
  Value col =
      inner.add(inner.mul(loop.getInductionVar(), shape.threads), thread);
  if (cols % shape.threads != 0) {
    auto inside = scf::IfOp::create(body, loc, inner.below(col, cols),
                                    /*withElseRegion=*/false);
    body.setInsertionPoint(inside.thenBlock()->getTerminator());
  }
  Type i32 = body.getI32Type(), i16 = body.getI16Type();
  Value word;
  if (max.form == MaxForm::Pairs)
    word = inner.shiftLeft(
        inner.toInt(inner.load(inner.address(max.shared, col, i16), i16, 2),
                    32),
        16);
  else
    word = inner.load(inner.address(max.shared, col, i32), i32, 4);
  MaxEmitter m(body, loc);
  inner.atomicMax(inner.address(base, col, i32),
                  m.finishBits(MaxEmitter::foldedForm(max.form), word));
}

/// Combines what each thread has gathered over its rows.
void RowEmitter::flush(OpBuilder &after) {
  Device d(after, loc);
  MaxEmitter m(after, loc);
  if (llvm::any_of(gathered, [](const Gathered &max) { return max.inShared; }))
    d.barrier();
  for (Gathered &max : gathered) {
    if (max.inShared) {
      flushShared(max, after);
      continue;
    }
    Value base = c.reductionPointer(max.item->reduction, after);
    Type i32 = after.getI32Type();
    if (!max.columns) {
      Value word = m.acrossWarp(max.form, m.fold(max.form, max.words[0]));
      auto first = scf::IfOp::create(after, loc, d.equals(lane, 0),
                                     /*withElseRegion=*/false);
      OpBuilder then(first.thenBlock()->getTerminator());
      Device(then, loc).atomicMax(
          base, MaxEmitter(then, loc).finishBits(max.form, word));
      continue;
    }
    for (auto [u, slot] : llvm::enumerate(slots)) {
      auto write = [&](OpBuilder &at) {
        Device w(at, loc);
        MaxEmitter wm(at, loc);
        Value to = w.address(base, slot.col, i32);
        for (auto [j, word] :
             llvm::enumerate(wm.columns(max.form, max.words[u])))
          w.atomicMax(w.address(to, w.i32(j), i32),
                      wm.finishBits(max.form, word));
      };
      if (!valid[u]) {
        write(after);
        continue;
      }
      auto inside = scf::IfOp::create(after, loc, valid[u],
                                      /*withElseRegion=*/false);
      OpBuilder then(inside.thenBlock()->getTerminator());
      write(then);
    }
  }
}

Geometry mlir::fp8::emitRowLaunch(const LaunchContext &context) {
  return RowEmitter(context).emit();
}
