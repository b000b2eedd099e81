//===- Evaluate.h - single ops of the reference -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates ops that compute tensors from tensors; control, storage and state
// are the interpreter's.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_TARGET_REFERENCE_EVALUATE_H
#define FP8_LIB_TARGET_REFERENCE_EVALUATE_H

#include "Formats.h"
#include "fp8/Target/Reference.h"

namespace mlir::fp8::reference {

/// The floating-point format of an element type, or nothing.
std::optional<Format> getFormat(Type elementType);

/// The elements of a floating-point tensor as f32.
std::vector<float> readFloats(const HostTensor &tensor);

/// A tensor of `type` with `values` rounded to its element type.
HostTensor makeTensor(RankedTensorType type, ArrayRef<float> values,
                      bool saturate = true);

/// The one result of `op` on `operands`. Fails with an error at the op where it
/// is not known here.
FailureOr<HostTensor> evaluate(Operation *op,
                               ArrayRef<const HostTensor *> operands);

/// The result of a product of groups. Fails with an error at the op where the
/// offsets are none of groups within its capacity.
FailureOr<HostTensor> evaluateGrouped(GroupedMatmulOp op,
                                      ArrayRef<const HostTensor *> operands);

/// What the rank with the number `member` along the axis of `collective` gets
/// of it, from the operands of all ranks along the axis in their order.
HostTensor evaluateCollective(const Collective &collective,
                              ArrayRef<const HostTensor *> operands,
                              int64_t member);

/// The state updates, on the storage of their operands.
void pushAmax(const HostTensor &amax, HostTensor &history);
void updateScale(UpdateScaleOp op, HostTensor &history, HostTensor &scale);

} // namespace mlir::fp8::reference

#endif // FP8_LIB_TARGET_REFERENCE_EVALUATE_H
