//===- Launches.cpp ---------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A value's level is the number of completed reductions before it. For each
// level the generic launches come first: they finish what the level before has
// gathered (scales from maxima), and the fast launch reads their results. Where
// a generic launch needs sums or maxima of rows, a fast one before it keeps
// them.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCUDA/Launches.h"

#include "fp8/Conversion/Common/Evaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::fp8;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

int64_t mlir::fp8::getPiecePitch(UpdateSliceOp update) {
  return typeOf(update.getResult()).getShape().back();
}

int64_t mlir::fp8::getPieceOffset(UpdateSliceOp update) {
  int64_t offset = 0;
  for (auto [at, stride] :
       llvm::zip_equal(update.getOffsets(),
                       rowMajorStrides(typeOf(update.getResult()).getShape())))
    offset += at * stride;
  return offset;
}

/// Whether the elements of a piece follow each other in the whole as in itself.
static bool isContiguous(UpdateSliceOp update) {
  ArrayRef<int64_t> part = typeOf(update.getPiece()).getShape(),
                    whole = typeOf(update.getResult()).getShape();
  size_t cut = 0;
  for (auto [dim, size] : llvm::enumerate(whole))
    if (part[dim] != size)
      cut = dim;
  return llvm::all_of(part.take_front(cut),
                      [](int64_t dim) { return dim == 1; });
}

namespace {

class Planner {
public:
  explicit Planner(KernelOp kernel)
      : kernel(kernel), body(kernel.getBody().front()) {}

  KernelLaunches run();

private:
  void collect();
  SmallVector<Space> listSpaces() const;
  int64_t countGeneric() const;
  bool wantsTiles(SpaceRules &rules) const;
  bool plan(Schedule schedule);
  bool keepLocal(Value value, LaunchPlan &launch);
  unsigned levelOf(Value value);
  bool isCompletedLater(Operation *op);
  bool keepsOperands();
  /// Whether a result may hold something else before it is stored.
  bool isFree(unsigned result) {
    std::optional<ArrayRef<int64_t>> inPlace = kernel.getInPlace();
    return (!inPlace || (*inPlace)[result] < 0) && !getUpdate(result);
  }
  /// What makes a result a piece of a larger one, or null.
  UpdateSliceOp getUpdate(unsigned result) {
    return body.getTerminator()
        ->getOperand(result)
        .getDefiningOp<UpdateSliceOp>();
  }
  void placeReductions();
  bool canHold(const LaunchItem &item, unsigned launch, Value reduced) const;

  KernelOp kernel;
  Block &body;
  SetVector<Operation *> needed; // by a result
  SmallVector<Operation *> reductions;
  std::optional<Space> space;
  KernelLaunches result;
  std::map<Operation *, unsigned> levels; // looked up only
};

} // namespace

void Planner::collect() {
  DenseSet<Operation *> seen; // looked up only
  SmallVector<Value> work =
      llvm::map_to_vector(body.getTerminator()->getOperands(), getStored);
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (op && seen.insert(op).second)
      llvm::append_range(work, op->getOperands());
  }
  for (Operation &op : body.without_terminator()) {
    if (!seen.contains(&op))
      continue;
    needed.insert(&op);
    if (isReduction(&op))
      reductions.push_back(&op);
  }
}

/// The spaces of the largest tensors, an operand's first, of those with columns
/// that vectors fit.
SmallVector<Space> Planner::listSpaces() const {
  Value largest;
  auto consider = [&](Value value) {
    if (!largest ||
        typeOf(value).getNumElements() > typeOf(largest).getNumElements())
      largest = value;
  };
  for (BlockArgument argument : body.getArguments())
    if (!argument.use_empty() && !isUpdated(*argument.use_begin()))
      consider(argument);
  for (Operation *op : needed)
    for (Value value : op->getResults())
      // A view of a part is what is visited, not the whole.
      if (isa<SliceOp>(op) && getLeaf(value) &&
          largest == getLeaf(value)->argument)
        largest = value;
      else
        consider(value);
  SmallVector<Space> spaces;
  auto add = [&](Value value) {
    RankedTensorType type = typeOf(value);
    if (type.getRank() == 0 ||
        type.getNumElements() != typeOf(largest).getNumElements())
      return;
    int64_t cols = type.getShape().back();
    if (cols % kVector == 0 &&
        llvm::none_of(spaces, [&](Space space) { return space.cols == cols; }))
      spaces.push_back({type.getNumElements() / cols, cols});
  };
  if (!largest)
    return spaces;
  add(largest);
  for (Operation *op : needed)
    for (Value value : op->getResults())
      add(value);
  return spaces;
}

/// Elements that generic launches visit.
int64_t Planner::countGeneric() const {
  int64_t count = 0;
  for (const LaunchPlan &launch : result.launches)
    if (launch.schedule == Schedule::Generic)
      for (const LaunchItem &item : launch.items)
        count += typeOf(item.value).getNumElements();
  return count;
}

bool Planner::isCompletedLater(Operation *op) {
  if (!isReduction(op))
    return false;
  if (result.rules)
    return result.rules->placeOf(op) != ReductionPlace::Local;
  // Generic launches compute small ones where they are read, if what they
  // combine is not written over.
  return kernel.getInPlace() || !isSmallReduction(op);
}

unsigned Planner::levelOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return 0;
  if (auto it = levels.find(op); it != levels.end())
    return it->second;
  unsigned level = 0;
  for (Value operand : op->getOperands())
    level = std::max(level, levelOf(operand));
  if (isCompletedLater(op))
    ++level;
  levels[op] = level;
  return level;
}

/// Whether a result lies transposed, or a maximum is taken of blocks of rows.
bool Planner::wantsTiles(SpaceRules &rules) const {
  for (Value yielded : body.getTerminator()->getOperands())
    if (Value value = getStored(yielded);
        rules.flipOf(value) == true && rules.extentOf(value, true)->isFull())
      return true;
  return llvm::any_of(reductions, [&](Operation *op) {
    if (rules.placeOf(op) != ReductionPlace::Local)
      return false;
    bool flip = *rules.flipOf(op->getOperand(0));
    return rules.extentOf(op->getResult(0), flip)->row == kTile;
  });
}

/// Whether a fast launch can store a piece: one that lies in one stretch, or
/// columns whose 16-byte pieces stay aligned.
static bool isStoredFast(UpdateSliceOp update, bool isTransposed) {
  Type element = typeOf(update.getPiece()).getElementType();
  if (isa<E5M6Type>(element))
    return getPieceOffset(update) % kVector == 0 && isContiguous(update);
  int64_t width = getElementBits(element) / 8;
  if (getPieceOffset(update) * width % 16 != 0)
    return false;
  return isTransposed ? getPiecePitch(update) * width % 16 == 0
                      : isContiguous(update);
}

/// Whether a fast launch can store `value`, which fits; as a piece with
/// `update`, where that is given.
static bool canStore(SpaceRules &rules, Value value, bool flip,
                     UpdateSliceOp update) {
  Type element = typeOf(value).getElementType();
  bool byte =
      isa<Float8E4M3FNType, Float8E5M2Type>(element) || element.isInteger(8);
  bool half = element.isBF16();
  Extent extent = *rules.extentOf(value, flip);
  bool packed = isa<E5M6Type>(element);
  if (packed && (flip || !extent.isFull()))
    return false;
  if (!byte && !half && !packed && !element.isF32())
    return false;
  if (update && !isStoredFast(update, flip && extent.isFull()))
    return false;
  if (!extent.isFull())
    return !byte && !(half && flip && extent.col == 1);
  if (!flip)
    return true;
  // 16-byte pieces of columns, through shared memory.
  return rules.getSchedule() == Schedule::Tile && !element.isF32() &&
         rules.getSpace().rows * (byte ? 1 : 2) % 16 == 0;
}

/// Whether computing `value` reads `part`, other than through `through`.
static bool reads(Value value, Value part, ArrayRef<Value> through,
                  std::map<Operation *, bool> &known) {
  if (value == part)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || llvm::is_contained(through, value))
    return false;
  if (auto it = known.find(op); it != known.end())
    return it->second;
  bool found = llvm::any_of(op->getOperands(), [&](Value operand) {
    return reads(operand, part, through, known);
  });
  known[op] = found;
  return found;
}
static bool reads(Value value, Value part, ArrayRef<Value> through = {}) {
  std::map<Operation *, bool> known; // looked up only
  return reads(value, part, through, known);
}

/// Has `launch` keep the reductions that blocks complete and `value` is
/// computed from. False where it cannot.
bool Planner::keepLocal(Value value, LaunchPlan &launch) {
  SpaceRules &rules = *result.rules;
  SmallVector<Value> work = {value};
  DenseSet<Value> seen; // looked up only
  while (!work.empty()) {
    Value next = work.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || !rules.dependsOnLocal(next) || !seen.insert(next).second)
      continue;
    if (!isReduction(op)) {
      llvm::append_range(work, op->getOperands());
      continue;
    }
    bool flip = *rules.flipOf(op->getOperand(0));
    if (rules.getSchedule() != Schedule::Row ||
        !typeOf(next).getElementType().isF32() ||
        rules.extentOf(next, flip) != Extent{1, 0})
      return false;
    if (llvm::none_of(launch.items, [&](const LaunchItem &item) {
          return item.value == next;
        }))
      launch.items.push_back({next, nullptr, 0, flip, /*kept=*/true});
  }
  return true;
}

bool Planner::plan(Schedule schedule) {
  result = KernelLaunches();
  levels.clear();
  if (schedule != Schedule::Generic) {
    result.rules = std::make_shared<SpaceRules>(*space, schedule);
    if (schedule == Schedule::Tile && !wantsTiles(*result.rules))
      return false;
    if (schedule == Schedule::Row && space->cols > kMaxRowColumns)
      return false;
  }
  SpaceRules *rules = result.rules.get();
  struct Level {
    LaunchPlan kept;
    SmallVector<LaunchPlan> generic;
    LaunchPlan fast;
  };
  std::map<unsigned, Level> plans;
  bool any = false;
  for (Operation *op : reductions) {
    if (!isCompletedLater(op))
      continue;
    Value x = op->getOperand(0);
    Level &level = plans[levelOf(x)];
    if (rules && rules->placeOf(op) == ReductionPlace::Grid) {
      level.fast.items.push_back({x, op, 0, *rules->flipOf(x)});
      any = true;
      continue;
    }
    if (rules && rules->dependsOnLocal(x) && !keepLocal(x, level.kept))
      return false;
    level.generic.push_back({Schedule::Generic, {{x, op, 0, false}}});
  }
  for (auto [number, yielded] :
       llvm::enumerate(body.getTerminator()->getOperands())) {
    Value value = getStored(yielded);
    Level &level = plans[levelOf(value)];
    bool local = rules && rules->dependsOnLocal(value);
    std::optional<bool> flip = rules ? rules->flipOf(value) : std::nullopt;
    if (flip && canStore(*rules, value, *flip, getUpdate(number)) &&
        (local || rules->extentOf(value, *flip)->isFull())) {
      level.fast.items.push_back({value, nullptr, unsigned(number), *flip});
      any = true;
      continue;
    }
    if (local && !keepLocal(value, level.kept))
      return false;
    // Stores of one shape share a launch.
    LaunchItem item{value, nullptr, unsigned(number), false};
    auto it = llvm::find_if(level.generic, [&](const LaunchPlan &launch) {
      const LaunchItem &first = launch.items.front();
      return !first.reduction &&
             typeOf(first.value).getShape() == typeOf(value).getShape();
    });
    if (it == level.generic.end())
      level.generic.push_back({Schedule::Generic, {item}});
    else
      it->items.push_back(item);
  }
  for (auto &[number, level] : plans) {
    if (!level.kept.items.empty()) {
      level.kept.schedule = schedule;
      result.launches.push_back(std::move(level.kept));
    }
    for (LaunchPlan &launch : level.generic)
      result.launches.push_back(std::move(launch));
    if (level.fast.items.empty())
      continue;
    level.fast.schedule = schedule;
    result.launches.push_back(std::move(level.fast));
  }
  return schedule == Schedule::Generic || (any && keepsOperands());
}

/// Whether no launch reads an operand that an earlier one has written a result
/// over. Generic launches alone do not: reductions come first, and all that is
/// computed from such an operand has its shape, so that one launch stores it.
bool Planner::keepsOperands() {
  std::optional<ArrayRef<int64_t>> inPlace = kernel.getInPlace();
  if (!inPlace)
    return true;
  for (auto [number, launch] : llvm::enumerate(result.launches))
    for (const LaunchItem &item : launch.items) {
      int64_t over = item.reduction || item.kept ? -1 : (*inPlace)[item.result];
      if (over < 0)
        continue;
      for (const LaunchPlan &later :
           ArrayRef(result.launches).drop_front(number + 1))
        for (const LaunchItem &reader : later.items)
          if (reads(reader.value, body.getArgument(over)))
            return false;
    }
  return true;
}

//===----------------------------------------------------------------------===//
// Where reductions lie
//===----------------------------------------------------------------------===//

/// Whether element i of `value` depends on no element of `part` but i.
static bool isPointwise(Value value, Value part) {
  if (value == part || !reads(value, part))
    return true;
  Operation *op = value.getDefiningOp();
  if (!isa<ScaleOp, arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
           arith::MaximumFOp, arith::MinimumFOp, arith::NegFOp, math::AbsFOp,
           math::SqrtOp, math::RsqrtOp>(op))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return isPointwise(operand, part);
  });
}

/// Whether the result that `item` of launch number `launch` stores can hold
/// `reduced` until then.
bool Planner::canHold(const LaunchItem &item, unsigned launch,
                      Value reduced) const {
  if (item.reduction || item.kept ||
      result.launches[launch].schedule != Schedule::Generic ||
      !typeOf(item.value).getElementType().isF32() ||
      typeOf(item.value).getShape() != typeOf(reduced).getShape() ||
      !reads(item.value, reduced) || !isPointwise(item.value, reduced))
    return false;
  // Whoever reads the reduction itself does so before, or in the same thread.
  for (auto [number, other] : llvm::enumerate(result.launches))
    for (const LaunchItem &reader : other.items) {
      if (number < launch && reads(reader.value, reduced))
        return false;
      if (number == launch && !isPointwise(reader.value, reduced))
        return false;
      if (number > launch && reads(reader.value, reduced, {item.value}))
        return false;
    }
  return true;
}

void Planner::placeReductions() {
  unsigned operands = kernel.getNumOperands();
  unsigned workspace = operands + kernel.getNumResults();
  SmallVector<StoredValue> held;
  DenseSet<unsigned> taken; // results; looked up only
  for (auto [number, launch] : llvm::enumerate(result.launches))
    for (const LaunchItem &item : launch.items) {
      if (!item.reduction && !item.kept)
        continue;
      Value reduced = item.kept ? item.value : item.reduction->getResult(0);
      int64_t bytes = typeOf(reduced).getNumElements() * 4;
      StoredValue stored{reduced, workspace, 0, unsigned(number) + 1};
      bool found = false;
      // A result that is the reduction.
      for (auto [i, value] :
           llvm::enumerate(body.getTerminator()->getOperands()))
        if (!found && value == reduced && isFree(i) &&
            typeOf(value).getElementType().isF32() && taken.insert(i).second) {
          stored.argument = operands + i;
          found = true;
          // Nothing else is to be done for it.
          for (LaunchPlan &other : result.launches)
            llvm::erase_if(other.items, [&](const LaunchItem &store) {
              return !store.reduction && !store.kept && store.result == i;
            });
        }
      // A result that is computed from it element by element.
      for (auto [later, other] : llvm::enumerate(result.launches))
        for (const LaunchItem &store : other.items)
          if (!found && !store.reduction && !store.kept &&
              isFree(store.result) && !taken.contains(store.result) &&
              canHold(store, later, reduced)) {
            stored.argument = operands + store.result;
            found = true;
            taken.insert(store.result);
            held.push_back(
                {store.value, stored.argument, 0, unsigned(later) + 1});
          }
      if (!found) {
        stored.offset = result.workspaceBytes;
        result.workspaceBytes += llvm::alignTo(bytes, 256);
      }
      result.stored.push_back(stored);
      bool gathered = launch.schedule != Schedule::Generic && !item.kept;
      if (found && gathered)
        result.fills.push_back({stored.argument, bytes});
    }
  // The workspace as one.
  bool zero = false;
  for (const LaunchPlan &launch : result.launches)
    for (const LaunchItem &item : launch.items)
      zero |= item.reduction && launch.schedule != Schedule::Generic &&
              llvm::any_of(result.stored, [&](const StoredValue &stored) {
                return stored.value == item.reduction->getResult(0) &&
                       stored.argument == workspace;
              });
  if (zero)
    result.fills.push_back({workspace, result.workspaceBytes});
  llvm::append_range(result.stored, held);
}

KernelLaunches Planner::run() {
  collect();
  std::optional<KernelLaunches> best;
  int64_t least = 0;
  for (Space candidate : listSpaces()) {
    space = candidate;
    if (!plan(Schedule::Tile) && !plan(Schedule::Row))
      continue;
    int64_t count = countGeneric();
    if (best && count >= least)
      continue;
    best = result;
    least = count;
  }
  if (best)
    result = std::move(*best);
  else
    plan(Schedule::Generic);
  placeReductions();
  return std::move(result);
}

KernelLaunches mlir::fp8::planLaunches(KernelOp kernel) {
  return Planner(kernel).run();
}

int64_t mlir::fp8::getCUDAWorkspaceBytes(KernelOp kernel) {
  if (kernel.getKind() != KernelKind::Loop)
    return 0;
  return planLaunches(kernel).workspaceBytes;
}
