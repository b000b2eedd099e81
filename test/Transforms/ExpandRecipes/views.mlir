// A view of the forward region is written a second time in the backward region. What was cast is cast once all the
// same, and its maximum pushed once.

// RUN: fp8-opt %s --fp8-build-backward --fp8-expand-recipes | FileCheck %s

// CHECK-LABEL: func.func @reshaped
// CHECK: fp8.push_amax {{.*}}, %[[HISTORY:arg[0-9]+]] :
// CHECK: } backward
// CHECK-NOT: fp8.push_amax {{.*}}, %[[HISTORY]] :
// CHECK-LABEL: func.func @end_of_step
func.func @reshaped(
    %x: tensor<2x16x32xbf16>, %w: tensor<48x32xbf16> {fp8.parameter},
    %xh: tensor<4xf32> {fp8.state} loc("xh"), %xs: tensor<1x1xf32> {fp8.state} loc("xs"),
    %wh: tensor<4xf32> {fp8.state} loc("wh"), %ws: tensor<1x1xf32> {fp8.state} loc("ws"),
    %dh: tensor<4xf32> {fp8.state} loc("dh"), %ds: tensor<1x1xf32> {fp8.state} loc("ds")) -> tensor<32x48xbf16> {
  %r = fp8.reshape %x : tensor<2x16x32xbf16> -> tensor<32x32xbf16>
  %y = fp8.linear %r, %w state(%xh, %xs, %wh, %ws, %dh, %ds : tensor<4xf32>, tensor<1x1xf32>, tensor<4xf32>, tensor<1x1xf32>, tensor<4xf32>, tensor<1x1xf32>)
    recipe<delayed> : tensor<32x32xbf16>, tensor<48x32xbf16> -> tensor<32x48xbf16>
  return %y : tensor<32x48xbf16>
}
