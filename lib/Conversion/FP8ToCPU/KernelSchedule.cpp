//===- KernelSchedule.cpp ---------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A reduction is local when its groups lie within a tile of rows; then what
// depends on it follows in the same tile. What depends on any other reduction
// waits for a later nest.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCPU/KernelSchedule.h"

#include "fp8/Conversion/Common/Evaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::fp8;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static int64_t countOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

static bool isSum(Operation *op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && reduce.getKind() == ReduceKind::Sum;
}

namespace {

class Scheduler {
public:
  explicit Scheduler(Block &body) : body(body) {}

  SmallVector<KernelNest> run();

private:
  struct Position {
    unsigned level = 0, stage = 0;
  };

  void collect();
  /// Values that several loops of a tile read and that are worth keeping.
  SmallVector<Value> chooseHeld(ArrayRef<int64_t> factors) const;
  /// The factor at which `value` can be visited with the rows of a tile; 0
  /// where it cannot.
  int64_t factorOf(Value value, ArrayRef<int64_t> factors) const;
  bool chooseTile();
  bool isLocal(Operation *reduction) const;
  /// Whether `value`, visited with dimension `rowDim` at the rows of a tile
  /// (`factor` of them a step; -1: no dimension is), reads local reductions
  /// only at the rows of that tile.
  bool rowsMatch(Value value, int64_t rowDim, int64_t factor) const;
  bool isFlat(Value value, int64_t count) const;
  bool isFlat(const KernelItem &item, int64_t count) const;
  bool allFlat(ArrayRef<KernelItem> items) const;
  void computePositions();
  std::optional<SmallVector<KernelNest>> tiled();
  SmallVector<KernelNest> whole();

  Block &body;
  DenseSet<Operation *> needed;        // by a result; looked up only
  SmallVector<Operation *> reductions; // needed ones, in program order
  SmallVector<KernelItem> items;
  int64_t rows = 0, tile = 0;
  DenseSet<Operation *> local; // looked up only
  bool everythingLocal = false;
  DenseMap<Value, Position> positions;
};

} // namespace

void Scheduler::collect() {
  SmallVector<Value> work =
      llvm::map_to_vector(body.getTerminator()->getOperands(), getStored);
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (op && needed.insert(op).second)
      llvm::append_range(work, op->getOperands());
  }
  for (Operation &op : body.without_terminator()) {
    if (!needed.contains(&op) || !isReduction(&op))
      continue;
    reductions.push_back(&op);
    KernelItem item;
    item.kind = isSum(&op) ? KernelItem::Sum : KernelItem::Max;
    item.value = op.getOperand(0);
    item.reduction = &op;
    items.push_back(item);
  }
  for (auto [number, value] :
       llvm::enumerate(body.getTerminator()->getOperands())) {
    KernelItem item;
    item.value = getStored(value);
    item.result = number;
    items.push_back(item);
  }
}

/// Sets `rows` and `tile` for the largest space of the kernel; false where
/// there is nothing to tile.
bool Scheduler::chooseTile() {
  int64_t largest = 0;
  for (const KernelItem &item : items) {
    ArrayRef<int64_t> shape = shapeOf(item.value);
    if (shape.size() >= 2 && countOf(item.value) > largest) {
      largest = countOf(item.value);
      rows = shape[0];
    }
  }
  tile = 1;
  for (Operation *op : reductions) {
    SmallVector<int64_t> group = reductionGroup(op);
    if (group.size() >= 2 && shapeOf(op->getOperand(0))[0] == rows &&
        group[0] > 1 && group[0] < rows)
      tile = std::max(tile, group[0]);
  }
  return rows > tile;
}

bool Scheduler::isLocal(Operation *reduction) const {
  return everythingLocal || local.contains(reduction);
}

bool Scheduler::rowsMatch(Value value, int64_t rowDim, int64_t factor) const {
  Operation *op = value.getDefiningOp();
  if (!op)
    return true;
  if (isReduction(op)) {
    if (!local.contains(op))
      return true;
    return rowDim == 0 && factor == reductionGroup(op)[0];
  }
  auto through = [&](Value operand, int64_t dim, int64_t operandFactor) {
    if (dim >= 0 && shapeOf(operand)[dim] == 1)
      dim = -1;
    return rowsMatch(operand, dim, operandFactor);
  };
  if (isa<PermuteOp, TransposeOp>(op)) {
    ArrayRef<int64_t> perm = isa<PermuteOp>(op)
                                 ? cast<PermuteOp>(op).getPerm()
                                 : cast<TransposeOp>(op).getPerm();
    return through(op->getOperand(0), rowDim < 0 ? -1 : perm[rowDim], factor);
  }
  if (isa<CastOp, DequantizeOp>(op)) {
    Value data = op->getOperand(0), scale = op->getOperand(1);
    TensorEncodingAttr encoding = getEncoding(
        isa<CastOp>(op) ? op->getResult(0).getType() : data.getType());
    int64_t size = rowDim < 0 ? 0 : encoding.getGroup()[rowDim];
    return through(data, rowDim, factor) &&
           through(scale, size == 0 ? -1 : rowDim, factor * size);
  }
  if (isa<SliceOp, PadOp, ReshapeOp>(op)) {
    Value operand = op->getOperand(0);
    bool kept = rowDim == 0 && !shapeOf(operand).empty() &&
                shapeOf(operand)[0] == shapeOf(value)[0];
    return through(operand, kept ? 0 : -1, factor);
  }
  for (Value operand : op->getOperands())
    if (!through(operand, rowDim, factor))
      return false;
  return true;
}

bool Scheduler::isFlat(Value value, int64_t count) const {
  if (countOf(value) != count && countOf(value) != 1)
    return false;
  Operation *op = value.getDefiningOp();
  if (!op || isa<arith::ConstantOp>(op) || isReduction(op))
    return true;
  if (isa<PermuteOp, TransposeOp, SliceOp, PadOp>(op))
    return false;
  // Parts of the first dimension alone lie together in the tensor of all ranks.
  if (auto random = dyn_cast<RandomOp>(op))
    return llvm::all_of(random.getShardedDims(),
                        [](int64_t dim) { return dim == 0; });
  if (isa<CastOp, DequantizeOp>(op) && countOf(op->getOperand(1)) != 1)
    return false;
  if (isa<BroadcastOp>(op) && countOf(op->getOperand(0)) != 1 &&
      op->getOperand(0).getType() != op->getResult(0).getType())
    return false;
  return llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isFlat(operand, count); });
}

bool Scheduler::isFlat(const KernelItem &item, int64_t count) const {
  // A piece does not lie in the order of its own elements.
  if (item.kind == KernelItem::Store &&
      body.getTerminator()->getOperand(item.result) != item.value)
    return false;
  return countOf(item.value) == count && isFlat(item.value, count) &&
         (!item.reduction || countOf(item.reduction->getResult(0)) == 1);
}

bool Scheduler::allFlat(ArrayRef<KernelItem> list) const {
  return llvm::all_of(list, [&](const KernelItem &item) {
    return isFlat(item, countOf(list.front().value));
  });
}

void Scheduler::computePositions() {
  positions.clear();
  for (Operation &op : body.without_terminator()) {
    Position position;
    for (Value operand : op.getOperands()) {
      Position other = positions.lookup(operand);
      if (std::pair(other.level, other.stage) >
          std::pair(position.level, position.stage))
        position = other;
    }
    if (isReduction(&op))
      position = isLocal(&op) ? Position{position.level, position.stage + 1}
                              : Position{position.level + 1, 0};
    for (Value result : op.getResults())
      positions[result] = position;
  }
}

/// Nests of items grouped by level, each level in one whole nest; a nest whose
/// items are all flat is flat.
SmallVector<KernelNest> Scheduler::whole() {
  everythingLocal = true;
  computePositions();
  KernelNest nest;
  for (KernelItem item : items) {
    item.stage = positions.lookup(item.value).stage;
    nest.items.push_back(item);
  }
  // Stages in nests of their own, each flat where it can be.
  SmallVector<KernelNest> nests;
  unsigned last = 0;
  for (const KernelItem &item : nest.items)
    last = std::max(last, item.stage);
  for (unsigned stage = 0; stage <= last; ++stage) {
    KernelNest part;
    llvm::copy_if(nest.items, std::back_inserter(part.items),
                  [&](const KernelItem &item) { return item.stage == stage; });
    if (part.items.empty())
      continue;
    part.flat = allFlat(part.items);
    nests.push_back(std::move(part));
  }
  return nests;
}

int64_t Scheduler::factorOf(Value value, ArrayRef<int64_t> factors) const {
  ArrayRef<int64_t> shape = shapeOf(value);
  for (int64_t factor : factors)
    if (!shape.empty() && shape[0] == (rows + factor - 1) / factor &&
        rowsMatch(value, 0, factor))
      return factor;
  return 0;
}

/// Whether `value` takes more than a few cycles an element to compute again,
/// from arguments and from reductions.
static bool isExpensive(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || isReduction(op))
    return false;
  if (isa<arith::DivFOp, math::ExpOp, math::LogOp, math::SqrtOp, math::RsqrtOp,
          math::TanhOp, math::ErfOp>(op))
    return true;
  return llvm::any_of(op->getOperands(), isExpensive);
}

/// Whether computing `value` reads `part` other than through a reduction.
static bool reads(Value value, Value part) {
  if (value == part)
    return true;
  Operation *op = value.getDefiningOp();
  return op && !isReduction(op) &&
         llvm::any_of(op->getOperands(),
                      [&](Value operand) { return reads(operand, part); });
}

SmallVector<Value> Scheduler::chooseHeld(ArrayRef<int64_t> factors) const {
  constexpr int64_t kMaxHeldBytes = 256 << 10;
  SetVector<Value> held;
  auto consider = [&](Value value) {
    int64_t factor = factorOf(value, factors);
    if (positions.lookup(value).level != 0 || factor == 0)
      return;
    int64_t perRow = countOf(value) / shapeOf(value)[0];
    // What has one value a row stays in a register.
    if (perRow > 1 && perRow * (tile / factor) * 4 <= kMaxHeldBytes)
      held.insert(value);
  };
  for (Operation &op : body.without_terminator())
    if (isa<ScaleOp>(op) && needed.contains(&op) &&
        positions.lookup(op.getResult(0)).stage > 0)
      consider(op.getResult(0));
  for (Operation *op : reductions) {
    Value value = op->getOperand(0);
    unsigned stage = positions.lookup(value).stage;
    bool again = llvm::any_of(items, [&](const KernelItem &item) {
      Position position = positions.lookup(item.value);
      return position.level == 0 && position.stage > stage &&
             reads(item.value, value);
    });
    if (again && isExpensive(value))
      consider(value);
  }
  return held.takeVector();
}

std::optional<SmallVector<KernelNest>> Scheduler::tiled() {
  SmallVector<int64_t> factors = {1};
  for (Operation *op : reductions) {
    Value operand = op->getOperand(0);
    SmallVector<int64_t> group = reductionGroup(op);
    if (group.size() < 2 || shapeOf(operand)[0] != rows || group[0] == 0 ||
        tile % group[0] != 0 || !rowsMatch(operand, 0, 1))
      continue;
    local.insert(op);
    if (!llvm::is_contained(factors, group[0]))
      factors.push_back(group[0]);
  }
  if (local.empty())
    return std::nullopt;
  computePositions();
  for (Value value : chooseHeld(factors)) {
    KernelItem item;
    item.kind = KernelItem::Hold;
    item.value = value;
    items.push_back(item);
  }

  KernelNest first;
  first.tile = tile;
  first.rows = rows;
  SmallVector<KernelNest> rest;
  for (KernelItem item : items) {
    Position position = positions.lookup(item.value);
    item.stage = position.stage;
    item.local = item.reduction && local.contains(item.reduction);
    int64_t factor = position.level == 0 ? factorOf(item.value, factors) : 0;
    bool fits = factor != 0;
    item.rowFactor = std::max<int64_t>(factor, 1);
    // A sum over rows has its own order, whose partial sums are too many to
    // keep while rows go by; and what a reduction visits are full rows.
    if (item.reduction &&
        (item.rowFactor != 1 || (item.kind == KernelItem::Sum && !item.local)))
      fits = false;
    if (fits) {
      first.items.push_back(item);
      continue;
    }
    if (item.local || !rowsMatch(item.value, -1, 1))
      return std::nullopt;
    // Complete when its nest is.
    item.local = true;
    item.rowFactor = 1;
    if (rest.size() <= position.level)
      rest.resize(position.level + 1);
    rest[position.level].items.push_back(item);
  }
  SmallVector<KernelNest> nests;
  if (!first.items.empty())
    nests.push_back(std::move(first));
  for (KernelNest &nest : rest) {
    if (nest.items.empty())
      continue;
    nest.flat = allFlat(nest.items);
    nests.push_back(std::move(nest));
  }
  return nests;
}

SmallVector<KernelNest> Scheduler::run() {
  collect();
  bool flat = llvm::any_of(
      items, [&](const KernelItem &item) { return countOf(item.value) > 1; });
  // Kernels that one flat pass serves best need no tiles.
  int64_t largest = 1;
  for (const KernelItem &item : items)
    largest = std::max(largest, countOf(item.value));
  for (const KernelItem &item : items)
    if (countOf(item.value) > 1)
      flat &= isFlat(item, largest);
  if (!flat && chooseTile())
    if (std::optional<SmallVector<KernelNest>> nests = tiled())
      return std::move(*nests);
  local.clear();
  llvm::erase_if(items, [](const KernelItem &item) {
    return item.kind == KernelItem::Hold;
  });
  return whole();
}

SmallVector<KernelNest> mlir::fp8::scheduleKernel(Block &body) {
  return Scheduler(body).run();
}
