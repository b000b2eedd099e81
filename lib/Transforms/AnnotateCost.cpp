//===- AnnotateCost.cpp - fp8-annotate-cost ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the cost of each op into attributes.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Target.h"
#include "fp8/Transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include <cmath>

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8ANNOTATECOSTPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

StringRef stringify(Recompute recompute) {
  switch (recompute) {
  case Recompute::Free:
    return "free";
  case Recompute::Yes:
    return "yes";
  case Recompute::Priced:
    return "priced";
  case Recompute::Never:
    return "never";
  }
  return "";
}

DictionaryAttr toAttribute(Builder builder, const OpCost &cost,
                           const Target &target) {
  NamedAttrList list;
  auto append = [&](StringRef name, int64_t value) {
    if (value != 0)
      list.append(name, builder.getI64IntegerAttr(value));
  };
  append("flops_f8", cost.flopsF8);
  append("flops_f8_row", cost.flopsF8Row);
  append("flops_f8_block", cost.flopsF8Block);
  append("flops_bf16", cost.flopsBF16);
  append("flops_f32", cost.flopsF32);
  append("bytes_read", cost.bytesRead);
  append("bytes_written", cost.bytesWritten);
  append("bytes_accumulated", cost.bytesAccumulated);
  append("bytes_sent", cost.bytesSent);
  append("scratch", cost.scratch);
  list.append("recompute", builder.getStringAttr(stringify(cost.recompute)));
  list.append("ns", builder.getI64IntegerAttr(
                        std::llround(estimateSeconds(target, cost) * 1e9)));
  return list.getDictionary(builder.getContext());
}

struct AnnotateCostPass : fp8::impl::FP8AnnotateCostPassBase<AnnotateCostPass> {
  using FP8AnnotateCostPassBase::FP8AnnotateCostPassBase;

  void runOnOperation() override {
    const Target *target = getTargetOf(getOperation());
    if (!target)
      return signalPassFailure();
    getOperation()->walk([&](Operation *op) {
      if (auto model = dyn_cast<CostOpInterface>(op))
        op->setAttr(kCostAttr, toAttribute(Builder(&getContext()),
                                           model.getCost(), *target));
    });
  }
};

} // namespace
