//===- Passes.h - passes and pipeline of fp8-opt ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declarations generated from Passes.td, and the pipeline fp8-compile.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TRANSFORMS_PASSES_H
#define FP8_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <memory>

namespace mlir::fp8 {

#define GEN_PASS_DECL
#include "fp8/Transforms/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "fp8/Transforms/Passes.h.inc"

} // namespace mlir::fp8

#endif // FP8_TRANSFORMS_PASSES_H
