// RUN: fp8-opt %s --fp8-build-backward --fp8-select-saved=policy=min-cut -split-input-file -verify-diagnostics

// Backward reads the tanh, not what it is computed from.
func.func @unread(%x: tensor<8x8xf32>, %w: tensor<8x8xf32> {fp8.parameter}) -> tensor<8x8xf32> {
  // expected-error @+1 {{expected a value to offload that backward reads as one kernel of forward has made it, and that is no result of the step, but 'fp8.matmul#0.0' is not}}
  %m = fp8.matmul %x, %w {fp8.policy = "offload"} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %a = math.tanh %m : tensor<8x8xf32>
  %o = fp8.matmul %a, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %o : tensor<8x8xf32>
}

// -----

// A result stays to the end.
func.func @result(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{and that is no result of the step, but 'math.tanh#0.0' is not}}
  %a = math.tanh %x {fp8.policy = "offload"} : tensor<8x8xf32>
  return %a : tensor<8x8xf32>
}

// -----

func.func @mark(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{expected 'fp8.offload' to be an array of numbers of results, but got array<i64: 1>}}
  %a = math.tanh %x {fp8.offload = array<i64: 1>} : tensor<8x8xf32>
  return %a : tensor<8x8xf32>
}
