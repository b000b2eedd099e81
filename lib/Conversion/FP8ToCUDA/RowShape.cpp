//===- RowShape.cpp - how rows are spread over threads ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The launch geometry of the row schedule: what was measured for such a launch
// (Tuned/), else a rule that counts registers and shared memory.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/Evaluator.h"
#include "fp8/Conversion/FP8ToCUDA/RowEmitter.h"

using namespace mlir;
using namespace mlir::fp8;

/// More warps of a multiprocessor do not make loads faster.
static constexpr int64_t kMaxWarps = 48;
/// Threads of a block.
static constexpr int64_t kMaxThreads = 1024;
/// Bytes of shared memory for what is small: maxima along rows, and what the
/// system takes.
static constexpr int64_t kSmallShared = 8 << 10;

/// Reductions and leaves that the launch's items need.
void RowEmitter::collect() {
  c.collectNeeded(rules, leaves, local);
  for (const LaunchItem &item : c.launch().items) {
    if (!item.reduction)
      continue;
    Extent group = *rules.extentOf(item.reduction->getResult(0), item.flip);
    gathered.push_back(
        {&item, MaxEmitter::formOf(item.reduction), group == Extent{0, 1}});
  }
}

RowWork RowEmitter::workOf() const {
  RowWork work;
  work.cols = rules.getSpace().cols;
  for (Value leaf : leaves)
    work.read += vectorBytes(leaf) / kVector;
  for (const Gathered &max : gathered)
    if (max.columns)
      work.maxima += max.form == MaxForm::Pairs ? 2 : 4;
  for (const LaunchItem &item : c.launch().items)
    work.held += !item.reduction && rules.dependsOnLocal(item.value) &&
                 rules.extentOf(item.value, item.flip)->isFull();
  return work;
}

/// Whether a block can take a row with so many vectors a thread.
bool RowEmitter::setThreads(int64_t perThread) {
  shape.perThread = perThread;
  shape.threads = int64_t(
      llvm::alignTo(llvm::divideCeilSigned(shape.vectors, perThread), kWarp));
  return shape.threads <= kMaxThreads;
}

/// A warp takes a short row; a block takes a longer one, with as many vectors a
/// thread as keep several loads in flight and the registers of half the threads
/// that a multiprocessor could hold.
void RowEmitter::chooseShape() {
  shape.vectors = rules.getSpace().cols / kVector;
  if (shape.vectors <= 4 * kWarp && gathered.empty()) {
    shape.threads = kWarp;
    shape.perThread = llvm::divideCeilSigned(shape.vectors, kWarp);
    shape.rowsPerBlock = 8;
  } else {
    if (std::optional<RowGeometry> tuned = c.geometries.find(workOf()))
      if (follow(*tuned))
        return;
    int64_t perThread = 1;
    setThreads(1);
    while (shape.threads > 512 || (perThread == 1 && shape.vectors >= 512))
      setThreads(perThread *= 2);
    if (perThread > 4 && !setThreads(4))
      setThreads(perThread);
    chooseAhead();
  }
  if (shape.ahead) {
    placeGathered(c.chip.sharedBytes);
    return;
  }
  int64_t shared = placeGathered(c.chip.sharedBytes / 2 - otherShared());
  int64_t block = shape.threads * shape.rowsPerBlock;
  int64_t most = std::min({kMaxWarps * kWarp / block, c.chip.maxThreads / block,
                           c.chip.sharedBytes / (shared + otherShared())});
  shape.blocks = std::clamp<int64_t>(
      c.chip.registers / (block * int64_t(llvm::alignTo(registersOf(), 8))), 1,
      std::max<int64_t>(most, 1));
}

/// Bytes that a sum along a row goes through, where a block takes it.
int64_t RowEmitter::sumBytes() const {
  constexpr int64_t kPartials = 256;
  return (llvm::divideCeilSigned(shape.vectors, kWarp) + 1) * kPartials * 4;
}

/// Shared memory of a block beside the maxima over columns and the rows that
/// are on their way.
int64_t RowEmitter::otherShared() const {
  bool sums = llvm::any_of(local, [](Operation *op) {
    auto reduce = dyn_cast<ReduceOp>(op);
    return reduce && reduce.getKind() == ReduceKind::Sum;
  });
  return kSmallShared + (sums && shape.warps() > 1 ? sumBytes() : 0);
}

/// An estimate of the registers of a thread: what it holds of each vector.
int64_t RowEmitter::registersOf() const {
  int64_t columnSets = 0, held = workOf().held;
  for (const Gathered &max : gathered)
    if (max.columns && !max.inShared)
      columnSets += max.form == MaxForm::Pairs ? 1 : 2;
  // What is read leaves the registers as what is held enters them.
  int64_t read = leaves.size();
  int64_t vectors = loadsAhead()
                        ? shape.perThread * (std::max(read, held) + columnSets)
                        : shape.perThread * (held + columnSets) + read;
  return 28 + 4 * vectors;
}

/// Bytes of the rows that are on their way.
int64_t RowEmitter::copiedBytes() const {
  int64_t bytes = 0;
  for (Value leaf : leaves)
    bytes += vectorBytes(leaf);
  return shape.ahead * shape.perThread * shape.threads * bytes;
}

/// Rows can be read ahead where a block takes many of them, and all that is
/// read lies as the space does.
bool RowEmitter::canCopyAhead() const {
  constexpr int64_t kLeastRows = 4;
  return !leaves.empty() &&
         rules.getSpace().rows >= kLeastRows * c.chip.multiprocessors &&
         llvm::all_of(leaves, [&](Value leaf) {
           // Copies go in pieces of 8 and 16 bytes: no 12 of E5M6.
           return !*rules.flipOf(leaf) && vectorBytes(leaf) % 8 == 0;
         });
}

/// Whether so many blocks have the shared memory for rows on their way, and for
/// all maxima over columns.
bool RowEmitter::fitsAhead(int64_t blocks) const {
  int64_t bytes = copiedBytes() +
                  shape.perThread * shape.threads * kVector * workOf().maxima;
  return blocks * (bytes + otherShared()) <= c.chip.sharedBytes;
}

/// Reading rows ahead keeps memory and arithmetic busy at once, which blocks
/// that wait for the maxima of their rows otherwise do only if there are many.
/// As maxima over columns cost atomics of each block, there are as few blocks,
/// of as many threads, as keep enough bytes on their way and enough warps.
void RowEmitter::chooseAhead() {
  constexpr int64_t kBytesOnTheWay = 32 << 10, kWarps = 24, kMostBlocks = 24;
  if (gathered.empty() || !canCopyAhead())
    return;
  RowShape before = shape;
  int64_t perThread = shape.vectors >= 512 ? 2 : 1;
  while (!setThreads(perThread))
    perThread *= 2;
  shape.ahead = 1;
  if (2 * copiedBytes() <= kBytesOnTheWay)
    shape.ahead = 2;
  shape.blocks = std::max(llvm::divideCeilSigned(kBytesOnTheWay, copiedBytes()),
                          llvm::divideCeilSigned(kWarps, shape.warps()));
  shape.blocks = std::min(shape.blocks, kMostBlocks);
  while (shape.blocks > 1 && !fitsAhead(shape.blocks))
    --shape.blocks;
  if (!fitsAhead(shape.blocks))
    shape = before;
}

/// Takes a given geometry; false where this launch cannot have it.
bool RowEmitter::follow(const RowGeometry &geometry) {
  RowShape rule = shape;
  shape.ahead = geometry.ahead;
  if (geometry.vectors > 0 && geometry.blocks > 0 &&
      setThreads(geometry.vectors) &&
      geometry.blocks * shape.threads <= c.chip.maxThreads &&
      (!shape.ahead || (canCopyAhead() && fitsAhead(geometry.blocks)))) {
    int64_t limit = c.chip.sharedBytes / geometry.blocks - otherShared();
    placeGathered(limit - copiedBytes());
    shape.blocks = geometry.blocks;
    return true;
  }
  shape = rule;
  return false;
}

/// Maxima over columns go to shared memory as far as a block has `limit` bytes
/// of it. Returns the bytes of a block.
int64_t RowEmitter::placeGathered(int64_t limit) {
  int64_t bytes = 0;
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
  return !shape.ahead &&
         4 * int64_t(leaves.size()) * shape.perThread <= kMaxAhead;
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
