//===- Manifest.cpp ---------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks a placed function in program order and writes it down as the command
// list that the runtime executes.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/PlanGraph.h"
#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Artifact.h"
#include "fp8/Target/Signature.h"
#include "fp8/Target/Target.h"
#include "fp8rt/CpuGemm.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::fp8;
namespace json = llvm::json;

/// The name of an element type in a manifest, or nothing.
static std::optional<StringRef> dtypeOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return std::nullopt;
  Type element = tensor.getElementType();
  if (element.isBF16())
    return "bf16";
  if (element.isF32())
    return "f32";
  if (isa<Float8E4M3FNType>(element))
    return "f8E4M3FN";
  if (isa<Float8E5M2Type>(element))
    return "f8E5M2";
  if (element.isInteger(32))
    return "i32";
  return std::nullopt;
}

static json::Array arrayOf(ArrayRef<int64_t> values) {
  json::Array array;
  for (int64_t value : values)
    array.push_back(value);
  return array;
}

/// `file:line:col` of a location, or nothing.
static std::string positionOf(Location loc) {
  std::string text;
  loc->walk([&](Location part) {
    if (auto file = dyn_cast<FileLineColLoc>(part)) {
      text = json::fixUTF8(file.getFilename()) + ":" +
             std::to_string(file.getLine()) + ":" +
             std::to_string(file.getColumn());
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return text;
}

static std::string nameOf(Location loc) {
  std::string text;
  loc->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part)) {
      text = json::fixUTF8(name.getName().getValue());
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return text;
}

namespace {

/// Where a value lies: a strided view of an argument or a buffer.
struct View {
  bool isArgument = false;
  int64_t index = 0;
  int64_t offset = 0;
  SmallVector<int64_t> strides;
};

struct Buffer {
  std::string name;
  int64_t bytes = 0;
  int64_t offset = 0;
  bool result = false, residual = false, workspace = false;
};

class FunctionWriter {
public:
  FunctionWriter(func::FuncOp function, const Target &target)
      : function(function), target(target), signature(getSignature(function)) {}

  FailureOr<json::Object> write();

private:
  LogicalResult writeBlock(Block &block);
  LogicalResult writeKernel(KernelOp kernel);
  LogicalResult writeLaunches(KernelOp kernel, json::Object command,
                              json::Array args, json::Array writes);
  LogicalResult writeMatmul(KernelOp kernel, json::Object command);
  LogicalResult writeFree(FreeOp freeOp);
  LogicalResult writeStep(StepOp step);
  FailureOr<json::Array> writeArguments();
  FailureOr<json::Array> writeResults(func::ReturnOp returnOp);

  FailureOr<View> viewOf(Value value, Operation *user);
  /// Views inside of a kernel and outside, of what `view` names.
  LogicalResult addView(Operation *op);
  json::Object refOf(const View &view);
  FailureOr<json::Object> operandOf(Value value, Operation *user);
  FailureOr<json::Object> scaleOf(Value scale, Value operand, Operation *user);
  void allocate(int64_t buffer);
  void release(int64_t buffer);
  int64_t makeBuffer(std::string name, int64_t bytes, int64_t offset);

  func::FuncOp function;
  const Target &target;
  Signature signature;
  DenseMap<Value, View> views; // looked up only
  std::vector<Buffer> buffers;
  json::Array commands;
  llvm::StringMap<int64_t> ordinals; // looked up only
  int64_t live = 0, peak = 0;
};

} // namespace

static View dense(bool isArgument, int64_t index, Type type) {
  View view{isArgument, index, 0, {}};
  ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
  view.strides.assign(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i)
    view.strides[i - 2] = view.strides[i - 1] * shape[i - 1];
  return view;
}

FailureOr<View> FunctionWriter::viewOf(Value value, Operation *user) {
  auto it = views.find(value);
  if (it != views.end())
    return it->second;
  Operation *producer = value.getDefiningOp();
  return user->emitError()
         << "expected an operand in the storage of an argument or a kernel's "
            "result, but got a value of '"
         << (producer ? producer->getName().getStringRef()
                      : StringRef("a block argument"))
         << "'; run 'fp8-form-kernels' first";
}

LogicalResult FunctionWriter::addView(Operation *op) {
  FailureOr<View> source = viewOf(op->getOperand(0), op);
  if (failed(source))
    return failure();
  View view = *source;
  Value result = op->getResult(0);
  if (auto permute = dyn_cast<PermuteOp>(op)) {
    for (auto [i, dim] : llvm::enumerate(permute.getPerm()))
      view.strides[i] = source->strides[dim];
  } else if (auto slice = dyn_cast<SliceOp>(op)) {
    for (auto [offset, stride] :
         llvm::zip_equal(slice.getOffsets(), view.strides))
      view.offset += offset * stride;
  } else if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    // A stride along a dimension of size 1 means nothing.
    auto from = cast<RankedTensorType>(reshape.getX().getType());
    View contiguous = dense(view.isArgument, view.index, from);
    for (auto [dim, have, want] :
         llvm::zip_equal(from.getShape(), view.strides, contiguous.strides))
      if (dim != 1 && have != want)
        return op->emitError()
               << "expected the operand of a reshape to be contiguous in "
                  "row-major order; move its bytes with 'fp8.transpose' first";
    int64_t offset = view.offset;
    view = dense(view.isArgument, view.index, result.getType());
    view.offset = offset;
  }
  // A bitcast keeps the width of an element; a barrier changes nothing.
  views[result] = view;
  return success();
}

json::Object FunctionWriter::refOf(const View &view) {
  return json::Object{{view.isArgument ? "arg" : "buffer", view.index}};
}

int64_t FunctionWriter::makeBuffer(std::string name, int64_t bytes,
                                   int64_t offset) {
  buffers.push_back({std::move(name), bytes, offset});
  return buffers.size() - 1;
}

void FunctionWriter::allocate(int64_t buffer) {
  commands.push_back(json::Object{{"op", "alloc"}, {"buffer", buffer}});
  live += buffers[buffer].bytes;
  peak = std::max(peak, live);
}

void FunctionWriter::release(int64_t buffer) {
  commands.push_back(json::Object{{"op", "free"}, {"buffer", buffer}});
  live -= buffers[buffer].bytes;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// What a loop kernel moves and computes, for ledgers.
static void addWork(json::Object &command, const OpCost &work) {
  command["bytes"] = work.bytesRead + work.bytesWritten;
  command["flops"] = work.flopsF32;
}

LogicalResult FunctionWriter::writeKernel(KernelOp kernel) {
  if (kernel.getKind() == KernelKind::Collective ||
      kernel.getKind() == KernelKind::Opaque)
    return kernel.emitError()
           << "a kernel of kind '" << stringifyKernelKind(kernel.getKind())
           << "' cannot be lowered yet";
  if (kernel.getNumResults() && !kernel.getOffsets())
    return kernel.emitError() << "expected a kernel with offsets; run "
                                 "'fp8-place' first";
  SmallVector<View> inputs;
  for (Value input : kernel.getInputs()) {
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
  int64_t ordinal = ordinals[main->getName().getStringRef()]++;
  std::string name = nameOf(kernel.getLoc());
  if (name.empty())
    name = nameOf(main->getLoc());
  if (name.empty())
    name = (main->getName().getStringRef() + "#" + Twine(ordinal)).str();

  for (auto [index, result] : llvm::enumerate(kernel.getResults())) {
    // A piece of what other kernels have begun.
    if (Value over = getAliasedOperand(result)) {
      views[result] = inputs[llvm::find(kernel.getInputs(), over) -
                             kernel.getInputs().begin()];
      continue;
    }
    // In place: another command that writes the same storage.
    if (int64_t over = kernel.getInPlace() ? (*kernel.getInPlace())[index] : -1;
        over >= 0) {
      views[result] =
          dense(inputs[over].isArgument, inputs[over].index, result.getType());
      continue;
    }
    std::string resultName =
        nameOf(body.getTerminator()->getOperand(index).getLoc());
    if (resultName.empty())
      resultName = (name + "." + Twine(index)).str();
    int64_t buffer = makeBuffer(resultName, getByteSize(result.getType()),
                                (*kernel.getOffsets())[index]);
    allocate(buffer);
    views[result] = dense(/*isArgument=*/false, buffer, result.getType());
  }
  std::string position = positionOf(kernel.getLoc());
  if (position.empty())
    position = positionOf(main->getLoc());
  json::Object command{{"name", name}, {"loc", position}};
  if (kernel.getKind() == KernelKind::Matmul)
    return writeMatmul(kernel, std::move(command));

  json::Array args, writes;
  for (auto [number, input] : llvm::enumerate(inputs)) {
    View whole = dense(input.isArgument, input.index,
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
    object["grid"] = arrayOf(launch.getGrid());
    object["block"] = arrayOf(launch.getBlock());
    object["shared"] = launch.getShared();
    commands.push_back(std::move(object));
  }
  if (workspace >= 0)
    release(workspace);
  return success();
}

FailureOr<json::Object> FunctionWriter::operandOf(Value value,
                                                  Operation *user) {
  FailureOr<View> view = viewOf(value, user);
  if (failed(view))
    return failure();
  json::Object operand = refOf(*view);
  operand["dtype"] = *dtypeOf(value.getType());
  operand["offset"] = view->offset;
  operand["strides"] = arrayOf(view->strides);
  return operand;
}

FailureOr<json::Object> FunctionWriter::scaleOf(Value scale, Value operand,
                                                Operation *user) {
  FailureOr<View> view = viewOf(scale, user);
  if (failed(view))
    return failure();
  json::Object object = refOf(*view);
  SmallVector<int64_t> group(getEncoding(operand.getType()).getGroup());
  // A group that reaches the end of its dimension is the whole of it.
  auto shape = cast<RankedTensorType>(operand.getType()).getShape();
  for (auto [size, dim] : llvm::zip_equal(group, shape))
    if (size >= dim)
      size = 0;
  object["group"] = arrayOf(group);
  object["offset"] = view->offset;
  object["strides"] = arrayOf(view->strides);
  return object;
}

LogicalResult FunctionWriter::writeMatmul(KernelOp kernel,
                                          json::Object command) {
  Block &body = kernel.getBody().front();
  MatmulOp matmul;
  UpdateSliceOp update;
  for (auto [argument, input] :
       llvm::zip_equal(body.getArguments(), kernel.getInputs()))
    views[argument] = views.lookup(input);
  for (Operation &op : body.without_terminator()) {
    if (isView(&op)) {
      if (failed(addView(&op)))
        return failure();
    } else if (auto found = dyn_cast<MatmulOp>(op); found && !matmul) {
      matmul = found;
    } else if (auto found = dyn_cast<UpdateSliceOp>(op);
               found && !update && matmul) {
      update = found;
    } else {
      return op.emitError()
             << "expected views and one 'fp8.matmul' in a matmul kernel, but "
                "got '"
             << op.getName() << "'";
    }
  }
  if (!matmul || kernel.getNumResults() != 1 ||
      getStored(body.getTerminator()->getOperand(0)) != matmul.getResult())
    return kernel.emitError() << "expected a matmul kernel to give the result "
                                 "of its 'fp8.matmul'";
  if (int64_t(kernel.getWorkspace()) != target.matmulWorkspaceBytes ||
      !kernel.getWorkspaceOffset())
    return kernel.emitError()
           << "expected a matmul with a placed workspace of "
           << target.matmulWorkspaceBytes << " bytes, which the "
           << (target.chip.empty() ? "cpu" : target.name) << " needs, but got "
           << int64_t(kernel.getWorkspace()) << " bytes; set the target '"
           << target.name << "' before planning";
  auto a = cast<RankedTensorType>(matmul.getA().getType());
  auto b = cast<RankedTensorType>(matmul.getB().getType());
  command["op"] = "gemm";
  command["m"] = a.getDimSize(0);
  command["k"] = a.getDimSize(1);
  command["n"] = b.getDimSize(1);
  SmallVector<std::pair<StringRef, Value>> operands = {{"a", matmul.getA()},
                                                       {"b", matmul.getB()}};
  if (matmul.getAcc())
    operands.push_back({"c", matmul.getAcc()});
  View result = views.lookup(kernel.getResult(0));
  if (update)
    for (auto [offset, stride] :
         llvm::zip_equal(update.getOffsets(), result.strides))
      result.offset += offset * stride;
  views[matmul.getResult()] = result;
  operands.push_back({"d", matmul.getResult()});
  for (auto [key, value] : operands) {
    FailureOr<json::Object> operand = operandOf(value, matmul);
    if (failed(operand))
      return failure();
    command[key] = std::move(*operand);
  }
  for (auto [key, scale, operand] :
       {std::tuple<StringRef, Value, Value>{"scale_a", matmul.getScaleA(),
                                            matmul.getA()},
        {"scale_b", matmul.getScaleB(), matmul.getB()}}) {
    if (!scale)
      continue;
    FailureOr<json::Object> object = scaleOf(scale, operand, matmul);
    if (failed(object))
      return failure();
    command[key] = std::move(*object);
  }
  command["fast_accum"] = matmul.getFastAccum();

  int64_t workspace =
      makeBuffer(command.getString("name")->str() + ".workspace",
                 kernel.getWorkspace(), *kernel.getWorkspaceOffset());
  buffers[workspace].workspace = true;
  command["workspace"] = json::Object{{"buffer", workspace}};
  allocate(workspace);
  commands.push_back(std::move(command));
  release(workspace);
  return success();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

LogicalResult FunctionWriter::writeFree(FreeOp freeOp) {
  for (Value value : freeOp.getValues()) {
    FailureOr<View> view = viewOf(value, freeOp);
    if (failed(view))
      return failure();
    if (view->isArgument)
      return freeOp.emitError()
             << "expected to free the result of a kernel, but got an argument";
    release(view->index);
  }
  return success();
}

LogicalResult FunctionWriter::writeStep(StepOp step) {
  if (failed(writeBlock(step.getForward().front())))
    return failure();
  YieldOp forward = step.getForwardYield(), backward = step.getBackwardYield();
  if (step.getBackward().getNumArguments() != forward.getResiduals().size())
    return step.emitError() << "expected as many arguments of the backward "
                               "region as residuals";
  for (auto [argument, residual] : llvm::zip_equal(
           step.getBackward().getArguments(), forward.getResiduals())) {
    FailureOr<View> view = viewOf(residual, forward);
    if (failed(view))
      return failure();
    views[argument] = *view;
    if (!view->isArgument)
      buffers[view->index].residual = true;
  }
  if (failed(writeBlock(step.getBackward().front())))
    return failure();
  size_t next = 0;
  for (YieldOp yield : {forward, backward})
    for (Value value : yield.getValues()) {
      FailureOr<View> view = viewOf(value, yield);
      if (failed(view))
        return failure();
      views[step.getResult(next++)] = *view;
    }
  return success();
}

LogicalResult FunctionWriter::writeBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    LogicalResult written = success();
    if (auto kernel = dyn_cast<KernelOp>(op))
      written = writeKernel(kernel);
    else if (auto freeOp = dyn_cast<FreeOp>(op))
      written = writeFree(freeOp);
    else if (auto step = dyn_cast<StepOp>(op))
      written = writeStep(step);
    else if (isView(&op))
      written = addView(&op);
    else if (!isa<arith::ConstantOp>(op))
      written = op.emitError() << "expected only kernels, views and frees in a "
                                  "placed function, but got '"
                               << op.getName() << "'";
    if (failed(written))
      return failure();
  }
  return success();
}

FailureOr<json::Array> FunctionWriter::writeArguments() {
  json::Array arguments;
  for (auto [number, argument] : llvm::enumerate(signature.arguments)) {
    std::optional<StringRef> dtype = dtypeOf(argument.type);
    if (!dtype)
      return function.emitError()
             << "expected argument '" << argument.name
             << "' to be a tensor of bf16, f32, i32 or an f8 type, but got "
             << argument.type;
    arguments.push_back(json::Object{
        {"name", argument.name},
        {"dtype", *dtype},
        {"shape", arrayOf(cast<RankedTensorType>(argument.type).getShape())},
        {"bytes", getByteSize(argument.type)},
        {"role", stringifyArgumentRole(argument.role)},
        {"init", stringifyArgumentInit(argument.init)},
        {"init_scale", argument.initScale}});
    views[function.getArgument(number)] =
        dense(/*isArgument=*/true, number, argument.type);
  }
  return arguments;
}

FailureOr<json::Array> FunctionWriter::writeResults(func::ReturnOp returnOp) {
  json::Array results;
  for (auto [result, value] :
       llvm::zip_equal(signature.results, returnOp.getOperands())) {
    std::optional<StringRef> dtype = dtypeOf(result.type);
    if (!dtype)
      return returnOp.emitError()
             << "expected result '" << result.name
             << "' to be a tensor of bf16, f32, i32 or an f8 type, but got "
             << result.type;
    FailureOr<View> view = viewOf(value, returnOp);
    if (failed(view))
      return failure();
    if (!view->isArgument)
      buffers[view->index].result = true;
    bool caller = !view->isArgument && buffers[view->index].offset < 0;
    if (caller != result.isCallerPlaced)
      return returnOp.emitError()
             << "expected result '" << result.name << "' to be placed "
             << (result.isCallerPlaced ? "by the caller" : "in the arena")
             << ", but its kernel has "
             << (caller ? "no offset" : "an offset in the arena");
    results.push_back(json::Object{
        {"name", result.name},
        {"dtype", *dtype},
        {"shape", arrayOf(cast<RankedTensorType>(result.type).getShape())},
        {"placement", caller ? "caller" : "arena"},
        {"ref", refOf(*view)},
        {"offset", view->offset},
        {"strides", arrayOf(view->strides)}});
  }
  return results;
}

FailureOr<json::Object> FunctionWriter::write() {
  if (!function.getBody().hasOneBlock())
    return function.emitError() << "expected a function of one block";
  FailureOr<json::Array> arguments = writeArguments();
  if (failed(arguments))
    return failure();
  Block &block = function.getBody().front();
  if (failed(writeBlock(block)))
    return failure();
  auto returnOp = dyn_cast<func::ReturnOp>(block.getTerminator());
  if (!returnOp)
    return function.emitError() << "expected a function that ends in a return";
  FailureOr<json::Array> results = writeResults(returnOp);
  if (failed(results))
    return failure();

  auto arena = function->getAttrOfType<IntegerAttr>(kArenaBytesAttr);
  int64_t saved = 0, end = 0;
  json::Array bufferList;
  for (const Buffer &buffer : buffers) {
    if (buffer.residual)
      saved += buffer.bytes;
    if (buffer.offset >= 0)
      end = std::max(end, buffer.offset + buffer.bytes);
    bufferList.push_back(json::Object{{"name", buffer.name},
                                      {"bytes", buffer.bytes},
                                      {"offset", buffer.offset},
                                      {"kind", buffer.workspace  ? "workspace"
                                               : buffer.result   ? "result"
                                               : buffer.residual ? "residual"
                                                                 : "local"}});
  }
  if (end > 0 && (!arena || arena.getInt() < end))
    return function.emitError()
           << "expected '" << kArenaBytesAttr << "' of at least " << end
           << ", the end of the last buffer, but got "
           << (arena ? arena.getInt() : 0);
  return json::Object{{"name", json::fixUTF8(function.getName())},
                      {"arguments", std::move(*arguments)},
                      {"buffers", std::move(bufferList)},
                      {"results", std::move(*results)},
                      {"commands", std::move(commands)},
                      {"peak_bytes", peak},
                      {"arena_bytes", arena ? arena.getInt() : 0},
                      {"saved_bytes", saved}};
}

// The runtime's matmul packs its panels in what the plan counts.
static constexpr int64_t kCpuWorkspace = fp8rt::kCpuGemmWorkspaceBytes;

FailureOr<json::Object> mlir::fp8::buildManifest(ModuleOp module) {
  const Target *target = getTargetOf(module);
  if (!target)
    return failure();
  assert((!target->chip.empty() ||
          target->matmulWorkspaceBytes == kCpuWorkspace) &&
         "the target and the runtime disagree");
  json::Array functions;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    FailureOr<json::Object> object = FunctionWriter(function, *target).write();
    if (failed(object))
      return failure();
    functions.push_back(std::move(*object));
  }
  if (functions.empty())
    return module.emitError() << "expected a function with a body to write an "
                                 "artifact of, but the module has none";
  return json::Object{{"schema", "fp8opt-artifact-1"},
                      {"compiler", "fp8-opt " FP8_VERSION},
                      {"target", target->name},
                      {"functions", std::move(functions)}};
}
