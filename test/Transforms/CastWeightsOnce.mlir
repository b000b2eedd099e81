// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes --fp8-cast-weights-once | FileCheck %s
// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes '--fp8-cast-weights-once=budget=1 microbatches=2' | FileCheck %s --check-prefix=TIGHT
// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes '--fp8-cast-weights-once=device-memory=1 microbatches=2' | FileCheck %s --check-prefix=TIGHT
// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes '--fp8-cast-weights-once=device-memory=1GiB microbatches=2' | FileCheck %s
// RUN: not fp8-opt %s '--fp8-cast-weights-once=budget=much' 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: not fp8-opt %s '--fp8-cast-weights-once=microbatches=0' 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes --fp8-cast-weights-once -o %t.mlir
// RUN: not fp8-opt %t.mlir --fp8-cast-weights-once 2>&1 | FileCheck %s --check-prefix=TWICE

// The weight's casts by rows (forward) and by columns (backward) move, each with its scale; the activation's stay. The
// bf16 product with a weight that is no FP8 cast stays too: it would only take memory.
// CHECK-LABEL: func.func @start_of_step(
// CHECK-SAME: %[[W:.*]]: tensor<64x32xbf16> {fp8.parameter}
// CHECK-SAME: -> ({{.*}} {fp8.name = "w.col.scale", fp8.placement = "caller"}
// CHECK-COUNT-2: fp8.amax %[[W]]
// CHECK-NOT: fp8.matmul
// CHECK: return
// CHECK-LABEL: func.func @linear(
// CHECK-SAME: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> {fp8.parameter}
// CHECK-NOT: fp8.amax %arg1
// CHECK: arith.mulf
// CHECK: } backward

// A budget that no plan meets leaves everything where it is.
// TIGHT-NOT: start_of_step
// BUDGET: error: expected 'budget' to be bytes such as 40GiB or 1000000, but got 'much'
// COUNT: error: expected 'microbatches' of at least 1, but got 0
// Parameters are one buffer where they have one name; those without a name, or of two types, cannot be.
// RUN: sed 's/loc("[a-z.]*")//' %S/../Driver/Inputs/two-steps.mlir | not fp8-opt --compile=microbatches=2 2>&1 | FileCheck %s --check-prefix=NAMES
// RUN: sed 's/wide.w/narrow.w/' %S/../Driver/Inputs/two-steps.mlir | not fp8-opt --compile=microbatches=2 2>&1 | FileCheck %s --check-prefix=TYPES
// NAMES: error: expected a name (a location) of each parameter where several functions have a step, but 'arg#1' has none
// TYPES: error: expected the parameter 'narrow.w' to have the same type in all functions, 'tensor<48x32xbf16>', but got 'tensor<128x32xbf16>'
// TWICE: error: expected a module without a function 'start_of_step', which fp8-cast-weights-once adds
func.func @linear(%x: tensor<16x32xbf16> loc("x"), %w: tensor<64x32xbf16> {fp8.parameter} loc("w"),
                  %g: tensor<1x32xbf16> {fp8.parameter} loc("g")) -> tensor<16x64xbf16> {
  %gg = arith.mulf %g, %g : tensor<1x32xbf16>
  %b = fp8.broadcast %gg : tensor<1x32xbf16> -> tensor<16x32xbf16>
  %n = arith.mulf %x, %b : tensor<16x32xbf16>
  %y = fp8.linear %n, %w recipe<rowwise> : tensor<16x32xbf16>, tensor<64x32xbf16> -> tensor<16x64xbf16>
  return %y : tensor<16x64xbf16>
}
