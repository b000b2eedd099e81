//===- RowRegions.cpp - what can run a few rows at a time -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rules that say how each op works on a part of the rows, and the search for
// the ops that are worth it.
//
//===----------------------------------------------------------------------===//

#include "fp8/Transforms/RowRegions.h"

#include "fp8/Analysis/MaxFlow.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8;

/// Pieces start where a block of a block recipe does, and on a GPU where a tile
/// does.
static constexpr int64_t kBlockRows = 128;
/// A product of a gathered piece should have as many elements on a GPU: as the
/// tiles that all its multiprocessors multiply at a time, 132 of 128 x 128.
/// Many ranks have many blocks, and smaller ones would take as long.
static constexpr int64_t kLeastProduct = 132 * 128 * 128;
/// Ops behind a matmul that are looked at: where what it gives is read much
/// later, the ops in between are not.
static constexpr int kMaxSpan = 2048;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static bool isConstant(Operation *op) {
  return op && op->hasTrait<OpTrait::ConstantLike>();
}

int64_t RowRegion::getPieceRows(int64_t pieces) const {
  int64_t shard = rows / ranks;
  return std::min<int64_t>(
      llvm::alignTo(llvm::divideCeil(shard, pieces), granularity), shard);
}

int64_t RowRegion::countPieces(int64_t pieces) const {
  return llvm::divideCeil(rows / ranks, getPieceRows(pieces));
}

//===----------------------------------------------------------------------===//
// How an op works on a part of the rows
//===----------------------------------------------------------------------===//

/// The part of a scale that goes with `part` of what it scales, by `group`.
static RowPart getScalePart(RowPart part, ArrayRef<int64_t> group) {
  if (part.isWhole() || group[part.dim] == 0)
    return {};
  return {part.dim, part.factor * group[part.dim], part.of};
}

/// How `op` works where it has `part` of operand `number`; nothing where it
/// needs all rows at once, or is no op of a loop and no matmul.
static std::optional<RowSplit> getSplit(Operation *op, unsigned number,
                                        RowPart part) {
  if (op->getNumResults() != 1 || op->getNumRegions() != 0 || part.isWhole())
    return std::nullopt;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type)
    return std::nullopt;
  RowSplit split;
  split.operands.assign(op->getNumOperands(), RowPart());
  split.result = part;
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    // Rows of a, or columns of b.
    if (number > 1 || part.dim != static_cast<int>(number))
      return std::nullopt;
    split.operands[number] = part;
    auto set = [&](MutableOperandRange range, RowPart to) {
      for (OpOperand &operand : range)
        split.operands[operand.getOperandNumber()] = to;
    };
    if (TensorEncodingAttr encoding =
            getEncoding(op->getOperand(number).getType()))
      set(number == 0 ? matmul.getScaleAMutable() : matmul.getScaleBMutable(),
          getScalePart(part, encoding.getGroup()));
    set(matmul.getAccMutable(), part);
    return split;
  }
  if (isa<CastOp, DequantizeOp>(op)) {
    if (number != 0)
      return std::nullopt;
    Value scaled = isa<CastOp>(op) ? op->getResult(0) : op->getOperand(0);
    split.operands[0] = part;
    split.operands[1] =
        getScalePart(part, getEncoding(scaled.getType()).getGroup());
    return split;
  }
  if (auto amax = dyn_cast<AmaxOp>(op)) {
    split.operands[0] = part;
    split.result = getScalePart(part, amax.getGroup());
    split.combines = split.result.isWhole();
    return split;
  }
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    split.operands[0] = part;
    if (!llvm::is_contained(reduce.getAxes(), part.dim))
      return split;
    split.combines = reduce.getKind() == ReduceKind::Max;
    split.result = {};
    return split.combines ? std::optional(split) : std::nullopt;
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    split.operands[0] = part;
    split.result.dim =
        llvm::find(transpose.getPerm(), part.dim) - transpose.getPerm().begin();
    return split;
  }
  if (isa<BroadcastOp>(op)) {
    split.operands[0] = part;
    return split;
  }
  if (!isa<ScaleOp>(op) && !OpTrait::hasElementwiseMappableTraits(op))
    return std::nullopt;
  // The condition of a select may be one for all.
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    auto shaped = dyn_cast<RankedTensorType>(operand.getType());
    if (shaped && shaped.getShape() == type.getShape())
      split.operands[index] = part;
    else if (isa<ShapedType>(operand.getType()))
      return std::nullopt;
  }
  return split;
}

/// How `slice` works where it is one rank's block of what is gathered, and
/// `part` of it is read; nothing where it is not.
static std::optional<RowSplit> getBlockSplit(SliceOp slice, RowPart part) {
  auto gather = slice.getX().getDefiningOp<AllGatherOp>();
  if (!gather || part.dim != static_cast<int64_t>(gather.getDim()) ||
      part.of != RowPart::Of::Region)
    return std::nullopt;
  ArrayRef<int64_t> shard = shapeOf(gather.getX());
  if (shapeOf(slice.getResult()) != shard)
    return std::nullopt;
  for (auto [index, offset] : llvm::enumerate(slice.getOffsets()))
    if (static_cast<int>(index) == part.dim ? offset % shard[index] != 0
                                            : offset != 0)
      return std::nullopt;
  RowPart blocks = part;
  blocks.of = RowPart::Of::Blocks;
  return RowSplit{{blocks}, part, false};
}

//===----------------------------------------------------------------------===//
// Finding regions
//===----------------------------------------------------------------------===//

namespace {

/// Finds the region that one matmul belongs to.
class RegionFinder {
public:
  /// `dim`: the dimension of the matmul's result that is cut; `gathers`: those
  /// that may be in the region. With them one must be.
  RegionFinder(Block &block, const DenseSet<Operation *> &taken, int dim,
               Gathers gathers)
      : block(block), taken(taken), dim(dim), gathers(gathers) {}

  std::optional<RowRegion> find(MatmulOp matmul, const Target &target);

private:
  bool isHere(Operation *op) const { return op && op->getBlock() == &block; }
  /// The part of `value` that the ops found so far make, or nothing.
  std::optional<RowPart> partOf(Value value) const {
    auto it = found.find(value.getDefiningOp());
    return it == found.end() || it->second.combines
               ? std::nullopt
               : std::optional(it->second.result);
  }
  std::optional<RowSplit> splitOf(Operation *op) const;
  /// Adds matmuls that `value` comes from by ops of its shape to `seeds`.
  bool addSeeds(Value value, int64_t elements);
  /// Follows the seeds as far as ops are independent by rows. True where that
  /// has found another seed.
  bool follow();
  void cut();
  void takeInputs();
  std::optional<RowSplit> getInputSplit(Operation *op) const;
  bool addGather(AllGatherOp gather, const RowSplit &split,
                 RowRegion &region) const;
  std::optional<RowRegion> build(const Target &target);

  Block &block;
  const DenseSet<Operation *> &taken; ///< looked up only
  const int dim;
  const Gathers gathers;
  int64_t rows = 0;
  llvm::SetVector<Operation *> seeds;
  llvm::MapVector<Operation *, RowSplit> found;
  DenseSet<Operation *> behind; ///< not found, reads what is; looked up only
};

} // namespace

/// How an op that reads what was found works on its rows.
std::optional<RowSplit> RegionFinder::splitOf(Operation *op) const {
  std::optional<RowSplit> split;
  for (OpOperand &operand : op->getOpOperands()) {
    std::optional<RowPart> part = partOf(operand.get());
    if (!part)
      continue;
    if (!split)
      split = getSplit(op, operand.getOperandNumber(), *part);
    if (!split || split->operands[operand.getOperandNumber()] != *part)
      return std::nullopt;
  }
  return split;
}

bool RegionFinder::addSeeds(Value value, int64_t elements) {
  bool added = false;
  SmallVector<Value> work = {value};
  DenseSet<Operation *> seen; // looked up only
  while (!work.empty()) {
    Value current = work.pop_back_val();
    Operation *op = current.getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(current.getType());
    if (!isHere(op) || !type || type.getNumElements() != elements ||
        behind.contains(op) || found.contains(op) || taken.contains(op) ||
        !seen.insert(op).second)
      continue;
    if (isa<MatmulOp>(op)) {
      if (type.getDimSize(dim) == rows)
        added |= seeds.insert(op);
    } else if (OpTrait::hasElementwiseMappableTraits(op) && !isConstant(op)) {
      llvm::append_range(work, op->getOperands());
    }
  }
  return added;
}

bool RegionFinder::follow() {
  found.clear();
  behind.clear();
  bool added = false;
  // Behind the last reader of what is found there is nothing more to find.
  Operation *first = seeds[0], *last = seeds[0];
  for (Operation *seed : seeds)
    if (seed->isBeforeInBlock(first))
      first = seed;
    else if (last->isBeforeInBlock(seed))
      last = seed;
  auto add = [&](Operation *op, const RowSplit &split) {
    found[op] = split;
    for (Operation *reader : op->getUsers())
      if (Operation *user = block.findAncestorOpInBlock(*reader);
          user && user != block.getTerminator() && last->isBeforeInBlock(user))
        last = user;
  };
  int span = 0;
  for (Operation &op : llvm::make_range(first->getIterator(),
                                        block.getTerminator()->getIterator())) {
    if (last->isBeforeInBlock(&op) || ++span > kMaxSpan)
      break;
    if (seeds.contains(&op)) {
      std::optional<RowSplit> split = getSplit(&op, dim, {dim, 1});
      Value acc = cast<MatmulOp>(op).getAcc();
      bool isBehind = llvm::any_of(op.getOperands(), [&](Value operand) {
        Operation *producer = operand.getDefiningOp();
        return (found.contains(producer) &&
                !(gathers != Gathers::None && operand == acc)) ||
               behind.contains(producer);
      });
      if (!isBehind) {
        add(&op, *split);
        continue;
      }
      // It needs what another seed gives: a region of its own.
      seeds.remove(&op);
    }
    bool reads = false, isBehind = false;
    for (Value operand : op.getOperands()) {
      Operation *producer = operand.getDefiningOp();
      reads |= found.contains(producer);
      isBehind |= behind.contains(producer) ||
                  (found.contains(producer) && found[producer].combines);
    }
    if (!reads && !isBehind)
      continue;
    // A sum of products, of which each is of one rank's block.
    if (auto matmul = dyn_cast<MatmulOp>(op);
        gathers != Gathers::None && matmul && !isBehind &&
        !taken.contains(&op) &&
        seeds.contains(matmul.getAcc() ? matmul.getAcc().getDefiningOp()
                                       : nullptr) &&
        !found.contains(matmul.getA().getDefiningOp()) &&
        !found.contains(matmul.getB().getDefiningOp())) {
      added |= seeds.insert(matmul);
      add(matmul, *getSplit(matmul, dim, {dim, 1}));
      continue;
    }
    // A matmul ends a region: what goes into one is often smaller than what
    // comes out.
    std::optional<RowSplit> split;
    if (!isBehind && !isa<MatmulOp>(op) && !taken.contains(&op))
      split = splitOf(&op);
    if (!split) {
      behind.insert(&op);
      continue;
    }
    for (auto [number, part] : llvm::enumerate(split->operands))
      if (Value operand = op.getOperand(number); !part.isWhole())
        added |= addSeeds(
            operand, cast<RankedTensorType>(seeds[0]->getResult(0).getType())
                         .getNumElements());
    add(&op, *split);
  }
  // Seeds so far apart are no region.
  if (span > kMaxSpan) {
    seeds.remove_if([&](Operation *seed) { return !found.contains(seed); });
    return false;
  }
  return added;
}

/// Keeps of what was found the ops up to the results of the fewest bytes, as
/// many as there are: a cast is transposed where it is made. Maxima over the
/// rows are taken where what they are of is made: they cost next to nothing and
/// save reading it.
void RegionFinder::cut() {
  DenseMap<Operation *, int> nodeOf; // looked up only
  int next = 2;
  for (auto &[op, split] : found)
    nodeOf[op] = next, next += 2;
  MaxFlow flow(next);
  constexpr int kSource = 0, kSink = 1;
  for (auto &[op, split] : found) {
    int node = nodeOf[op], result = node + 1;
    if (seeds.contains(op))
      flow.addArc(kSource, node, MaxFlow::kInfinite);
    for (Value operand : op->getOperands())
      if (auto it = nodeOf.find(operand.getDefiningOp()); it != nodeOf.end())
        flow.addArc(node, it->second, MaxFlow::kInfinite);
    flow.addArc(node, result, getByteSize(op->getResult(0).getType()));
    bool isReadOutside = split.combines;
    for (Operation *user : op->getUsers())
      if (auto it = nodeOf.find(user); it != nodeOf.end())
        flow.addArc(result, it->second, MaxFlow::kInfinite);
      else
        isReadOutside = true;
    if (isReadOutside)
      flow.addArc(result, kSink, MaxFlow::kInfinite);
  }
  flow.run(kSource, kSink);
  std::vector<bool> outside = flow.getSinkSide(kSink);
  llvm::MapVector<Operation *, RowSplit> kept;
  for (auto &[op, split] : found)
    if (!outside[nodeOf[op]] ||
        (split.combines && kept.contains(op->getOperand(0).getDefiningOp())))
      kept[op] = split;
  found = std::move(kept);
}

/// Takes what only the region reads of what goes into it: then its inputs need
/// not be whole either.
void RegionFinder::takeInputs() {
  SmallVector<Operation *> ops, work;
  auto addOperands = [&](Operation *op) {
    ops.push_back(op);
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp(); isHere(producer))
        work.push_back(producer);
  };
  for (auto &[op, split] : found)
    addOperands(op);
  while (!work.empty()) {
    // Looked at again for each of its readers that is taken.
    Operation *op = work.pop_back_val();
    if (found.contains(op) || op->getNumResults() != 1 || taken.contains(op) ||
        isa<MatmulOp>(op) || isConstant(op))
      continue;
    if (std::optional<RowSplit> split = getInputSplit(op)) {
      found[op] = *split;
      addOperands(op);
    }
  }
  llvm::sort(ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  llvm::MapVector<Operation *, RowSplit> all;
  for (Operation *op : ops)
    all[op] = found[op];
  found = std::move(all);
}

/// How `op` works on the part of its result that the region reads; nothing
/// where something else reads it too.
std::optional<RowSplit> RegionFinder::getInputSplit(Operation *op) const {
  std::optional<RowPart> part;
  for (OpOperand &use : op->getResult(0).getUses()) {
    auto user = found.find(use.getOwner());
    if (user == found.end())
      return std::nullopt;
    RowPart read = user->second.operands[use.getOperandNumber()];
    if (read.isWhole() || (part && *part != read))
      return std::nullopt;
    part = read;
  }
  if (!part)
    return std::nullopt;
  if (gathers != Gathers::None) {
    if (auto gather = dyn_cast<AllGatherOp>(op)) {
      if (gathers == Gathers::Marked && !op->hasAttr(kPiecesAttr))
        return std::nullopt;
      RowPart own = *part;
      if (part->dim == static_cast<int64_t>(gather.getDim())) {
        if (part->of == RowPart::Of::Shard)
          return std::nullopt; // Gathered along two axes.
        own.of = part->of == RowPart::Of::Blocks ? RowPart::Of::Region
                                                 : RowPart::Of::Shard;
      }
      return RowSplit{{own}, *part, false};
    }
    if (auto permute = dyn_cast<PermuteOp>(op)) {
      RowPart own = *part;
      own.dim = permute.getPerm()[part->dim];
      return RowSplit{{own}, *part, false};
    }
    if (auto slice = dyn_cast<SliceOp>(op))
      return getBlockSplit(slice, *part);
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op);
      broadcast && shapeOf(broadcast.getX())[part->dim] == 1)
    return RowSplit{{RowPart()}, *part, false};
  auto type = op->getNumOperands() == 0
                  ? RankedTensorType()
                  : dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  // The part of operand 0 that gives this part of the result.
  for (int dim = 0, rank = type ? type.getRank() : 0; dim < rank; ++dim) {
    int64_t factor = part->factor;
    if (auto amax = dyn_cast<AmaxOp>(op))
      factor /= std::max<int64_t>(amax.getGroup()[dim], 1);
    std::optional<RowSplit> split =
        factor < 1 ? std::nullopt : getSplit(op, 0, {dim, factor, part->of});
    if (split && !split->combines && split->result == *part)
      return split;
  }
  return std::nullopt;
}

/// Adds what `gather` says about `region`. False where it cannot be in it.
bool RegionFinder::addGather(AllGatherOp gather, const RowSplit &split,
                             RowRegion &region) const {
  region.gathers.push_back(gather);
  region.gatheredBytes += getByteSize(gather.getResult().getType());
  RowPart own = split.operands[0];
  // A part of other than the first dimension is no stretch of memory, unless it
  // is made by itself.
  if (own.dim != 0 && !found.contains(gather.getX().getDefiningOp()))
    return false;
  if (own.of != RowPart::Of::Shard)
    return true;
  // Each rank's rows are read apart, which one scale for all does not allow.
  TensorEncodingAttr encoding = getEncoding(gather.getResult().getType());
  if (encoding && encoding.isScaled() && encoding.getGroup()[own.dim] == 0)
    return false;
  int64_t ranks = shapeOf(gather.getResult())[own.dim] /
                  std::max<int64_t>(shapeOf(gather.getX())[own.dim], 1);
  if (region.ranks != 1 && region.ranks != ranks)
    return false;
  region.ranks = ranks;
  return true;
}

std::optional<RowRegion> RegionFinder::build(const Target &target) {
  RowRegion region;
  region.dim = dim;
  region.rows = rows;
  region.granularity = target.chip.empty() ? 1 : kBlockRows;
  region.seeds.assign(seeds.begin(), seeds.end());
  llvm::sort(region.seeds,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (auto &[op, split] : found) {
    if (seeds.contains(op))
      region.seedBytes += getByteSize(op->getResult(0).getType());
    bool isReadOutside = split.combines;
    for (Operation *user : op->getUsers())
      isReadOutside |= !found.contains(user);
    if (isReadOutside) {
      region.results.push_back(op->getResult(0));
      region.resultBytes += getByteSize(op->getResult(0).getType());
    }
    auto consider = [&](Value value, RowPart part) {
      if (part.isWhole())
        return true;
      region.granularity = std::max(region.granularity, part.factor);
      TensorEncodingAttr encoding = getEncoding(value.getType());
      if (encoding && encoding.isScaled())
        region.granularity =
            std::max(region.granularity, encoding.getGroup()[part.dim]);
      // What has other bytes than its shape says cannot be cut by its shape.
      return !encoding || encoding.getBounds().empty();
    };
    if (!consider(op->getResult(0), split.result))
      return std::nullopt;
    if (auto gather = dyn_cast<AllGatherOp>(op);
        gather && !addGather(gather, split, region))
      return std::nullopt;
    for (auto [operand, part] :
         llvm::zip_equal(op->getOperands(), split.operands)) {
      if (!consider(operand, part))
        return std::nullopt;
      // A part of a tensor with one scale for all rows has the scale of more
      // than it.
      TensorEncodingAttr encoding = getEncoding(operand.getType());
      if (!part.isWhole() && !found.contains(operand.getDefiningOp()) &&
          encoding && encoding.isScaled() && encoding.getGroup()[part.dim] == 0)
        return std::nullopt;
    }
  }
  if (gathers != Gathers::None && region.gathers.empty())
    return std::nullopt;
  if (!region.gathers.empty()) {
    if (rows % region.ranks != 0 ||
        (region.ranks > 1 && rows / region.ranks % region.granularity != 0))
      return std::nullopt;
    int64_t others = shapeOf(region.seeds[0]->getResult(0))[1 - dim];
    if (!target.chip.empty())
      region.mostPieces = std::clamp<int64_t>(
          rows / region.ranks * others / kLeastProduct, 1, kMostPieces);
  }
  region.ops = std::move(found);
  return region;
}

std::optional<RowRegion> RegionFinder::find(MatmulOp matmul,
                                            const Target &target) {
  rows = shapeOf(matmul.getResult())[dim];
  seeds.insert(matmul);
  while (follow())
    ;
  cut();
  takeInputs();
  std::optional<RowRegion> region = build(target);
  if (!region ||
      (gathers != Gathers::None && region->countPieces(kMostPieces) == 1))
    return std::nullopt;
  // What is not whole any more; of a product by columns, what goes in.
  int64_t bytes = region->gatheredBytes + (dim == 0 ? region->seedBytes : 0);
  return region->resultBytes < bytes ? region : std::nullopt;
}

std::vector<RowRegion>
mlir::fp8::findRowRegions(Block &block, const Target &target, Gathers gathers) {
  std::vector<RowRegion> regions;
  DenseSet<Operation *> taken; // looked up only
  if (llvm::none_of(block.getOps<AllGatherOp>(), [&](AllGatherOp gather) {
        return gathers == Gathers::All || gather->hasAttr(kPiecesAttr);
      }))
    gathers = Gathers::None;
  for (MatmulOp matmul : block.getOps<MatmulOp>()) {
    if (taken.contains(matmul))
      continue;
    std::optional<RowRegion> region;
    for (int dim = 0; gathers != Gathers::None && !region && dim < 2; ++dim)
      region = RegionFinder(block, taken, dim, gathers).find(matmul, target);
    if (!region)
      region = RegionFinder(block, taken, /*dim=*/0, Gathers::None)
                   .find(matmul, target);
    if (!region)
      continue;
    for (auto &[op, split] : region->ops)
      taken.insert(op);
    regions.push_back(std::move(*region));
  }
  return regions;
}
