// Copies to host memory and back that are none.
//
// RUN: fp8-opt %s -split-input-file -verify-diagnostics

// offload_start C1
func.func @type_there(%x: tensor<64xf32>) {
  // expected-error @+1 {{'fp8.offload_start' op expected the result to be the host's of 'tensor<64xf32>', but got '!fp8.host<tensor<32xf32>>'}}
  %h, %t = fp8.offload_start %x : tensor<64xf32> -> !fp8.host<tensor<32xf32>>, !fp8.token
  %w = fp8.wait %h, %t : !fp8.host<tensor<32xf32>>
  return
}

// -----

// prefetch_start C1
func.func @type_back(%h: !fp8.host<tensor<64xf32>>) {
  // expected-error @+1 {{'fp8.prefetch_start' op expected the operand to be the host's of 'tensor<64xbf16>', but got '!fp8.host<tensor<64xf32>>'}}
  %y, %t = fp8.prefetch_start %h : !fp8.host<tensor<64xf32>> -> tensor<64xbf16>, !fp8.token
  %z = fp8.wait %y, %t : tensor<64xbf16>
  return
}

// -----

// offload_start C2
func.func @no_wait(%x: tensor<64xf32>) -> !fp8.host<tensor<64xf32>> {
  // expected-error @+1 {{'fp8.offload_start' op expected exactly one use of the token, but got 0}}
  %h, %t = fp8.offload_start %x : tensor<64xf32> -> !fp8.host<tensor<64xf32>>, !fp8.token
  return %h : !fp8.host<tensor<64xf32>>
}

// -----

// prefetch_start C2
func.func @no_wait_back(%h: !fp8.host<tensor<64xf32>>) -> tensor<64xf32> {
  // expected-error @+1 {{'fp8.prefetch_start' op expected exactly one use of the token, but got 0}}
  %y, %t = fp8.prefetch_start %h : !fp8.host<tensor<64xf32>> -> tensor<64xf32>, !fp8.token
  return %y : tensor<64xf32>
}
