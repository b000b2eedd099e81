// What each phase accepts: nothing is printed, and the exit code is 0.
// RUN: fp8-opt %s -split-input-file -fp8-verify-phase -o /dev/null

// The import phase, a forward function.
func.func @import(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16> {fp8.parameter}) -> tensor<64x48xbf16> {
  %0 = fp8.linear %x, %w recipe<rowwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  %1 = math.tanh %0 : tensor<64x48xbf16>
  %c = arith.constant dense<1.0> : tensor<64x48xbf16>
  %2 = arith.addf %1, %c : tensor<64x48xbf16>
  return %2 : tensor<64x48xbf16>
}
func.func private @declared(tensor<8xf32>)

// -----

// Bounds alone change no number, so elementwise ops may work on them.
func.func @bounded(%x: tensor<64x32xbf16, #fp8.tensor<bounds = [128, none]>>) {
  %0 = math.tanh %x : tensor<64x32xbf16, #fp8.tensor<bounds = [128, none]>>
  return
}
