// RUN: not fp8-opt %s --fp8-lower-to-cuda=chip=sm_70 2>&1 | FileCheck %s --check-prefix=CHIP
// RUN: not fp8-opt %s --fp8-lower-to-cuda=chip=sm_90a 2>&1 | FileCheck %s
// CHIP: error: expected a chip to generate code for (sm_89, sm_90a, sm_100, sm_120), but got 'sm_70'

// A sum over rows that no result can hold needs a workspace.
func.func @f(%x: tensor<16x8xbf16>) -> tensor<16x8xbf16> {
  // CHECK: error: expected a workspace of at least 256 bytes for what is gathered, but got 0; plan with 'fp8-reserve-workspace'
  %0 = fp8.kernel loop (%a = %x : tensor<16x8xbf16>) -> (tensor<16x8xbf16>) {
    %m = fp8.reduce sum %a [0] : tensor<16x8xbf16> -> tensor<1x8xbf16>
    %b = fp8.broadcast %m : tensor<1x8xbf16> -> tensor<16x8xbf16>
    %y = arith.addf %a, %b : tensor<16x8xbf16>
    fp8.yield %y : tensor<16x8xbf16>
  }
  return %0 : tensor<16x8xbf16>
}
