// A kernel has one operand a buffer, though several clones in it read that buffer through barriers of their own.
//
// RUN: fp8-opt %s --fp8-form-kernels | FileCheck %s

// CHECK: } backward (%[[R:.*]]: tensor<64x32xf32>) {
// CHECK: %[[B:.*]] = fp8.remat_barrier %[[R]]
// CHECK-NOT: fp8.remat_barrier
// CHECK: fp8.kernel loop (%[[C:.*]] = %[[B]] : tensor<64x32xf32>, %[[A:.*]] = %{{.*}} : tensor<64x32xf32>) -> (tensor<64x32xf32>)
// CHECK-NEXT: %[[E:.*]] = math.exp %[[C]]
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[A]], %[[E]]
// CHECK-NEXT: %[[T:.*]] = math.tanh %[[C]]
// CHECK-NEXT: arith.mulf %[[P]], %[[T]]
func.func @f(%x: tensor<64x32xf32>, %dy: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64x32xf32>) {
  %y, %dx = fp8.step -> (tensor<64x32xf32>, tensor<64x32xf32>) forward {
    %0 = math.log %x : tensor<64x32xf32>
    %1 = arith.negf %0 : tensor<64x32xf32>
    fp8.yield %1 residuals(%0) : tensor<64x32xf32> residuals(tensor<64x32xf32>)
  } backward (%r: tensor<64x32xf32>) {
    %b0 = fp8.remat_barrier %r id = 0 : tensor<64x32xf32>
    %e = math.exp %b0 : tensor<64x32xf32>
    %p = arith.mulf %dy, %e : tensor<64x32xf32>
    %b1 = fp8.remat_barrier %r id = 1 : tensor<64x32xf32>
    %t = math.tanh %b1 : tensor<64x32xf32>
    %q = arith.mulf %p, %t : tensor<64x32xf32>
    fp8.yield %q : tensor<64x32xf32>
  }
  return %y, %dx : tensor<64x32xf32>, tensor<64x32xf32>
}
