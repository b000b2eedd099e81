//===- FP8.h - the fp8 dialect ----------------------------------*- C++ -*-===//
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
struct CommunicatorResource
    : SideEffects::Resource::Base<CommunicatorResource> {
  StringRef getName() final { return "FP8Communicator"; }
};
/// The histories and scales that delayed scaling updates in place.
struct StateResource : SideEffects::Resource::Base<StateResource> {
  StringRef getName() final { return "FP8State"; }
};
/// Host memory, where copies to it and from it meet.
struct HostResource : SideEffects::Resource::Base<HostResource> {
  StringRef getName() final { return "FP8Host"; }
};
/// The storage that `fp8.free` ends.
struct ArenaResource : SideEffects::Resource::Base<ArenaResource> {
  StringRef getName() final { return "FP8Arena"; }
};

/// The shape of the scales of a tensor of `shape` whose elements are grouped by
/// `group` (0: the whole dimension).
SmallVector<int64_t> getScaleShape(ArrayRef<int64_t> shape,
                                   ArrayRef<int64_t> group);

/// The `#fp8.tensor` encoding of a type, or null.
class TensorEncodingAttr;
TensorEncodingAttr getEncoding(Type type);

/// The bits an element of `type` takes in memory: 12 of `!fp8.e5m6`; 0 for a
/// type that no op of the dialect stores.
int64_t getElementBits(Type type);

/// The most bytes one tensor may take. It leaves room to add up the sizes of
/// 32,767 tensors in 64 bits.
inline constexpr int64_t kMaxTensorBytes = int64_t(1) << 48;

/// The bytes a tensor takes, at the bounds where it has any. The one helper all
/// byte counts go through. 0 for a type that is no tensor (a token) and for a
/// dynamic dimension without a bound. A tensor of more than kMaxTensorBytes,
/// which no op of the dialect accepts, gives kMaxTensorBytes + 1.
int64_t getByteSize(Type type);

/// Checks one type against the constraints on tensors in the dialect's
/// description; `emitError` starts the diagnostic. A type that is no tensor
/// passes.
LogicalResult verifyTensorType(Type type,
                               function_ref<InFlightDiagnostic()> emitError);

/// Trait of every op of the dialect: its operands and results meet the
/// constraints on tensors.
LogicalResult verifyTensorsFit(Operation *op);
template <typename ConcreteType>
struct TensorsFit : OpTrait::TraitBase<ConcreteType, TensorsFit> {
  static LogicalResult verifyTrait(Operation *op) {
    return verifyTensorsFit(op);
  }
};

/// True for ops that give another name to the storage of operand 0: permute,
/// slice, reshape, bitcast, wait and remat_barrier.
bool isView(Operation *op);

/// The type of a matrix, or of several, with the last two dimensions exchanged,
/// encoding and all.
RankedTensorType exchangeDimensions(RankedTensorType type);

/// The operand of `result`'s op whose storage `result` names, or null where it
/// has storage of its own: operand 0 of a view, `dest` of an update_slice, what
/// `aliases` of an opaque op says, and of a kernel what one of the last two or
/// a wait in it hands through.
Value getAliasedOperand(OpResult result);

/// What a kernel writes for `yielded`, a value that it yields: the piece of an
/// update_slice, else the value itself.
Value getStored(Value yielded);

/// True where `use` is the `dest` of an update_slice: storage that gets a piece
/// and of which nothing is read.
bool isUpdated(OpOperand &use);

/// The value whose storage `value` names, inside one region.
Value getRoot(Value value);

/// The axes of the grid of the nearest module around `op` that has one, with
/// their sizes, in the order of the attribute (by name). The last axis is the
/// one along which neighbouring ranks differ. Empty without a grid.
SmallVector<std::pair<StringRef, int64_t>> getGrid(Operation *op);

/// The number of ranks of the grid around `op`: 1 without one.
int64_t getNumRanks(Operation *op);

/// Names of the discardable attributes of the dialect (see the dialect's
/// documentation).
inline constexpr StringLiteral kParameterAttr = "fp8.parameter";
inline constexpr StringLiteral kTangentAttr = "fp8.tangent";
inline constexpr StringLiteral kStateAttr = "fp8.state";
inline constexpr StringLiteral kDonatedAttr = "fp8.donated";
inline constexpr StringLiteral kFrozenAttr = "fp8.frozen";
inline constexpr StringLiteral kShardAttr = "fp8.shard";
inline constexpr StringLiteral kCoordinateAttr = "fp8.coordinate";
inline constexpr StringLiteral kRowsPerGroupAttr = "fp8.rows_per_group";
inline constexpr StringLiteral kPlacementAttr = "fp8.placement";
inline constexpr StringLiteral kNameAttr = "fp8.name";
inline constexpr StringLiteral kCounterAttr = "fp8.counter";
inline constexpr StringLiteral kSegmentAttr = "fp8.segment";
inline constexpr StringLiteral kPartOfAttr = "fp8.part_of";
inline constexpr StringLiteral kCheckpointAttr = "fp8.checkpoint";
inline constexpr StringLiteral kPolicyAttr = "fp8.policy";
inline constexpr StringLiteral kPiecesAttr = "fp8.pieces";
inline constexpr StringLiteral kOffloadAttr = "fp8.offload";
inline constexpr StringLiteral kLossyAttr = "fp8.lossy";
inline constexpr StringLiteral kGridAttr = "fp8.grid";
inline constexpr StringLiteral kTargetAttr = "fp8.target";
inline constexpr StringLiteral kArenaBytesAttr = "fp8.arena_bytes";
inline constexpr StringLiteral kHostBytesAttr = "fp8.host_bytes";
inline constexpr StringLiteral kDecisionsAttr = "fp8.decisions";
inline constexpr StringLiteral kIndexAttr = "fp8.index";
inline constexpr StringLiteral kLiveAttr = "fp8.live";
inline constexpr StringLiteral kBytesAttr = "fp8.bytes";
inline constexpr StringLiteral kCostAttr = "fp8.cost";

/// Functions that run beside that of a microbatch: once before the first, once
/// after the last of a step, and instead of it for all but the first (its name
/// with this suffix).
inline constexpr StringLiteral kStartOfStepName = "start_of_step";
inline constexpr StringLiteral kEndOfStepName = "end_of_step";
inline constexpr StringLiteral kAccumulateSuffix = ".accumulate";

} // namespace mlir::fp8

#define GET_ATTRDEF_CLASSES
#include "fp8/Dialect/FP8/IR/FP8Attrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "fp8/Dialect/FP8/IR/FP8Types.h.inc"
#define GET_OP_CLASSES
#include "fp8/Dialect/FP8/IR/FP8Ops.h.inc"

namespace mlir::fp8 {

/// What a collective does, be it whole or its start half.
struct Collective {
  enum class Kind { AllGather, ReduceScatter, AllReduce, AllToAll };

  Kind kind;
  Value x, result;
  StringRef axis;
  /// The dimension of the operand that is cut into one part a rank, and that of
  /// the result along which the parts that arrive are joined; -1 where there is
  /// none.
  int64_t split = -1, concat = -1;
  /// How the parts that arrive become one; nothing where they are joined.
  std::optional<ReduceKind> reduce = std::nullopt;
  /// The type that sums are taken in; null for f32.
  Type acc = {};

  /// The ranks along `axis`; `x` has a module with a grid around it.
  int64_t getSize() const;
};

/// What `op` does if it is a collective or the start of one.
std::optional<Collective> getCollective(Operation *op);

/// True for the start half of a collective.
bool isCollectiveStart(Operation *op);

/// True for the start of a copy to host memory or back.
bool isHostCopy(Operation *op);

/// True for a kernel that starts a copy to host memory or back, and for the
/// wait for one.
bool isHostCopyKernelOrWait(Operation *op);

/// The bytes of host memory that a value of `type` takes; 0 for what lies on
/// the device.
int64_t getHostByteSize(Type type);

} // namespace mlir::fp8

#endif // FP8_DIALECT_FP8_IR_FP8_H
