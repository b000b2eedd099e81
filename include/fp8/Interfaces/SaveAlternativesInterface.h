//===- SaveAlternativesInterface.h ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SaveAlternativesInterface.td.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_INTERFACES_SAVEALTERNATIVESINTERFACE_H
#define FP8_INTERFACES_SAVEALTERNATIVESINTERFACE_H

#include "mlir/IR/OpDefinition.h"
#include <string>

namespace mlir::fp8 {

/// One form in which a value can be kept for backward. `flops` and `bytesMoved`
/// are the work of deriving the value from the form, once.
///
/// | name | what is kept | what deriving does |
/// |---|---|---|
/// | `as-is` | the value | nothing |
/// | `fp8+scale` | FP8 data and its scale | dequantizes |
/// | `fp8-transposed+scale` | FP8 data in the other layout and its scale |
/// transposes, and dequantizes where the value is no FP8 | | `max-only` | the
/// scale that the maximum gave | casts the operand again, which must be at hand
/// |
struct SaveForm {
  std::string name;
  int64_t bytes = 0; ///< bytes kept, of the scale too where the form names it
  bool exact = true; ///< deriving the value gives the same bits
  int64_t flops = 0; ///< f32 operations
  int64_t bytesMoved = 0; ///< read and written
};

} // namespace mlir::fp8

#include "fp8/Interfaces/SaveAlternativesInterface.h.inc"

#endif // FP8_INTERFACES_SAVEALTERNATIVESINTERFACE_H
