//===- CostOpInterface.h - declarations of CostOpInterface ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See CostOpInterface.td.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_INTERFACES_COSTOPINTERFACE_H
#define FP8_INTERFACES_COSTOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

namespace mlir::fp8 {

/// Whether an op may be computed a second time.
enum class Recompute {
  Free,   ///< a view: no work at all
  Yes,    ///< same inputs give the same bits
  Priced, ///< a collective: legal since all ranks run the same plan, paid at
          ///< link speed
  Never   ///< pushes state, draws random numbers without an offset, has host
          ///< effects
};

/// The work of one op, unfused.
struct OpCost {
  int64_t flopsF8 = 0; ///< multiply-adds count twice; matmuls with FP8
                       ///< operands, one scale a tensor
  int64_t flopsF8Row =
      0; ///< matmuls with FP8 operands, a scale a row and a column
  int64_t flopsF8Block = 0; ///< matmuls with FP8 operands, block scales
  int64_t flopsBF16 = 0;    ///< matmuls with bf16 operands
  int64_t flopsF32 = 0;     ///< everything elementwise, reductions, f32 matmuls
  int64_t bytesRead = 0;    ///< from memory, each operand once
  int64_t bytesWritten = 0; ///< to memory, each result once
  int64_t bytesAccumulated =
      0; ///< of those, what a matmul moves once its products are done: its
         ///< accumulator and the result that it becomes
  int64_t bytesSent = 0; ///< over the link, per rank (what it receives)
  int64_t bytesHost = 0; ///< to or from host memory
  int64_t scratch = 0;   ///< workspace bytes beside operands and results
  Recompute recompute = Recompute::Yes;
};

} // namespace mlir::fp8

#include "fp8/Interfaces/CostOpInterface.h.inc"

#endif // FP8_INTERFACES_COSTOPINTERFACE_H
