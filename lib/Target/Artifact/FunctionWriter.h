//===- FunctionWriter.h - a placed function as commands ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks a placed function in program order and writes it down as the command
// list that the runtime executes: signature, storage and order in Manifest.cpp,
// what single kernels do in WriteKernels.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_TARGET_ARTIFACT_FUNCTIONWRITER_H
#define FP8_LIB_TARGET_ARTIFACT_FUNCTIONWRITER_H

#include "fp8/Analysis/ValueNames.h"
#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Signature.h"
#include "fp8/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

namespace mlir::fp8 {

namespace json = llvm::json;

/// Where a value lies: a strided view of an argument or a buffer.
struct View {
  bool isArgument = false;
  int64_t index = 0;
  int64_t offset = 0;
  SmallVector<int64_t> strides;
  /// The axis along which a gather gives all of the buffer, of which the view
  /// has this rank's part; else empty.
  StringRef axis = {};
};

struct Buffer {
  std::string name;
  int64_t bytes = 0;
  int64_t offset = 0;
  bool result = false, residual = false, workspace = false;
};

/// The name of an element type in a manifest, or nothing.
std::optional<StringRef> getDTypeName(Type type);

json::Array toArray(ArrayRef<int64_t> values);

/// `file:line:col` of a location, or nothing.
std::string getPosition(Location loc);

/// A whole argument or buffer, row-major.
View getDenseView(bool isArgument, int64_t index, Type type);

/// Writes one function.
class FunctionWriter {
public:
  FunctionWriter(func::FuncOp function, const Target &target)
      : function(function), target(target), signature(getSignature(function)),
        names(function) {}

  FailureOr<json::Object> write();

private:
  LogicalResult writeBlock(Block &block);
  LogicalResult writeKernel(KernelOp kernel);
  LogicalResult writeLaunches(KernelOp kernel, json::Object command,
                              json::Array args, json::Array writes);
  LogicalResult writeMatmul(KernelOp kernel, json::Object command);
  LogicalResult writeCollective(KernelOp kernel, json::Object command);
  LogicalResult writeHostCopy(KernelOp kernel, json::Object command);
  LogicalResult writeWait(WaitOp wait);
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
  FailureOr<json::Object> groupsOf(GroupedMatmulOp op);
  void allocate(int64_t buffer);
  void release(int64_t buffer);
  int64_t makeBuffer(std::string name, int64_t bytes, int64_t offset);

  func::FuncOp function;
  const Target &target;
  Signature signature;
  DenseMap<Value, View> views; // looked up only
  std::vector<Buffer> buffers;
  json::Array commands;
  ValueNames names;
  /// Of tokens: the number of the collective or the copy that was started.
  DenseMap<Value, int64_t> tickets; // looked up only
  /// Of values in host memory: where they lie there.
  DenseMap<Value, int64_t> hostOffsets; // looked up only
  int64_t numTickets = 0;
  int64_t live = 0, peak = 0;
};

} // namespace mlir::fp8

#endif // FP8_LIB_TARGET_ARTIFACT_FUNCTIONWRITER_H
