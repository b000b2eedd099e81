// Reciprocals of eight elements share one branch for what the Newton step does not give: zeros, infinities, NaN, and
// what is below 2^-126 or not below 2^126, all of which the data of fp8-kernel-test hold.

// RUN: fp8-kernel-test --target=h200 %s
// RUN: fp8-opt %s --fp8-lower-to-cuda=chip=sm_90a | FileCheck %s

// CHECK: llvm.nvvm.rcp.approx.ftz.f
// CHECK: rcp.rn.f32
func.func @reciprocal(%x: tensor<48x136xf32>) -> tensor<48x136xf32> {
  %0 = fp8.kernel loop (%a = %x : tensor<48x136xf32>) -> (tensor<48x136xf32>) {
    %one = arith.constant dense<1.0> : tensor<48x136xf32>
    %y = arith.divf %one, %a : tensor<48x136xf32>
    fp8.yield %y : tensor<48x136xf32>
  }
  return %0 : tensor<48x136xf32>
}
