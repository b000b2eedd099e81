// The gradient of the weights of groups is a product that gives f32; it has no accumulator, so what was there is added to.
// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes --fp8-accumulate-gradients | FileCheck %s

// CHECK-LABEL: func.func @experts(
// CHECK-SAME: tensor<2x48x32xf32> {fp8.name = "w.main_grad", fp8.placement = "caller"}
// CHECK: fp8.grouped_matmul {{.*}} -> tensor<2x48x32xf32>
// CHECK-NOT: arith.extf
// CHECK-LABEL: func.func @experts.accumulate(
// CHECK-SAME: %[[W:arg[0-9]+]]: tensor<2x48x32xf32> {fp8.donated})
// CHECK: %[[NEW:.*]] = fp8.grouped_matmul {{.*}} -> tensor<2x48x32xf32>
// CHECK: arith.addf %[[NEW]], %[[W]] : tensor<2x48x32xf32>
func.func @experts(%x: tensor<64x32xbf16> loc("x"), %w: tensor<2x48x32xbf16> {fp8.parameter} loc("w"), %o: tensor<3xi32> loc("o"))
    -> tensor<64x48xbf16> {
  %y = fp8.grouped_linear %x, %w offsets(%o : tensor<3xi32>) recipe<rowwise> : tensor<64x32xbf16>, tensor<2x48x32xbf16> -> tensor<64x48xbf16>
  return %y : tensor<64x48xbf16>
}
