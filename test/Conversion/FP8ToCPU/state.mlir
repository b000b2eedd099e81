// State kernels update their arguments in place; the tool compares arguments too, on special values as well.

// RUN: fp8-kernel-test %s
// RUN: fp8-kernel-test %s -o %t.fp8 --artifact-only
// RUN: %python %S/../../Target/Artifact/Inputs/section.py %t.fp8 manifest | FileCheck %s

// The history of a push is written, the amax is not.
// CHECK: "kernel": "k0_push_amax"
// CHECK: "writes": [
// CHECK-NEXT: 1
// CHECK-NEXT: ]
func.func @push(%m: tensor<1x1xf32>, %h: tensor<16xf32> {fp8.state}) {
  fp8.kernel state (%a = %m : tensor<1x1xf32>, %b = %h : tensor<16xf32>) {
    fp8.push_amax %a, %b : tensor<1x1xf32>, tensor<16xf32>
    fp8.yield
  }
  return
}

// CHECK: "kernel": "k1_update_scale"
// CHECK: "writes": [
// CHECK-NEXT: 0,
// CHECK-NEXT: 1
// CHECK-NEXT: ]
func.func @end_of_step(%h: tensor<16xf32> {fp8.state}, %s: tensor<1x1xf32> {fp8.state}, %h1: tensor<1xf32> {fp8.state},
                       %s1: tensor<1x1xf32> {fp8.state}) {
  fp8.kernel state (%a = %h : tensor<16xf32>, %b = %s : tensor<1x1xf32>) {
    fp8.update_scale %a, %b format = f8E4M3FN : tensor<16xf32>, tensor<1x1xf32>
    fp8.yield
  }
  fp8.kernel state (%a = %h1 : tensor<1xf32>, %b = %s1 : tensor<1x1xf32>) {
    fp8.update_scale %a, %b format = f8E5M2 {pow2 = #fp8.pow2<floor>, margin = 2 : i64} : tensor<1xf32>, tensor<1x1xf32>
    fp8.yield
  }
  return
}
