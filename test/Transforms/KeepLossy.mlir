// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes '--fp8-keep-lossy=lossy=g:1x128' | FileCheck %s
// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes '--fp8-keep-lossy=lossy=?:e5m2' | FileCheck %s --check-prefix=E5M2
// RUN: fp8-opt %s '--compile=lossy=g:1x128,lossy-seed=3' --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fp8-opt %s '--compile=lossy=g:1x128' --emit=plan | FileCheck %s --check-prefix=UNMEASURED
// RUN: fp8-opt %s '--compile=lossy=g:1x128' --emit=report | FileCheck %s --check-prefix=REPORT
// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes '--fp8-keep-lossy=lossy=g:e5m6' | FileCheck %s --check-prefix=E5M6
// RUN: fp8-opt %s '--compile=policy=op-list,ops=fp8.cast,lossy=g:e5m6,lossy-seed=3' --emit=plan | FileCheck %s --check-prefix=E5M6-PLAN
// RUN: not fp8-opt %s '--compile=lossy=g:relayout' --emit=plan 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: not fp8-opt %s '--compile=lossy=g:e5m7' --emit=plan 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not fp8-opt %s '--compile=lossy=layers.*.gate:e5m2' --emit=plan 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fp8-opt %s '--compile=lossy=g:e5m2+g:1x128' --emit=plan 2>&1 | FileCheck %s --check-prefix=TWICE

// Forward squares g as it is; backward reads g, and the square that the weight's gradient needs, through the cast.
// CHECK: forward {
// CHECK: %[[G:.*]] = arith.addf %arg0, %arg0
// CHECK: %[[AMAX:.*]] = fp8.amax %[[G]] group = [1, 128]
// CHECK: %[[SCALE:.*]] = fp8.scale %[[AMAX]] format = f8E4M3FN
// CHECK: %[[Q:.*]] = fp8.cast %[[G]], %[[SCALE]]
// CHECK: arith.mulf %[[G]], %[[G]]
// CHECK: } backward
// CHECK: %[[D:.*]] = fp8.dequantize %{{.*}}, %{{.*}} {fp8.lossy = {bytes = 4224 : i64, exact_bytes = 8192 : i64, form = "1x128", value = "g"}}
// CHECK-DAG: arith.mulf %[[D]], %[[D]] : tensor<32x128xbf16>
// CHECK-DAG: arith.mulf %{{.*}}, %[[D]] : tensor<32x128xbf16>

// E5M2: fp8.cast {{.*}} -> tensor<32x128xf8E5M2, #fp8.tensor<scale = [all, all]>>

// PLAN: "lossy": [
// PLAN-NEXT: {
// PLAN-NEXT: "bytes": 4224,
// PLAN-NEXT: "exact_bytes": 8192,
// PLAN-NEXT: "form": "1x128",
// PLAN-NEXT: "grad_rel_error": 0.0{{[1-9]}}
// PLAN-NEXT: "value": "g"
// UNMEASURED: "grad_rel_error": null,
// UNMEASURED-NEXT: "grad_rel_error_reason": "not measured: 'lossy-seed' names the inputs to measure it on",
// REPORT: Read in backward in an inexact form
// REPORT-NEXT: 4,224 B  g as 1x128, instead of 8,192 B

// E5M6: %[[G:.*]] = arith.addf %arg0, %arg0
// E5M6: %[[AMAX:.*]] = fp8.amax %[[G]] group = [1, 128]
// E5M6: %[[SCALE:.*]] = fp8.scale %[[AMAX]] format = !fp8.e5m6 {pow2 = #fp8.pow2<floor>}
// E5M6: fp8.cast %[[G]], %[[SCALE]] : {{.*}} -> tensor<32x128x!fp8.e5m6, #fp8.tensor<scale = [1, 128], pow2>>
// E5M6: fp8.dequantize %{{.*}} {fp8.lossy = {bytes = 6272 : i64, exact_bytes = 8192 : i64, form = "e5m6", value = "g"}}

// E5M6-PLAN: "lossy": [
// E5M6-PLAN-NEXT: {
// E5M6-PLAN-NEXT: "bytes": 6272,
// E5M6-PLAN-NEXT: "exact_bytes": 8192,
// E5M6-PLAN-NEXT: "form": "e5m6",
// E5M6-PLAN-NEXT: "grad_rel_error": 0.02{{[0-9]}}
// E5M6-PLAN: "bytes": 6144,
// E5M6-PLAN-NEXT: "form": "e5m6",
// E5M6-PLAN-NEXT: "loc":
// E5M6-PLAN-NEXT: "op": "fp8.cast",
// E5M6-PLAN-NEXT: "value": "g.e5m6",

// LAYOUT: error: {{.*}}expected the forward region to cast 'g' by 1x128 with scales that are powers of two, as the recipe 'block128' does, to take another layout from it
// FORM: error: expected 'VALUE:1x128', 'VALUE:e5m2', 'VALUE:e5m6' or 'VALUE:relayout' in 'lossy', but got 'g:e5m7'
// NONE: error: expected a value of a forward region that 'lossy' entry 'layers.*.gate:e5m2' names, but there is none
// TWICE: error: {{.*}}expected one lossy form of 'g', but 'g:e5m2' and 'g:1x128' both name it
func.func @f(%x: tensor<32x128xbf16> loc("x"), %w: tensor<64x128xbf16> {fp8.parameter} loc("w")) -> tensor<32x64xbf16> {
  %g = arith.addf %x, %x : tensor<32x128xbf16> loc("g")
  %s = arith.mulf %g, %g : tensor<32x128xbf16> loc("square")
  %y = fp8.linear %s, %w recipe<rowwise> : tensor<32x128xbf16>, tensor<64x128xbf16> -> tensor<32x64xbf16> loc("y")
  return %y : tensor<32x64xbf16>
}
