// Live ranges at each phase. The numbers are counted by hand: the positions of the ops that make the value and of the
// last op that reads it.
//
// RUN: fp8-opt %s --fp8-annotate-liveness -split-input-file | FileCheck %s

// Data and scale have lifetimes of their own: the 4-byte amax outlives the tensor it came from.
// CHECK-LABEL: func.func @components
func.func @components(%x: tensor<64x32xbf16>) -> tensor<1x1xf32> {
  // CHECK: arith.negf {{.*}}{fp8.bytes = array<i64: 4096>, fp8.index = 0 : i64, fp8.live = array<i64: 0, 2>}
  %n = arith.negf %x : tensor<64x32xbf16>
  // CHECK: fp8.amax {{.*}}{fp8.bytes = array<i64: 4>, fp8.index = 1 : i64, fp8.live = array<i64: 1, 5>}
  %m = fp8.amax %n group = [0, 0] : tensor<64x32xbf16> -> tensor<1x1xf32>
  // CHECK: fp8.cast {{.*}}{fp8.bytes = array<i64: 2048>, fp8.index = 2 : i64, fp8.live = array<i64: 2, 4>}
  %q = fp8.cast %n, %m : tensor<64x32xbf16>, tensor<1x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
  // A view has a position and no storage.
  // CHECK: fp8.permute %{{.*}} [1, 0] {fp8.index = 3 : i64} :
  %p = fp8.permute %q [1, 0] : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
  // Its use is one of %q. The result is never used.
  // CHECK: fp8.dequantize {{.*}}{fp8.bytes = array<i64: 4096>, fp8.index = 4 : i64, fp8.live = array<i64: 4, 4>}
  %d = fp8.dequantize %p, %m : tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<1x1xf32> -> tensor<32x64xbf16>
  return %m : tensor<1x1xf32>
}

// -----

// A residual is the same storage in both regions; a forward result lives on through backward.
// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y, %dx = fp8.step -> (tensor<8xf32>, tensor<8xf32>) forward {
    // CHECK: math.exp {{.*}}fp8.index = 0 : i64, fp8.live = array<i64: 0, 3>}
    %e = math.exp %x : tensor<8xf32>
    // CHECK: math.tanh {{.*}}fp8.index = 1 : i64, fp8.live = array<i64: 1, 5>}
    %t = math.tanh %e : tensor<8xf32>
    fp8.yield %t residuals(%e) : tensor<8xf32> residuals(tensor<8xf32>)
  } backward (%r: tensor<8xf32>) {
    // CHECK: fp8.remat_barrier {{.*}}{fp8.index = 2 : i64}
    %b = fp8.remat_barrier %r after(%dy : tensor<8xf32>) id = 0 : tensor<8xf32>
    // CHECK: arith.mulf {{.*}}fp8.index = 3 : i64, fp8.live = array<i64: 3, 4>}
    %g = arith.mulf %dy, %b : tensor<8xf32>
    // CHECK: arith.mulf {{.*}}fp8.index = 4 : i64, fp8.live = array<i64: 4, 5>}
    %h = arith.mulf %g, %g : tensor<8xf32>
    fp8.yield %h : tensor<8xf32>
  }
  return %y, %dx : tensor<8xf32>, tensor<8xf32>
}

// -----

// In planned IR a kernel is one op with a range a result, and a free is no use.
// CHECK-LABEL: func.func @planned
func.func @planned(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: attributes {fp8.bytes = array<i64: 32, 4>, fp8.index = 0 : i64, fp8.live = array<i64: 0, 1, 0, 0>}
  %a:2 = fp8.kernel loop (%0 = %x : tensor<8xf32>) -> (tensor<8xf32>, tensor<1xf32>) {
    %1 = math.exp %0 : tensor<8xf32>
    %2 = fp8.amax %1 group = [0] : tensor<8xf32> -> tensor<1xf32>
    fp8.yield %1, %2 : tensor<8xf32>, tensor<1xf32>
  }
  // CHECK: attributes {fp8.bytes = array<i64: 32>, fp8.index = 1 : i64, fp8.live = array<i64: 1, 3>}
  %y = fp8.kernel loop (%0 = %a#0 : tensor<8xf32>) -> (tensor<8xf32>) {
    %1 = math.exp %0 : tensor<8xf32>
    fp8.yield %1 : tensor<8xf32>
  }
  // CHECK: fp8.free {{.*}}{fp8.index = 2 : i64}
  fp8.free %a#0, %a#1 : tensor<8xf32>, tensor<1xf32>
  return %y : tensor<8xf32>
}

// -----

// A gather holds its source until the wait; what an opaque op says is another name of its operand is no storage.
module attributes {fp8.grid = {tp = 2 : i64}} {
// CHECK-LABEL: func.func @gather
func.func @gather(%x: tensor<8xf32>) -> tensor<16xf32> {
  // CHECK: math.exp {{.*}}fp8.index = 0 : i64, fp8.live = array<i64: 0, 3>}
  %q = math.exp %x : tensor<8xf32>
  // CHECK: fp8.all_gather_start {{.*}}{fp8.bytes = array<i64: 64>, fp8.index = 1 : i64, fp8.live = array<i64: 1, 5>}
  %g, %t = fp8.all_gather_start %q axis = "tp" dim = 0 : tensor<8xf32> -> tensor<16xf32>, !fp8.token
  // CHECK: math.exp {{.*}}fp8.index = 2 : i64, fp8.live = array<i64: 2, 2>}
  %o = math.exp %x : tensor<8xf32>
  // CHECK: fp8.wait {{.*}}{fp8.index = 3 : i64}
  %w = fp8.wait %g, %t : tensor<16xf32>
  // CHECK: fp8.opaque {{.*}}{aliases = {{\[\[}}0, 0]], fp8.index = 4 : i64}
  %y = fp8.opaque "in_place"(%w) {aliases = [[0, 0]]} : (tensor<16xf32>) -> tensor<16xf32>
  return %y : tensor<16xf32>
}
}
