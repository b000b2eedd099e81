// What each policy keeps of one step. Backward reads all of %e (elementwise), %m (a maximum), %g (a matmul), %n (a
// checkpoint), %r (may not run twice) and %p (an argument, which costs nothing).
//
// RUN: fp8-opt %s --fp8-select-saved=policy=save-all | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: fp8-opt %s --fp8-select-saved=policy=recompute-all | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: fp8-opt %s --fp8-select-saved=policy=op-list | FileCheck %s --check-prefixes=CHECK,LIST
// RUN: fp8-opt %s "--fp8-select-saved=policy=op-list ops=matmul+math.exp" | FileCheck %s --check-prefixes=CHECK,LIST2
// RUN: fp8-opt %s "--fp8-select-saved=policy=op-list ops=default-max" | FileCheck %s --check-prefixes=CHECK,LIST3
// RUN: fp8-opt %s --fp8-select-saved=policy=min-cut | FileCheck %s --check-prefixes=CHECK,CUT
// RUN: fp8-opt %s --fp8-select-saved | FileCheck %s --check-prefixes=CHECK,AUTO

// CHECK-LABEL: func.func @policies
// CHECK: %[[E:.*]] = math.exp
// CHECK: %[[M:.*]] = fp8.reduce max
// CHECK: %[[G:.*]] = fp8.matmul
// CHECK: %[[N:.*]] = arith.negf
// CHECK: %[[R:.*]] = fp8.opaque "random"
// ALL: residuals(%[[E]], %[[M]], %[[G]], %[[N]], %[[R]])
// NONE: residuals(%[[N]], %[[R]])
// LIST: residuals(%[[M]], %[[G]], %[[R]])
// LIST2: residuals(%[[E]], %[[G]], %[[R]])
// LIST3: residuals(%[[G]], %[[R]])

// The maximum and the matmul are banned from a second run; the rest costs nothing to make from what is kept.
// CUT: residuals(%[[M]], %[[G]], %[[R]])

// A pass over 4 KiB costs a launch, so the fastest plan computes nothing again that does not fuse.
// AUTO: residuals({{.*}}%[[R]])

// CHECK: } backward
// ALL-NOT: fp8.remat_barrier
// CHECK: fp8.opaque "backward"
func.func @policies(%x: tensor<32x32xf32>, %p: tensor<32x32xf32> {fp8.parameter}, %dy: tensor<32x32xf32> {fp8.tangent}) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %y, %dx = fp8.step -> (tensor<32x32xf32>, tensor<32x32xf32>) forward {
    %e = math.exp %x : tensor<32x32xf32>
    %m = fp8.reduce max %e [1] : tensor<32x32xf32> -> tensor<32x1xf32>
    %g = fp8.matmul %e, %p : tensor<32x32xf32>, tensor<32x32xf32> -> tensor<32x32xf32>
    %n = arith.negf %g {fp8.checkpoint} : tensor<32x32xf32>
    %r = fp8.opaque "random"(%n) {recompute = "never"} : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %o = arith.addf %n, %r : tensor<32x32xf32>
    fp8.yield %o residuals(%e, %m, %g, %n, %r) : tensor<32x32xf32> residuals(tensor<32x32xf32>, tensor<32x1xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>)
  } backward (%e_r: tensor<32x32xf32>, %m_r: tensor<32x1xf32>, %g_r: tensor<32x32xf32>, %n_r: tensor<32x32xf32>, %r_r: tensor<32x32xf32>) {
    %0 = fp8.opaque "backward"(%dy, %p, %e_r, %m_r, %g_r, %n_r, %r_r) : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x1xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    fp8.yield %0 : tensor<32x32xf32>
  }
  return %y, %dx : tensor<32x32xf32>, tensor<32x32xf32>
}
