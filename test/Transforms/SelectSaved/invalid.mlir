// RUN: fp8-opt %s -split-input-file -verify-diagnostics --fp8-select-saved
// RUN: not fp8-opt %s --fp8-select-saved=policy=fastest 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not fp8-opt %s "--fp8-select-saved=policy=op-list ops=abs++max" 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not fp8-opt %s "--fp8-select-saved=policy=op-list ops=+" 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not fp8-opt %s "--fp8-select-saved=policy=op-list ops=default-tanh" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not fp8-opt %s "--fp8-select-saved=fuse=some" 2>&1 | FileCheck %s --check-prefix=FUSE
// RUN: not fp8-opt %s "--fp8-select-saved=budget=much" 2>&1 | FileCheck %s --check-prefix=BUDGET
// POLICY: error: expected 'policy' to be save-all, recompute-all, op-list, min-cut or auto, but got 'fastest'
// EMPTY: error: expected op names joined by '+' or '-' in 'ops', such as 'default-abs'
// NAME: error: expected an op name such as 'math.absf' in 'ops', but got 'tanh'
// FUSE: error: expected 'fuse' to be 'default' or 'none', but got 'some'
// BUDGET: error: expected 'budget' to be bytes such as 40GiB or 1000000, but got 'much'

func.func @linear(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>) -> tensor<16x16xbf16> {
  // expected-error@+1 {{expected no linears; run 'fp8-expand-recipes' first}}
  %0 = fp8.linear %x, %w recipe<rowwise> : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
  return %0 : tensor<16x16xbf16>
}

// -----

func.func @kernels(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{expected ops that are not in kernels yet; this IR is planned already}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %1 = math.exp %a : tensor<8xf32>
    fp8.yield %1 : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// -----

// expected-error@+1 {{expected joint IR, but 'fp8-select-saved' has run on it already}}
func.func @twice(%x: tensor<8xf32>) -> tensor<8xf32> attributes {fp8.decisions = {policy = "auto"}} {
  %0 = math.exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @beside(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{stands beside an 'fp8.step': expected only constants there; move it into the forward or the backward region}}
  %0 = math.exp %x : tensor<8xf32>
  %1 = fp8.step -> (tensor<8xf32>) forward {
    fp8.yield %0 : tensor<8xf32>
  } backward {
    fp8.yield
  }
  return %1 : tensor<8xf32>
}
