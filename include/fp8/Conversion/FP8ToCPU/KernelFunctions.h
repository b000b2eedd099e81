//===- KernelFunctions.h - functions for loop and state kernels -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel's function takes one pointer, to an array with a pointer to the
// storage of each operand, then of each result; all row-major.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_FP8TOCPU_KERNELFUNCTIONS_H
#define FP8_CONVERSION_FP8TOCPU_KERNELFUNCTIONS_H

#include "fp8/Conversion/Common/KernelFunction.h"

namespace mlir::fp8 {

/// Stack that one kernel may use, in bytes.
inline constexpr int64_t kMaxStackBytes = 4 << 20;

/// Fills `function`, whose entry block holds only a return, with the loops of a
/// checked loop kernel: arith, scf, vector and llvm ops. Fails with an error at
/// the kernel where it would need more than kMaxStackBytes of stack.
LogicalResult emitLoopKernel(KernelOp kernel, LLVM::LLVMFuncOp function);

} // namespace mlir::fp8

#endif // FP8_CONVERSION_FP8TOCPU_KERNELFUNCTIONS_H
