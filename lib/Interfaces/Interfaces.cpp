//===- Interfaces.cpp -------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generated definitions of the op interfaces.
//
//===----------------------------------------------------------------------===//

#include "fp8/Interfaces/CostOpInterface.h"
#include "fp8/Interfaces/DifferentiableOpInterface.h"
#include "fp8/Interfaces/SaveAlternativesInterface.h"

#include "fp8/Interfaces/CostOpInterface.cpp.inc"
#include "fp8/Interfaces/DifferentiableOpInterface.cpp.inc"
#include "fp8/Interfaces/SaveAlternativesInterface.cpp.inc"
