// The adjoint of a product of groups is of the other form or of the same; offsets get no gradient.
// RUN: fp8-opt %s -split-input-file -verify-diagnostics --fp8-build-backward | FileCheck %s

// CHECK-LABEL: func.func @rows
// CHECK: backward
// CHECK: %[[BT:.*]] = fp8.permute %{{.*}} [0, 2, 1] : tensor<2x32x48xbf16> -> tensor<2x48x32xbf16>
// CHECK: %[[DA:.*]] = fp8.grouped_matmul %{{.*}}, %[[BT]] offsets(%{{.*}} : tensor<3xi32>) align = 16 balanced = 48 : tensor<64x48xbf16>, tensor<2x48x32xbf16> -> tensor<64x32xbf16>
// CHECK: %[[AT:.*]] = fp8.permute %{{.*}} [1, 0] : tensor<64x32xbf16> -> tensor<32x64xbf16>
// CHECK: %[[DB:.*]] = fp8.grouped_matmul %[[AT]], %{{.*}} offsets(%{{.*}} : tensor<3xi32>) align = 16 balanced = 48 : tensor<32x64xbf16>, tensor<64x48xbf16> -> tensor<2x32x48xbf16>
// CHECK: fp8.yield %[[DA]], %[[DB]]
func.func @rows(%a: tensor<64x32xbf16>, %b: tensor<2x32x48xbf16>, %o: tensor<3xi32>) -> tensor<64x48xbf16> {
  %y = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) align = 16 balanced = 48 : tensor<64x32xbf16>, tensor<2x32x48xbf16> -> tensor<64x48xbf16>
  return %y : tensor<64x48xbf16>
}

// -----

// CHECK-LABEL: func.func @sums
// CHECK: backward
// CHECK: %[[DYT:.*]] = fp8.permute %{{.*}} [0, 2, 1] : tensor<2x32x48xf32> -> tensor<2x48x32xf32>
// CHECK: %[[DAT:.*]] = fp8.grouped_matmul %{{.*}}, %[[DYT]] {{.*}} : tensor<64x48xf32>, tensor<2x48x32xf32> -> tensor<64x32xf32>
// CHECK: %[[DA:.*]] = fp8.permute %[[DAT]] [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>
// CHECK: %[[AT:.*]] = fp8.permute %{{.*}} [1, 0] : tensor<32x64xf32> -> tensor<64x32xf32>
// CHECK: %[[DB:.*]] = fp8.grouped_matmul %[[AT]], %{{.*}} {{.*}} : tensor<64x32xf32>, tensor<2x32x48xf32> -> tensor<64x48xf32>
// CHECK: fp8.yield %[[DA]], %[[DB]]
func.func @sums(%a: tensor<32x64xf32>, %b: tensor<64x48xf32>, %o: tensor<3xi32>) -> tensor<2x32x48xf32> {
  %y = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) align = 16 : tensor<32x64xf32>, tensor<64x48xf32> -> tensor<2x32x48xf32>
  return %y : tensor<2x32x48xf32>
}

// -----

// CHECK-LABEL: func.func @linear
// CHECK: backward
// CHECK: fp8.grouped_linear_dgrad {{.*}} recipe <block128> balanced = 128 : tensor<256x128xbf16>, tensor<2x128x64xbf16> -> tensor<256x64xbf16>
// CHECK: fp8.grouped_linear_wgrad {{.*}} recipe <block128> balanced = 128 : tensor<256x128xbf16>, tensor<256x64xbf16> -> tensor<2x128x64xbf16>
func.func @linear(%x: tensor<256x64xbf16>, %w: tensor<2x128x64xbf16>, %o: tensor<3xi32>) -> tensor<256x128xbf16> {
  %y = fp8.grouped_linear %x, %w offsets(%o : tensor<3xi32>) recipe<block128> balanced = 128 : tensor<256x64xbf16>, tensor<2x128x64xbf16> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}

// -----

func.func @fp8(%x: tensor<64x32xbf16>, %s: tensor<1x1xf32>, %b: tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, all]>>, %t: tensor<2x1x1xf32>, %o: tensor<3xi32>) -> tensor<64x48xbf16> {
  %a = fp8.cast %x, %s : tensor<64x32xbf16>, tensor<1x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
  // expected-error@+1 {{expected bf16 or f32 operands where a gradient passes through, but got 'f8E4M3FN'; write the product as 'fp8.grouped_linear' with a recipe}}
  %y = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) scales(%s, %t : tensor<1x1xf32>, tensor<2x1x1xf32>) align = 16 : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, all]>> -> tensor<64x48xbf16>
  return %y : tensor<64x48xbf16>
}
