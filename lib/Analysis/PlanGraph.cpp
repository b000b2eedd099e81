//===- PlanGraph.cpp - a program as the planner sees it ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a function into a PlanGraph: classes, alias roots, iteration spaces,
// costs.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/PlanGraph.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"
#include <map>

using namespace mlir;
using namespace mlir::fp8;

//===----------------------------------------------------------------------===//
// Node properties
//===----------------------------------------------------------------------===//

/// The class of an op, or nothing for an op that no plan can hold.
static std::optional<NodeClass> classify(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return NodeClass::Constant;
  if (isa<WaitOp>(op))
    return NodeClass::Collective;
  if (isView(op))
    return NodeClass::View;
  if (isa<MatmulOp, GroupedMatmulOp>(op))
    return NodeClass::Matmul;
  if (getCollective(op))
    return NodeClass::Collective;
  if (isa<OpaqueOp>(op))
    return NodeClass::Opaque;
  if (isa<PushAmaxOp, UpdateScaleOp>(op))
    return NodeClass::State;
  if (isa<KernelOp>(op))
    return NodeClass::Kernel;
  if (isa<AmaxOp, ScaleOp, CastOp, DequantizeOp, ReduceOp, BroadcastOp,
          TransposeOp, PadOp, UpdateSliceOp, RandomOp>(op) ||
      OpTrait::hasElementwiseMappableTraits(op))
    return NodeClass::Loop;
  return std::nullopt;
}

/// True where groups of these extents lie within the rows a kernel holds at a
/// time: 1 in every leading dimension, at most `rowTile` in the last but one,
/// anything in the last.
static bool isRowLocal(ArrayRef<int64_t> shape, ArrayRef<int64_t> group,
                       int64_t rowTile) {
  int64_t rank = shape.size();
  for (auto [index, extent] : llvm::enumerate(group)) {
    int64_t covered =
        extent == 0 ? shape[index] : std::min(extent, shape[index]);
    int64_t limit = static_cast<int64_t>(index) == rank - 1 ? shape[index]
                    : static_cast<int64_t>(index) == rank - 2
                        ? (extent == 0 ? 1 : rowTile)
                        : 1;
    if (covered > limit)
      return false;
  }
  return true;
}

/// What a thread block must hold to reduce groups of these extents.
static BlockShape getReductionShape(ArrayRef<int64_t> shape,
                                    ArrayRef<int64_t> group, bool isLocal,
                                    bool isSum) {
  auto covers = [&](size_t dim) {
    return group[dim] == 0 ? shape[dim] : std::min(group[dim], shape[dim]);
  };
  bool overRows = false;
  for (size_t dim = 0; dim + 1 < shape.size(); ++dim)
    overRows |= covers(dim) > 1;
  if (isSum)
    return BlockShape::Row;
  if (!isLocal)
    return BlockShape::Any;
  // Within 128 columns both a row and a tile have the whole group.
  return overRows                                           ? BlockShape::Tile
         : shape.empty() || covers(shape.size() - 1) <= 128 ? BlockShape::Any
                                                            : BlockShape::Row;
}

static void setLoopProperties(PlanNode &node, const Target &target) {
  int64_t rowTile = target.kernelRowTile;
  bool isBlocks = target.kernelModel == KernelModel::ThreadBlocks;
  Operation *op = node.op;
  auto shapeOf = [](Value value) {
    return cast<ShapedType>(value.getType()).getShape();
  };
  ArrayRef<int64_t> space = shapeOf(op->getResult(0));
  if (isa<AmaxOp, ReduceOp, TransposeOp, UpdateSliceOp>(op))
    space = shapeOf(op->getOperand(0));
  node.space.assign(space.begin(), space.end());
  if (auto amax = dyn_cast<AmaxOp>(op)) {
    bool isLocal = isRowLocal(space, amax.getGroup(), rowTile);
    node.locality = isLocal ? Locality::RowLocal : Locality::AtEnd;
    if (isBlocks)
      node.blockShape = getReductionShape(space, amax.getGroup(), isLocal,
                                          /*isSum=*/false);
  } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
    SmallVector<int64_t> group(space.size(), 1);
    for (int64_t axis : reduce.getAxes())
      group[axis] = 0;
    bool isLocal = isRowLocal(space, group, rowTile);
    node.locality = isLocal ? Locality::RowLocal : Locality::AtEnd;
    if (isBlocks)
      node.blockShape =
          getReductionShape(space, group, isLocal,
                            /*isSum=*/reduce.getKind() == ReduceKind::Sum);
    // One block or warp sums an element of the result; the sums lie in memory
    // as f32 where no result can hold them.
    if (isBlocks && !isLocal && reduce.getKind() == ReduceKind::Sum)
      node.workspace = reduce.getType().getNumElements() * sizeof(float);
  } else if (isa<TransposeOp>(op)) {
    node.locality = Locality::Moved;
    if (isBlocks)
      node.blockShape = BlockShape::Tile;
  } else if (isa<UpdateSliceOp>(op)) {
    node.locality = Locality::Moved;
    node.writesPiece = true;
  }
}

/// The chain of an op by its kind, in a kernel or not.
static Chain getChain(Operation *op) {
  if (auto kernel = dyn_cast<KernelOp>(op))
    return kernel.getKind() == KernelKind::Collective ? Chain::Communicator
           : kernel.getKind() == KernelKind::State    ? Chain::State
                                                      : Chain::None;
  if (isa<WaitOp>(op) || getCollective(op))
    return Chain::Communicator;
  return isa<PushAmaxOp, UpdateScaleOp>(op) ? Chain::State : Chain::None;
}

static OpCost getCostOf(Operation *op);

/// The bytes that a kernel reads of one operand: of its largest view where it
/// reads only views, nothing of what it writes a piece of.
static int64_t getBytesRead(Value argument) {
  int64_t bytes = 0;
  for (OpOperand &use : argument.getUses()) {
    Operation *user = use.getOwner();
    if (isUpdated(use))
      continue;
    bytes = std::max(bytes, isView(user) ? getBytesRead(user->getResult(0))
                                         : getByteSize(argument.getType()));
  }
  return bytes;
}

OpCost mlir::fp8::getKernelCost(KernelOp kernel) {
  Block &body = kernel.getBody().front();
  OpCost cost;
  for (Operation &op : body.without_terminator()) {
    if (op.hasTrait<OpTrait::ConstantLike>() || isView(&op))
      continue;
    OpCost inner = getCostOf(&op);
    if (kernel.getKind() != KernelKind::Loop)
      return inner; // One op.
    cost.flopsF32 += inner.flopsF32;
  }
  for (BlockArgument argument : body.getArguments())
    cost.bytesRead += getBytesRead(argument);
  for (Value yielded : body.getTerminator()->getOperands())
    cost.bytesWritten += getByteSize(getStored(yielded).getType());
  return cost;
}

/// Without a cost model an op is priced by the bytes of its operands and
/// results.
static OpCost getCostOf(Operation *op) {
  if (auto kernel = dyn_cast<KernelOp>(op))
    return getKernelCost(kernel);
  if (auto model = dyn_cast<CostOpInterface>(op))
    return model.getCost();
  OpCost cost;
  for (Value operand : op->getOperands())
    cost.bytesRead += getByteSize(operand.getType());
  for (Value result : op->getResults())
    cost.bytesWritten += getByteSize(result.getType());
  if (!isMemoryEffectFree(op))
    cost.recompute = Recompute::Never;
  return cost;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

namespace {

class GraphBuilder {
public:
  explicit GraphBuilder(PlanGraph &graph) : graph(graph) {}

  LogicalResult run();

private:
  int addValue(Value value, int node, int root);
  /// Bytes and PlanValue::layout of a value of `type`.
  std::pair<int64_t, int> getStorage(Type type);
  LogicalResult addNode(Operation &op, bool backward);
  LogicalResult addBlock(Block &block, bool backward);
  LogicalResult markEscapes(ValueRange values, unsigned firstResult);
  void storeConstant(int root);
  void storeConstantsThatNeedIt();
  void pinStateReads();

  PlanGraph &graph;
  DenseMap<Value, int> index;
  DenseMap<Type, std::pair<int64_t, int>> storageOf; ///< looked up only
  std::map<std::pair<int64_t, SmallVector<int64_t, 4>>, int> layouts;
  DenseMap<int, unsigned>
      resultOf; ///< of roots that escape: the first result that names them
};

int GraphBuilder::addValue(Value value, int node, int root) {
  int id = graph.values.size();
  PlanValue &entry = graph.values.emplace_back();
  entry.value = value;
  entry.node = node;
  entry.root = root < 0 ? id : root;
  auto [known, inserted] = storageOf.try_emplace(value.getType());
  if (inserted)
    known->second = getStorage(value.getType());
  std::tie(entry.bytes, entry.layout) = known->second;
  index[value] = id;
  return id;
}

std::pair<int64_t, int> GraphBuilder::getStorage(Type type) {
  int64_t bytes = getByteSize(type);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return {bytes, -1};
  int next = layouts.size();
  return {bytes,
          layouts
              .try_emplace({bytes, SmallVector<int64_t, 4>(tensor.getShape())},
                           next)
              .first->second};
}

LogicalResult GraphBuilder::addNode(Operation &op, bool backward) {
  if (isa<FreeOp, YieldOp, func::ReturnOp>(op))
    return success();
  if (isa<LinearOp, LinearDgradOp, LinearWgradOp, GroupedLinearOp,
          GroupedLinearDgradOp, GroupedLinearWgradOp>(op))
    return op.emitOpError("cannot be planned: expected no linears; run "
                          "'fp8-expand-recipes' first");
  std::optional<NodeClass> kind = classify(&op);
  if (!kind)
    return op.emitOpError("cannot be planned: expected an fp8, arith or math "
                          "op on tensors; an operation known only by "
                          "its shapes can be declared as 'fp8.opaque'");
  for (Value result : op.getResults())
    if (auto type = dyn_cast<ShapedType>(result.getType());
        type && !type.hasStaticShape())
      return op.emitOpError(
                 "cannot be planned: expected static shapes, but got ")
             << type;
    else if (!type && !isa<TokenType, HostType>(result.getType()) &&
             *kind != NodeClass::Constant)
      return op.emitOpError("cannot be planned: expected tensors, but got ")
             << result.getType();
  int id = graph.nodes.size();
  PlanNode &node = graph.nodes.emplace_back();
  node.op = &op;
  node.kind = *kind;
  node.backward = backward;
  node.chain = getChain(&op);
  node.isBarrier = isa<RematBarrierOp>(op);
  node.mustRun = isa<OpaqueOp, KernelOp>(op) || !wouldOpBeTriviallyDead(&op);
  for (Value operand : op.getOperands())
    node.operands.push_back(index.lookup(operand));
  for (OpResult result : op.getResults()) {
    int root = -1;
    if (Value aliased = getAliasedOperand(result)) {
      int number =
          llvm::find(op.getOperands(), aliased) - op.getOperands().begin();
      node.aliases.resize(op.getNumResults(), -1);
      node.aliases[result.getResultNumber()] = number;
      root = graph.values[node.operands[number]].root;
    }
    node.results.push_back(addValue(result, id, root));
  }
  if (node.kind == NodeClass::Constant)
    return success();
  node.cost = getCostOf(&op);
  if (node.cost.bytesHost && !graph.target->hostBytesPerSecond)
    return op.emitOpError("copies to or from host memory, but the target '")
           << graph.target->name << "' has none ('host_bytes_per_second')";
  node.recompute =
      node.kind == NodeClass::View ? Recompute::Free : node.cost.recompute;
  if (node.kind != NodeClass::View)
    node.seconds = estimateSeconds(*graph.target, node.cost);
  if (node.kind == NodeClass::Matmul)
    node.workspace = graph.target->matmulWorkspaceBytes;
  else if (auto opaque = dyn_cast<OpaqueOp>(op))
    node.workspace = opaque.getScratchBytes();
  else if (auto kernel = dyn_cast<KernelOp>(op))
    node.workspace = kernel.getWorkspace();
  else if (node.kind == NodeClass::Loop)
    setLoopProperties(node, *graph.target);
  return success();
}

LogicalResult GraphBuilder::addBlock(Block &block, bool backward) {
  for (Operation &op : block)
    if (failed(addNode(op, backward)))
      return failure();
  return success();
}

/// Has a kernel write `root` to memory, if it is a constant.
void GraphBuilder::storeConstant(int root) {
  if (graph.values[root].node < 0)
    return;
  PlanNode &node = graph.nodes[graph.values[root].node];
  if (node.kind != NodeClass::Constant)
    return;
  node.kind = NodeClass::Loop;
  node.cost = getCostOf(node.op);
  node.seconds = estimateSeconds(*graph.target, node.cost);
  setLoopProperties(node, *graph.target);
}

/// Only a loop can compute with a constant that is nowhere in memory.
void GraphBuilder::storeConstantsThatNeedIt() {
  for (const PlanNode &node : graph.nodes)
    if (node.kind == NodeClass::Matmul || node.kind == NodeClass::Collective ||
        node.kind == NodeClass::Opaque || node.kind == NodeClass::State)
      for (int operand : node.operands)
        storeConstant(graph.values[operand].root);
}

/// Marks `values`, which leave as the results from `firstResult` on. The caller
/// hands in one buffer a result that it places, so nothing else may name that
/// storage.
LogicalResult GraphBuilder::markEscapes(ValueRange values,
                                        unsigned firstResult) {
  for (auto [offset, value] : llvm::enumerate(values)) {
    auto it = index.find(value);
    if (it == index.end())
      continue;
    PlanValue &root = graph.values[graph.values[it->second].root];
    root.escapes = true;
    storeConstant(graph.values[it->second]
                      .root); // What leaves the function needs storage.
    unsigned number = firstResult + offset;
    auto isCallerPlaced = [&](unsigned result) {
      auto placement = result < graph.func.getNumResults()
                           ? graph.func.getResultAttrOfType<StringAttr>(
                                 result, kPlacementAttr)
                           : StringAttr();
      return placement && placement.getValue() == "caller";
    };
    root.callerPlaced |= isCallerPlaced(number);
    auto emitError = [&](unsigned result) {
      return graph.func.getBody().front().getTerminator()->emitError(
                 "expected result #")
             << result
             << ", placed by the caller, to be storage of its own, but it is ";
    };
    if (root.resident && isCallerPlaced(number))
      return emitError(number)
             << "argument #" << cast<BlockArgument>(root.value).getArgNumber()
             << "; leave it in the arena, where an argument takes no storage";
    auto [first, inserted] =
        resultOf.try_emplace(graph.values[it->second].root, number);
    if (!inserted && root.callerPlaced)
      return emitError(isCallerPlaced(number) ? number : first->second)
             << "also result #"
             << (isCallerPlaced(number) ? first->second : number)
             << "; return it once, or leave both in the arena";
  }
  return success();
}

/// What reads a state that the program updates may neither run again nor move
/// past the update: it would read the updated one.
void GraphBuilder::pinStateReads() {
  std::vector<bool> updated(graph.values.size(), false);
  for (const PlanNode &node : graph.nodes)
    if (node.chain == Chain::State)
      for (int operand : node.operands)
        if (auto argument =
                dyn_cast<BlockArgument>(graph.rootOf(operand).value))
          updated[graph.values[operand].root] =
              graph.rootOf(operand).resident &&
              graph.func.getArgAttr(argument.getArgNumber(), kStateAttr);
  for (PlanNode &node : graph.nodes)
    if (node.kind != NodeClass::View)
      for (int operand : node.operands)
        if (operand >= 0 && updated[graph.values[operand].root]) {
          node.recompute = Recompute::Never;
          node.chain = Chain::State;
        }
}

LogicalResult GraphBuilder::run() {
  Block &entry = graph.func.getBody().front();
  if (!llvm::hasSingleElement(graph.func.getBody()))
    return graph.func.emitOpError(
               "cannot be planned: expected one block, but got ")
           << llvm::range_size(graph.func.getBody());
  for (BlockArgument argument : entry.getArguments()) {
    PlanValue &value = graph.values[addValue(argument, -1, -1)];
    value.resident = true;
    value.donated = static_cast<bool>(
        graph.func.getArgAttr(argument.getArgNumber(), kDonatedAttr));
  }

  SmallVector<StepOp> steps(entry.getOps<StepOp>());
  if (steps.empty()) {
    if (failed(addBlock(entry, /*backward=*/false)))
      return failure();
    graph.firstBackward = graph.nodes.size();
    storeConstantsThatNeedIt();
    if (failed(markEscapes(entry.getTerminator()->getOperands(), 0)))
      return failure();
    pinStateReads();
    return success();
  }
  graph.step = steps.front();
  for (Operation &op : entry) {
    if (&op == graph.step || isa<func::ReturnOp>(op))
      continue;
    if (!op.hasTrait<OpTrait::ConstantLike>())
      return op.emitOpError("stands beside an 'fp8.step': expected only "
                            "constants there; move it into the forward or "
                            "the backward region");
    if (failed(addNode(op, /*backward=*/false)))
      return failure();
  }
  if (failed(addBlock(graph.step.getForward().front(), /*backward=*/false)))
    return failure();
  graph.firstBackward = graph.nodes.size();
  YieldOp yield = graph.step.getForwardYield();
  for (auto [argument, residual] :
       llvm::zip(graph.step.getBackward().getArguments(), yield.getResiduals()))
    index[argument] = index.lookup(residual);
  if (failed(addBlock(graph.step.getBackward().front(), /*backward=*/true)))
    return failure();
  for (Value value : graph.step.getBackwardYield().getValues())
    graph.backwardResults.push_back(index.lookup(value));
  storeConstantsThatNeedIt();
  if (failed(markEscapes(yield.getValues(), 0)) ||
      failed(markEscapes(graph.step.getBackwardYield().getValues(),
                         yield.getValues().size())))
    return failure();
  pinStateReads();
  return success();
}

} // namespace

FailureOr<PlanGraph> PlanGraph::build(func::FuncOp func, const Target &target) {
  PlanGraph graph;
  graph.func = func;
  graph.target = &target;
  if (failed(GraphBuilder(graph).run()))
    return failure();
  return graph;
}

int64_t PlanGraph::getResidentBytes() const {
  int64_t bytes = 0;
  for (const PlanValue &value : values)
    if (value.resident)
      bytes += value.bytes;
  return bytes;
}
