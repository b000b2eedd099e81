// RUN: fp8-opt %s -split-input-file -verify-diagnostics -fp8-verify-phase=phase=import --allow-unregistered-dialect
// A later phase refuses the same, and says it once.
// RUN: fp8-opt %s -split-input-file -verify-diagnostics -fp8-verify-phase=phase=placed --allow-unregistered-dialect

// tensor.cast from row to none to column would fold to row to column.
func.func @cast(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
  // expected-error@+1 {{expected no 'tensor' op on an encoded tensor, which loses its encoding; use 'fp8.slice', 'fp8.reshape' or 'fp8.bitcast'}}
  %0 = tensor.cast %x : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> to tensor<64x32xf8E4M3FN>
  return
}

// -----

func.func @slice(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected ops of the dialects fp8, func, arith and math only; declare what is foreign as an 'fp8.opaque'}}
  %0 = tensor.empty() : tensor<64x32xbf16>
  return
}

// -----

func.func @foreign() {
  // expected-error@+1 {{expected ops of the dialects fp8, func, arith and math only}}
  "other.op"() : () -> ()
  return
}

// -----

func.func @unrealized(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected ops of the dialects fp8, func, arith and math only}}
  %0 = builtin.unrealized_conversion_cast %x : tensor<8xf32> to tensor<8xi32>
  return
}

// -----

// arith.truncf does not saturate.
func.func @truncf(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected no 'arith' op on an FP8 or a scaled tensor; enter FP8 by 'fp8.cast' and leave it by 'fp8.dequantize'}}
  %0 = arith.truncf %x : tensor<64x32xbf16> to tensor<64x32xf8E4M3FN>
  return
}

// -----

func.func @extf(%x: tensor<64x32xf8E5M2>) {
  // expected-error@+1 {{expected no 'arith' op on an FP8 or a scaled tensor}}
  %0 = arith.extf %x : tensor<64x32xf8E5M2> to tensor<64x32xbf16>
  return
}

// -----

// The sum of two tensors with different scales means nothing, though it verifies.
func.func @addf(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
  // expected-error@+1 {{expected no 'arith' op on an FP8 or a scaled tensor}}
  %0 = arith.addf %x, %x : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  return
}

// -----

func.func @absf(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
  // expected-error@+1 {{expected no 'math' op on an FP8 or a scaled tensor}}
  %0 = math.absf %x : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  return
}

// -----

// expected-error@+1 {{expected dimensions of at least 1, but got 'tensor<0x32xbf16>'}}
func.func private @empty(%x: tensor<0x32xbf16>)

// -----

// expected-error@+1 {{expected a tensor of static shape, but got 'tensor<?x32xbf16>'}}
func.func private @dynamic(%x: tensor<?x32xbf16>)

// -----

func.func @huge() {
  // expected-error@+1 {{expected a tensor of at most 281474976710656 bytes}}
  %0 = arith.constant dense<0.0> : tensor<4294967296x4294967296x4294967296xf32>
  return
}

// -----

// expected-error@+1 {{expected a function of one block, but got 2}}
func.func @blocks() {
  return
^bb1:
  return
}
