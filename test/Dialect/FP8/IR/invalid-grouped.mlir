// Products of groups of rows, their linears and gradients; a label names the constraint.
// RUN: fp8-opt %s -split-input-file -verify-diagnostics

// grouped_matmul C1
func.func @f(%a: tensor<2x64x32xbf16>, %b: tensor<2x32x48xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected 'a' of rank 2, but got 'tensor<2x64x32xbf16>'}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) align = 16 : tensor<2x64x32xbf16>, tensor<2x32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C1
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<32xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected 'b' of rank 3 or 2, but got 'tensor<32xbf16>'}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) align = 16 : tensor<64x32xbf16>, tensor<32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C1
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<2x32x48xbf16>, %o: tensor<2xi32>) {
  // expected-error@+1 {{expected 'offsets' of rank 1 with the beginnings of 2 groups and the end of the last one, but got 'tensor<2xi32>'}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<2xi32>) align = 16 : tensor<64x32xbf16>, tensor<2x32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C1
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<32x48xbf16>, %o: tensor<1xi32>) {
  // expected-error@+1 {{expected 'offsets' of rank 1 with the beginnings of all groups and the end of the last one, but got 'tensor<1xi32>'}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<1xi32>) align = 16 : tensor<64x32xbf16>, tensor<32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C1
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<2x16x48xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected dim 1 of 'a' and dim 1 of 'b' to be equal, but got 32 and 16}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) align = 16 : tensor<64x32xbf16>, tensor<2x16x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C1
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<32x48xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected 'result' of shape [2, 64, 48], but got [64, 48]}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) align = 16 : tensor<64x32xbf16>, tensor<32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C2
func.func @f(%a: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %b: tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected 'scale_a' beside}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) align = 16 : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C2
func.func @f(%a: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %b: tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>>, %o: tensor<3xi32>, %sa: tensor<64x1xf32>, %sb: tensor<1x1x48xf32>) {
  // expected-error@+1 {{expected 'scale_b' of shape [2, 1, 48], but got [1, 1, 48]}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) scales(%sa, %sb : tensor<64x1xf32>, tensor<1x1x48xf32>) align = 16 : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C3
func.func @f(%a: tensor<64x32xf32>, %b: tensor<2x32x48xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected two FP8 operands that are not both f8E5M2, two of bf16 or two of f32, but got 'f32' and 'bf16'}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) align = 16 : tensor<64x32xf32>, tensor<2x32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C4
func.func @f(%a: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %b: tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, all]>>, %o: tensor<3xi32>, %sa: tensor<64x1xf32>, %sb: tensor<2x1x1xf32>) {
  // expected-error@+1 {{expected scales per tensor on both, rows with columns}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) scales(%sa, %sb : tensor<64x1xf32>, tensor<2x1x1xf32>) align = 16 : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, all]>> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C4
func.func @f(%a: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %b: tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [all, all, 1]>>, %o: tensor<3xi32>, %sa: tensor<64x1xf32>, %sb: tensor<1x1x48xf32>) {
  // expected-error@+1 {{expected scales of one matrix of 'b' each, or one for all}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) scales(%sa, %sb : tensor<64x1xf32>, tensor<1x1x48xf32>) align = 16 : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [all, all, 1]>> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C4
func.func @f(%a: tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>, %b: tensor<256x48xf8E4M3FN, #fp8.tensor<scale = [128, 1]>>, %o: tensor<3xi32>, %sa: tensor<64x2xf32>, %sb: tensor<2x48xf32>) {
  // expected-error@+1 {{expected 'align' to be a multiple of 128, the rows that share a scale, but got 16}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) scales(%sa, %sb : tensor<64x2xf32>, tensor<2x48xf32>) align = 16 : tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>, tensor<256x48xf8E4M3FN, #fp8.tensor<scale = [128, 1]>> -> tensor<2x64x48xbf16>
  return
}

// -----

// grouped_matmul C5
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<2x32x48xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected 'align' of at least 1, but got 0}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) align = 0 : tensor<64x32xbf16>, tensor<2x32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C5
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<2x32x48xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected 'balanced' between 1 and the capacity of 64 rows, but got 65}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) align = 16 balanced = 65 : tensor<64x32xbf16>, tensor<2x32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_matmul C6
func.func @f(%x: tensor<64x32xbf16>, %b: tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>>, %o: tensor<3xi32>, %s: tensor<64x1xf32>, %sa: tensor<64x1xf32>, %sb: tensor<2x1x48xf32>) {
  // expected-note@+1 {{'a' was cast here}}
  %a = fp8.cast %x, %s : tensor<64x32xbf16>, tensor<64x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  // expected-error@+1 {{expected 'scale_a' to be the scale that 'a' was cast with, but got another value}}
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) scales(%sa, %sb : tensor<64x1xf32>, tensor<2x1x48xf32>) align = 16 : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_linear C1
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected 'w' of rank 3, but got 'tensor<48x32xbf16>'}}
  %0 = fp8.grouped_linear %x, %w offsets(%o : tensor<3xi32>) recipe<rowwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_linear C1
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<2x48x32xbf16>, %o: tensor<4xi32>) {
  // expected-error@+1 {{expected 'offsets' of rank 1 with the beginnings of 2 groups and the end of the last one, but got 'tensor<4xi32>'}}
  %0 = fp8.grouped_linear %x, %w offsets(%o : tensor<4xi32>) recipe<rowwise> : tensor<64x32xbf16>, tensor<2x48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_linear C2
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<2x32x48xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected dim 1 of 'x' and dim 2 of 'w' to be equal, but got 32 and 48}}
  %0 = fp8.grouped_linear %x, %w offsets(%o : tensor<3xi32>) recipe<rowwise> : tensor<64x32xbf16>, tensor<2x32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_linear C3
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<2x48x32xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected a recipe that is not 'delayed', which groups have no histories for, but got}}
  %0 = fp8.grouped_linear %x, %w offsets(%o : tensor<3xi32>) recipe<delayed> : tensor<64x32xbf16>, tensor<2x48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_linear C4
func.func @f(%x: tensor<64x32xbf16>, %w: tensor<2x48x32xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected 'balanced' between 1 and the capacity of 64 rows, but got 0}}
  %0 = fp8.grouped_linear %x, %w offsets(%o : tensor<3xi32>) recipe<rowwise> balanced = 0 : tensor<64x32xbf16>, tensor<2x48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_linear_dgrad C1
func.func @f(%dy: tensor<64x48x1xbf16>, %w: tensor<2x48x32xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected 'dy' of rank 2, but got 'tensor<64x48x1xbf16>'}}
  %0 = fp8.grouped_linear_dgrad %dy, %w offsets(%o : tensor<3xi32>) recipe<rowwise> : tensor<64x48x1xbf16>, tensor<2x48x32xbf16> -> tensor<64x32xbf16>
  return
}

// -----

// grouped_linear_dgrad C2
func.func @f(%dy: tensor<64x48xbf16>, %w: tensor<2x48x32xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected 'result' of shape [64, 32], but got [64, 48]}}
  %0 = fp8.grouped_linear_dgrad %dy, %w offsets(%o : tensor<3xi32>) recipe<rowwise> : tensor<64x48xbf16>, tensor<2x48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// grouped_linear_dgrad C3
func.func @f(%dy: tensor<64x48xbf16>, %w: tensor<2x48x32xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected a recipe that is not 'delayed'}}
  %0 = fp8.grouped_linear_dgrad %dy, %w offsets(%o : tensor<3xi32>) recipe<delayed> : tensor<64x48xbf16>, tensor<2x48x32xbf16> -> tensor<64x32xbf16>
  return
}

// -----

// grouped_linear_dgrad C4
func.func @f(%dy: tensor<64x48xbf16>, %w: tensor<2x48x32xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected 'balanced' between 1 and the capacity of 64 rows, but got 100}}
  %0 = fp8.grouped_linear_dgrad %dy, %w offsets(%o : tensor<3xi32>) recipe<rowwise> balanced = 100 : tensor<64x48xbf16>, tensor<2x48x32xbf16> -> tensor<64x32xbf16>
  return
}

// -----

// grouped_linear_wgrad C1
func.func @f(%dy: tensor<64x48xbf16>, %x: tensor<64x32xbf16>, %o: tensor<1xi32>) {
  // expected-error@+1 {{expected 'offsets' of rank 1 with the beginnings of all groups and the end of the last one, but got 'tensor<1xi32>'}}
  %0 = fp8.grouped_linear_wgrad %dy, %x offsets(%o : tensor<1xi32>) recipe<rowwise> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<2x48x32xbf16>
  return
}

// -----

// grouped_linear_wgrad C2
func.func @f(%dy: tensor<64x48xbf16>, %x: tensor<64x32xbf16>, %o: tensor<4xi32>) {
  // expected-error@+1 {{expected 'result' of shape [3, 48, 32], but got [2, 48, 32]}}
  %0 = fp8.grouped_linear_wgrad %dy, %x offsets(%o : tensor<4xi32>) recipe<rowwise> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<2x48x32xbf16>
  return
}

// -----

// grouped_linear_wgrad C3
func.func @f(%dy: tensor<64x48xbf16>, %x: tensor<64x32xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected a recipe that is not 'delayed'}}
  %0 = fp8.grouped_linear_wgrad %dy, %x offsets(%o : tensor<3xi32>) recipe<delayed> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<2x48x32xbf16>
  return
}

// -----

// grouped_linear_wgrad C4
func.func @f(%dy: tensor<64x48xbf16>, %x: tensor<64x32xbf16>, %o: tensor<3xi32>) {
  // expected-error@+1 {{expected 'balanced' between 1 and the capacity of 64 rows, but got 65}}
  %0 = fp8.grouped_linear_wgrad %dy, %x offsets(%o : tensor<3xi32>) recipe<rowwise> balanced = 65 : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<2x48x32xbf16>
  return
}

// -----

// The mark for test runs.
// expected-error@+1 {{argument 0: expected 'fp8.rows_per_group' on an i32 tensor of rank 1, but got it on 'tensor<3xf32>'}}
func.func @f(%o: tensor<3xf32> {fp8.rows_per_group = 16 : i64}) {
  return
}

// -----

// expected-error@+1 {{argument 0: expected 'fp8.rows_per_group' to be an i64 that is not negative, but got -16 : i64}}
func.func @f(%o: tensor<3xi32> {fp8.rows_per_group = -16 : i64}) {
  return
}
