// Linears of groups and their gradients: scales of weights are of one expert each, groups are aligned as the recipe needs.
// RUN: fp8-opt %s -split-input-file --fp8-build-backward --fp8-expand-recipes | FileCheck %s

// CHECK-LABEL: func.func @rowwise
// CHECK: fp8.amax %[[W:.*]] group = [1, 1, 0] : tensor<2x48x32xbf16> -> tensor<2x48x1xf32>
// CHECK: fp8.grouped_matmul {{.*}} align = 16 balanced = 40 : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>> -> tensor<64x48xbf16>
// CHECK: backward
// CHECK-DAG: fp8.grouped_matmul {{.*}} align = 16 balanced = 40 : tensor<64x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<2x48x32xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>> -> tensor<64x32xbf16>
// CHECK-DAG: fp8.grouped_matmul {{.*}} align = 16 balanced = 40 : tensor<48x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<2x48x32xbf16>
func.func @rowwise(%x: tensor<64x32xbf16>, %w: tensor<2x48x32xbf16> {fp8.parameter}, %o: tensor<3xi32>) -> tensor<64x48xbf16> {
  %y = fp8.grouped_linear %x, %w offsets(%o : tensor<3xi32>) recipe<rowwise, w = f8E4M3FN, dy = f8E4M3FN> balanced = 40 : tensor<64x32xbf16>, tensor<2x48x32xbf16> -> tensor<64x48xbf16>
  return %y : tensor<64x48xbf16>
}

// -----

// CHECK-LABEL: func.func @tensorwise
// CHECK: fp8.amax {{.*}} group = [1, 0, 0] : tensor<2x48x32xbf16> -> tensor<2x1x1xf32>
// CHECK: fp8.grouped_matmul {{.*}} align = 16 : {{.*}}, tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, all]>> -> tensor<64x48xbf16>
func.func @tensorwise(%x: tensor<64x32xbf16>, %w: tensor<2x48x32xbf16> {fp8.parameter}, %o: tensor<3xi32>) -> tensor<64x48xbf16> {
  %y = fp8.grouped_linear %x, %w offsets(%o : tensor<3xi32>) recipe<tensorwise> : tensor<64x32xbf16>, tensor<2x48x32xbf16> -> tensor<64x48xbf16>
  return %y : tensor<64x48xbf16>
}

// -----

// CHECK-LABEL: func.func @block128
// CHECK: fp8.grouped_matmul {{.*}} align = 128 : tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [1, 128], pow2>>, tensor<2x128x128xf8E4M3FN, #fp8.tensor<scale = [1, 128, 128], pow2>> -> tensor<256x128xbf16>
// CHECK: backward
// CHECK-DAG: fp8.grouped_matmul {{.*}} align = 128 : {{.*}}, tensor<2x128x128xf8E4M3FN, #fp8.tensor<scale = [1, 128, 128], pow2>> -> tensor<256x128xbf16>
// CHECK-DAG: fp8.grouped_matmul {{.*}} align = 128 : tensor<128x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], pow2>>, tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [128, 1], pow2>> -> tensor<2x128x128xbf16>
func.func @block128(%x: tensor<256x128xbf16>, %w: tensor<2x128x128xbf16> {fp8.parameter}, %o: tensor<3xi32>) -> tensor<256x128xbf16> {
  %y = fp8.grouped_linear %x, %w offsets(%o : tensor<3xi32>) recipe<block128> : tensor<256x128xbf16>, tensor<2x128x128xbf16> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}
