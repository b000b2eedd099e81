//===- PlanGraph.h - a program as the planner sees it -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The nodes and values of one function in program order (the ops of a straight
// line, or the forward and then the backward region of its fp8.step), with
// alias classes and byte sizes. Everything else in the planner is index
// arithmetic over this graph; the IR is touched only when a plan is applied.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_ANALYSIS_PLANGRAPH_H
#define FP8_ANALYSIS_PLANGRAPH_H

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Target.h"

namespace mlir::fp8 {

/// What a node is to the planner.
enum class NodeClass {
  Constant,   ///< a splat: no storage, cloned into every kernel that reads it
  View,       ///< another name of the storage of operand 0
  Loop,       ///< may share a loop kernel with others
  Matmul,     ///< a kernel of its own
  Collective, ///< a kernel of its own; order among collectives is kept
  Opaque,     ///< a kernel of its own
  State,      ///< updates a state argument in place; order is kept
  Kernel      ///< an fp8.kernel already formed
};

/// Where the result of a loop node is available inside the kernel that holds
/// it.
enum class Locality {
  Elementwise, ///< as its operands
  RowLocal, ///< a reduction within the row tile: may be read again in the same
            ///< kernel
  AtEnd,    ///< a reduction over rows: known only after the loop
  Moved     ///< stored in another order: not read again in the same kernel
};

/// What a thread block must hold of the iteration space for an op
/// (KernelModel::ThreadBlocks). A kernel has room for one kind.
enum class BlockShape {
  Any, ///< elementwise, maxima within 128 columns of a row, maxima that are
       ///< complete after the grid
  Row, ///< whole rows: a reduction along the last dimension, a sum down the
       ///< columns (each block has the rows of one partial sum)
  Tile ///< squares: a transpose, a reduction over several rows of a group
};

/// A value of the program. Indices are positions in PlanGraph::values.
struct PlanValue {
  Value value;
  int node = -1; ///< producing node; -1 for arguments
  int root =
      -1; ///< the value whose storage this one names (itself unless a view)
  int64_t bytes = 0; ///< of its own type
  /// Equal for tensors of one shape whose elements have one width; -1 for what
  /// is no tensor.
  int layout = -1;
  bool resident = false; ///< a function argument: costs nothing to keep
  bool donated = false;  ///< an argument that may be overwritten
  bool escapes =
      false; ///< a result of the function names this storage (set on roots)
  bool callerPlaced = false; ///< the result it escapes as lives in the caller's
                             ///< buffer (set on roots)
  int64_t copies = 1;        ///< equal layers that this one stands for (see
                      ///< Repetition.h); counts where the value is kept from
                      ///< forward to backward or is a result
};

/// What a node must keep its program order with.
enum class Chain {
  None,         ///< nothing but the values it reads
  Communicator, ///< other collectives
  State ///< other ops that update or read a state which the program updates
};

/// An op of the program.
struct PlanNode {
  Operation *op = nullptr;
  NodeClass kind = NodeClass::Loop;
  bool backward = false;
  SmallVector<int, 4> operands; ///< values, in operand order
  SmallVector<int, 2> results;
  /// Per result, the operand whose storage it names, or -1; empty for all -1.
  SmallVector<int, 2> aliases;
  bool isBarrier = false; ///< a view that only keeps clones apart
  bool mustRun = false;   ///< even where nothing reads its results
  Recompute recompute = Recompute::Yes;
  Chain chain = Chain::None;
  OpCost cost;
  int64_t workspace = 0;
  double seconds = 0; ///< estimate, unfused
  int64_t copies = 1; ///< equal layers that this one stands for
  // Of loop nodes:
  Locality locality = Locality::Elementwise;
  SmallVector<int64_t, 4> space; ///< the shape it iterates over
  bool writesPiece = false;      ///< writes operand 0 into the other one
  BlockShape blockShape = BlockShape::Any;
};

/// The whole program of one function. A backward op reads a forward value
/// itself: residual arguments are looked through.
class PlanGraph {
public:
  /// Builds the graph of `func`, which holds joint or planned IR, with costs on
  /// `target`. Emits an error and fails on ops that no plan can hold (regions,
  /// values of dynamic shape).
  static FailureOr<PlanGraph> build(func::FuncOp func, const Target &target);

  func::FuncOp func;
  StepOp step; ///< null for a straight line
  const Target *target = nullptr;
  std::vector<PlanNode> nodes;
  std::vector<PlanValue> values;
  int firstBackward =
      0; ///< index of the first backward node; nodes.size() for a straight line
  SmallVector<int> backwardResults; ///< what the backward region yields

  const PlanValue &rootOf(int value) const {
    return values[values[value].root];
  }

  /// Bytes of arguments: parameters, inputs, tangents and state.
  int64_t getResidentBytes() const;
};

/// The work of a kernel that is formed: each operand read once (of one of which
/// it reads only views, the largest), each result written once (of one that it
/// writes a piece of, that piece), the flops of all its ops.
OpCost getKernelCost(KernelOp kernel);

} // namespace mlir::fp8

#endif // FP8_ANALYSIS_PLANGRAPH_H
