//===- Target.h - rates and sizes of the machines we plan for ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The numbers that turn the work of an op (fp8/Interfaces/CostOpInterface.h)
// into an estimate of time, and the sizes that a plan counts beside tensors.
// One table; nothing else in the compiler knows the speed of a machine.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TARGET_TARGET_H
#define FP8_TARGET_TARGET_H

#include "fp8/Interfaces/CostOpInterface.h"

namespace mlir::fp8 {

/// What one kernel can hold of its iteration space at a time, which decides
/// what may share a kernel (fp8/Analysis/KernelGraph.h).
enum class KernelModel {
  /// One thread passes over rows in tiles that its cache holds, with all
  /// columns
  /// of a row at hand.
  CacheTiles,
  /// Thread blocks that each hold either whole rows in registers or a square
  /// tile in shared memory, in any order and without waiting for one another.
  ThreadBlocks
};

/// One machine. Rates are what well written code reaches, not what a data sheet
/// promises.
struct Target {
  StringRef name;
  /// The GPU architecture that kernels are generated for; empty on the cpu.
  StringRef chip;
  /// True where the numbers were written by a calibration run on the machine
  /// itself. Every report says so if not.
  bool calibrated;
  /// Bytes read plus bytes written, a second, of a large copy.
  double copyBytesPerSecond;
  /// Floating-point operations a second (a multiply-add counts as two) of a
  /// large matmul, by the scaling of its FP8 operands and by element type; f32
  /// is also the rate of everything elementwise.
  double flopsF8Tensor, flopsF8Row, flopsF8Block, flopsBF16, flopsF32;
  /// A collective takes linkLatencySeconds plus the bytes a rank receives over
  /// linkBytesPerSecond.
  double linkBytesPerSecond, linkLatencySeconds;
  /// What starting one kernel costs where nothing hides it.
  double launchSeconds;
  /// Workspace of each matmul, counted in the plan while it runs.
  int64_t matmulWorkspaceBytes;
  /// Rows of an iteration space that one kernel holds at a time: a reduction
  /// within so many rows may be consumed in the kernel that makes it. At least
  /// 128, the rows of a 128x128 block.
  int64_t kernelRowTile;
  KernelModel kernelModel;
  /// True where an FP8 matmul takes only operands whose elements along k are
  /// neighbours (fp8-legalize-layouts).
  bool contiguousK;
};

/// All targets, in the order in which error messages list them.
ArrayRef<Target> getTargets();

/// The target called `name`, or null.
const Target *findTarget(StringRef name);

/// The target that the module around `op` names in `fp8.target`; `cpu` where it
/// names none. Null after an error at the module where the name is unknown or
/// is no string.
const Target *getTargetOf(Operation *op);

/// Seconds that `cost` takes on `target`: the longer of computing and moving
/// memory, then the link, then one launch. A view (Recompute::Free) takes none.
double estimateSeconds(const Target &target, const OpCost &cost);

} // namespace mlir::fp8

#endif // FP8_TARGET_TARGET_H
