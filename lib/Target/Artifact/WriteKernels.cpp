//===- WriteKernels.cpp - kernels as commands -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The commands of single kernels and waits.
//
//===----------------------------------------------------------------------===//

#include "FunctionWriter.h"

#include "fp8/Analysis/PlanGraph.h"

using namespace mlir;
using namespace mlir::fp8;

/// What a loop kernel moves and computes, for ledgers.
static void addWork(json::Object &command, const OpCost &work) {
  command["bytes"] = work.bytesRead + work.bytesWritten;
  command["flops"] = work.flopsF32;
}

/// The gather in whose result `value` lies, and which of its kernel's results
/// that is; nothing where `value` has storage of its own.
static std::optional<std::pair<Collective, Value>> getGather(Value value) {
  for (OpOperand &use : value.getUses()) {
    auto kernel = dyn_cast<KernelOp>(use.getOwner());
    if (!kernel || kernel.getKind() != KernelKind::Collective ||
        !kernel.getInPlace())
      continue;
    for (auto [index, over] : llvm::enumerate(*kernel.getInPlace()))
      if (over == static_cast<int64_t>(use.getOperandNumber()))
        if (std::optional<Collective> gather =
                getCollective(&kernel.getBody().front().front()))
          return std::pair(*gather, kernel.getResult(index));
  }
  return std::nullopt;
}

LogicalResult FunctionWriter::writeKernel(KernelOp kernel) {
  if (kernel.getKind() == KernelKind::Opaque)
    return kernel.emitError()
           << "a kernel of kind '" << stringifyKernelKind(kernel.getKind())
           << "' cannot be lowered yet";
  if (kernel.getNumResults() && !kernel.getOffsets())
    return kernel.emitError() << "expected a kernel with offsets; run "
                                 "'fp8-place' first";
  SmallVector<View> inputs;
  for (Value input : kernel.getInputs()) {
    if (isa<TokenType, HostType>(input.getType())) {
      inputs.push_back({});
      continue;
    }
    FailureOr<View> view = viewOf(input, kernel);
    if (failed(view))
      return failure();
    inputs.push_back(*view);
  }
  Block &body = kernel.getBody().front();
  // What the kernel is for: what makes its first result, else its first op.
  Operation *main = &body.front();
  if (kernel.getNumResults())
    if (Operation *op = body.getTerminator()->getOperand(0).getDefiningOp())
      main = op;
  std::string name = names.getName(kernel);

  for (auto [index, result] : llvm::enumerate(kernel.getResults())) {
    if (isa<TokenType, HostType>(result.getType()))
      continue;
    // A piece of what other kernels have begun.
    if (Value over = getAliasedOperand(result)) {
      views[result] = inputs[llvm::find(kernel.getInputs(), over) -
                             kernel.getInputs().begin()];
      continue;
    }
    // In place: another command that writes the same storage.
    if (int64_t over = kernel.getInPlace() ? (*kernel.getInPlace())[index] : -1;
        over >= 0) {
      views[result] = getDenseView(inputs[over].isArgument, inputs[over].index,
                                   result.getType());
      continue;
    }
    std::string resultName = names.getName(result);
    std::optional<std::pair<Collective, Value>> gather = getGather(result);
    Type stored = gather ? gather->second.getType() : result.getType();
    int64_t buffer = makeBuffer(resultName, getByteSize(stored),
                                (*kernel.getOffsets())[index]);
    allocate(buffer);
    views[result] =
        getDenseView(/*isArgument=*/false, buffer, result.getType());
    if (gather)
      views[result].axis = gather->first.axis;
  }
  std::string position = getPosition(kernel.getLoc());
  if (position.empty())
    position = getPosition(main->getLoc());
  json::Object command{{"name", name}, {"loc", position}};
  if (kernel.getKind() == KernelKind::Matmul)
    return writeMatmul(kernel, std::move(command));
  if (kernel.getKind() == KernelKind::Collective)
    return writeCollective(kernel, std::move(command));
  if (kernel.getKind() == KernelKind::Copy)
    return writeHostCopy(kernel, std::move(command));

  json::Array args, writes;
  for (auto [number, input] : llvm::enumerate(inputs)) {
    View whole = getDenseView(input.isArgument, input.index,
                              kernel.getInputs()[number].getType());
    if (input.offset || input.strides != whole.strides)
      return kernel.emitError()
             << "expected operand " << number
             << " to be a whole argument or kernel result, but got a view with "
                "strides; views are cloned into kernels by "
                "'fp8-form-kernels'";
    args.push_back(refOf(input));
  }
  SetVector<int64_t> written;
  for (Operation &op : body)
    for (Value operand : isa<PushAmaxOp>(op) ? op.getOperands().drop_front(1)
                         : isa<UpdateScaleOp>(op)
                             ? op.getOperands()
                             : op.getOperands().take_front(0))
      if (auto argument = dyn_cast<BlockArgument>(getRoot(operand)))
        written.insert(argument.getArgNumber());
  for (int64_t number : written)
    writes.push_back(number);
  for (Value result : kernel.getResults()) {
    writes.push_back(int64_t(args.size()));
    args.push_back(refOf(views.lookup(result)));
  }
  if (!target.chip.empty())
    return writeLaunches(kernel, std::move(command), std::move(args),
                         std::move(writes));
  if (!kernel.getSymbol())
    return kernel.emitError() << "expected a kernel with a symbol; run "
                                 "'fp8-lower-to-cpu' first";
  command["op"] = "launch";
  command["kernel"] = json::fixUTF8(*kernel.getSymbol());
  command["args"] = std::move(args);
  command["writes"] = std::move(writes);
  addWork(command, getKernelCost(kernel));
  commands.push_back(std::move(command));
  return success();
}

/// On a GPU one kernel is a fill of all that it adds to, then its launches,
/// which all have the same arguments.
LogicalResult FunctionWriter::writeLaunches(KernelOp kernel,
                                            json::Object command,
                                            json::Array args,
                                            json::Array writes) {
  if (!kernel.getLaunches())
    return kernel.emitError() << "expected a kernel with launches; run "
                                 "'fp8-lower-to-cuda' first";
  int64_t workspace = -1;
  if (kernel.getWorkspace() > 0) {
    if (!kernel.getWorkspaceOffset())
      return kernel.emitError() << "expected a kernel with a placed workspace; "
                                   "run 'fp8-place' first";
    workspace = makeBuffer(command.getString("name")->str() + ".workspace",
                           kernel.getWorkspace(), *kernel.getWorkspaceOffset());
    buffers[workspace].workspace = true;
    allocate(workspace);
    writes.push_back(int64_t(args.size()));
    args.push_back(json::Object{{"buffer", workspace}});
  }
  if (std::optional<ArrayAttr> fills = kernel.getFills()) {
    json::Array destinations, sizes;
    for (FillAttr fill : fills->getAsRange<FillAttr>()) {
      destinations.push_back(args[fill.getBuffer()]);
      sizes.push_back(fill.getBytes());
    }
    json::Object object = command;
    object["op"] = "fill";
    object["dst"] = std::move(destinations);
    object["bytes"] = std::move(sizes);
    commands.push_back(std::move(object));
  }
  OpCost work = getKernelCost(kernel);
  for (LaunchAttr launch : kernel.getLaunches()->getAsRange<LaunchAttr>()) {
    json::Object object = command;
    addWork(object, std::exchange(work, OpCost()));
    object["op"] = "launch";
    object["kernel"] = launch.getSymbol();
    object["args"] = json::Array(args);
    object["writes"] = json::Array(writes);
    object["grid"] = toArray(launch.getGrid());
    object["block"] = toArray(launch.getBlock());
    object["shared"] = launch.getShared();
    commands.push_back(std::move(object));
  }
  if (workspace >= 0)
    release(workspace);
  return success();
}

LogicalResult FunctionWriter::writeCollective(KernelOp kernel,
                                              json::Object command) {
  Block &body = kernel.getBody().front();
  for (auto [argument, input] :
       llvm::zip_equal(body.getArguments(), kernel.getInputs())) {
    if (isa<TokenType>(input.getType()))
      tickets[argument] = tickets.lookup(input);
    else
      views[argument] = views.lookup(input);
  }
  for (Operation &op : body.without_terminator()) {
    if (auto wait = dyn_cast<WaitOp>(op)) {
      if (failed(writeWait(wait)))
        return failure();
      continue;
    }
    std::optional<Collective> collective = getCollective(&op);
    if (!collective) {
      if (failed(addView(&op)))
        return failure();
      continue;
    }
    std::optional<StringRef> dtype = getDTypeName(collective->x.getType());
    if (!dtype)
      return op.emitError() << "expected a collective on tensors of bf16, f32, "
                               "i32 or an f8 type, but got "
                            << collective->x.getType();
    FailureOr<View> source = viewOf(collective->x, &op);
    if (failed(source))
      return failure();
    json::Object from = refOf(*source);
    from["offset"] = source->offset;
    from["strides"] = toArray(source->strides);
    json::Object object = command;
    object["op"] = "collective";
    object["axis"] = json::fixUTF8(collective->axis);
    object["dtype"] = *dtype;
    object["shape"] =
        toArray(cast<RankedTensorType>(collective->x.getType()).getShape());
    object["src"] = std::move(from);
    object["dst"] = refOf(views.lookup(kernel.getResult(0)));
    if (collective->split >= 0)
      object["split"] = collective->split;
    if (collective->concat >= 0)
      object["concat"] = collective->concat;
    if (collective->reduce)
      object["reduce"] = stringifyReduceKind(*collective->reduce);
    if (collective->acc)
      object["acc"] = collective->acc.isBF16() ? "bf16" : "f32";
    if (isCollectiveStart(&op)) {
      object["ticket"] = numTickets;
      for (Value result : kernel.getResults())
        if (isa<TokenType>(result.getType()))
          tickets[result] = numTickets;
      ++numTickets;
    }
    commands.push_back(std::move(object));
  }
  return success();
}

LogicalResult FunctionWriter::writeHostCopy(KernelOp kernel,
                                            json::Object command) {
  // The buffer is the operand of a copy to the host and the result of one back.
  bool isOut = isa<HostType>(kernel.getResult(0).getType());
  Value buffer = isOut ? kernel.getInputs().front() : kernel.getResult(0);
  if (isOut)
    hostOffsets[kernel.getResult(0)] = kernel.getOffsets()->front();
  FailureOr<View> view = viewOf(buffer, kernel);
  if (failed(view))
    return failure();
  if (view->isArgument)
    return kernel.emitError() << "expected to copy the result of a kernel to "
                                 "host memory, but got an argument";
  command["op"] = isOut ? "offload" : "prefetch";
  command[isOut ? "src" : "dst"] = refOf(*view);
  command["host"] = hostOffsets.lookup(isOut ? kernel.getResult(0)
                                             : kernel.getInputs().front());
  command["bytes"] = getByteSize(buffer.getType());
  command["ticket"] = numTickets;
  tickets[kernel.getResult(1)] = numTickets++;
  commands.push_back(std::move(command));
  return success();
}

LogicalResult FunctionWriter::writeWait(WaitOp wait) {
  auto it = tickets.find(wait.getToken());
  if (it == tickets.end())
    return wait.emitError() << "expected the token of a collective or a copy "
                               "that was started before";
  commands.push_back(json::Object{{"op", "wait"},
                                  {"ticket", it->second},
                                  {"name", names.getName(wait.getResult())},
                                  {"loc", getPosition(wait.getLoc())}});
  if (isa<HostType>(wait.getResult().getType())) {
    hostOffsets[wait.getResult()] = hostOffsets.lookup(wait.getX());
    return success();
  }
  return addView(wait);
}
