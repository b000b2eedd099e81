// How recomputation is written: just before its first use, each value once, in the order of its operands, and through
// barriers of its own where it reads what stands outside it.
//
// RUN: fp8-opt %s -split-input-file --fp8-select-saved=policy=recompute-all | FileCheck %s
// RUN: fp8-opt %s -split-input-file --fp8-select-saved=policy=recompute-all --mlir-print-debuginfo \
// RUN:   | FileCheck %s --check-prefix=NAMES

// CHECK-LABEL: func.func @just_in_time(
// CHECK-SAME: %[[X:[a-z0-9]*]]: {{.*}}, %[[DY:[a-z0-9]*]]:
// CHECK: } backward {
// The last layer first; what it needs of the first layer is made once and kept for the first layer's own backward.
// CHECK-NEXT: %[[B0:.*]] = fp8.remat_barrier %[[X]] id = 0
// CHECK-NEXT: %[[A:.*]] = math.exp %[[B0]]
// CHECK-NEXT: %[[B:.*]] = math.tanh %[[A]]
// CHECK-NEXT: %[[DB:.*]] = arith.mulf %[[DY]], %[[B]]
// CHECK-NEXT: %[[DA:.*]] = arith.mulf %[[DB]], %[[A]]
// %c is needed last and made last, by a barrier of its own.
// CHECK-NEXT: %[[B1:.*]] = fp8.remat_barrier %[[X]] id = 1
// CHECK-NEXT: %[[C:.*]] = math.log %[[B1]]
// CHECK-NEXT: arith.mulf %[[DA]], %[[C]]
// A clone is told apart by its name.
// NAMES-DAG: loc("a~recomputed")
// NAMES-DAG: loc("b~recomputed")
func.func @just_in_time(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y, %dx = fp8.step -> (tensor<8xf32>, tensor<8xf32>) forward {
    %c = math.log %x : tensor<8xf32> loc("c")
    %a = math.exp %x : tensor<8xf32> loc("a")
    %b = math.tanh %a : tensor<8xf32> loc("b")
    %0 = arith.addf %b, %c : tensor<8xf32>
    fp8.yield %0 residuals(%a, %b, %c) : tensor<8xf32> residuals(tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  } backward (%a_r: tensor<8xf32>, %b_r: tensor<8xf32>, %c_r: tensor<8xf32>) {
    %db = arith.mulf %dy, %b_r : tensor<8xf32>
    %da = arith.mulf %db, %a_r : tensor<8xf32>
    %dx_0 = arith.mulf %da, %c_r : tensor<8xf32>
    fp8.yield %dx_0 : tensor<8xf32>
  }
  return %y, %dx : tensor<8xf32>, tensor<8xf32>
}

// -----

// Views, constants and kept values: a view of a residual is made again from the residual, and a constant is written
// again.
// CHECK-LABEL: func.func @views(
// CHECK-SAME: %{{.*}}, %[[DY:[a-z0-9]*]]:
// CHECK: %[[KEPT:.*]] = math.exp
// CHECK: fp8.yield {{.*}} residuals(%[[KEPT]]) :
// CHECK: } backward (%[[R:.*]]: tensor<4x8xf32>) {
// CHECK-NEXT: %[[B:.*]] = fp8.remat_barrier %[[R]] id = 0
// CHECK-NEXT: %[[V:.*]] = fp8.permute %[[B]] [1, 0]
// CHECK-NEXT: %[[D:.*]] = arith.mulf %[[DY]], %[[V]]
// CHECK-NEXT: %[[ONE:.*]] = arith.constant dense<1.000000e+00>
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[V]], %[[ONE]]
// CHECK-NEXT: arith.mulf %[[D]], %[[S]]
func.func @views(%x: tensor<4x8xf32>, %dy: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %y, %dx = fp8.step -> (tensor<8x4xf32>, tensor<8x4xf32>) forward {
    %one = arith.constant dense<1.0> : tensor<8x4xf32>
    %e = math.exp %x {fp8.checkpoint} : tensor<4x8xf32>
    %v = fp8.permute %e [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
    %s = arith.addf %v, %one : tensor<8x4xf32>
    %t = arith.negf %s : tensor<8x4xf32>
    fp8.yield %t residuals(%v, %s) : tensor<8x4xf32> residuals(tensor<8x4xf32>, tensor<8x4xf32>)
  } backward (%v_r: tensor<8x4xf32>, %s_r: tensor<8x4xf32>) {
    %d = arith.mulf %dy, %v_r : tensor<8x4xf32>
    %0 = arith.mulf %d, %s_r : tensor<8x4xf32>
    fp8.yield %0 : tensor<8x4xf32>
  }
  return %y, %dx : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// A result of the step that backward reads stays to the end anyway: it is kept, not made again, and counts in no
// saved bytes. A residual that nothing reads is dropped.
// CHECK-LABEL: func.func @result(
// CHECK-SAME: escapes
// CHECK: %[[Y:.*]] = math.exp
// CHECK: fp8.yield %[[Y]] residuals(%[[Y]]) : tensor<8xf32> residuals(tensor<8xf32>)
// CHECK: } backward (%[[R:.*]]: tensor<8xf32>) {
// CHECK-NEXT: arith.mulf %{{.*}}, %[[R]]
func.func @result(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y, %dx = fp8.step -> (tensor<8xf32>, tensor<8xf32>) forward {
    %a = math.exp %x : tensor<8xf32>
    %b = math.tanh %a {fp8.checkpoint} : tensor<8xf32>
    fp8.yield %a residuals(%a, %b) : tensor<8xf32> residuals(tensor<8xf32>, tensor<8xf32>)
  } backward (%a_r: tensor<8xf32>, %b_r: tensor<8xf32>) {
    %0 = arith.mulf %dy, %a_r : tensor<8xf32>
    fp8.yield %0 : tensor<8xf32>
  }
  return %y, %dx : tensor<8xf32>, tensor<8xf32>
}

// -----

// Backward that gives a forward value and an argument as they are: both are results.
// CHECK-LABEL: func.func @passed_on(
// CHECK-SAME: %[[X:[a-z0-9]*]]:
// CHECK: } backward (%[[A:.*]]: tensor<8xf32>) {
// CHECK-NEXT: fp8.yield %[[A]], %[[X]] :
func.func @passed_on(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %y, %a_out, %x_out = fp8.step -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) forward {
    %a = math.exp %x : tensor<8xf32>
    %b = math.tanh %a : tensor<8xf32>
    fp8.yield %b residuals(%a) : tensor<8xf32> residuals(tensor<8xf32>)
  } backward (%a_r: tensor<8xf32>) {
    fp8.yield %a_r, %x : tensor<8xf32>, tensor<8xf32>
  }
  return %y, %a_out, %x_out : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
