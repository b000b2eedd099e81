// Matmul, reduce, broadcast, random, opaque; a label names the constraint.
// RUN: fp8-opt %s -split-input-file -verify-diagnostics

// matmul C1
func.func @f(%a: tensor<2x64x32xbf16>, %b: tensor<32x48xbf16>) {
  // expected-error@+1 {{expected 'a' of rank 2, but got 'tensor<2x64x32xbf16>'}}
  %0 = fp8.matmul %a, %b : tensor<2x64x32xbf16>, tensor<32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C1
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<32xbf16>) {
  // expected-error@+1 {{expected 'b' of rank 2, but got 'tensor<32xbf16>'}}
  %0 = fp8.matmul %a, %b : tensor<64x32xbf16>, tensor<32xbf16> -> tensor<64x1xbf16>
  return
}

// -----

// matmul C1
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<48x32xbf16>) {
  // expected-error@+1 {{expected dim 1 of 'a' and dim 0 of 'b' to be equal, but got 32 and 48}}
  %0 = fp8.matmul %a, %b : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C1
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<32x48xbf16>) {
  // expected-error@+1 {{expected 'result' of shape [64, 48], but got [48, 64]}}
  %0 = fp8.matmul %a, %b : tensor<64x32xbf16>, tensor<32x48xbf16> -> tensor<48x64xbf16>
  return
}

// -----

// matmul C1
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<32x48xbf16>) {
  // expected-error@+1 {{result #0 must be statically shaped tensor of bfloat16 type or 32-bit float values, but got 'tensor<64x48xf16>'}}
  %0 = fp8.matmul %a, %b : tensor<64x32xbf16>, tensor<32x48xbf16> -> tensor<64x48xf16>
  return
}

// -----

// matmul C2
func.func @f(%a: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, %b: tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, all]>>) {
  // expected-error@+1 {{expected 'scale_a' beside 'tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>', but got none}}
  %0 = fp8.matmul %a, %b : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C2, the generic form can leave out one
func.func @f(%a: tensor<64x64xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, %s: tensor<1x1xf32>) {
  // expected-error@+1 {{expected 'scale_b' beside 'tensor<64x64xf8E4M3FN, #fp8.tensor<scale = [all, all]>>', but got none}}
  %0 = "fp8.matmul"(%a, %a, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}
    : (tensor<64x64xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<64x64xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<1x1xf32>) -> tensor<64x64xbf16>
  return
}

// -----

// matmul C2
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<32x48xbf16>, %s: tensor<1x1xf32>) {
  // expected-error@+1 {{expected no 'scale_a' beside 'tensor<64x32xbf16>', but got one}}
  %0 = fp8.matmul %a, %b scales(%s, %s : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<64x32xbf16>, tensor<32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C2
func.func @f(%a: tensor<64x32xf8E4M3FN>, %b: tensor<32x48xf8E4M3FN>, %s: tensor<1x1xf32>) {
  // expected-error@+1 {{expected 'a' with a scaled encoding, but got 'tensor<64x32xf8E4M3FN>'}}
  %0 = fp8.matmul %a, %b scales(%s, %s : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<64x32xf8E4M3FN>, tensor<32x48xf8E4M3FN> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C2
func.func @f(%a: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, %b: tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, %s: tensor<1x1xf32>, %t: tensor<1x48xf32>) {
  // expected-error@+1 {{expected 'scale_b' of shape [1, 1], but got [1, 48]}}
  %0 = fp8.matmul %a, %b scales(%s, %t : tensor<1x1xf32>, tensor<1x48xf32>)
    : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C3
func.func @f(%a: tensor<64x32xf8E5M2, #fp8.tensor<scale = [all, all]>>, %b: tensor<32x48xf8E5M2, #fp8.tensor<scale = [all, all]>>, %s: tensor<1x1xf32>) {
  // expected-error@+1 {{expected two FP8 operands that are not both f8E5M2, two of bf16 or two of f32, but got 'f8E5M2' and 'f8E5M2'}}
  %0 = fp8.matmul %a, %b scales(%s, %s : tensor<1x1xf32>, tensor<1x1xf32>)
    : tensor<64x32xf8E5M2, #fp8.tensor<scale = [all, all]>>, tensor<32x48xf8E5M2, #fp8.tensor<scale = [all, all]>> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C3
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<32x48xf32>) {
  // expected-error@+1 {{expected two FP8 operands that are not both f8E5M2, two of bf16 or two of f32, but got 'bf16' and 'f32'}}
  %0 = fp8.matmul %a, %b : tensor<64x32xbf16>, tensor<32x48xf32> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C3, FP8 with bf16
func.func @f(%a: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, %b: tensor<32x48xbf16>, %s: tensor<1x1xf32>) {
  // expected-error@+1 {{expected two FP8 operands that are not both f8E5M2, two of bf16 or two of f32, but got 'f8E4M3FN' and 'bf16'}}
  %0 = "fp8.matmul"(%a, %b, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}
    : (tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<32x48xbf16>, tensor<1x1xf32>) -> tensor<64x48xbf16>
  return
}

// -----

// matmul C4, rows with rows: the layout rule
func.func @f(%a: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %b: tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %s: tensor<64x1xf32>, %t: tensor<32x1xf32>) {
  // expected-error@+1 {{expected scales per tensor on both, rows with columns, 1x128 with 128x1, 1x128 with 128x128 or 128x128 with 128x1, but got #fp8.tensor<scale = [1, all]> and #fp8.tensor<scale = [1, all]>}}
  %0 = fp8.matmul %a, %b scales(%s, %t : tensor<64x1xf32>, tensor<32x1xf32>)
    : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C4, a pair that only its sides know
func.func @f(%a: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %b: tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, %s: tensor<64x1xf32>, %t: tensor<1x1xf32>) {
  // expected-error@+1 {{expected scales per tensor on both, rows with columns}}
  %0 = fp8.matmul %a, %b scales(%s, %t : tensor<64x1xf32>, tensor<1x1xf32>)
    : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C4, 128x128 with 128x128
func.func @f(%a: tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>, %s: tensor<2x2xf32>) {
  // expected-error@+1 {{expected scales per tensor on both, rows with columns}}
  %0 = fp8.matmul %a, %a scales(%s, %s : tensor<2x2xf32>, tensor<2x2xf32>)
    : tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>, tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [128, 128]>> -> tensor<256x256xbf16>
  return
}

// -----

// matmul C5
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<32x48xbf16>, %c: tensor<64x1xf32>) {
  // expected-error@+1 {{expected 'acc' of shape [64, 48], but got [64, 1]}}
  %0 = fp8.matmul %a, %b acc(%c : tensor<64x1xf32>) : tensor<64x32xbf16>, tensor<32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C5
func.func @f(%a: tensor<64x32xbf16>, %b: tensor<32x48xbf16>, %c: tensor<64x48xf16>) {
  // expected-error@+1 {{must be statically shaped tensor of bfloat16 type or 32-bit float values, but got 'tensor<64x48xf16>'}}
  %0 = fp8.matmul %a, %b acc(%c : tensor<64x48xf16>) : tensor<64x32xbf16>, tensor<32x48xbf16> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C6
func.func @f(%x: tensor<64x32xbf16>, %y: tensor<32x48xbf16>, %s: tensor<1x1xf32>, %t: tensor<1x1xf32>) {
  // expected-note@+1 {{'a' was cast here}}
  %a = fp8.cast %x, %s : tensor<64x32xbf16>, tensor<1x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
  %b = fp8.cast %y, %t : tensor<32x48xbf16>, tensor<1x1xf32> -> tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
  // expected-error@+1 {{expected 'scale_a' to be the scale that 'a' was cast with, but got another value}}
  %0 = fp8.matmul %a, %b scales(%t, %s : tensor<1x1xf32>, tensor<1x1xf32>)
    : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C6, through a transpose and a view, where the scale is computed
func.func @f(%x: tensor<64x32xbf16>, %y: tensor<48x32xbf16>) {
  %mx = fp8.amax %x group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
  %my = fp8.amax %y group = [1, 0] : tensor<48x32xbf16> -> tensor<48x1xf32>
  %sx = fp8.scale %mx format = f8E4M3FN : tensor<64x1xf32>
  %sy = fp8.scale %my format = f8E4M3FN : tensor<48x1xf32>
  %sy2 = fp8.scale %my format = f8E4M3FN {margin = 1} : tensor<48x1xf32>
  %a = fp8.cast %x, %sx : tensor<64x32xbf16>, tensor<64x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  // expected-note@+1 {{'b' was cast here}}
  %q = fp8.cast %y, %sy : tensor<48x32xbf16>, tensor<48x1xf32> -> tensor<48x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  %b = fp8.transpose %q [1, 0] : tensor<48x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
  %t = fp8.permute %sy2 [1, 0] : tensor<48x1xf32> -> tensor<1x48xf32>
  // expected-error@+1 {{expected 'scale_b' to be the scale that 'b' was cast with, but got another value}}
  %0 = fp8.matmul %a, %b scales(%sx, %t : tensor<64x1xf32>, tensor<1x48xf32>)
    : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C6: the same computation written twice is one scale
func.func @good(%x: tensor<64x32xbf16>, %y: tensor<48x32xbf16>) {
  %mx = fp8.amax %x group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
  %sx = fp8.scale %mx format = f8E4M3FN : tensor<64x1xf32>
  %mx2 = fp8.amax %x group = [1, 0] {fp8.checkpoint} : tensor<64x32xbf16> -> tensor<64x1xf32>
  %sx2 = fp8.scale %mx2 format = f8E4M3FN : tensor<64x1xf32>
  %my = fp8.amax %y group = [1, 0] : tensor<48x32xbf16> -> tensor<48x1xf32>
  %sy = fp8.scale %my format = f8E4M3FN : tensor<48x1xf32>
  %a = fp8.cast %x, %sx2 : tensor<64x32xbf16>, tensor<64x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  %q = fp8.cast %y, %sy : tensor<48x32xbf16>, tensor<48x1xf32> -> tensor<48x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  %b = fp8.permute %q [1, 0] : tensor<48x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
  %t = fp8.permute %sy [1, 0] : tensor<48x1xf32> -> tensor<1x48xf32>
  %0 = fp8.matmul %a, %b scales(%sx, %t : tensor<64x1xf32>, tensor<1x48xf32>)
    : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<64x48xbf16>
  return
}

// -----

// matmul C7
func.func @f(%a: tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>, %b: tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>, %s: tensor<256x2xf32>, %t: tensor<2x2xf32>) {
  // expected-error@+1 {{expected no 'fast_accum' with block scales, but got it}}
  %0 = fp8.matmul %a, %b scales(%s, %t : tensor<256x2xf32>, tensor<2x2xf32>) {fast_accum = true}
    : tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>, tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [128, 128]>> -> tensor<256x256xbf16>
  return
}

// -----

// reduce C1
func.func @f(%x: tensor<64x32xf32>) {
  // expected-error@+1 {{expected 'axes' in ascending order, at least one, each between 0 and 1, but got []}}
  %0 = fp8.reduce sum %x [] : tensor<64x32xf32> -> tensor<64x1xf32>
  return
}

// -----

// reduce C1
func.func @f(%x: tensor<64x32xf32>) {
  // expected-error@+1 {{expected 'axes' in ascending order, at least one, each between 0 and 1, but got [1, 0]}}
  %0 = fp8.reduce sum %x [1, 0] : tensor<64x32xf32> -> tensor<1x1xf32>
  return
}

// -----

// reduce C1
func.func @f(%x: tensor<64x32xf32>) {
  // expected-error@+1 {{expected 'axes' in ascending order, at least one, each between 0 and 1, but got [1, 1]}}
  %0 = fp8.reduce max %x [1, 1] : tensor<64x32xf32> -> tensor<64x1xf32>
  return
}

// -----

// reduce C1
func.func @f(%x: tensor<64x32xf32>) {
  // expected-error@+1 {{expected 'axes' in ascending order, at least one, each between 0 and 1, but got [2]}}
  %0 = fp8.reduce max %x [2] : tensor<64x32xf32> -> tensor<64x1xf32>
  return
}

// -----

// reduce C1
func.func @f(%x: tensor<64x32xf32>) {
  // expected-error@+1 {{expected 'axes' in ascending order, at least one, each between 0 and 1, but got [-1]}}
  %0 = fp8.reduce max %x [-1] : tensor<64x32xf32> -> tensor<64x1xf32>
  return
}

// -----

// reduce C1, a tensor of rank 0 has no axis
func.func @f(%x: tensor<f32>) {
  // expected-error@+1 {{expected 'axes' in ascending order, at least one, each between 0 and -1, but got [0]}}
  %0 = fp8.reduce max %x [0] : tensor<f32> -> tensor<f32>
  return
}

// -----

// reduce C2
func.func @f(%x: tensor<64x32xf32>) {
  // expected-error@+1 {{expected 'result' of shape [64, 1], but got [64]}}
  %0 = fp8.reduce sum %x [1] : tensor<64x32xf32> -> tensor<64xf32>
  return
}

// -----

// reduce C3
func.func @f(%x: tensor<64x32xf32>) {
  // expected-error@+1 {{result #0 must be statically shaped tensor of bfloat16 type or 32-bit float values, but got 'tensor<64x1xf16>'}}
  %0 = fp8.reduce sum %x [1] : tensor<64x32xf32> -> tensor<64x1xf16>
  return
}

// -----

// reduce, kind
func.func @f(%x: tensor<64x32xf32>) {
  // expected-error@+2 {{expected ::mlir::fp8::ReduceKind to be one of: sum, max}}
  // expected-error@+1 {{failed to parse FP8_ReduceKindAttr parameter 'value'}}
  %0 = fp8.reduce mean %x [1] : tensor<64x32xf32> -> tensor<64x1xf32>
  return
}

// -----

// broadcast C1
func.func @f(%x: tensor<64xf32>) {
  // expected-error@+1 {{expected one rank and element type, but got 'tensor<64xf32>' and 'tensor<64x32xf32>'}}
  %0 = fp8.broadcast %x : tensor<64xf32> -> tensor<64x32xf32>
  return
}

// -----

// broadcast C1
func.func @f(%x: tensor<64x1xf32>) {
  // expected-error@+1 {{expected one rank and element type, but got 'tensor<64x1xf32>' and 'tensor<64x32xbf16>'}}
  %0 = fp8.broadcast %x : tensor<64x1xf32> -> tensor<64x32xbf16>
  return
}

// -----

// broadcast C2
func.func @f(%x: tensor<64x16xf32>) {
  // expected-error@+1 {{expected dimension 1 of 'x' to be 1 or 32, but got 16}}
  %0 = fp8.broadcast %x : tensor<64x16xf32> -> tensor<64x32xf32>
  return
}

// -----

// random C1
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f(%s: tensor<1xi32>) {
  // expected-error@+1 {{expected operand 0 to have one element and 2 dimensions, but got 'tensor<1xi32>'}}
  %0 = fp8.random %s, %s : tensor<1xi32> -> tensor<4x8xf32>
  return
}
}

// -----

// random C2
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f(%s: tensor<1x1xi32>) {
  // expected-error@+1 {{expected one axis or "" for each of 2 dimensions, but got ["tp"]}}
  %0 = fp8.random %s, %s shard = ["tp"] : tensor<1x1xi32> -> tensor<4x8xf32>
  return
}
}

// -----

// random C2
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f(%s: tensor<1x1xi32>) {
  // expected-error@+1 {{expected the axes of 'shard' in the 'fp8.grid' of the module, but got "dp"}}
  %0 = fp8.random %s, %s shard = ["dp", ""] : tensor<1x1xi32> -> tensor<4x8xf32>
  return
}
}

// -----

// random C2
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f(%s: tensor<1x1xi32>) {
  // expected-error@+1 {{expected each axis once in}}
  %0 = fp8.random %s, %s shard = ["tp", "tp"] : tensor<1x1xi32> -> tensor<4x8xf32>
  return
}
}

// -----

// random C3
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f(%s: tensor<1x1xi32>) {
  // expected-error@+1 {{expected a coordinate for each of 1 axes of 'shard', but got 0}}
  %0 = fp8.random %s, %s shard = ["tp", ""] : tensor<1x1xi32> -> tensor<4x8xf32>
  return
}
}

// -----

// random C3
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f(%s: tensor<1x1xi32>) {
  // expected-error@+1 {{expected the coordinate along "tp" to be marked 'fp8.coordinate' = "tp", but argument 0 is not}}
  %0 = fp8.random %s, %s coordinates(%s : tensor<1x1xi32>) shard = ["tp", ""] : tensor<1x1xi32> -> tensor<4x8xf32>
  return
}
}

// -----

// random C4
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f(%s: tensor<1x1xi32>) {
  // expected-error@+1 {{expected 'stream' to be an unsigned number of 32 bits, but got -1}}
  %0 = fp8.random %s, %s {stream = -1 : i64} : tensor<1x1xi32> -> tensor<4x8xf32>
  return
}
}

// -----

// opaque C1
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected a name that is not empty, but got ""}}
  %0 = fp8.opaque ""(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// opaque C1
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'scratch_bytes' not to be negative, but got -1}}
  %0 = fp8.opaque "f"(%x) {scratch_bytes = -1} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// opaque C1
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'flops' not to be negative, but got -2}}
  %0 = fp8.opaque "f"(%x) {flops = -2} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// opaque C1
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'bytes' not to be negative, but got -3}}
  %0 = fp8.opaque "f"(%x) {bytes = -3} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// opaque C2
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'aliases' to hold pairs [result, operand] of indices below 1 and 1, but got [0, 1]}}
  %0 = fp8.opaque "f"(%x) {aliases = [[0, 1]]} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// opaque C2
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'aliases' to hold pairs [result, operand] of indices below 1 and 1, but got 0 : i64}}
  %0 = fp8.opaque "f"(%x) {aliases = [0]} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// opaque C2
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected aliases of equal size, but got 'tensor<8xbf16>' and 'tensor<8xf32>'}}
  %0 = fp8.opaque "f"(%x) {aliases = [[0, 0]]} : (tensor<8xf32>) -> tensor<8xbf16>
  return
}

// -----

// opaque C3
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'adjoint' with a non-empty 'name', but got {operands = [0]}}}
  %0 = fp8.opaque "f"(%x) {adjoint = {operands = [0]}} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// opaque C3
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'operands' of 'adjoint' to be indices below 1, but got [0, 1]}}
  %0 = fp8.opaque "f"(%x) {adjoint = {name = "g", operands = [0, 1]}} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// opaque C3, an index that leaves 64 bits
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'results' of 'adjoint' to be indices below 1, but got}}
  %0 = fp8.opaque "f"(%x) {adjoint = {name = "g", results = [36893488147419103232 : i128]}} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// opaque C3
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'name', 'operands', 'results', 'scratch_bytes', 'flops' or 'bytes' in 'adjoint', but got 'saved'}}
  %0 = fp8.opaque "f"(%x) {adjoint = {name = "g", saved = [0]}} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// opaque C3
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'flops' of 'adjoint' not to be negative, but got -1 : i64}}
  %0 = fp8.opaque "f"(%x) {adjoint = {name = "g", flops = -1}} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// opaque C4
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'recompute' to be "yes" or "never", but got "maybe"}}
  %0 = fp8.opaque "f"(%x) {recompute = "maybe"} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// opaque C4
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'recompute' to be "never" beside 'stateful', but got "yes"}}
  %0 = fp8.opaque "f"(%x) {stateful} : (tensor<8xf32>) -> tensor<8xf32>
  return
}
