// RUN: fp8-opt %s | fp8-opt | FileCheck %s

// CHECK-LABEL: func @amax
// CHECK: fp8.amax %{{.*}} group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
func.func @amax(%x: tensor<64x32xbf16>) -> tensor<64x1xf32> {
  %m = fp8.amax %x group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
  return %m : tensor<64x1xf32>
}
