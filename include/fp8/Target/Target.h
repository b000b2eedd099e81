//===- Target.h - rates and sizes of the machines we plan for ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The numbers that turn the work of an op (fp8/Interfaces/CostOpInterface.h)
// into an estimate of time, and the sizes that a plan counts beside tensors.
// They stand in one JSON file a machine (lib/Target/Target/targets), which
// bench/calibrate.py writes; nothing else in the compiler knows the speed of a
// machine.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TARGET_TARGET_H
#define FP8_TARGET_TARGET_H

#include "fp8/Interfaces/CostOpInterface.h"

#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

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

/// Where the numbers of a target come from. Every report says so unless they
/// were measured.
enum class TargetStatus {
  Measured,  ///< by a calibration run of our kernels on the machine itself
  Datasheet, ///< what the maker states; nothing of ours ever ran there
  Guessed
};

/// One machine. Rates are what our kernels and the matmul library reach.
struct Target {
  std::string name;
  /// The GPU architecture that kernels are generated for; empty on the cpu.
  std::string chip;
  /// Where the numbers come from, in a sentence.
  std::string source;
  TargetStatus status;
  /// How far the estimate of a step was from its measured time in the
  /// calibration run, at most.
  std::optional<double> modelErrorPct;
  /// What context, modules, graphs and libraries take of the device's memory.
  std::optional<int64_t> deviceOverheadBytes;
  /// Bytes read plus bytes written, a second, of loop kernels on large tensors.
  double copyBytesPerSecond;
  /// Floating-point operations a second (a multiply-add counts as two) of a
  /// large matmul, by the scaling of its FP8 operands and by element type; f32
  /// is also the rate of everything elementwise.
  double flopsF8Tensor, flopsF8Row, flopsF8Block, flopsBF16, flopsF32;
  /// A collective takes linkLatencySeconds plus the bytes a rank receives over
  /// linkBytesPerSecond.
  double linkBytesPerSecond, linkLatencySeconds;
  /// A copy to pinned host memory or back takes hostLatencySeconds plus its
  /// bytes over hostBytesPerSecond; nothing where there is no host to copy to.
  std::optional<double> hostBytesPerSecond;
  double hostLatencySeconds;
  /// Whether such copies run beside kernels, one of each direction at a time.
  bool hostOverlaps;
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

/// The targets that are built in, in the order in which error messages list
/// them.
ArrayRef<Target> getTargets();

/// The target of a JSON text, every key required, or what is wrong with it.
llvm::Expected<Target> parseTarget(StringRef text);

/// The target called `name`: a built-in one, or that of a file where the name
/// ends in `.json`. Null where there is none; `error` then says why.
const Target *findTarget(StringRef name, std::string *error = nullptr);

/// The target that the module around `op` names in `fp8.target`, as findTarget
/// takes it; `cpu` where it names none. Null after an error at the module where
/// there is no such target or the name is no string.
const Target *getTargetOf(Operation *op);

/// Seconds that a copy of `bytes` to host memory or back takes; `target` has a
/// host.
double estimateHostSeconds(const Target &target, int64_t bytes);

/// Seconds that `cost` takes on `target`: the longer of computing and moving
/// memory, then the link, then one launch. A view (Recompute::Free) takes none.
double estimateSeconds(const Target &target, const OpCost &cost);

} // namespace mlir::fp8

#endif // FP8_TARGET_TARGET_H
