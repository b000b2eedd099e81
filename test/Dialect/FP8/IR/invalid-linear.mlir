// Linears and their gradients; a label names the constraint.
// RUN: fp8-opt %s -split-input-file -verify-diagnostics

// linear C1
func.func @f(%x: tensor<2x64x32xbf16>, %w: tensor<48x32xbf16>) {
  // expected-error@+1 {{expected 'x' of rank 2, but got 'tensor<2x64x32xbf16>'}}
  %0 = fp8.linear %x, %w recipe<rowwise> : tensor<2x64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// linear C1
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<32xbf16>) {
  // expected-error@+1 {{expected 'w' of rank 2, but got 'tensor<32xbf16>'}}
  %0 = fp8.linear %x, %w recipe<rowwise> : tensor<64x32xbf16>, tensor<32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// linear C1
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>) {
  // expected-error@+1 {{expected 'result' of rank 2, but got 'tensor<3072xbf16>'}}
  %0 = fp8.linear %x, %w recipe<rowwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<3072xbf16>
  return
}

// -----

// linear C2
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<32x48xbf16>) {
  // expected-error@+1 {{expected dim 1 of 'x' and dim 1 of 'w' to be equal, but got 32 and 48}}
  %0 = fp8.linear %x, %w recipe<rowwise> : tensor<64x32xbf16>, tensor<32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// linear C2
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>) {
  // expected-error@+1 {{expected 'result' of shape [64, 48], but got [48, 64]}}
  %0 = fp8.linear %x, %w recipe<rowwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<48x64xbf16>
  return
}

// -----

// linear C3
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>) {
  // expected-error@+1 {{expected 6 state operands with a 'delayed' recipe, but got 0}}
  %0 = fp8.linear %x, %w recipe<delayed> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// linear C3
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>, %h: tensor<16xf32>) {
  // expected-error@+1 {{expected 0 state operands with a 'rowwise' recipe, but got 1}}
  %0 = fp8.linear %x, %w state(%h : tensor<16xf32>) recipe<rowwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// linear C4
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>, %h: tensor<16xf32>, %s: tensor<1x1xf32>) {
  // expected-error@+1 {{expected state operand 1 to be a scale of shape [1, 1], but got 'tensor<16xf32>'}}
  %0 = fp8.linear %x, %w state(%h, %h, %s, %s, %h, %s : tensor<16xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>) recipe<delayed>
    : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// linear C4
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>, %h: tensor<16xf32>, %s: tensor<1x1xf32>) {
  // expected-error@+1 {{expected state operand 2 to be a history of rank 1, but got 'tensor<1x1xf32>'}}
  %0 = fp8.linear %x, %w state(%h, %s, %s, %s, %h, %s : tensor<16xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>) recipe<delayed>
    : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// linear, the recipe is not optional
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>) {
  // expected-error@+1 {{requires attribute 'recipe'}}
  %0 = "fp8.linear"(%x, %w) : (tensor<64x32xbf16>, tensor<48x32xbf16>) -> tensor<64x48xbf16>
  return
}

// -----

// linear, operand types
func.func @f(%x: tensor<64x32xf16>, %w: tensor<48x32xbf16>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of bfloat16 type or 32-bit float values, but got 'tensor<64x32xf16>'}}
  %0 = fp8.linear %x, %w recipe<rowwise> : tensor<64x32xf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// linear_dgrad C1
func.func @f(%dy: tensor<64xbf16>, %w: tensor<48x32xbf16>) {
  // expected-error@+1 {{expected 'dy' of rank 2, but got 'tensor<64xbf16>'}}
  %0 = fp8.linear_dgrad %dy, %w recipe<rowwise> : tensor<64xbf16>, tensor<48x32xbf16> -> tensor<64x32xbf16>
  return
}

// -----

// linear_dgrad C2
func.func @f(%dy: tensor<64x48xbf16>, %w: tensor<32x48xbf16>) {
  // expected-error@+1 {{expected dim 1 of 'dy' and dim 0 of 'w' to be equal, but got 48 and 32}}
  %0 = fp8.linear_dgrad %dy, %w recipe<rowwise> : tensor<64x48xbf16>, tensor<32x48xbf16> -> tensor<64x32xbf16>
  return
}

// -----

// linear_dgrad C2
func.func @f(%dy: tensor<64x48xbf16>, %w: tensor<48x32xbf16>) {
  // expected-error@+1 {{expected 'result' of shape [64, 32], but got [64, 48]}}
  %0 = fp8.linear_dgrad %dy, %w recipe<rowwise> : tensor<64x48xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// linear_dgrad C3
func.func @f(%dy: tensor<64x48xbf16>, %w: tensor<48x32xbf16>) {
  // expected-error@+1 {{expected 6 state operands with a 'delayed' recipe, but got 0}}
  %0 = fp8.linear_dgrad %dy, %w recipe<delayed> : tensor<64x48xbf16>, tensor<48x32xbf16> -> tensor<64x32xbf16>
  return
}

// -----

// linear_dgrad C4
func.func @f(%dy: tensor<64x48xbf16>, %w: tensor<48x32xbf16>, %s: tensor<1x1xf32>) {
  // expected-error@+1 {{expected state operand 0 to be a history of rank 1, but got 'tensor<1x1xf32>'}}
  %0 = fp8.linear_dgrad %dy, %w state(%s, %s, %s, %s, %s, %s : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>)
    recipe<delayed> : tensor<64x48xbf16>, tensor<48x32xbf16> -> tensor<64x32xbf16>
  return
}

// -----

// linear_wgrad C1
func.func @f(%dy: tensor<64x48xbf16>, %x: tensor<32xbf16>) {
  // expected-error@+1 {{expected 'x' of rank 2, but got 'tensor<32xbf16>'}}
  %0 = fp8.linear_wgrad %dy, %x recipe<rowwise> : tensor<64x48xbf16>, tensor<32xbf16> -> tensor<48x32xbf16>
  return
}

// -----

// linear_wgrad C2
func.func @f(%dy: tensor<64x48xbf16>, %x: tensor<63x32xbf16>) {
  // expected-error@+1 {{expected dim 0 of 'dy' and dim 0 of 'x' to be equal, but got 64 and 63}}
  %0 = fp8.linear_wgrad %dy, %x recipe<rowwise> : tensor<64x48xbf16>, tensor<63x32xbf16> -> tensor<48x32xbf16>
  return
}

// -----

// linear_wgrad C2
func.func @f(%dy: tensor<64x48xbf16>, %x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected 'result' of shape [48, 32], but got [32, 48]}}
  %0 = fp8.linear_wgrad %dy, %x recipe<rowwise> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<32x48xbf16>
  return
}

// -----

// linear_wgrad C3
func.func @f(%dy: tensor<64x48xbf16>, %x: tensor<64x32xbf16>, %s: tensor<1x1xf32>) {
  // expected-error@+1 {{expected 0 state operands with a 'tensorwise' recipe, but got 1}}
  %0 = fp8.linear_wgrad %dy, %x state(%s : tensor<1x1xf32>) recipe<tensorwise> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<48x32xbf16>
  return
}

// -----

// linear_wgrad C4
func.func @f(%dy: tensor<64x48xbf16>, %x: tensor<64x32xbf16>, %h: tensor<4xf32>, %s: tensor<1xf32>) {
  // expected-error@+1 {{expected state operand 1 to be a scale of shape [1, 1], but got 'tensor<1xf32>'}}
  %0 = fp8.linear_wgrad %dy, %x state(%h, %s, %h, %s, %h, %s : tensor<4xf32>, tensor<1xf32>, tensor<4xf32>, tensor<1xf32>, tensor<4xf32>, tensor<1xf32>)
    recipe<delayed> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<48x32xbf16>
  return
}
