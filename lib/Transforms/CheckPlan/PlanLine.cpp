//===- PlanLine.cpp - a plan as the checker reads it ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a function into a line of ops and the storages they name. Every value
// is met once, after its operands, so one pass settles all aliases.
//
//===----------------------------------------------------------------------===//

#include "PlanLine.h"

#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::check;

int64_t check::countBytes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  bool isE5M6 = tensor && isa<E5M6Type>(tensor.getElementType());
  if (!tensor || !tensor.hasStaticShape() ||
      (!isE5M6 && !tensor.getElementType().isIntOrFloat()))
    return 0;
  auto encoding = dyn_cast_or_null<TensorEncodingAttr>(tensor.getEncoding());
  ArrayRef<int64_t> bounds;
  if (encoding)
    bounds = encoding.getBounds();
  // Three bytes hold two numbers of 12 bits.
  uint64_t bytes = isE5M6 ? 3 : (tensor.getElementTypeBitWidth() + 7) / 8;
  for (auto [i, dim] : llvm::enumerate(tensor.getShape()))
    bytes = llvm::SaturatingMultiply<uint64_t>(
        bytes, i < bounds.size() && bounds[i] >= 0 ? bounds[i] : dim);
  if (isE5M6)
    bytes = bytes / 2 + bytes % 2;
  return static_cast<int64_t>(
      std::min<uint64_t>(bytes, std::numeric_limits<int64_t>::max() / 2));
}

/// True for ops whose result names the storage of operand 0.
static bool isAliasOp(Operation *op) {
  return isa<PermuteOp, SliceOp, ReshapeOp, BitcastOp, RematBarrierOp>(op);
}

/// The operand of the kernel whose storage the yielded `value` is, or none
/// where the kernel writes storage of its own. A view of a block argument that
/// is yielded is written out; only a wait, an update of a slice, or an opaque
/// op that says so, hands storage through.
static std::optional<unsigned> getHandedThrough(KernelOp kernel, Value value) {
  bool handsThrough = false;
  while (Operation *op = value.getDefiningOp()) {
    if (auto wait = dyn_cast<WaitOp>(op)) {
      handsThrough = true;
      value = wait.getX();
      continue;
    }
    if (isAliasOp(op)) {
      value = op->getOperand(0);
      continue;
    }
    if (auto update = dyn_cast<UpdateSliceOp>(op)) {
      if (!update.getDest())
        return std::nullopt;
      handsThrough = true;
      value = update.getDest();
      continue;
    }
    auto opaque = dyn_cast<OpaqueOp>(op);
    if (!opaque || !opaque.getAliasesAttr())
      return std::nullopt;
    unsigned result = cast<OpResult>(value).getResultNumber();
    std::optional<unsigned> operand;
    ArrayAttr pairs = opaque.getAliasesAttr();
    for (Attribute pair : pairs) {
      auto indices = dyn_cast<ArrayAttr>(pair);
      if (!indices || indices.size() != 2)
        continue;
      auto to = dyn_cast<IntegerAttr>(indices[0]);
      auto from = dyn_cast<IntegerAttr>(indices[1]);
      if (to && from && to.getValue() == result &&
          from.getValue().ult(opaque.getInputs().size()))
        operand = from.getValue().getZExtValue();
    }
    if (!operand)
      return std::nullopt;
    handsThrough = true;
    value = opaque.getInputs()[*operand];
  }
  if (!handsThrough)
    return std::nullopt;
  return cast<BlockArgument>(value).getArgNumber();
}

int PlanLine::addStorage(Value root, int producer, unsigned result) {
  int id = static_cast<int>(storages.size());
  Storage storage;
  storage.root = root;
  storage.producer = producer;
  storage.result = result;
  storage.bytes = storage.room = countBytes(root.getType());
  storages.push_back(storage);
  storageOf[root] = id;
  return id;
}

FailureOr<PlanLine> PlanLine::read(func::FuncOp func) {
  PlanLine line;
  line.func = func;
  if (!func.getBody().hasOneBlock()) {
    func.emitOpError("expected a body of one block in planned IR, but got ")
        << func.getBody().getBlocks().size();
    return failure();
  }
  for (BlockArgument argument : func.getArguments())
    line.addStorage(argument, -1, 0);
  if (failed(line.readBlock(func.getBody().front())))
    return failure();
  return std::move(line);
}

LogicalResult PlanLine::readBlock(Block &block) {
  for (Operation &op : block) {
    if (auto step = dyn_cast<StepOp>(op)) {
      if (failed(readStep(step)))
        return failure();
      continue;
    }
    // A constant that nothing reads is left for canonicalisation to drop.
    if (matchPattern(&op, m_Constant()) && op.use_empty())
      continue;
    int position = static_cast<int>(ops.size());
    ops.emplace_back().op = &op;
    // What a barrier comes after is an order, not a use of memory.
    ValueRange operands = op.getOperands();
    if (isa<RematBarrierOp>(op))
      operands = operands.take_front();
    if (!isa<FreeOp>(op))
      for (Value operand : operands)
        if (int storage = getStorage(operand); storage >= 0)
          ops[position].uses.push_back(storage);

    if (auto kernel = dyn_cast<KernelOp>(op)) {
      if (failed(readKernel(kernel)))
        return failure();
    } else if (auto waitOp = dyn_cast<WaitOp>(op)) {
      if (failed(wait(&op, waitOp.getX(), waitOp.getToken())))
        return failure();
      alias(waitOp.getResult(), waitOp.getX());
    } else if (isAliasOp(&op)) {
      alias(op.getResult(0), op.getOperand(0));
    } else if (auto ret = dyn_cast<func::ReturnOp>(op)) {
      readReturn(ret);
    } else if (!isa<FreeOp, YieldOp>(op)) {
      return op.emitOpError("expected planned IR, in which only 'fp8.kernel', "
                            "views, 'fp8.wait' and 'fp8.free' stand outside "
                            "kernels; run 'fp8-form-kernels' first");
    }
  }
  return success();
}

LogicalResult PlanLine::readStep(StepOp step) {
  if (failed(readBlock(step.getForward().front())))
    return failure();
  forwardEnd = static_cast<int>(ops.size()) - 1;
  firstBackward = static_cast<int>(ops.size());
  YieldOp forward = step.getForwardYield();
  for (auto [residual, argument] : llvm::zip_equal(
           forward.getResiduals(), step.getBackward().front().getArguments())) {
    if (int storage = getStorage(residual); storage >= 0)
      storages[storage].residual = true;
    alias(argument, residual);
    if (auto it = transferOf.find(residual); it != transferOf.end()) {
      int transfer = it->second;
      transferOf[argument] = transfer;
    }
  }
  if (failed(readBlock(step.getBackward().front())))
    return failure();
  auto yielded = llvm::to_vector(forward.getValues());
  llvm::append_range(yielded, step.getBackwardYield().getValues());
  for (auto [result, value] : llvm::zip_equal(step.getResults(), yielded))
    alias(result, value);
  return success();
}

LogicalResult PlanLine::readKernel(KernelOp kernel) {
  int position = static_cast<int>(ops.size()) - 1;
  Block &body = kernel.getBody().front();
  auto yield = cast<YieldOp>(body.getTerminator());
  auto outside = [&](Value value) -> Value {
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && argument.getOwner() == &body)
      return kernel.getInputs()[argument.getArgNumber()];
    return Value();
  };

  for (auto [number, result, value] :
       llvm::enumerate(kernel.getResults(), yield.getValues())) {
    if (isa<TokenType>(result.getType())) {
      if (Operation *start = value.getDefiningOp();
          start && (isCollectiveStart(start) || isHostCopy(start))) {
        transferOf[result] = static_cast<int>(transfers.size());
        ops[position].starts.push_back(static_cast<int>(transfers.size()));
        Transfer transfer;
        transfer.start = position;
        transfer.isCopy = isHostCopy(start);
        transfer.reads.assign(ops[position].uses);
        transfers.push_back(std::move(transfer));
      } else if (auto it = transferOf.find(outside(value));
                 it != transferOf.end()) {
        int transfer = it->second;
        transferOf[result] = transfer;
      }
      continue;
    }
    if (int64_t bytes = getHostByteSize(result.getType())) {
      hostOf[result] = static_cast<int>(hosts.size());
      HostValue &host = hosts.emplace_back();
      host.root = result;
      host.producer = position;
      host.bytes = bytes;
      if (!ops[position].uses.empty())
        host.source = ops[position].uses.front();
      continue;
    }
    auto addPiece = [&, result = result, value = value] {
      auto update = value.getDefiningOp<UpdateSliceOp>();
      int storage = getStorage(result);
      if (!update || storage < 0)
        return;
      pieces.push_back({position, storage, update});
      versionOf[result] = ++storages[storage].numPieces;
    };
    if (std::optional<unsigned> operand = getHandedThrough(kernel, value)) {
      alias(result, kernel.getInputs()[*operand]);
      addPiece();
      continue;
    }
    if (countBytes(result.getType()) <= 0)
      continue;
    int made = addStorage(result, position, static_cast<unsigned>(number));
    ops[position].makes.push_back(made);
    addPiece();
    std::optional<ArrayRef<int64_t>> inPlace = kernel.getInPlace();
    if (!inPlace || (*inPlace)[number] < 0)
      continue;
    int over = getStorage(kernel.getInputs()[(*inPlace)[number]]);
    if (over < 0)
      return kernel.emitOpError("expected an operand with storage to write '")
             << getName(made) << "' over, but operand " << (*inPlace)[number]
             << " has none";
    storages[made].over = over;
    storages[made].inArgument =
        storages[over].isArgument() || storages[over].inArgument;
    if (storages[over].overwriter < 0)
      storages[over].overwriter = made;
    if (kernel.getKind() == KernelKind::Collective)
      storages[over].room = storages[made].bytes;
  }
  for (int transfer : ops[position].starts) {
    if (!ops[position].makes.empty())
      transfers[transfer].writes = ops[position].makes.front();
    for (Value result : kernel.getResults())
      if (int host = getHost(result); host >= 0) {
        transfers[transfer].host = host;
        hosts[host].transfer = transfer;
      }
  }
  for (Value input : kernel.getInputs())
    if (int host = getHost(input); host >= 0)
      hosts[host].readers.push_back(position);

  for (Operation &op : body) {
    if (auto waitOp = dyn_cast<WaitOp>(op)) {
      Value data = outside(waitOp.getX()), token = outside(waitOp.getToken());
      if (data && token && failed(wait(&op, data, token)))
        return failure();
    } else if (auto push = dyn_cast<PushAmaxOp>(op)) {
      if (Value history = outside(push.getHistory()))
        if (int storage = getStorage(history); storage >= 0)
          pushes.push_back({position, storage, &op});
    }
  }
  return success();
}

LogicalResult PlanLine::wait(Operation *op, Value data, Value token) {
  int position = static_cast<int>(ops.size()) - 1;
  auto it = transferOf.find(token);
  if (it == transferOf.end())
    return op->emitOpError(
        "expected the token of a collective or a copy that was started, "
        "but got one that no kernel started");
  Transfer &transfer = transfers[it->second];
  int storage = getStorage(data);
  if (storage != transfer.writes || getHost(data) != transfer.host) {
    InFlightDiagnostic diag =
        op->emitOpError("expected the token of what makes '")
        << (storage < 0 ? "?" : getName(storage))
        << "', but got that of another one";
    diag.attachNote(ops[transfer.start].op->getLoc())
        << "the token comes from here, with '"
        << (transfer.writes < 0 ? "?" : getName(transfer.writes)) << "'";
    return diag;
  }
  if (transfer.wait >= 0) {
    InFlightDiagnostic diag = op->emitOpError("expected one wait for '")
                              << getName(storage) << "'";
    diag.attachNote(ops[transfer.wait].op->getLoc()) << "waited for here too";
    return diag;
  }
  transfer.wait = position;
  ops[position].waits.push_back(it->second);
  return success();
}

void PlanLine::readReturn(func::ReturnOp op) {
  for (auto [number, value] : llvm::enumerate(op.getOperands())) {
    int storage = getStorage(value);
    if (storage < 0)
      continue;
    auto placement =
        func.getResultAttrOfType<StringAttr>(number, kPlacementAttr);
    bool caller = placement && placement.getValue() == "caller";
    storages[storage].escapes = true;
    (caller ? storages[storage].inCaller : storages[storage].inArena) = true;
  }
}

/// The innermost name of a location, or an empty string.
static StringRef findName(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().getValue();
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return findName(call.getCallee());
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (StringRef name = findName(part); !name.empty())
        return name;
  return "";
}

std::string PlanLine::getName(int storage) const {
  Value root = storages[storage].root;
  if (StringRef name = findName(root.getLoc()); !name.empty())
    return name.str();
  if (auto argument = dyn_cast<BlockArgument>(root))
    return "arg" + std::to_string(argument.getArgNumber());
  // The value is what an op inside the kernel computes.
  auto kernel = root.getDefiningOp<KernelOp>();
  unsigned result = cast<OpResult>(root).getResultNumber();
  Operation *op = kernel;
  if (kernel)
    if (auto inner = dyn_cast<OpResult>(
            kernel.getBody().front().getTerminator()->getOperand(result))) {
      op = inner.getOwner();
      result = inner.getResultNumber();
    }
  if (StringRef name = findName(op->getLoc()); !name.empty())
    return name.str();
  if (ordinals.empty()) {
    llvm::StringMap<unsigned> next;
    func::FuncOp(func).walk<WalkOrder::PreOrder>([&](Operation *other) {
      ordinals[other] = next[other->getName().getStringRef()]++;
    });
  }
  return (op->getName().getStringRef() + "#" + Twine(ordinals.lookup(op)) +
          "." + Twine(result))
      .str();
}
