// RUN: fp8-opt %s -verify-diagnostics --fp8-insert-frees
// RUN: fp8-opt %s -verify-diagnostics --fp8-place

func.func @bare(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{expected every op that runs to be in an 'fp8.kernel'; run 'fp8-form-kernels' first}}
  %0 = math.exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
