//===- FP8HostOps.cpp -------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verification of the ops of FP8HostOps.td, and what others ask about them.
//
//===----------------------------------------------------------------------===//

#include "VerifyUtils.h"

#include "fp8/Dialect/FP8/IR/FP8.h"

using namespace mlir;
using namespace mlir::fp8;

bool mlir::fp8::isHostCopy(Operation *op) {
  return isa<OffloadStartOp, PrefetchStartOp>(op);
}

bool mlir::fp8::isHostCopyKernelOrWait(Operation *op) {
  if (auto wait = dyn_cast<WaitOp>(op)) {
    op = wait.getToken().getDefiningOp();
    if (op && isHostCopy(op))
      return true;
  }
  auto kernel = dyn_cast_or_null<KernelOp>(op);
  return kernel && kernel.getKind() == KernelKind::Copy;
}

int64_t mlir::fp8::getHostByteSize(Type type) {
  auto host = dyn_cast<HostType>(type);
  return host ? getByteSize(host.getTensor()) : 0;
}

LogicalResult OffloadStartOp::verify() {
  // (C1)
  auto host = cast<HostType>(getResult().getType());
  if (host.getTensor() != getX().getType())
    return emitOpError("expected the result to be the host's of ")
           << getX().getType() << ", but got " << host;
  // (C2)
  return checks::verifyToken(*this);
}

LogicalResult PrefetchStartOp::verify() {
  // (C1)
  auto host = cast<HostType>(getX().getType());
  if (host.getTensor() != getResult().getType())
    return emitOpError("expected the operand to be the host's of ")
           << getResult().getType() << ", but got " << host;
  // (C2)
  return checks::verifyToken(*this);
}
