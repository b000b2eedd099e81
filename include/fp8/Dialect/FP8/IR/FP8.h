//===- FP8.h - the fp8 dialect ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declarations of the dialect, its attributes, types and ops.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8_H
#define FP8_DIALECT_FP8_IR_FP8_H

#include "fp8/Interfaces/CostOpInterface.h"
#include "fp8/Interfaces/DifferentiableOpInterface.h"
#include "fp8/Interfaces/SaveAlternativesInterface.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "fp8/Dialect/FP8/IR/FP8Dialect.h.inc"
#include "fp8/Dialect/FP8/IR/FP8Enums.h.inc"

namespace mlir::fp8 {

/// What collectives order themselves by.
struct CommunicatorResource : SideEffects::Resource::Base<CommunicatorResource> {
  StringRef getName() final { return "FP8Communicator"; }
};
/// The histories and scales that delayed scaling updates in place.
struct StateResource : SideEffects::Resource::Base<StateResource> {
  StringRef getName() final { return "FP8State"; }
};
/// The storage that `fp8.free` ends.
struct ArenaResource : SideEffects::Resource::Base<ArenaResource> {
  StringRef getName() final { return "FP8Arena"; }
};

/// The shape of the scales of a tensor of `shape` whose elements are grouped by `group` (0: the whole dimension).
SmallVector<int64_t> getScaleShape(ArrayRef<int64_t> shape, ArrayRef<int64_t> group);

/// The `#fp8.tensor` encoding of a type, or null.
class TensorEncodingAttr;
TensorEncodingAttr getEncoding(Type type);

/// The bytes a tensor takes, at the bounds where it has any. The one helper all byte counts go through. 0 for a type
/// that is no tensor (a token).
int64_t getByteSize(Type type);

/// True for ops that give another name to the storage of operand 0: permute, slice, reshape, bitcast, wait and
/// remat_barrier.
bool isView(Operation *op);

/// The value whose storage `value` names, through views inside one region.
Value getRoot(Value value);

/// Names of the discardable attributes of the dialect (see the dialect's documentation).
inline constexpr StringLiteral kParameterAttr = "fp8.parameter";
inline constexpr StringLiteral kTangentAttr = "fp8.tangent";
inline constexpr StringLiteral kStateAttr = "fp8.state";
inline constexpr StringLiteral kDonatedAttr = "fp8.donated";
inline constexpr StringLiteral kFrozenAttr = "fp8.frozen";
inline constexpr StringLiteral kPlacementAttr = "fp8.placement";
inline constexpr StringLiteral kNameAttr = "fp8.name";
inline constexpr StringLiteral kCheckpointAttr = "fp8.checkpoint";
inline constexpr StringLiteral kPolicyAttr = "fp8.policy";
inline constexpr StringLiteral kGridAttr = "fp8.grid";
inline constexpr StringLiteral kTargetAttr = "fp8.target";
inline constexpr StringLiteral kArenaBytesAttr = "fp8.arena_bytes";

/// The function a step's backward updates run in, once a step.
inline constexpr StringLiteral kEndOfStepName = "end_of_step";

} // namespace mlir::fp8

#define GET_ATTRDEF_CLASSES
#include "fp8/Dialect/FP8/IR/FP8Attrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "fp8/Dialect/FP8/IR/FP8Types.h.inc"
#define GET_OP_CLASSES
#include "fp8/Dialect/FP8/IR/FP8Ops.h.inc"

#endif // FP8_DIALECT_FP8_IR_FP8_H
