// RUN: fp8-opt %s --fp8-select-saved=policy=save-all --fp8-split --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// RUN: fp8-opt %s --fp8-select-saved=policy=save-all --fp8-split=apart=wgrad --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=APART
// RUN: fp8-opt %s --fp8-select-saved=policy=recompute-all --fp8-split | FileCheck %s --check-prefix=CLONE
// RUN: fp8-opt %s --fp8-split --fp8-split | FileCheck %s --check-prefix=TWICE
// RUN: not fp8-opt %s --fp8-split=apart=dgrad 2>&1 | FileCheck %s --check-prefix=APART-OPTION
// RUN: not fp8-opt %s --fp8-form-kernels --fp8-split 2>&1 | FileCheck %s --check-prefix=KERNELS
// RUN: sed 's/@f(/@g(/; s/@taken/@g.forward/' %s | not fp8-opt - --fp8-split 2>&1 | FileCheck %s --check-prefix=TAKEN
// RUN: sed 's/"d_w"/"gradient"/' %s | not fp8-opt - --fp8-split=apart=wgrad 2>&1 | FileCheck %s --check-prefix=NO-GRADIENT

// What forward keeps is a result of it and an argument of backward, under one name; a result that backward reads (y)
// crosses as what it is. Arguments go to who reads them, constants and views to both.

// CHECK-LABEL: func.func @f.forward(
// CHECK-SAME: %[[X:.*]]: tensor<8x4xf32> {fp8.donated} loc("x"), %[[W:.*]]: tensor<4x4xf32> {fp8.parameter} loc("w"))
// CHECK-SAME: -> (tensor<8x4xf32> {fp8.name = "y", fp8.placement = "caller"},
// CHECK-SAME: tensor<8x4xf32> {fp8.name = "e", fp8.placement = "caller", fp8.segment = "saved"})
// CHECK-SAME: fp8.part_of = "f"
// CHECK: %[[CST:.*]] = arith.constant
// CHECK: %[[E:.*]] = math.exp
// CHECK: %[[Y:.*]] = fp8.matmul %[[E]], %[[W]]
// CHECK: return %[[Y]], %[[E]]
// CHECK-LABEL: func.func @f.backward(
// CHECK-SAME: %[[W:.*]]: tensor<4x4xf32> {fp8.parameter} loc("w"), %[[DY:.*]]: tensor<8x4xf32> {fp8.tangent} loc("d_y"),
// CHECK-SAME: %[[H:.*]]: tensor<1xf32> {fp8.state} loc("h"),
// CHECK-SAME: %[[E:.*]]: tensor<8x4xf32> {fp8.donated, fp8.segment = "saved"} loc("e"), %[[Y:.*]]: tensor<8x4xf32> loc("y"))
// CHECK-SAME: -> (tensor<8x4xf32> {fp8.name = "d_x", fp8.placement = "caller"}, tensor<4x4xf32> {fp8.name = "d_w", fp8.placement = "caller"})
// CHECK: arith.constant
// CHECK: arith.mulf %[[DY]], %[[Y]]
// CHECK: fp8.permute %[[W]]
// CHECK: fp8.permute %[[E]]
// CHECK: fp8.push_amax %{{.*}}, %[[H]]
// CHECK-NOT: fp8.step

// dgrad has what the other gradients need, and the effects; g, which both need, is deferred.
// Who reads last may write over it: e in wgrad, x, which is donated, in forward.
// APART-LABEL: func.func @f.forward(
// APART-SAME: tensor<8x4xf32> {fp8.donated} loc("x")
// APART-LABEL: func.func @f.dgrad(
// APART-SAME: tensor<8x4xf32> {fp8.segment = "saved"} loc("e")
// APART-SAME: -> (tensor<8x4xf32> {fp8.name = "d_x", fp8.placement = "caller"},
// APART-SAME: tensor<8x4xf32> {fp8.name = "g", fp8.placement = "caller", fp8.segment = "deferred"})
// APART: fp8.push_amax
// APART-LABEL: func.func @f.wgrad(
// APART-SAME: %[[E:.*]]: tensor<8x4xf32> {fp8.donated, fp8.segment = "saved"} loc("e"), %[[G:.*]]: tensor<8x4xf32> {fp8.donated, fp8.segment = "deferred"} loc("g"))
// APART-SAME: -> (tensor<4x4xf32> {fp8.name = "d_w", fp8.placement = "caller"})
// APART-NEXT: %[[T:.*]] = fp8.permute %[[E]]
// APART-NEXT: %[[D:.*]] = fp8.matmul %[[T]], %[[G]]
// APART-NEXT: return %[[D]]

// CLONE-LABEL: func.func @f.forward(
// CLONE-NOT: fp8.donated
// Nothing but arguments crosses where all is computed again; the barrier reads the argument.
// CLONE-LABEL: func.func @f.backward(
// CLONE-SAME: %[[X:[a-z0-9]+]]: tensor<8x4xf32> {fp8.donated}
// CLONE-NOT: fp8.segment
// CLONE: fp8.remat_barrier %[[X]]

// A part has no step.
// TWICE: @f.forward
// TWICE: @f.backward
// TWICE-NOT: backward.

// APART-OPTION: error: expected 'apart' to be 'backward' or 'wgrad', but got 'dgrad'
// KERNELS: error: expected ops that are not in kernels yet, but got an 'fp8.kernel'; run 'fp8-split' before 'fp8-form-kernels'
// TAKEN: error: expected no function 'g.forward', which fp8-split makes of 'g'
// NO-GRADIENT: error: expected the gradient of a parameter to split off, named 'd_NAME' after an argument marked 'fp8.parameter', but 'f' returns none
func.func @f(%x: tensor<8x4xf32> {fp8.donated} loc("x"), %w: tensor<4x4xf32> {fp8.parameter} loc("w"),
             %d_y: tensor<8x4xf32> {fp8.tangent} loc("d_y"), %h: tensor<1xf32> {fp8.state} loc("h"))
    -> (tensor<8x4xf32> {fp8.name = "y"}, tensor<8x4xf32> {fp8.name = "d_x"}, tensor<4x4xf32> {fp8.name = "d_w"}) {
  %y, %d_x, %d_w = fp8.step -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4x4xf32>) forward {
    %two = arith.constant dense<2.0> : tensor<8x4xf32>
    %s = arith.mulf %x, %two : tensor<8x4xf32> loc("s")
    %e = math.exp %s : tensor<8x4xf32> loc("e")
    %y_0 = fp8.matmul %e, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32> loc("y")
    fp8.yield %y_0 residuals(%e, %y_0) : tensor<8x4xf32> residuals(tensor<8x4xf32>, tensor<8x4xf32>)
  } backward (%e_r: tensor<8x4xf32>, %y_r: tensor<8x4xf32>) {
    %two = arith.constant dense<2.0> : tensor<8x4xf32>
    %g = arith.mulf %d_y, %y_r : tensor<8x4xf32> loc("g")
    %w_t = fp8.permute %w [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
    %d_e = fp8.matmul %g, %w_t : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32> loc("d_e")
    %d_s = arith.mulf %d_e, %e_r : tensor<8x4xf32> loc("d_s")
    %d_x_0 = arith.mulf %d_s, %two : tensor<8x4xf32> loc("d_x")
    %e_t = fp8.permute %e_r [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
    %d_w_0 = fp8.matmul %e_t, %g : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32> loc("d_w")
    %m = fp8.amax %g group = [0, 0] : tensor<8x4xf32> -> tensor<1x1xf32> loc("m")
    fp8.push_amax %m, %h : tensor<1x1xf32>, tensor<1xf32>
    fp8.yield %d_x_0, %d_w_0 : tensor<8x4xf32>, tensor<4x4xf32>
  }
  return %y, %d_x, %d_w : tensor<8x4xf32>, tensor<8x4xf32>, tensor<4x4xf32>
}

func.func private @taken()
