// RUN: fp8-opt %s -split-input-file -verify-diagnostics -fp8-verify-phase=phase=joint

func.func @linear(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>) {
  // expected-error@+1 {{expected no linear after the import phase; run 'fp8-expand-recipes'}}
  %0 = fp8.linear %x, %w recipe<rowwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

func.func @linear(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>, %dy: tensor<64x48xbf16>) {
  fp8.step forward {
    fp8.yield
  } backward {
    // expected-error@+1 {{expected no linear after the import phase; run 'fp8-expand-recipes'}}
    %0 = fp8.linear_dgrad %dy, %w recipe<rowwise> : tensor<64x48xbf16>, tensor<48x32xbf16> -> tensor<64x32xbf16>
    // expected-error@+1 {{expected no linear after the import phase; run 'fp8-expand-recipes'}}
    %1 = fp8.linear_wgrad %dy, %x recipe<rowwise> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<48x32xbf16>
    fp8.yield
  }
  return
}

// -----

func.func @beside(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.constant dense<1.0> : tensor<8xf32>
  // expected-error@+1 {{expected only constants beside an 'fp8.step'; 'fp8-build-backward' moves everything else into its regions}}
  %e = math.exp %x : tensor<8xf32>
  %y = fp8.step -> (tensor<8xf32>) forward {
    %0 = arith.addf %e, %c : tensor<8xf32>
    fp8.yield %0 : tensor<8xf32>
  } backward {
    fp8.yield
  }
  // expected-error@+1 {{expected only constants beside an 'fp8.step'}}
  %z = math.exp %y : tensor<8xf32>
  return %z : tensor<8xf32>
}

// -----

// Good: a function without a step, one with, and a constant beside it.
func.func @end_of_step(%h: tensor<16xf32> {fp8.state}, %s: tensor<1x1xf32> {fp8.state}) {
  fp8.update_scale %h, %s format = f8E4M3FN : tensor<16xf32>, tensor<1x1xf32>
  return
}
func.func @good(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.constant dense<1.0> : tensor<8xf32>
  %y = fp8.step -> (tensor<8xf32>) forward {
    %0 = arith.addf %x, %c : tensor<8xf32>
    fp8.yield %0 : tensor<8xf32>
  } backward {
    fp8.yield
  }
  return %y : tensor<8xf32>
}
