// Layouts taken from the one that is kept, with a count of what changes; and one result of an op.
// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes '--fp8-keep-lossy=lossy=g:relayout' | FileCheck %s
// RUN: fp8-opt %s '--compile=lossy=g:relayout' --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fp8-opt %s '--compile=lossy=g:relayout' --emit=report | FileCheck %s --check-prefix=REPORT
// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes '--fp8-keep-lossy=lossy=pair#1:e5m6' | FileCheck %s --check-prefix=ONE
// RUN: not fp8-opt %s '--compile=lossy=pair#2:e5m6' --emit=plan 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fp8-opt %s '--compile=lossy=pair#1:relayout' --emit=plan 2>&1 | FileCheck %s --check-prefix=CAST

// CHECK: func.func @f({{.*}}) -> ({{.*}}, tensor<1x1xf32> {fp8.counter = "g", fp8.name = "g.inexact"})
// CHECK: forward {
// CHECK: %[[Q:.*]] = fp8.cast {{.*}} -> tensor<128x128xf8E4M3FN, #fp8.tensor<scale = [1, 128], pow2>>
// CHECK: } backward
// CHECK: %[[D:.*]] = fp8.dequantize %{{.*}} {fp8.lossy = {bytes = 16896 : i64, counter = "g.inexact", exact_bytes = 32768 : i64, form = "relayout", value = "g"}}
// CHECK: fp8.amax %[[D]] group = [128, 1]
// CHECK: %[[T:.*]] = fp8.cast %[[D]], %[[S:.*]] : {{.*}} -> tensor<128x128xf8E4M3FN, #fp8.tensor<scale = [128, 1], pow2>>
// CHECK: %[[BACK:.*]] = fp8.dequantize %[[T]], %[[S]]
// CHECK: %[[DIFFERS:.*]] = arith.cmpf une, %[[BACK]], %[[D]]
// CHECK: %[[ONES:.*]] = arith.select %[[DIFFERS]]
// CHECK: %[[COUNT:.*]] = fp8.reduce sum %[[ONES]] [0, 1] : tensor<128x128xf32> -> tensor<1x1xf32>
// CHECK: fp8.yield {{.*}}%[[COUNT]]

// PLAN: "lossy": [
// PLAN: "counter": "g.inexact",
// PLAN: "form": "relayout",
// REPORT: g as relayout, instead of 32,768 B; the gradients' change is not measured (lossy-seed); exact where 'g.inexact' counts 0

// Result 1 alone: result 0 is read as it is.
// ONE-COUNT-1: fp8.lossy = {{.*}}form = "e5m6", value = "pair#1"

// NONE: error: expected a value of a forward region that 'lossy' entry 'pair#2:e5m6' names, but there is none
// CAST: error: {{.*}}expected the forward region to cast 'pair#1' by 1x128 with scales that are powers of two
func.func @f(%x: tensor<128x128xbf16> loc("x"), %w: tensor<64x128xbf16> {fp8.parameter} loc("w")) -> (tensor<128x64xbf16>, tensor<128x128xbf16>) {
  %g = arith.mulf %x, %x : tensor<128x128xbf16> loc("g")
  %y = fp8.linear %g, %w recipe<block128> : tensor<128x128xbf16>, tensor<64x128xbf16> -> tensor<128x64xbf16> loc("y")
  %p:2 = fp8.opaque "pair"(%x) {adjoint = {name = "pair_backward", operands = [0], results = [0, 1]}} : (tensor<128x128xbf16>) -> (tensor<128x128xbf16>, tensor<128x128xbf16>) loc("pair")
  %m = arith.mulf %p#0, %p#1 : tensor<128x128xbf16> loc("m")
  return %y, %m : tensor<128x64xbf16>, tensor<128x128xbf16>
}
