// Plans that keep every rule: nothing is reported, and the IR is left alone.
//
// RUN: fp8-opt %s --fp8-check-plan -split-input-file -verify-diagnostics | FileCheck %s

// A step: %a dies in forward, %s is kept and dies in backward, %y and %dx are results.
// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<64xf32>, %dy: tensor<64xf32> {fp8.tangent}) -> (tensor<64xf32>, tensor<64xf32>)
    attributes {fp8.arena_bytes = 1024 : i64} {
  %y, %dx = fp8.step -> (tensor<64xf32>, tensor<64xf32>) forward {
    %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 0>} {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    %s = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 256>} {
      %1 = math.tanh %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    fp8.free %a : tensor<64xf32>
    // Takes the place of %a.
    %y0 = fp8.kernel loop (%0 = %s : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 0>, workspace = 257 : i64, workspace_offset = 512 : i64} {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    fp8.yield %y0 residuals(%s) : tensor<64xf32> residuals(tensor<64xf32>)
  } backward (%r: tensor<64xf32>) {
    %b = fp8.remat_barrier %x after(%dy : tensor<64xf32>) id = 0 : tensor<64xf32>
    %a2 = fp8.kernel loop (%0 = %b : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 512>} {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    %dx0 = fp8.kernel loop (%0 = %a2 : tensor<64xf32>, %1 = %r : tensor<64xf32>, %2 = %dy : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 768>} {
      %3 = arith.mulf %0, %1 : tensor<64xf32>
      %4 = arith.mulf %3, %2 : tensor<64xf32>
      fp8.yield %4 : tensor<64xf32>
    }
    fp8.free %a2, %r : tensor<64xf32>, tensor<64xf32>
    fp8.yield %dx0 : tensor<64xf32>
  }
  return %y, %dx : tensor<64xf32>, tensor<64xf32>
}

// -----

// A straight line with a gather in flight, whose source dies at the wait. The result goes to the caller's buffer.
module attributes {fp8.grid = {tp = 2 : i64}} {
// CHECK-LABEL: func.func @gather
func.func @gather(%x: tensor<64xf32>) -> (tensor<128xf32> {fp8.placement = "caller"})
    attributes {fp8.arena_bytes = 1024 : i64} {
  %q = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  %g, %t = fp8.kernel collective (%0 = %q : tensor<64xf32>) -> (tensor<128xf32>, !fp8.token) attributes {offsets = array<i64: 256, -1>} {
    %1, %2 = fp8.all_gather_start %0 axis = "tp" dim = 0 : tensor<64xf32> -> tensor<128xf32>, !fp8.token
    fp8.yield %1, %2 : tensor<128xf32>, !fp8.token
  }
  %o = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 768>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  fp8.free %o : tensor<64xf32>
  %w = fp8.wait %g, %t : tensor<128xf32>
  fp8.free %q : tensor<64xf32>
  %y = fp8.kernel loop (%0 = %g : tensor<128xf32>) -> (tensor<128xf32>) attributes {offsets = array<i64: -1>} {
    %1 = math.exp %0 : tensor<128xf32>
    fp8.yield %1 : tensor<128xf32>
  }
  fp8.free %g : tensor<128xf32>
  return %y : tensor<128xf32>
}
}

// -----

// The result of an opaque op that names its operand's storage is freed with it: once.
// CHECK-LABEL: func.func @alias
func.func @alias(%x: tensor<64xf32>) -> tensor<64xf32> {
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  %b = fp8.kernel opaque (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = fp8.opaque "in_place"(%0) {aliases = [[0, 0]]} : (tensor<64xf32>) -> tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  %y = fp8.kernel loop (%0 = %b : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  fp8.free %a : tensor<64xf32>
  return %y : tensor<64xf32>
}

// -----

// An argument returned as it is, a residual that is an argument, and one that is a result too: none is freed.
// CHECK-LABEL: func.func @resident
func.func @resident(%x: tensor<64xf32>, %dy: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %y:2 = fp8.step -> (tensor<64xf32>, tensor<64xf32>) forward {
    %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    fp8.yield %a residuals(%a, %x) : tensor<64xf32> residuals(tensor<64xf32>, tensor<64xf32>)
  } backward (%r: tensor<64xf32>, %p: tensor<64xf32>) {
    %d = fp8.kernel loop (%0 = %r : tensor<64xf32>, %1 = %p : tensor<64xf32>) -> (tensor<64xf32>) {
      %2 = arith.mulf %0, %1 : tensor<64xf32>
      fp8.yield %2 : tensor<64xf32>
    }
    fp8.yield %d : tensor<64xf32>
  }
  return %y#0, %y#1, %x : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

// -----

// CHECK-LABEL: func.func private @declared
func.func private @declared(%x: tensor<64xf32>) -> tensor<64xf32>
