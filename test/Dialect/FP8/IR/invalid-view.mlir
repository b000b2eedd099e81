// Views and layout changes; a label names the constraint.
// RUN: fp8-opt %s -split-input-file -verify-diagnostics

// permute C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected a permutation of 2 dimensions, but got [0]}}
  %0 = fp8.permute %x [0] : tensor<64x32xbf16> -> tensor<64x32xbf16>
  return
}

// -----

// permute C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected a permutation of 2 dimensions, but got [1, 1]}}
  %0 = fp8.permute %x [1, 1] : tensor<64x32xbf16> -> tensor<32x32xbf16>
  return
}

// -----

// permute C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected a permutation of 2 dimensions, but got [2, -1]}}
  %0 = fp8.permute %x [2, -1] : tensor<64x32xbf16> -> tensor<32x64xbf16>
  return
}

// -----

// permute C2, shape
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected result type 'tensor<32x64xbf16>', but got 'tensor<64x32xbf16>'}}
  %0 = fp8.permute %x [1, 0] : tensor<64x32xbf16> -> tensor<64x32xbf16>
  return
}

// -----

// permute C2, element type
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected result type 'tensor<32x64xbf16>', but got 'tensor<32x64xf32>'}}
  %0 = fp8.permute %x [1, 0] : tensor<64x32xbf16> -> tensor<32x64xf32>
  return
}

// -----

// permute C2, encoding: the layout rule
func.func @f(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
  // expected-error@+1 {{expected result type 'tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>', but got 'tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>'}}
  %0 = fp8.permute %x [1, 0] : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  return
}

// -----

// transpose C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected a permutation of 2 dimensions, but got [0, 0]}}
  %0 = fp8.transpose %x [0, 0] : tensor<64x32xbf16> -> tensor<64x64xbf16>
  return
}

// -----

// transpose C2
func.func @f(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
  // expected-error@+1 {{expected result type 'tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>', but got 'tensor<32x64xf8E4M3FN>'}}
  %0 = fp8.transpose %x [1, 0] : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<32x64xf8E4M3FN>
  return
}

// -----

// slice C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected 'offsets' with one entry per dimension (2), but got 1}}
  %0 = fp8.slice %x [0] : tensor<64x32xbf16> -> tensor<64x16xbf16>
  return
}

// -----

// slice C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected operand and result of one rank, but got 'tensor<64x32xbf16>' and 'tensor<16xbf16>'}}
  %0 = fp8.slice %x [0, 0] : tensor<64x32xbf16> -> tensor<16xbf16>
  return
}

// -----

// slice C2
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected a part inside dimension 1 of 'x' (32), but got offset 17 and size 16}}
  %0 = fp8.slice %x [0, 17] : tensor<64x32xbf16> -> tensor<64x16xbf16>
  return
}

// -----

// slice C2
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected a part inside dimension 0 of 'x' (64), but got offset -1 and size 16}}
  %0 = fp8.slice %x [-1, 0] : tensor<64x32xbf16> -> tensor<16x32xbf16>
  return
}

// -----

// slice C2, where offset plus size leaves 64 bits
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected a part inside dimension 0 of 'x' (64), but got offset 9223372036854775807 and size 64}}
  %0 = fp8.slice %x [9223372036854775807, 0] : tensor<64x32xbf16> -> tensor<64x32xbf16>
  return
}

// -----

// slice C3, element type
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected one element type, but got 'tensor<64x32xbf16>' and 'tensor<64x16xf32>'}}
  %0 = fp8.slice %x [0, 0] : tensor<64x32xbf16> -> tensor<64x16xf32>
  return
}

// -----

// slice C3, encoding kept
func.func @f(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
  // expected-error@+1 {{expected the encoding to be kept, but got}}
  %0 = fp8.slice %x [0, 0] : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<32x32xf8E4M3FN>
  return
}

// -----

// slice C3, a dimension of one scale is whole
func.func @f(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
  // expected-error@+1 {{expected a part of whole scale groups in dimension 1 (all), but got offset 0 and size 16}}
  %0 = fp8.slice %x [0, 0] : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<64x16xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  return
}

// -----

// slice C3, offset
func.func @f(%x: tensor<64x512xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>) {
  // expected-error@+1 {{expected a part of whole scale groups in dimension 1 (128), but got offset 64 and size 128}}
  %0 = fp8.slice %x [0, 64] : tensor<64x512xf8E4M3FN, #fp8.tensor<scale = [1, 128]>> -> tensor<64x128xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>
  return
}

// -----

// slice C3, size
func.func @f(%x: tensor<64x512xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>) {
  // expected-error@+1 {{expected a part of whole scale groups in dimension 1 (128), but got offset 128 and size 64}}
  %0 = fp8.slice %x [0, 128] : tensor<64x512xf8E4M3FN, #fp8.tensor<scale = [1, 128]>> -> tensor<64x64xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>
  return
}

// -----

// pad C1
func.func @f(%x: tensor<64x16xbf16>) {
  // expected-error@+1 {{expected 'offsets' with one entry per dimension (2), but got 3}}
  %0 = fp8.pad %x [0, 0, 0] : tensor<64x16xbf16> -> tensor<64x32xbf16>
  return
}

// -----

// pad C2
func.func @f(%x: tensor<64x16xbf16>) {
  // expected-error@+1 {{expected a part inside dimension 1 of 'result' (32), but got offset 17 and size 16}}
  %0 = fp8.pad %x [0, 17] : tensor<64x16xbf16> -> tensor<64x32xbf16>
  return
}

// -----

// pad C3, element type
func.func @f(%x: tensor<64x16xbf16>) {
  // expected-error@+1 {{expected one element type, but got 'tensor<64x16xbf16>' and 'tensor<64x32xf32>'}}
  %0 = fp8.pad %x [0, 16] : tensor<64x16xbf16> -> tensor<64x32xf32>
  return
}

// -----

// pad C3, encoding
func.func @f(%x: tensor<64x16xbf16, #fp8.tensor<bounds = [64, none]>>) {
  // expected-error@+1 {{expected types without an encoding, but got}}
  %0 = fp8.pad %x [0, 16] : tensor<64x16xbf16, #fp8.tensor<bounds = [64, none]>> -> tensor<64x32xbf16>
  return
}

// -----

// reshape C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected as many elements of the same type, but got 'tensor<64x32xbf16>' and 'tensor<2047xbf16>'}}
  %0 = fp8.reshape %x : tensor<64x32xbf16> -> tensor<2047xbf16>
  return
}

// -----

// reshape C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected as many elements of the same type, but got 'tensor<64x32xbf16>' and 'tensor<2048xf16>'}}
  %0 = fp8.reshape %x : tensor<64x32xbf16> -> tensor<2048xf16>
  return
}

// -----

// reshape C2
func.func @f(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>) {
  // expected-error@+1 {{expected both types with an encoding or none, but got}}
  %0 = fp8.reshape %x : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<2048xf8E4M3FN>
  return
}

// -----

// reshape C2
func.func @f(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
  // expected-error@+1 {{expected a scale per tensor, but got #fp8.tensor<scale = [1, all]>}}
  %0 = fp8.reshape %x : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<2048xf8E4M3FN, #fp8.tensor<scale = [all]>>
  return
}

// -----

// reshape C2
func.func @f(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>) {
  // expected-error@+1 {{expected 'pow2' on both types or none, but got}}
  %0 = fp8.reshape %x : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<2048xf8E4M3FN, #fp8.tensor<scale = [all], pow2>>
  return
}

// -----

// reshape C3
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-note@+1 {{strides come from this 'fp8.permute'}}
  %p = fp8.permute %x [1, 0] : tensor<64x32xbf16> -> tensor<32x64xbf16>
  // expected-error@+1 {{expected contiguous storage, but got a view with strides; move the bytes with 'fp8.transpose' first}}
  %0 = fp8.reshape %p : tensor<32x64xbf16> -> tensor<2048xbf16>
  return
}

// -----

// reshape C3, through another view
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-note@+1 {{strides come from this 'fp8.slice'}}
  %s = fp8.slice %x [0, 0] : tensor<64x32xbf16> -> tensor<64x16xbf16>
  %b = fp8.bitcast %s : tensor<64x16xbf16> -> tensor<64x16xi16>
  // expected-error@+1 {{expected contiguous storage, but got a view with strides}}
  %0 = fp8.reshape %b : tensor<64x16xi16> -> tensor<1024xi16>
  return
}

// -----

// reshape C3, a definition that goes in a circle ends
func.func @f() {
  // expected-error@+1 {{operand #0 does not dominate this use}}
  %a = fp8.bitcast %b : tensor<2048xbf16> -> tensor<2048xi16>
  // expected-note@+1 {{operand defined here (op in the same block)}}
  %b = fp8.bitcast %a : tensor<2048xi16> -> tensor<2048xbf16>
  %0 = fp8.reshape %a : tensor<2048xi16> -> tensor<64x32xi16>
  return
}

// -----

// bitcast C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected one shape and elements of one width, but got 'tensor<64x32xbf16>' and 'tensor<64x64xi8>'}}
  %0 = fp8.bitcast %x : tensor<64x32xbf16> -> tensor<64x64xi8>
  return
}

// -----

// bitcast C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected one shape and elements of one width, but got 'tensor<64x32xbf16>' and 'tensor<64x32xi8>'}}
  %0 = fp8.bitcast %x : tensor<64x32xbf16> -> tensor<64x32xi8>
  return
}

// -----

// bitcast C2
func.func @f(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
  // expected-error@+1 {{expected one encoding on FP8 types, but got}}
  %0 = fp8.bitcast %x : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
  return
}

// -----

// bitcast, element types without a width
func.func @f(%x: tensor<64xindex>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of integer or floating-point values, but got 'tensor<64xindex>'}}
  %0 = fp8.bitcast %x : tensor<64xindex> -> tensor<64xi64>
  return
}

// -----

// update_slice C1
func.func @f(%x: tensor<32x16xbf16>) {
  // expected-error@+1 {{expected 'offsets' with one entry per dimension (2), but got 1}}
  %0 = fp8.update_slice %x [0] : tensor<32x16xbf16> -> tensor<64x16xbf16>
  return
}

// -----

// update_slice C1, ranks
func.func @f(%x: tensor<32xbf16>) {
  // expected-error@+1 {{expected operand and result of one rank, but got 'tensor<32xbf16>' and 'tensor<64x16xbf16>'}}
  %0 = fp8.update_slice %x [0, 0] : tensor<32xbf16> -> tensor<64x16xbf16>
  return
}

// -----

// update_slice C2
func.func @f(%x: tensor<32x16xbf16>) {
  // expected-error@+1 {{expected a part inside dimension 0 of 'result' (64), but got offset 40 and size 32}}
  %0 = fp8.update_slice %x [40, 0] : tensor<32x16xbf16> -> tensor<64x16xbf16>
  return
}

// -----

// update_slice C3, element types
func.func @f(%x: tensor<32x16xbf16>) {
  // expected-error@+1 {{expected one element type, but got 'tensor<32x16xbf16>' and 'tensor<64x16xf32>'}}
  %0 = fp8.update_slice %x [0, 0] : tensor<32x16xbf16> -> tensor<64x16xf32>
  return
}

// -----

// update_slice C3, encodings
func.func @f(%x: tensor<32x16xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
  // expected-error@+1 {{expected one encoding, but got}}
  %0 = fp8.update_slice %x [0, 0] : tensor<32x16xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<64x16xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
  return
}

// -----

// update_slice C3, groups
func.func @f(%x: tensor<64x16xf8E4M3FN, #fp8.tensor<scale = [128, 1]>>) {
  // expected-error@+1 {{expected a piece of whole scale groups in dimension 0 (128), but got offset 128 and size 64}}
  %0 = fp8.update_slice %x [128, 0] : tensor<64x16xf8E4M3FN, #fp8.tensor<scale = [128, 1]>> -> tensor<256x16xf8E4M3FN, #fp8.tensor<scale = [128, 1]>>
  return
}

// -----

// update_slice C4, type
func.func @f(%x: tensor<32x16xbf16>) {
  %0 = fp8.update_slice %x [0, 0] : tensor<32x16xbf16> -> tensor<128x16xbf16>
  // expected-error@+1 {{expected 'dest' of the result's type 'tensor<64x16xbf16>', but got 'tensor<128x16xbf16>'}}
  %1 = fp8.update_slice %x [0, 0] into(%0 : tensor<128x16xbf16>) : tensor<32x16xbf16> -> tensor<64x16xbf16>
  return
}

// -----

// update_slice C4, an argument
func.func @f(%x: tensor<32x16xbf16>, %w: tensor<64x16xbf16>) {
  // expected-error@+1 {{expected 'dest' to be the result of an 'fp8.update_slice' or an operand of the kernel, but got an argument}}
  %0 = fp8.update_slice %x [0, 0] into(%w : tensor<64x16xbf16>) : tensor<32x16xbf16> -> tensor<64x16xbf16>
  return
}

// -----

// update_slice C4, another op
func.func @f(%x: tensor<32x16xbf16>, %w: tensor<64x16xbf16>) {
  %0 = arith.negf %w : tensor<64x16xbf16>
  // expected-error@+1 {{expected 'dest' to be the result of an 'fp8.update_slice' or an operand of the kernel, but got a result of 'arith.negf'}}
  %1 = fp8.update_slice %x [0, 0] into(%0 : tensor<64x16xbf16>) : tensor<32x16xbf16> -> tensor<64x16xbf16>
  return
}

// -----

// update_slice C4, used twice
func.func @f(%x: tensor<32x16xbf16>) {
  %0 = fp8.update_slice %x [0, 0] : tensor<32x16xbf16> -> tensor<64x16xbf16>
  // expected-error@+1 {{expected 'dest' to have no other use, since the piece is written over it}}
  %1 = fp8.update_slice %x [32, 0] into(%0 : tensor<64x16xbf16>) : tensor<32x16xbf16> -> tensor<64x16xbf16>
  // expected-note@+1 {{it is used here too}}
  %2 = arith.negf %0 : tensor<64x16xbf16>
  return
}
