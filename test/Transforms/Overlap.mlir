// Starts go up, waits go down, within bytes; collectives may overtake each other, in the same way on all ranks.
//
// RUN: fp8-opt %s -split-input-file --fp8-set-target=target=h200 --fp8-overlap=budget=2GiB | FileCheck %s
// RUN: fp8-opt %s -split-input-file --fp8-set-target=target=h200 --fp8-overlap=budget=2GiB --fp8-insert-frees --fp8-check-plan -o /dev/null
// RUN: fp8-opt %s -split-input-file --fp8-set-target=target=h200 --fp8-overlap=budget=1100MiB | FileCheck %s --check-prefix=TIGHT
// RUN: fp8-opt %s -split-input-file --fp8-set-target=target=h200 --fp8-overlap | FileCheck %s
// RUN: fp8-opt %s -split-input-file --fp8-set-target=target=h200 --fp8-overlap=overlap=none | FileCheck %s --check-prefix=NONE

// What is reduced was just made, so it is waited for later, beside the kernel behind it. 512 MiB are made, of which a rank
// keeps half; the other kernel makes 512 MiB too.
// CHECK-LABEL: func.func @reduction(
// CHECK: math.exp
// CHECK: fp8.reduce_scatter_start
// CHECK: math.tanh
// CHECK: %[[R:.*]] = fp8.wait
// CHECK: return %{{.*}}, %[[R]]
// The operand would be there beside that: 1280 MiB. Without a budget the peak, 768 MiB, does not grow.
// TIGHT-LABEL: func.func @reduction(
// TIGHT: fp8.reduce_scatter sum
// NONE-LABEL: func.func @reduction(
// NONE: fp8.reduce_scatter sum
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @reduction(%x: tensor<16384x16384xbf16>) -> (tensor<16384x16384xbf16>, tensor<8192x16384xbf16>) {
  %a = fp8.kernel loop (%i = %x : tensor<16384x16384xbf16>) -> (tensor<16384x16384xbf16>) {
    %0 = math.exp %i : tensor<16384x16384xbf16>
    fp8.yield %0 : tensor<16384x16384xbf16>
  }
  %r = fp8.kernel collective (%i = %a : tensor<16384x16384xbf16>) -> (tensor<8192x16384xbf16>) {
    %0 = fp8.reduce_scatter sum %i axis = "tp" dim = 0 : tensor<16384x16384xbf16> -> tensor<8192x16384xbf16>
    fp8.yield %0 : tensor<8192x16384xbf16>
  }
  %b = fp8.kernel loop (%i = %x : tensor<16384x16384xbf16>) -> (tensor<16384x16384xbf16>) {
    %0 = math.tanh %i : tensor<16384x16384xbf16>
    fp8.yield %0 : tensor<16384x16384xbf16>
  }
  return %b, %r : tensor<16384x16384xbf16>, tensor<8192x16384xbf16>
}
}

// -----

// The gather has nothing to hide behind but the kernel before the reduction, so it starts there; the loop that makes its
// operand goes along. The reduction hides behind the last kernel.
// CHECK-LABEL: func.func @overtaken(
// CHECK: math.sin
// CHECK: fp8.all_gather_start
// CHECK: math.exp
// CHECK: fp8.reduce_scatter_start
// CHECK: fp8.wait
// CHECK: math.tanh
// CHECK: fp8.wait
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @overtaken(%x: tensor<16384x8192xbf16>, %w: tensor<1024x8192xbf16>)
    -> (tensor<2048x8192xbf16>, tensor<8192x8192xbf16>) {
  %a = fp8.kernel loop (%i = %x : tensor<16384x8192xbf16>) -> (tensor<16384x8192xbf16>) {
    %0 = math.exp %i : tensor<16384x8192xbf16>
    fp8.yield %0 : tensor<16384x8192xbf16>
  }
  %r = fp8.kernel collective (%i = %a : tensor<16384x8192xbf16>) -> (tensor<8192x8192xbf16>) {
    %0 = fp8.reduce_scatter sum %i axis = "tp" dim = 0 : tensor<16384x8192xbf16> -> tensor<8192x8192xbf16>
    fp8.yield %0 : tensor<8192x8192xbf16>
  }
  %c = fp8.kernel loop (%i = %w : tensor<1024x8192xbf16>) -> (tensor<1024x8192xbf16>) {
    %0 = math.sin %i : tensor<1024x8192xbf16>
    fp8.yield %0 : tensor<1024x8192xbf16>
  }
  %g = fp8.kernel collective (%i = %c : tensor<1024x8192xbf16>) -> (tensor<2048x8192xbf16>) {
    %0 = fp8.all_gather %i axis = "tp" dim = 0 : tensor<1024x8192xbf16> -> tensor<2048x8192xbf16>
    fp8.yield %0 : tensor<2048x8192xbf16>
  }
  %b = fp8.kernel loop (%i = %g : tensor<2048x8192xbf16>) -> (tensor<2048x8192xbf16>) {
    %0 = math.tanh %i : tensor<2048x8192xbf16>
    fp8.yield %0 : tensor<2048x8192xbf16>
  }
  return %b, %r : tensor<2048x8192xbf16>, tensor<8192x8192xbf16>
}
}
