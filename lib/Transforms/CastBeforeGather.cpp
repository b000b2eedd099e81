//===- CastBeforeGather.cpp - fp8-cast-before-gather ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns the cast of a gathered tensor into the gather of a cast shard, where
// that gives the same bits.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/ValueNames.h"
#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Transforms/Passes.h"
#include "fp8/Transforms/Residuals.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8CASTBEFOREGATHERPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// Rewrites the readers of one gather.
class GatherRewriter {
public:
  explicit GatherRewriter(AllGatherOp gather)
      : gather(gather), builder(gather->getContext()), dim(gather.getDim()) {}

  /// True where every reader is a maximum or a cast that gives the same bits on
  /// the shards.
  bool canRewrite();
  void rewrite();

private:
  /// Whether groups of this size along the gathered dimension either are in one
  /// shard, or cover all of them.
  bool fits(ArrayRef<int64_t> group) {
    int64_t shard = getShard().getDimSize(dim);
    return group[dim] == 0 || shard % group[dim] == 0;
  }
  RankedTensorType getShard() {
    return cast<RankedTensorType>(gather.getX().getType());
  }
  AllGatherOp gatherOf(Value shard, Type type, Location loc) {
    return AllGatherOp::create(builder, loc, type, shard, gather.getAxis(),
                               dim);
  }
  void rewriteMaximum(AmaxOp amax);
  void rewriteCast(CastOp cast);

  AllGatherOp gather;
  OpBuilder builder;
  int64_t dim;
  /// Of a scale of the whole: that of the shard.
  DenseMap<Value, Value> shardScales; // looked up only
};

} // namespace

/// Whether `scale` is taken from the maxima of `gather` in groups of a size
/// above 1 along no rank, or is the same number for every rank.
static bool isScaleOf(Value scale, AllGatherOp gather) {
  auto op = scale.getDefiningOp<ScaleOp>();
  auto amax = op ? op.getAmax().getDefiningOp<AmaxOp>() : AmaxOp();
  return amax && amax.getX() == gather.getResult();
}

bool GatherRewriter::canRewrite() {
  if (gather.getResult().use_empty())
    return false;
  return llvm::all_of(gather.getResult().getUses(), [&](OpOperand &use) {
    if (auto amax = dyn_cast<AmaxOp>(use.getOwner()))
      return fits(amax.getGroup());
    auto cast = dyn_cast<CastOp>(use.getOwner());
    if (!cast || use.getOperandNumber() != 0)
      return false;
    ArrayRef<int64_t> group =
        getEncoding(cast.getResult().getType()).getGroup();
    // A scale that is another for each part of the gathered dimension must be
    // one that the shards know.
    return fits(group) &&
           (group[dim] == 0 || isScaleOf(cast.getScale(), gather));
  });
}

/// `reader`, or the first op before it in its block that reads `scale`.
static Operation *firstCastBefore(Operation *reader, ScaleOp scale) {
  for (Operation *user : scale->getUsers())
    if (user->getBlock() == reader->getBlock() && user->isBeforeInBlock(reader))
      reader = user;
  return reader;
}

/// Maxima within shards are gathered, those over shards reduced.
void GatherRewriter::rewriteMaximum(AmaxOp amax) {
  builder.setInsertionPoint(amax);
  auto type = cast<RankedTensorType>(amax.getResult().getType());
  bool isWhole = amax.getGroup()[dim] == 0;
  auto shardType = RankedTensorType::get(
      getScaleShape(getShard().getShape(), amax.getGroup()),
      type.getElementType());
  auto part = AmaxOp::create(builder, getDerivedLocation(amax, ".shard"),
                             shardType, gather.getX(), amax.getGroup());
  Value whole;
  if (isWhole) {
    whole = AllReduceOp::create(builder, amax.getLoc(), type, ReduceKind::Max,
                                part.getResult(), gather.getAxis(), TypeAttr());
  } else {
    // Each scale of these maxima is one of the shard's, gathered.
    for (Operation *user : llvm::make_early_inc_range(amax->getUsers())) {
      auto scale = dyn_cast<ScaleOp>(user);
      if (!scale)
        continue;
      builder.setInsertionPoint(scale);
      IRMapping mapping;
      mapping.map(scale.getAmax(), part.getResult());
      Operation *shardScale = builder.clone(*scale, mapping);
      shardScale->getResult(0).setType(shardType);
      shardScale->setLoc(getDerivedLocation(scale, ".shard"));
      // Gathered where it is read, which may be backward alone.
      Operation *first = nullptr;
      bool inForward = false;
      for (Operation *reader : scale->getUsers()) {
        if (isa<CastOp>(reader) && reader->getOperand(0) == gather.getResult())
          continue; // Casts the shard instead.
        inForward |= reader->getBlock() == scale->getBlock();
        if (!first || (reader->getBlock() == first->getBlock() &&
                       reader->isBeforeInBlock(first)))
          first = reader;
      }
      if (first && !inForward)
        builder.setInsertionPoint(firstCastBefore(first, scale));
      Value gathered =
          gatherOf(shardScale->getResult(0), scale.getType(), scale.getLoc());
      shardScales[gathered] = shardScale->getResult(0);
      scale.replaceAllUsesWith(gathered);
      scale.erase();
    }
    if (!amax->use_empty()) {
      builder.setInsertionPointAfter(part);
      whole = gatherOf(part.getResult(), type, amax.getLoc());
    }
  }
  if (whole)
    amax.replaceAllUsesWith(whole);
  amax.erase();
}

void GatherRewriter::rewriteCast(CastOp op) {
  builder.setInsertionPoint(op);
  // The shard of an activation is cast in forward, also where only backward
  // gathers it: to keep the FP8 shard or what it is cast from is then a choice
  // like any other.
  Operation *producer = gather.getX().getDefiningOp();
  auto type = cast<RankedTensorType>(op.getResult().getType());
  auto known = shardScales.find(op.getScale());
  Value scale = known == shardScales.end() ? op.getScale() : known->second;
  IRMapping mapping;
  mapping.map(op.getX(), gather.getX());
  mapping.map(op.getScale(), scale);
  if (producer && producer->getBlock() == gather->getBlock() &&
      op->getBlock() != gather->getBlock()) {
    Operation *scaled = scale.getDefiningOp();
    if (scaled && scaled->getBlock() == gather->getBlock())
      builder.setInsertionPointAfter(scaled);
  }
  Operation *part = builder.clone(*op, mapping);
  builder.setInsertionPoint(op);
  part->getResult(0).setType(RankedTensorType::get(
      getShard().getShape(), type.getElementType(), type.getEncoding()));
  part->setLoc(getDerivedLocation(op, ".shard"));
  AllGatherOp gathered = gatherOf(part->getResult(0), type, op.getLoc());
  op.replaceAllUsesWith(gathered.getResult());
  op.erase();
}

void GatherRewriter::rewrite() {
  // In program order, forward before backward: scales before casts.
  SmallVector<AmaxOp> maxima;
  SmallVector<CastOp> casts;
  for (Operation *user : gather->getUsers()) {
    if (auto amax = dyn_cast<AmaxOp>(user))
      maxima.push_back(amax);
    else
      casts.push_back(cast<CastOp>(user));
  }
  // Uses are listed last first.
  for (AmaxOp amax : llvm::reverse(maxima))
    rewriteMaximum(amax);
  for (CastOp op : llvm::reverse(casts))
    rewriteCast(op);
  gather.erase();
}

namespace {

struct CastBeforeGatherPass
    : fp8::impl::FP8CastBeforeGatherPassBase<CastBeforeGatherPass> {
  using FP8CastBeforeGatherPassBase::FP8CastBeforeGatherPassBase;

  void runOnOperation() override {
    if (gathers != "fp8" && gathers != "as-written") {
      getOperation().emitError()
          << "expected 'gathers' to be fp8 or as-written, but got '" << gathers
          << "'";
      return signalPassFailure();
    }
    if (gathers == "as-written")
      return;
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<StepOp> steps;
      for (Block &block : function.getBody())
        llvm::append_range(steps, block.getOps<StepOp>());
      for (StepOp step : steps)
        inlineResiduals(step);
      SmallVector<AllGatherOp> gathers;
      function.walk([&](AllGatherOp gather) { gathers.push_back(gather); });
      for (AllGatherOp gather : gathers)
        if (GatherRewriter rewriter(gather); rewriter.canRewrite())
          rewriter.rewrite();
      for (StepOp step : steps)
        formResiduals(step);
    }
  }
};

} // namespace
