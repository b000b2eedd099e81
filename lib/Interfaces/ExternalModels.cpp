//===- ExternalModels.cpp - the dialect with all its models -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A new external model is registered here.
//
//===----------------------------------------------------------------------===//

#include "fp8/Interfaces/ExternalModels.h"

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Interfaces/CostExternalModels.h"
#include "fp8/Interfaces/DifferentiableExternalModels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

void mlir::fp8::registerDialectAndModels(DialectRegistry &registry) {
  registry.insert<FP8Dialect, func::FuncDialect, arith::ArithDialect,
                  math::MathDialect>();
  registerCostExternalModels(registry);
  registerDifferentiableExternalModels(registry);
}
