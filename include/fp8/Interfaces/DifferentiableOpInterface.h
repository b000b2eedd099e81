//===- DifferentiableOpInterface.h ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See DifferentiableOpInterface.td.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_INTERFACES_DIFFERENTIABLEOPINTERFACE_H
#define FP8_INTERFACES_DIFFERENTIABLEOPINTERFACE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include "fp8/Interfaces/DifferentiableOpInterface.h.inc"

#endif // FP8_INTERFACES_DIFFERENTIABLEOPINTERFACE_H
