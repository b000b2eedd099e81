//===- WriteMatmul.cpp - products as commands -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command of a matmul kernel: one product, or one for each group of rows.
//
//===----------------------------------------------------------------------===//

#include "FunctionWriter.h"

using namespace mlir;
using namespace mlir::fp8;

/// What `entries` say of a matrix: the last two.
static json::Array ofMatrix(ArrayRef<int64_t> entries) {
  return toArray(entries.take_back(2));
}

FailureOr<json::Object> FunctionWriter::operandOf(Value value,
                                                  Operation *user) {
  FailureOr<View> view = viewOf(value, user);
  if (failed(view))
    return failure();
  json::Object operand = refOf(*view);
  operand["dtype"] = *getDTypeName(value.getType());
  operand["offset"] = view->offset;
  operand["strides"] = ofMatrix(view->strides);
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
  object["group"] = ofMatrix(group);
  object["offset"] = view->offset;
  object["strides"] = ofMatrix(view->strides);
  return object;
}

/// How the matrices of a product of groups follow each other. Its operands have
/// views.
FailureOr<json::Object> FunctionWriter::groupsOf(GroupedMatmulOp op) {
  FailureOr<View> offsets = viewOf(op.getOffsets(), op);
  if (failed(offsets))
    return failure();
  if (offsets->offset != 0 || offsets->strides[0] != 1)
    return op.emitError() << "expected the offsets to be a whole argument or "
                             "kernel result, but got a view of one";
  Value matrices = op.isSumGrouped() ? op.getResult() : op.getB();
  int64_t scaleStride = 0;
  if (Value scale = op.getScaleB();
      scale && !op.isSumGrouped() &&
      getEncoding(op.getB().getType()).getGroup()[0] == 1) {
    FailureOr<View> view = viewOf(scale, op);
    if (failed(view))
      return failure();
    scaleStride = view->strides[0];
  }
  return json::Object{{"offsets", refOf(*offsets)},
                      {"count", op.getNumGroups()},
                      {"align", op.getAlign()},
                      {"of_sum", op.isSumGrouped()},
                      {"stride", views.lookup(matrices).strides[0]},
                      {"scale_stride", scaleStride}};
}

LogicalResult FunctionWriter::writeMatmul(KernelOp kernel,
                                          json::Object command) {
  Block &body = kernel.getBody().front();
  Operation *product = nullptr;
  UpdateSliceOp update;
  for (auto [argument, input] :
       llvm::zip_equal(body.getArguments(), kernel.getInputs()))
    views[argument] = views.lookup(input);
  for (Operation &op : body.without_terminator()) {
    if (isView(&op)) {
      if (failed(addView(&op)))
        return failure();
    } else if (isa<MatmulOp, GroupedMatmulOp>(op) && !product) {
      product = &op;
    } else if (auto found = dyn_cast<UpdateSliceOp>(op);
               found && !update && product) {
      update = found;
    } else {
      return op.emitError()
             << "expected views and one product in a matmul kernel, but got '"
             << op.getName() << "'";
    }
  }
  if (!product || kernel.getNumResults() != 1 ||
      getStored(body.getTerminator()->getOperand(0)) != product->getResult(0))
    return kernel.emitError()
           << "expected a matmul kernel to give the result of its product";
  if (int64_t(kernel.getWorkspace()) != target.matmulWorkspaceBytes ||
      !kernel.getWorkspaceOffset())
    return kernel.emitError()
           << "expected a matmul with a placed workspace of "
           << target.matmulWorkspaceBytes << " bytes, which the "
           << (target.chip.empty() ? "cpu" : target.name) << " needs, but got "
           << int64_t(kernel.getWorkspace()) << " bytes; set the target '"
           << target.name << "' before planning";
  auto matmul = dyn_cast<MatmulOp>(product);
  auto grouped = dyn_cast<GroupedMatmulOp>(product);
  Value left = product->getOperand(0), right = product->getOperand(1);
  auto a = cast<RankedTensorType>(left.getType()).getShape(),
       b = cast<RankedTensorType>(right.getType()).getShape();
  command["op"] = "gemm";
  command["m"] = a[0];
  command["k"] = a[1];
  command["n"] = b.back();
  SmallVector<std::pair<StringRef, Value>> operands = {{"a", left},
                                                       {"b", right}};
  if (matmul && matmul.getAcc())
    operands.push_back({"c", matmul.getAcc()});
  View result = views.lookup(kernel.getResult(0));
  if (update)
    for (auto [offset, stride] :
         llvm::zip_equal(update.getOffsets(), result.strides))
      result.offset += offset * stride;
  views[product->getResult(0)] = result;
  operands.push_back({"d", product->getResult(0)});
  for (auto [key, value] : operands) {
    FailureOr<json::Object> operand = operandOf(value, product);
    if (failed(operand))
      return failure();
    command[key] = std::move(*operand);
  }
  for (auto [key, scale, operand] :
       {std::tuple<StringRef, Value, Value>{
            "scale_a", matmul ? matmul.getScaleA() : grouped.getScaleA(), left},
        {"scale_b", matmul ? matmul.getScaleB() : grouped.getScaleB(),
         right}}) {
    if (!scale)
      continue;
    FailureOr<json::Object> object = scaleOf(scale, operand, product);
    if (failed(object))
      return failure();
    command[key] = std::move(*object);
  }
  command["fast_accum"] = matmul && matmul.getFastAccum();
  if (grouped) {
    FailureOr<json::Object> groups = groupsOf(grouped);
    if (failed(groups))
      return failure();
    command["groups"] = std::move(*groups);
  }

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
