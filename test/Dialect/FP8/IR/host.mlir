// Copies to host memory and back.
//
// RUN: fp8-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @there_and_back
func.func @there_and_back(%x: tensor<64x32xbf16>) -> tensor<64x32xbf16> {
  // CHECK: fp8.offload_start %{{.*}} : tensor<64x32xbf16> -> <tensor<64x32xbf16>>, !fp8.token
  %h, %t = fp8.offload_start %x : tensor<64x32xbf16> -> !fp8.host<tensor<64x32xbf16>>, !fp8.token
  // CHECK: fp8.wait %{{.*}}, %{{.*}} : !fp8.host<tensor<64x32xbf16>>
  %w = fp8.wait %h, %t : !fp8.host<tensor<64x32xbf16>>
  %y, %u = fp8.prefetch_start %w : !fp8.host<tensor<64x32xbf16>> -> tensor<64x32xbf16>, !fp8.token
  %z = fp8.wait %y, %u : tensor<64x32xbf16>
  return %z : tensor<64x32xbf16>
}
