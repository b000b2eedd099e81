// RUN: fp8-opt %s -verify-diagnostics --fp8-build-backward --fp8-accumulate-gradients

// expected-error @+1 {{expected no function 'product.accumulate', which fp8-accumulate-gradients adds for the microbatches after the first}}
func.func @product(%x: tensor<16x32xbf16> loc("x"), %w: tensor<16x32xbf16> {fp8.parameter} loc("w")) -> tensor<16x32xbf16> {
  %y = arith.mulf %x, %w : tensor<16x32xbf16>
  return %y : tensor<16x32xbf16>
}

func.func @product.accumulate() {
  return
}
