//===- SaveAlternativesInterface.h - declarations of SaveAlternativesInterface ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SaveAlternativesInterface.td.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_INTERFACES_SAVEALTERNATIVESINTERFACE_H
#define FP8_INTERFACES_SAVEALTERNATIVESINTERFACE_H

#include "mlir/IR/OpDefinition.h"

namespace mlir::fp8 {

/// One form in which a value can be kept for backward.
struct SaveForm {
  std::string name;     ///< "as-is", "fp8+scale", "fp8-transposed+scale", "max-only"
  int64_t bytes = 0;    ///< bytes kept
  bool exact = true;    ///< deriving the value gives the same bits
  int64_t flops = 0;    ///< work of deriving the value, once
  int64_t bytesMoved = 0;
};

} // namespace mlir::fp8

#include "fp8/Interfaces/SaveAlternativesInterface.h.inc"

#endif // FP8_INTERFACES_SAVEALTERNATIVESINTERFACE_H
