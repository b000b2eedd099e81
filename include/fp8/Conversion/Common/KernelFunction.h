//===- KernelFunction.h - what every lowering of kernels needs --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks, names and conversions that the lowerings of loop and state kernels
// to the CPU and to CUDA share.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_CONVERSION_COMMON_KERNELFUNCTION_H
#define FP8_CONVERSION_COMMON_KERNELFUNCTION_H

#include "fp8/Conversion/Common/Evaluator.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::fp8 {

/// Emits an error that names `target` and fails where a loop or state kernel
/// holds an op, a type or a constant that cannot be lowered.
LogicalResult checkKernel(KernelOp kernel, StringRef target);

/// Whether code is generated for `kernel`: a loop or a state update. A library
/// runs matmuls. Fails with an error that names `target` for what neither does.
FailureOr<bool> isGenerated(KernelOp kernel, StringRef target);

/// Text that is equal for kernels that compute the same: the body and its
/// types, without places, names and locations.
std::string getKernelStructure(KernelOp kernel);

/// A name that says what the kernel does, for profiles and traces:
/// `k3_amax_scale`.
std::string getKernelSymbol(KernelOp kernel, size_t number);

/// Emits the `fp8.push_amax` and `fp8.update_scale` ops of a checked state
/// kernel, one after another, element by element: a history is short.
void emitStateOps(Evaluator &evaluator, Block &body);

/// Converts a function of arith, cf, scf, vector and llvm ops to the LLVM
/// dialect alone (beside ops of `extra` dialects, which it leaves).
LogicalResult convertToLLVM(LLVM::LLVMFuncOp function,
                            ArrayRef<StringRef> extra = {});

} // namespace mlir::fp8

#endif // FP8_CONVERSION_COMMON_KERNELFUNCTION_H
