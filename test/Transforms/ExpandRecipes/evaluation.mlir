// RUN: fp8-opt %s -fp8-expand-recipes | FileCheck %s

// Outside a step nothing is pushed: evaluation uses the scales and leaves the histories alone.

// CHECK-LABEL: func.func @evaluate(
// CHECK-NOT: fp8.push_amax
// CHECK-NOT: fp8.amax
// CHECK-COUNT-2: fp8.cast
// CHECK: fp8.matmul
// CHECK: return
func.func @evaluate(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>,
    %hx: tensor<4xf32> {fp8.state}, %sx: tensor<1x1xf32> {fp8.state}, %hw: tensor<4xf32> {fp8.state},
    %sw: tensor<1x1xf32> {fp8.state}, %hd: tensor<4xf32> {fp8.state}, %sd: tensor<1x1xf32> {fp8.state}) -> tensor<16x16xbf16> {
  %y = fp8.linear %x, %w state(%hx, %sx, %hw, %sw, %hd, %sd : tensor<4xf32>, tensor<1x1xf32>, tensor<4xf32>, tensor<1x1xf32>, tensor<4xf32>, tensor<1x1xf32>) recipe <delayed> : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
  return %y : tensor<16x16xbf16>
}
