// The free of a buffer stands directly after the last kernel that reads it. The readers give another type, or they would
// write in place: test/Analysis/InPlace.mlir.
//
// RUN: fp8-opt %s -split-input-file --fp8-insert-frees | FileCheck %s
// Frees that stand there already are placed anew, so a second run changes nothing.
// RUN: fp8-opt %s -split-input-file --fp8-insert-frees --fp8-insert-frees | FileCheck %s
// RUN: fp8-opt %s -split-input-file --fp8-insert-frees --fp8-check-plan -o /dev/null

// %a is read by the last kernel through a view, %b by nobody: it is freed where it is made. The result is not freed,
// nor is the argument.
// CHECK-LABEL: func.func @line(
// CHECK: %[[A:.*]] = fp8.kernel loop
// CHECK: math.exp
// CHECK: %[[B:.*]] = fp8.kernel opaque
// CHECK: fp8.free %[[B]] : tensor<4x8xf32>
// CHECK-NOT: fp8.free
// CHECK: %[[P:.*]] = fp8.permute %[[A]]
// CHECK-NOT: fp8.free
// CHECK: fp8.kernel loop
// CHECK: math.tanh
// CHECK: fp8.free %[[A]] : tensor<4x8xf32>
// CHECK-NOT: fp8.free
// CHECK: return
func.func @line(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %a = fp8.kernel loop (%i = %x : tensor<4x8xf32>) -> (tensor<4x8xf32>) {
    %0 = math.exp %i : tensor<4x8xf32>
    fp8.yield %0 : tensor<4x8xf32>
  }
  %b = fp8.kernel opaque (%i = %a : tensor<4x8xf32>) -> (tensor<4x8xf32>) {
    %0 = fp8.opaque "unused"(%i) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fp8.yield %0 : tensor<4x8xf32>
  }
  %p = fp8.permute %a [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  %c = fp8.kernel loop (%i = %p : tensor<8x4xf32>) -> (tensor<8x4xf32>) {
    %0 = math.tanh %i : tensor<8x4xf32>
    fp8.yield %0 : tensor<8x4xf32>
  }
  return %c : tensor<8x4xf32>
}

// -----

// Two buffers with one last reader are freed together. A result that is read again later is not freed; nor is the root
// of a result that is a view.
// CHECK-LABEL: func.func @together(
// CHECK: %[[A:.*]]:2 = fp8.kernel loop
// CHECK-NOT: fp8.free
// CHECK: fp8.kernel loop
// CHECK: fp8.free %[[A]]#0, %[[A]]#1 : tensor<8xf32>, tensor<8xf32>
// CHECK-NOT: fp8.free
// CHECK: return
func.func @together(%x: tensor<8xf32>) -> (tensor<2x4xbf16>, tensor<8xbf16>) {
  %a:2 = fp8.kernel loop (%i = %x : tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = math.exp %i : tensor<8xf32>
    %1 = math.tanh %i : tensor<8xf32>
    fp8.yield %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
  %b = fp8.kernel loop (%i = %a#0 : tensor<8xf32>, %j = %a#1 : tensor<8xf32>) -> (tensor<8xbf16>) {
    %0 = arith.addf %i, %j : tensor<8xf32>
    %1 = arith.truncf %0 : tensor<8xf32> to tensor<8xbf16>
    fp8.yield %1 : tensor<8xbf16>
  }
  %v = fp8.reshape %b : tensor<8xbf16> -> tensor<2x4xbf16>
  %c = fp8.kernel loop (%i = %b : tensor<8xbf16>) -> (tensor<8xbf16>) {
    %0 = math.log %i : tensor<8xbf16>
    fp8.yield %0 : tensor<8xbf16>
  }
  return %v, %c : tensor<2x4xbf16>, tensor<8xbf16>
}

// -----

// A residual is freed in backward, under the name it has there, at its last use there; what forward alone reads is
// freed in forward.
// CHECK-LABEL: func.func @step(
// CHECK: forward {
// CHECK: %[[A:.*]] = fp8.kernel loop
// CHECK: math.exp
// CHECK: %[[B:.*]] = fp8.kernel loop
// CHECK: math.tanh
// CHECK: fp8.kernel loop
// CHECK: fp8.free %[[B]] :
// CHECK-NEXT: fp8.yield {{.*}} residuals(%[[A]])
// CHECK-NEXT: } backward (%[[R:.*]]: tensor<8xf32>) {
// CHECK-NEXT: %[[BAR:.*]] = fp8.remat_barrier %[[R]]
// CHECK-NEXT: %[[D:.*]] = fp8.kernel loop
// CHECK: fp8.free %[[R]] :
// CHECK-NEXT: fp8.kernel opaque
// CHECK: fp8.free %[[D]] :
// CHECK-NEXT: fp8.yield
func.func @step(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xbf16>) {
  %y, %dx = fp8.step -> (tensor<8xbf16>, tensor<8xbf16>) forward {
    %a = fp8.kernel loop (%i = %x : tensor<8xf32>) -> (tensor<8xf32>) {
      %0 = math.exp %i : tensor<8xf32>
      fp8.yield %0 : tensor<8xf32>
    }
    %b = fp8.kernel loop (%i = %a : tensor<8xf32>) -> (tensor<8xf32>) {
      %0 = math.tanh %i : tensor<8xf32>
      fp8.yield %0 : tensor<8xf32>
    }
    %c = fp8.kernel loop (%i = %b : tensor<8xf32>) -> (tensor<8xbf16>) {
      %0 = arith.truncf %i : tensor<8xf32> to tensor<8xbf16>
      fp8.yield %0 : tensor<8xbf16>
    }
    fp8.yield %c residuals(%a) : tensor<8xbf16> residuals(tensor<8xf32>)
  } backward (%r: tensor<8xf32>) {
    %bar = fp8.remat_barrier %r id = 0 : tensor<8xf32>
    %d = fp8.kernel loop (%i = %bar : tensor<8xf32>, %j = %dy : tensor<8xf32>) -> (tensor<8xbf16>) {
      %0 = arith.mulf %i, %j : tensor<8xf32>
      %1 = arith.truncf %0 : tensor<8xf32> to tensor<8xbf16>
      fp8.yield %1 : tensor<8xbf16>
    }
    %e = fp8.kernel opaque (%i = %d : tensor<8xbf16>) -> (tensor<8xbf16>) {
      %0 = fp8.opaque "f"(%i) : (tensor<8xbf16>) -> tensor<8xbf16>
      fp8.yield %0 : tensor<8xbf16>
    }
    fp8.yield %e : tensor<8xbf16>
  }
  return %y, %dx : tensor<8xbf16>, tensor<8xbf16>
}

// -----

// While a gather runs it holds its source: %q is freed after the wait, although no kernel reads it any more.
// CHECK-LABEL: func.func @gather(
// CHECK: %[[Q:.*]] = fp8.kernel loop
// CHECK: %[[G:.*]]:2 = fp8.kernel collective
// CHECK-NOT: fp8.free
// CHECK: fp8.kernel loop
// CHECK-NOT: fp8.free
// CHECK: fp8.wait
// CHECK-NEXT: fp8.free %[[Q]] : tensor<8xf32>
// CHECK: fp8.kernel loop
// CHECK: fp8.free %{{.*}} : tensor<16xf32>
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @gather(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<16xbf16>) {
  %q = fp8.kernel loop (%i = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %0 = math.exp %i : tensor<8xf32>
    fp8.yield %0 : tensor<8xf32>
  }
  %g, %t = fp8.kernel collective (%i = %q : tensor<8xf32>) -> (tensor<16xf32>, !fp8.token) {
    %0, %1 = fp8.all_gather_start %i axis = "tp" dim = 0 : tensor<8xf32> -> tensor<16xf32>, !fp8.token
    fp8.yield %0, %1 : tensor<16xf32>, !fp8.token
  }
  %o = fp8.kernel loop (%i = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %0 = math.tanh %i : tensor<8xf32>
    fp8.yield %0 : tensor<8xf32>
  }
  %w = fp8.wait %g, %t : tensor<16xf32>
  %y = fp8.kernel loop (%i = %w : tensor<16xf32>) -> (tensor<16xbf16>) {
    %0 = arith.truncf %i : tensor<16xf32> to tensor<16xbf16>
    fp8.yield %0 : tensor<16xbf16>
  }
  return %o, %y : tensor<8xf32>, tensor<16xbf16>
}
}
