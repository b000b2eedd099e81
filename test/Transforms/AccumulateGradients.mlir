// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes --fp8-accumulate-gradients | FileCheck %s
// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes --fp8-accumulate-gradients -o %t.mlir
// A second time nothing is left to do.
// RUN: fp8-opt %t.mlir --fp8-accumulate-gradients -o %t.again.mlir
// RUN: cmp %t.mlir %t.again.mlir

// The gradient of w is a matmul: it gives f32, and takes what was added before as its accumulator. That of g is a sum: it
// is widened, and added to. That of x, no parameter, stays as it is.
// CHECK-LABEL: func.func @linear(
// CHECK-SAME: "d_x"}, tensor<64x32xf32> {fp8.name = "w.main_grad", fp8.placement = "caller"}, tensor<1x32xf32> {fp8.name = "g.main_grad", fp8.placement = "caller"}
// CHECK: fp8.matmul {{.*}} -> tensor<64x32xf32>
// CHECK: arith.extf %{{.*}} : tensor<1x32xbf16> to tensor<1x32xf32>
// CHECK-LABEL: func.func @linear.accumulate(
// CHECK-SAME: %[[W:arg[0-9]+]]: tensor<64x32xf32> {fp8.donated}, %[[G:arg[0-9]+]]: tensor<1x32xf32> {fp8.donated})
// CHECK-SAME: tensor<64x32xf32> {fp8.name = "w.main_grad"}, tensor<1x32xf32> {fp8.name = "g.main_grad"}
// CHECK: fp8.matmul {{.*}} acc(%[[W]] : tensor<64x32xf32>) {{.*}}-> tensor<64x32xf32>
// CHECK: %[[NEW:.*]] = arith.extf %{{.*}} : tensor<1x32xbf16> to tensor<1x32xf32>
// CHECK: arith.addf %[[NEW]], %[[G]]
func.func @linear(%x: tensor<16x32xbf16> loc("x"), %w: tensor<64x32xbf16> {fp8.parameter} loc("w"),
                  %g: tensor<1x32xbf16> {fp8.parameter} loc("g")) -> tensor<16x64xbf16> {
  %b = fp8.broadcast %g : tensor<1x32xbf16> -> tensor<16x32xbf16>
  %n = arith.mulf %x, %b : tensor<16x32xbf16>
  %y = fp8.linear %n, %w recipe<rowwise> : tensor<16x32xbf16>, tensor<64x32xbf16> -> tensor<16x64xbf16>
  return %y : tensor<16x64xbf16>
}
