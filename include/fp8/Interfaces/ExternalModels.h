//===- ExternalModels.h - the dialect with all its models -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one call that a tool makes to work on fp8 programs.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_INTERFACES_EXTERNALMODELS_H
#define FP8_INTERFACES_EXTERNALMODELS_H

#include "mlir/IR/DialectRegistry.h"

namespace mlir::fp8 {

/// Adds the dialects that programs are made of (fp8, func, arith, math) to
/// `registry`, with the external models of the interfaces of fp8 on upstream
/// ops.
void registerDialectAndModels(DialectRegistry &registry);

} // namespace mlir::fp8

#endif // FP8_INTERFACES_EXTERNALMODELS_H
