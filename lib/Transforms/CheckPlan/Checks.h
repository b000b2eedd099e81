//===- Checks.h - the rules a plan must keep --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each function emits one error a violation, at the op that violates the rule,
// and fails if there was any.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_TRANSFORMS_CHECKPLAN_CHECKS_H
#define FP8_LIB_TRANSFORMS_CHECKPLAN_CHECKS_H

#include "PlanLine.h"

namespace mlir::fp8::check {

/// Frees come after all uses and waits, exactly once, and only for what the
/// line allocates and does not return. State is pushed in one region only.
LogicalResult checkLifetimes(const PlanLine &line);

/// What is written in place is written over an operand that nothing needs any
/// more, and that the kernel reads only where it writes.
LogicalResult checkInPlace(const PlanLine &line);

/// What kernels write piece by piece is read only where all of it is written,
/// under the name that the last piece gave it; pieces do not overlap.
LogicalResult checkPieces(const PlanLine &line);

/// What goes to host memory is copied there once, read there only after the
/// wait, comes back once, and is not kept on the device too. On placed IR it
/// lies apart from all else inside `fp8.host_bytes`.
LogicalResult checkHost(const PlanLine &line);

/// On placed IR: live buffers and workspaces are disjoint and inside the arena.
/// Succeeds on IR without offsets.
LogicalResult checkPlacement(const PlanLine &line);

} // namespace mlir::fp8::check

#endif // FP8_LIB_TRANSFORMS_CHECKPLAN_CHECKS_H
