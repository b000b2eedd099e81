//===- StateKernel.cpp - amax histories and their scales --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code that updates state arguments in place, element by element: a
// history is short.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/KernelFunction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fp8;

static Value pointerOf(Evaluator &e, Value operand) {
  return e.argument(cast<BlockArgument>(getRoot(operand)).getArgNumber());
}

static void emitPush(Evaluator &e, PushAmaxOp push) {
  Type f32 = e.here().getF32Type();
  Value zero = e.constant(0);
  Value history = pointerOf(e, push.getHistory());
  Value amax = e.load(pointerOf(e, push.getAmax()), zero, f32);
  Value old = e.load(history, zero, f32);
  e.write(history, zero, e.numerics().maximum(old, amax));
}

static void emitUpdate(Evaluator &e, UpdateScaleOp update) {
  Type f32 = e.here().getF32Type(), i32 = e.here().getI32Type();
  Value zero = e.constant(0);
  int64_t length = update.getHistory().getType().getNumElements();
  Value history = pointerOf(e, update.getHistory());
  Value scale = pointerOf(e, update.getScale());

  Value key = e.stackArray(i32, 1);
  e.write(key, zero, e.numerics().i32(Numerics::kLowestKey, zero));
  e.loop(0, length, 1, [&](Value i) {
    Value slot = e.numerics().toMaxKey(e.load(history, i, f32));
    Value best = e.load(key, zero, i32);
    e.write(key, zero,
            arith::MaxSIOp::create(e.here(), e.getLoc(), best, slot));
  });
  Value amax = e.numerics().fromMaxKey(e.load(key, zero, i32));
  ScaleRule rule;
  rule.format = update.getFormat();
  rule.pow2 = update.getPow2();
  rule.margin = update.getMargin();
  Value old = e.load(scale, zero, f32);
  Value fresh = e.numerics().scale(amax, rule);
  Value none = e.numerics().f32(0.0f, amax);
  Value unused = arith::CmpFOp::create(e.here(), e.getLoc(),
                                       arith::CmpFPredicate::OEQ, amax, none);
  e.write(scale, zero,
          arith::SelectOp::create(e.here(), e.getLoc(), unused, old, fresh));

  // From the oldest slot down, so that each is read before it is replaced.
  Value last = e.constant(length - 1);
  e.loop(0, length - 1, 1, [&](Value i) {
    Value to = e.sub(last, i);
    Value from = e.sub(to, e.constant(1));
    e.write(history, to, e.load(history, from, f32));
  });
  e.write(history, zero, e.numerics().f32(0.0f, zero));
}

void mlir::fp8::emitStateOps(Evaluator &evaluator, Block &body) {
  for (Operation &op : body.without_terminator()) {
    if (auto push = dyn_cast<PushAmaxOp>(op))
      emitPush(evaluator, push);
    else if (auto update = dyn_cast<UpdateScaleOp>(op))
      emitUpdate(evaluator, update);
  }
}
