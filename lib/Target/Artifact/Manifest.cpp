//===- Manifest.cpp ---------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The storage, the order and the signature of a placed function as the command
// list that the runtime executes.
//
//===----------------------------------------------------------------------===//

#include "FunctionWriter.h"

#include "fp8/Target/Artifact.h"
#include "fp8rt/CpuGemm.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fp8;

std::optional<StringRef> mlir::fp8::getDTypeName(Type type) {
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
  // Bytes that only kernels look into.
  if (element.isInteger(1) || isa<E5M6Type>(element))
    return "i8";
  return std::nullopt;
}

/// The shape of `type` in elements of its manifest type: of E5M6, bytes.
static SmallVector<int64_t> getStoredShape(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  if (isa<E5M6Type>(tensor.getElementType()))
    shape.back() = shape.back() / 2 * 3;
  return shape;
}

/// `view` of a value of `type` in elements of its manifest type.
static View getStoredView(View view, Type type) {
  if (!isa<E5M6Type>(cast<RankedTensorType>(type).getElementType()))
    return view;
  // Rows are even, and a view starts at an even column.
  view.offset = view.offset / 2 * 3;
  for (int64_t &stride : MutableArrayRef(view.strides).drop_back())
    stride = stride / 2 * 3;
  return view;
}

json::Array mlir::fp8::toArray(ArrayRef<int64_t> values) {
  json::Array array;
  for (int64_t value : values)
    array.push_back(value);
  return array;
}

std::string mlir::fp8::getPosition(Location loc) {
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

View mlir::fp8::getDenseView(bool isArgument, int64_t index, Type type) {
  View view{isArgument, index, 0, {}, {}};
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
    View contiguous = getDenseView(view.isArgument, view.index, from);
    for (auto [dim, have, want] :
         llvm::zip_equal(from.getShape(), view.strides, contiguous.strides))
      if (dim != 1 && have != want)
        return op->emitError()
               << "expected the operand of a reshape to be contiguous in "
                  "row-major order; move its bytes with 'fp8.transpose' first";
    int64_t offset = view.offset;
    view = getDenseView(view.isArgument, view.index, result.getType());
    view.offset = offset;
  }
  // A bitcast keeps the width of an element; a barrier changes nothing.
  views[result] = view;
  return success();
}

json::Object FunctionWriter::refOf(const View &view) {
  json::Object ref{{view.isArgument ? "arg" : "buffer", view.index}};
  if (!view.axis.empty())
    ref["axis"] = json::fixUTF8(view.axis);
  return ref;
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
    if (isa<TokenType>(residual.getType())) {
      tickets[argument] = tickets.lookup(residual);
      continue;
    }
    if (isa<HostType>(residual.getType())) {
      hostOffsets[argument] = hostOffsets.lookup(residual);
      continue;
    }
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
    else if (auto wait = dyn_cast<WaitOp>(op))
      written = writeWait(wait);
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
    std::optional<StringRef> dtype = getDTypeName(argument.type);
    if (!dtype)
      return function.emitError()
             << "expected argument '" << argument.name
             << "' to be a tensor of bf16, f32, i32, i1, an f8 type or "
                "!fp8.e5m6, but got "
             << argument.type;
    json::Object object{{"name", argument.name},
                        {"dtype", *dtype},
                        {"shape", toArray(getStoredShape(argument.type))},
                        {"bytes", getByteSize(argument.type)},
                        {"role", stringifyArgumentRole(argument.role)},
                        {"init", stringifyArgumentInit(argument.init)},
                        {"init_scale", argument.initScale}};
    if (!argument.shard.empty()) {
      json::Array axes;
      for (const std::string &axis : argument.shard)
        axes.push_back(json::fixUTF8(axis));
      object["shard"] = std::move(axes);
    }
    arguments.push_back(std::move(object));
    views[function.getArgument(number)] =
        getDenseView(/*isArgument=*/true, number, argument.type);
  }
  return arguments;
}

FailureOr<json::Array> FunctionWriter::writeResults(func::ReturnOp returnOp) {
  json::Array results;
  for (auto [result, value] :
       llvm::zip_equal(signature.results, returnOp.getOperands())) {
    std::optional<StringRef> dtype = getDTypeName(result.type);
    if (!dtype)
      return returnOp.emitError()
             << "expected result '" << result.name
             << "' to be a tensor of bf16, f32, i32, i1, an f8 type or "
                "!fp8.e5m6, but got "
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
    View stored = getStoredView(*view, result.type);
    json::Object object{{"name", result.name},
                        {"dtype", *dtype},
                        {"shape", toArray(getStoredShape(result.type))},
                        {"placement", caller ? "caller" : "arena"},
                        {"ref", refOf(stored)},
                        {"offset", stored.offset},
                        {"strides", toArray(stored.strides)}};
    if (auto counter = function.getResultAttrOfType<StringAttr>(results.size(),
                                                                kCounterAttr))
      object["counter"] = json::fixUTF8(counter.getValue());
    results.push_back(std::move(object));
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
  auto host = function->getAttrOfType<IntegerAttr>(kHostBytesAttr);
  return json::Object{{"name", json::fixUTF8(function.getName())},
                      {"host_bytes", host ? host.getInt() : 0},
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
  json::Object manifest{{"schema", "fp8opt-artifact-1"},
                        {"compiler", "fp8-opt " FP8_VERSION},
                        {"target", target->name},
                        {"functions", std::move(functions)}};
  json::Array grid;
  for (auto [axis, size] : getGrid(module))
    grid.push_back(json::Object{{"name", json::fixUTF8(axis)}, {"size", size}});
  if (!grid.empty())
    manifest["grid"] = std::move(grid);
  return manifest;
}
