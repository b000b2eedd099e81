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

// -----

// The caller hands in a buffer for one result, which a kernel writes; an argument is written by none.
func.func @argument_of_the_caller(%x: tensor<4x6xf32>) -> (tensor<6x4xf32> {fp8.placement = "caller"}) {
  %0 = fp8.permute %x [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
  // expected-error@+1 {{expected result #0, placed by the caller, to be storage of its own, but it is argument #0; leave it in the arena, where an argument takes no storage}}
  return %0 : tensor<6x4xf32>
}

// -----

func.func @one_buffer_in_two_of_the_caller(%x: tensor<8xf32>) -> (tensor<8xf32> {fp8.placement = "caller"}, tensor<8xf32> {fp8.placement = "caller"}) {
  %0 = math.exp %x : tensor<8xf32>
  // expected-error@+1 {{expected result #1, placed by the caller, to be storage of its own, but it is also result #0; return it once, or leave both in the arena}}
  return %0, %0 : tensor<8xf32>, tensor<8xf32>
}

// -----

func.func @view_in_the_arena(%x: tensor<8xf32>) -> (tensor<8xf32> {fp8.placement = "caller"}, tensor<4xf32>) {
  %0 = math.exp %x : tensor<8xf32>
  %1 = fp8.slice %0 [4] : tensor<8xf32> -> tensor<4xf32>
  // expected-error@+1 {{expected result #0, placed by the caller, to be storage of its own, but it is also result #1; return it once, or leave both in the arena}}
  return %0, %1 : tensor<8xf32>, tensor<4xf32>
}
