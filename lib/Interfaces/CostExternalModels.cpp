//===- CostExternalModels.cpp -----------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See CostExternalModels.h for what is counted.
//
//===----------------------------------------------------------------------===//

#include "fp8/Interfaces/CostExternalModels.h"

#include "fp8/Dialect/FP8/IR/FP8.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;
using namespace mlir::fp8;

namespace {

int64_t getElements(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && tensor.hasStaticShape() ? tensor.getNumElements() : 1;
}

/// a * b, the largest number where that is too large for one.
int64_t multiply(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product)
             ? std::numeric_limits<int64_t>::max()
             : product;
}

/// Each operand read once, each result written once.
OpCost getTraffic(Operation *op) {
  OpCost cost;
  for (Value operand : op->getOperands())
    cost.bytesRead += getByteSize(operand.getType());
  for (Value result : op->getResults())
    cost.bytesWritten += getByteSize(result.getType());
  return cost;
}

template <typename OpT, OpCost (*cost)(OpT)>
struct Model : CostOpInterface::ExternalModel<Model<OpT, cost>, OpT> {
  OpCost getCost(Operation *op) const { return cost(cast<OpT>(op)); }
};

/// `flops` per element of the result.
template <typename OpT, int64_t flops>
OpCost elementwiseCost(OpT op) {
  OpCost cost = getTraffic(op);
  cost.flopsF32 = multiply(flops, getElements(op->getResult(0)));
  return cost;
}

/// One flop per element of operand 0.
template <typename OpT>
OpCost readCost(OpT op) {
  OpCost cost = getTraffic(op);
  cost.flopsF32 = getElements(op->getOperand(0));
  return cost;
}

template <typename OpT>
OpCost moveCost(OpT op) {
  return getTraffic(op);
}

/// Of the tensor only the piece is touched.
OpCost updateCost(UpdateSliceOp op) {
  OpCost cost;
  cost.bytesRead = cost.bytesWritten = getByteSize(op.getPiece().getType());
  return cost;
}

/// No work, no traffic.
template <typename OpT>
OpCost freeCost(OpT) {
  OpCost cost;
  cost.recompute = Recompute::Free;
  return cost;
}

/// Flops go to the kind that a product's operands and scales make it.
template <typename OpT>
void setProductFlops(OpT op, int64_t flops, OpCost &cost) {
  Type element = cast<RankedTensorType>(op.getA().getType()).getElementType();
  TensorEncodingAttr a = getEncoding(op.getA().getType()),
                     b = getEncoding(op.getB().getType());
  auto isPerTensor = [](TensorEncodingAttr encoding) {
    return encoding && llvm::all_of(encoding.getGroup(),
                                    [](int64_t size) { return size == 0; });
  };
  auto hasBlocks = [](TensorEncodingAttr encoding) {
    return encoding && llvm::any_of(encoding.getGroup(),
                                    [](int64_t size) { return size > 1; });
  };
  if (element.isBF16())
    cost.flopsBF16 = flops;
  else if (element.isF32())
    cost.flopsF32 = flops;
  else if (hasBlocks(a) || hasBlocks(b))
    cost.flopsF8Block = flops;
  else if (isPerTensor(a) && isPerTensor(b))
    cost.flopsF8 = flops;
  else
    cost.flopsF8Row = flops;
}

OpCost matmulCost(MatmulOp op) {
  OpCost cost = getTraffic(op);
  int64_t outputs = getElements(op.getResult());
  int64_t k = cast<RankedTensorType>(op.getA().getType()).getDimSize(1);
  setProductFlops(op, multiply(outputs, 2 * k + (op.getAcc() ? 1 : 0)), cost);
  if (op.getAcc())
    cost.bytesAccumulated =
        getByteSize(op.getAcc().getType()) + getByteSize(op.getType());
  return cost;
}

/// Two flops for each row of the capacity and element of one matrix: where the
/// sum is grouped, of the result, else of `b`.
OpCost groupedMatmulCost(GroupedMatmulOp op) {
  OpCost cost = getTraffic(op);
  Value matrices = op.isSumGrouped() ? op.getResult() : op.getB();
  setProductFlops(
      op,
      multiply(getElements(matrices) / op.getNumGroups(), 2 * op.getCapacity()),
      cost);
  return cost;
}

/// Flops go to the kind that a recipe makes of a product.
void setRecipeFlops(RecipeAttr recipe, int64_t flops, OpCost &cost) {
  switch (recipe.getKind()) {
  case RecipeKind::Tensorwise:
  case RecipeKind::Delayed:
    cost.flopsF8 = flops;
    break;
  case RecipeKind::Rowwise:
    cost.flopsF8Row = flops;
    break;
  case RecipeKind::Block128:
    cost.flopsF8Block = flops;
    break;
  }
}

/// Before its recipe is expanded: the product alone.
template <typename OpT>
OpCost groupedLinearCost(OpT op) {
  OpCost cost = getTraffic(op);
  auto first = cast<RankedTensorType>(op->getOperand(0).getType());
  Value weights = isa<GroupedLinearWgradOp>(op.getOperation())
                      ? op->getResult(0)
                      : op->getOperand(1);
  auto groups = cast<RankedTensorType>(weights.getType()).getDimSize(0);
  setRecipeFlops(
      op.getRecipe(),
      multiply(getElements(weights) / groups, 2 * first.getDimSize(0)), cost);
  return cost;
}

/// Before its recipe is expanded: the product alone.
template <typename OpT>
OpCost linearCost(OpT op) {
  OpCost cost = getTraffic(op);
  // Both operands have the summed dimension once and a dimension of the result
  // each.
  auto first = cast<RankedTensorType>(op->getOperand(0).getType());
  int64_t k = isa<LinearWgradOp>(op.getOperation()) ? first.getDimSize(0)
                                                    : first.getDimSize(1);
  setRecipeFlops(op.getRecipe(), multiply(getElements(op.getResult()), 2 * k),
                 cost);
  if (!op.getState().empty())
    cost.recompute = Recompute::Never;
  return cost;
}

/// What a rank receives of the others: all parts of the larger of operand and
/// result but its own. An all-reduce, whose types do not tell how many ranks
/// there are, and an exchange that keeps the shape count as with very many: all
/// of it, an all-reduce twice. Only types are asked, since the planner looks at
/// functions outside of their module. May run again since all ranks run the
/// same plan.
template <typename OpT>
OpCost collectiveCost(OpT op) {
  OpCost cost = getTraffic(op);
  Collective collective = *getCollective(op);
  int64_t own = getByteSize(collective.x.getType()),
          result = getByteSize(collective.result.getType());
  auto shape = cast<RankedTensorType>(collective.x.getType()).getShape();
  auto to = cast<RankedTensorType>(collective.result.getType()).getShape();
  switch (collective.kind) {
  case Collective::Kind::AllGather:
  case Collective::Kind::ReduceScatter:
    cost.bytesSent = std::abs(result - own);
    break;
  case Collective::Kind::AllReduce:
    cost.bytesSent = 2 * own;
    break;
  case Collective::Kind::AllToAll:
    cost.bytesSent = own;
    if (collective.split != collective.concat && shape[collective.split] > 0)
      cost.bytesSent -= own / shape[collective.split] * to[collective.split];
    break;
  }
  if (collective.reduce)
    cost.flopsF32 = getElements(collective.x);
  cost.recompute = Recompute::Priced;
  return cost;
}

/// All of a collective's work stands at its start.
OpCost waitCost(WaitOp) {
  OpCost cost;
  cost.recompute = Recompute::Priced;
  return cost;
}

/// The copy alone: it runs beside what works on the device's memory.
OpCost offloadCost(OffloadStartOp op) {
  OpCost cost;
  cost.bytesHost = getByteSize(op.getX().getType());
  cost.recompute = Recompute::Never;
  return cost;
}
OpCost prefetchCost(PrefetchStartOp op) {
  OpCost cost;
  cost.bytesHost = getByteSize(op.getResult().getType());
  cost.recompute = Recompute::Never;
  return cost;
}

/// The declared bytes where there are any, else operands and results.
OpCost opaqueCost(OpaqueOp op) {
  OpCost cost = getTraffic(op);
  if (op.getBytes() > 0) {
    cost.bytesRead = op.getBytes();
    cost.bytesWritten = 0;
  }
  cost.flopsBF16 = op.getFlops();
  cost.scratch = op.getScratchBytes();
  if (op.getRecompute() == "never" || op.getStateful())
    cost.recompute = Recompute::Never;
  return cost;
}

/// Reads the amax and slot 0, writes slot 0.
OpCost pushAmaxCost(PushAmaxOp op) {
  OpCost cost;
  cost.flopsF32 = 1;
  cost.bytesRead = getByteSize(op.getAmax().getType()) + 4;
  cost.bytesWritten = 4;
  cost.recompute = Recompute::Never;
  return cost;
}

/// Reads and writes both of its operands.
OpCost updateScaleCost(UpdateScaleOp op) {
  OpCost cost = getTraffic(op);
  cost.flopsF32 = getElements(op.getHistory()) + 3;
  cost.bytesWritten = cost.bytesRead;
  cost.recompute = Recompute::Never;
  return cost;
}

template <int64_t flops, typename... OpTs>
void attachElementwise(MLIRContext &context) {
  (OpTs::template attachInterface<Model<OpTs, elementwiseCost<OpTs, flops>>>(
       context),
   ...);
}

template <typename... OpTs>
void attachFree(MLIRContext &context) {
  (OpTs::template attachInterface<Model<OpTs, freeCost<OpTs>>>(context), ...);
}

template <typename... OpTs>
void attachGroupedLinears(MLIRContext &context) {
  (OpTs::template attachInterface<Model<OpTs, groupedLinearCost<OpTs>>>(
       context),
   ...);
}

template <typename... OpTs>
void attachCollectives(MLIRContext &context) {
  (OpTs::template attachInterface<Model<OpTs, collectiveCost<OpTs>>>(context),
   ...);
}

} // namespace

void mlir::fp8::registerCostExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attachFree<arith::ConstantOp>(*context);
    attachElementwise<1, arith::AddFOp, arith::SubFOp, arith::MulFOp,
                      arith::DivFOp, arith::NegFOp, arith::ExtFOp,
                      arith::TruncFOp, arith::MaximumFOp, arith::MinimumFOp,
                      arith::CmpFOp, arith::SelectOp>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attachElementwise<1, math::AbsFOp, math::SqrtOp>(*context);
    attachElementwise<2, math::RsqrtOp>(*context);
    attachElementwise<21, math::ExpOp>(*context);
    attachElementwise<23, math::LogOp>(*context);
    attachElementwise<37, math::TanhOp>(*context);
    attachElementwise<49, math::ErfOp>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, FP8Dialect *) {
    attachFree<PermuteOp, SliceOp, ReshapeOp, BitcastOp, RematBarrierOp>(
        *context);
    attachElementwise<3, ScaleOp>(*context);
    // Ten rounds of two products and some bits.
    attachElementwise<100, RandomOp>(*context);
    AmaxOp::attachInterface<Model<AmaxOp, readCost<AmaxOp>>>(*context);
    CastOp::attachInterface<Model<CastOp, readCost<CastOp>>>(*context);
    DequantizeOp::attachInterface<Model<DequantizeOp, readCost<DequantizeOp>>>(
        *context);
    ReduceOp::attachInterface<Model<ReduceOp, readCost<ReduceOp>>>(*context);
    BroadcastOp::attachInterface<Model<BroadcastOp, moveCost<BroadcastOp>>>(
        *context);
    TransposeOp::attachInterface<Model<TransposeOp, moveCost<TransposeOp>>>(
        *context);
    PadOp::attachInterface<Model<PadOp, moveCost<PadOp>>>(*context);
    UpdateSliceOp::attachInterface<Model<UpdateSliceOp, updateCost>>(*context);
    MatmulOp::attachInterface<Model<MatmulOp, matmulCost>>(*context);
    GroupedMatmulOp::attachInterface<Model<GroupedMatmulOp, groupedMatmulCost>>(
        *context);
    attachGroupedLinears<GroupedLinearOp, GroupedLinearDgradOp,
                         GroupedLinearWgradOp>(*context);
    LinearOp::attachInterface<Model<LinearOp, linearCost<LinearOp>>>(*context);
    LinearDgradOp::attachInterface<
        Model<LinearDgradOp, linearCost<LinearDgradOp>>>(*context);
    LinearWgradOp::attachInterface<
        Model<LinearWgradOp, linearCost<LinearWgradOp>>>(*context);
    attachCollectives<AllGatherOp, AllGatherStartOp, ReduceScatterOp,
                      ReduceScatterStartOp, AllReduceOp, AllReduceStartOp,
                      AllToAllOp, AllToAllStartOp>(*context);
    OffloadStartOp::attachInterface<Model<OffloadStartOp, offloadCost>>(
        *context);
    PrefetchStartOp::attachInterface<Model<PrefetchStartOp, prefetchCost>>(
        *context);
    WaitOp::attachInterface<Model<WaitOp, waitCost>>(*context);
    OpaqueOp::attachInterface<Model<OpaqueOp, opaqueCost>>(*context);
    PushAmaxOp::attachInterface<Model<PushAmaxOp, pushAmaxCost>>(*context);
    UpdateScaleOp::attachInterface<Model<UpdateScaleOp, updateScaleCost>>(
        *context);
  });
}
