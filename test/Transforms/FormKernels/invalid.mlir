// RUN: fp8-opt %s -split-input-file -verify-diagnostics --fp8-form-kernels
// RUN: not fp8-opt %s --fp8-form-kernels=fuse=all 2>&1 | FileCheck %s
// CHECK: error: expected 'fuse' to be 'default' or 'none', but got 'all'

// expected-error@+1 {{expected ops that are not in kernels yet, but got an 'fp8.kernel'}}
func.func @twice(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %1 = math.exp %a : tensor<8xf32>
    fp8.yield %1 : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// -----

func.func @linear(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>) -> tensor<16x16xbf16> {
  // expected-error@+1 {{cannot be planned: expected no linears; run 'fp8-expand-recipes' first}}
  %0 = fp8.linear %x, %w recipe<rowwise> : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
  return %0 : tensor<16x16xbf16>
}

// -----

func.func @call(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{cannot be planned: expected an fp8, arith or math op on tensors; an operation known only by its shapes can be declared as 'fp8.opaque'}}
  %0 = func.call @other(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @other(tensor<8xf32>) -> tensor<8xf32>

// -----

// expected-error@+1 {{cannot be planned: expected one block, but got 2}}
func.func @blocks(%x: tensor<8xf32>) -> tensor<8xf32> {
  cf.br ^next
^next:
  return %x : tensor<8xf32>
}
