// `fp8.policy` overrides any policy: one word for all results of an op, or an array with one entry a result.
//
// RUN: fp8-opt %s --fp8-select-saved=policy=save-all | FileCheck %s
// RUN: fp8-opt %s --fp8-select-saved=policy=recompute-all | FileCheck %s
// RUN: fp8-opt %s --fp8-select-saved=policy=op-list | FileCheck %s
// RUN: fp8-opt %s --fp8-select-saved=policy=min-cut | FileCheck %s
// RUN: fp8-opt %s --fp8-select-saved | FileCheck %s
// RUN: fp8-opt %s --compile=policy=recompute-all --emit=plan | FileCheck %s --check-prefix=PLAN

// CHECK: %[[A:.*]] = math.exp
// CHECK: %[[B:.*]] = math.tanh
// CHECK: %[[P:.*]]:3 = fp8.opaque "three"
// CHECK: residuals(%[[A]], %[[P]]#0, %[[P]]#2) :
// CHECK: } backward (%[[A_R:.*]]: tensor<8xf32>, %[[P0:.*]]: tensor<8xf32>, %[[P2:.*]]: tensor<8xf32>) {
// A clone has no policy of its own, and only what is not kept is read from it.
// CHECK-NEXT: %[[A_B:.*]] = fp8.remat_barrier %[[A_R]] id = 0
// CHECK-NEXT: %[[B_C:.*]] = math.tanh %[[A_B]] : tensor<8xf32>
// CHECK-NEXT: %[[P_C:.*]]:3 = fp8.opaque "three"(%[[B_C]]) :
// CHECK-NEXT: fp8.opaque "backward"(%{{.*}}, %[[A_R]], %[[B_C]], %[[P0]], %[[P_C]]#1, %[[P2]])

// PLAN: "why": "'fp8.policy' on it says save: 32 B"
func.func @overrides(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %y, %dx = fp8.step -> (tensor<8xf32>, tensor<8xf32>) forward {
    %a = math.exp %x {fp8.policy = "save"} : tensor<8xf32>
    %b = math.tanh %a {fp8.checkpoint, fp8.policy = "recompute"} : tensor<8xf32>
    %p:3 = fp8.opaque "three"(%b) {fp8.policy = ["save", "recompute", "save"]} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    %0 = fp8.opaque "forward"(%p#0, %p#1, %p#2) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    fp8.yield %0 residuals(%a, %b, %p#0, %p#1, %p#2) : tensor<8xf32> residuals(tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  } backward (%a_r: tensor<8xf32>, %b_r: tensor<8xf32>, %p0: tensor<8xf32>, %p1: tensor<8xf32>, %p2: tensor<8xf32>) {
    %0 = fp8.opaque "backward"(%dy, %a_r, %b_r, %p0, %p1, %p2) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    fp8.yield %0 : tensor<8xf32>
  }
  return %y, %dx : tensor<8xf32>, tensor<8xf32>
}
