// Amax, scales, casts and state; a label names the constraint.
// RUN: fp8-opt %s -split-input-file -verify-diagnostics

// amax C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected 'group' with one entry per dimension (2), but got 3}}
  %m = fp8.amax %x group = [1, 0, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
  return
}

// -----

// amax C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected 'group' entries of at least 0, but got -1}}
  %m = fp8.amax %x group = [-1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
  return
}

// -----

// amax C2
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected 'result' of shape [64, 1], but got [1, 64]}}
  %m = fp8.amax %x group = [1, 0] : tensor<64x32xbf16> -> tensor<1x64xf32>
  return
}

// -----

// amax C2, a last block that is cut
func.func @f(%x: tensor<64x257xbf16>) {
  // expected-error@+1 {{expected 'result' of shape [64, 3], but got [64, 2]}}
  %m = fp8.amax %x group = [1, 128] : tensor<64x257xbf16> -> tensor<64x2xf32>
  return
}

// -----

// scale C1
func.func @f(%m: tensor<64x1xf32>) {
  // expected-error@+1 {{expected format f8E4M3FN, f8E5M2 or !fp8.e5m6, but got 'f16'}}
  %s = fp8.scale %m format = f16 : tensor<64x1xf32>
  return
}

// -----

// scale C2
func.func @f(%m: tensor<64x1xf32>) {
  // expected-error@+1 {{expected 'eps' to be finite and not negative, but got -1.000000e+00 : f64}}
  %s = fp8.scale %m format = f8E5M2 {eps = -1.0 : f64} : tensor<64x1xf32>
  return
}

// -----

// scale C2
func.func @f(%m: tensor<64x1xf32>) {
  // expected-error@+1 {{expected 'eps' to be finite and not negative, but got 0x7FF8000000000000 : f64}}
  %s = fp8.scale %m format = f8E5M2 {eps = 0x7FF8000000000000 : f64} : tensor<64x1xf32>
  return
}

// -----

// scale C3
func.func @f(%m: tensor<64x1xf32>) {
  // expected-error@+1 {{expected 'margin' between 0 and 16, but got 17}}
  %s = fp8.scale %m format = f8E5M2 {margin = 17} : tensor<64x1xf32>
  return
}

// -----

// scale C3
func.func @f(%m: tensor<64x1xf32>) {
  // expected-error@+1 {{expected 'margin' between 0 and 16, but got -1}}
  %s = fp8.scale %m format = f8E5M2 {margin = -1} : tensor<64x1xf32>
  return
}

// -----

// cast C1
func.func @f(%x: tensor<64x32xbf16>, %s: tensor<64x1xf32>) {
  // expected-error@+1 {{expected 'result' of shape [64, 32], but got [32, 64]}}
  %q = fp8.cast %x, %s : tensor<64x32xbf16>, tensor<64x1xf32> -> tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  return
}

// -----

// cast C1
func.func @f(%x: tensor<64x32xbf16>, %s: tensor<64x1xf32>) {
  // expected-error@+1 {{expected 'result' with a scaled encoding, but got 'tensor<64x32xf8E4M3FN>'}}
  %q = fp8.cast %x, %s : tensor<64x32xbf16>, tensor<64x1xf32> -> tensor<64x32xf8E4M3FN>
  return
}

// -----

// cast C2
func.func @f(%x: tensor<64x32xbf16>, %s: tensor<64x1xf32>) {
  // expected-error@+1 {{expected 'scale' of shape [1, 32], but got [64, 1]}}
  %q = fp8.cast %x, %s : tensor<64x32xbf16>, tensor<64x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
  return
}

// -----

// dequantize C1
func.func @f(%q: tensor<64x32xf8E4M3FN>, %s: tensor<64x1xf32>) {
  // expected-error@+1 {{expected 'q' with a scaled encoding, but got 'tensor<64x32xf8E4M3FN>'}}
  %x = fp8.dequantize %q, %s : tensor<64x32xf8E4M3FN>, tensor<64x1xf32> -> tensor<64x32xbf16>
  return
}

// -----

// dequantize C1
func.func @f(%q: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %s: tensor<64x1xf32>) {
  // expected-error@+1 {{expected 'result' of shape [64, 32], but got [2048]}}
  %x = fp8.dequantize %q, %s : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<64x1xf32> -> tensor<2048xbf16>
  return
}

// -----

// dequantize C1
func.func @f(%q: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %s: tensor<64x1xf32>) {
  // expected-error@+1 {{expected 'result' without an encoding, but got}}
  %x = fp8.dequantize %q, %s : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<64x1xf32> -> tensor<64x32xbf16, #fp8.tensor<bounds = [64, none]>>
  return
}

// -----

// dequantize C2
func.func @f(%q: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %s: tensor<1x1xf32>) {
  // expected-error@+1 {{expected 'scale' of shape [64, 1], but got [1, 1]}}
  %x = fp8.dequantize %q, %s : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x1xf32> -> tensor<64x32xbf16>
  return
}

// -----

// dequantize C3
func.func @f(%x: tensor<64x32xbf16>, %s: tensor<64x1xf32>, %other: tensor<64x1xf32>) {
  // expected-note@+1 {{'q' was cast here}}
  %q = fp8.cast %x, %s : tensor<64x32xbf16>, tensor<64x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  // expected-error@+1 {{expected 'scale' to be the scale that 'q' was cast with, but got another value}}
  %d = fp8.dequantize %q, %other : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<64x1xf32> -> tensor<64x32xbf16>
  return
}

// -----

// push_amax C1
func.func @f(%m: tensor<2x1xf32>, %h: tensor<16xf32> {fp8.state}) {
  // expected-error@+1 {{expected 'amax' of one element, but got 'tensor<2x1xf32>'}}
  fp8.push_amax %m, %h : tensor<2x1xf32>, tensor<16xf32>
  return
}

// -----

// push_amax C1
func.func @f(%m: tensor<1x1xf32>, %h: tensor<4x4xf32> {fp8.state}) {
  // expected-error@+1 {{expected 'history' of rank 1, but got 'tensor<4x4xf32>'}}
  fp8.push_amax %m, %h : tensor<1x1xf32>, tensor<4x4xf32>
  return
}

// -----

// push_amax C2
func.func @f(%m: tensor<1x1xf32>, %h: tensor<16xf32>) {
  // expected-error@+1 {{expected 'history' to be a function argument marked 'fp8.state', but got argument 1, which is not}}
  fp8.push_amax %m, %h : tensor<1x1xf32>, tensor<16xf32>
  return
}

// -----

// push_amax C2
func.func @f(%m: tensor<1x1xf32>, %h: tensor<16xf32> {fp8.state}) {
  %e = math.exp %h : tensor<16xf32>
  // expected-error@+1 {{expected 'history' to be a function argument marked 'fp8.state', but got a result of 'math.exp'}}
  fp8.push_amax %m, %e : tensor<1x1xf32>, tensor<16xf32>
  return
}

// -----

// push_amax C2, through a kernel
func.func @f(%m: tensor<1x1xf32>, %h: tensor<16xf32>) {
  fp8.kernel state (%a = %m : tensor<1x1xf32>, %b = %h : tensor<16xf32>) {
    // expected-error@+1 {{expected 'history' to be a function argument marked 'fp8.state', but got argument 1, which is not}}
    fp8.push_amax %a, %b : tensor<1x1xf32>, tensor<16xf32>
    fp8.yield
  }
  return
}

// -----

// push_amax C2, a residual
func.func @f(%m: tensor<1x1xf32>, %h: tensor<16xf32> {fp8.state}) {
  fp8.step forward {
    fp8.yield residuals(%h) residuals(tensor<16xf32>)
  } backward (%r: tensor<16xf32>) {
    // expected-error@+1 {{expected 'history' to be a function argument marked 'fp8.state', but got an argument of 'fp8.step'}}
    fp8.push_amax %m, %r : tensor<1x1xf32>, tensor<16xf32>
    fp8.yield
  }
  return
}

// -----

// update_scale C1
func.func @f(%h: tensor<16xf32> {fp8.state}, %s: tensor<16xf32> {fp8.state}) {
  // expected-error@+1 {{expected 'scale' of one element, but got 'tensor<16xf32>'}}
  fp8.update_scale %h, %s format = f8E4M3FN : tensor<16xf32>, tensor<16xf32>
  return
}

// -----

// update_scale C1
func.func @f(%h: tensor<1x1xf32> {fp8.state}, %s: tensor<1x1xf32> {fp8.state}) {
  // expected-error@+1 {{expected 'history' of rank 1, but got 'tensor<1x1xf32>'}}
  fp8.update_scale %h, %s format = f8E4M3FN : tensor<1x1xf32>, tensor<1x1xf32>
  return
}

// -----

// update_scale C2
func.func @f(%h: tensor<16xf32> {fp8.state}, %s: tensor<1x1xf32>) {
  // expected-error@+1 {{expected 'scale' to be a function argument marked 'fp8.state', but got argument 1, which is not}}
  fp8.update_scale %h, %s format = f8E4M3FN : tensor<16xf32>, tensor<1x1xf32>
  return
}

// -----

// update_scale C2
func.func @f(%h: tensor<16xf32>, %s: tensor<1x1xf32> {fp8.state}) {
  // expected-error@+1 {{expected 'history' to be a function argument marked 'fp8.state', but got argument 0, which is not}}
  fp8.update_scale %h, %s format = f8E4M3FN : tensor<16xf32>, tensor<1x1xf32>
  return
}

// -----

// update_scale C3
func.func @f(%h: tensor<16xf32> {fp8.state}, %s: tensor<1x1xf32> {fp8.state}) {
  // expected-error@+1 {{expected format f8E4M3FN or f8E5M2, but got 'i8'}}
  fp8.update_scale %h, %s format = i8 : tensor<16xf32>, tensor<1x1xf32>
  return
}

// -----

// update_scale C3
func.func @f(%h: tensor<16xf32> {fp8.state}, %s: tensor<1x1xf32> {fp8.state}) {
  // expected-error@+1 {{expected 'margin' between 0 and 16, but got 20}}
  fp8.update_scale %h, %s format = f8E4M3FN {margin = 20} : tensor<16xf32>, tensor<1x1xf32>
  return
}
