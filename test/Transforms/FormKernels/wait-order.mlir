// What reads a gathered value waits for the wait, not only for its start; and where a fusion would make kernels wait for
// each other through the order of collectives, each op is a kernel of its own.

// RUN: fp8-opt %s -split-input-file --fp8-form-kernels --fp8-schedule --fp8-insert-frees --fp8-check-plan | FileCheck %s

// %p would lie in one kernel with %k, which reads the first gather, while the second gather, which starts before the wait
// for the first one, reads %p.
// CHECK-LABEL: func.func @across
// CHECK: fp8.all_gather_start
// CHECK: fp8.all_gather_start
// CHECK: fp8.wait
// CHECK: fp8.kernel loop
// CHECK: fp8.wait
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @across(%x: tensor<8x8xf32>, %z: tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<32x8xf32>) {
  %g, %t = fp8.all_gather_start %x axis = "tp" dim = 0 : tensor<8x8xf32> -> tensor<16x8xf32>, !fp8.token
  %p = math.exp %z : tensor<16x8xf32>
  %h, %u = fp8.all_gather_start %p axis = "tp" dim = 0 : tensor<16x8xf32> -> tensor<32x8xf32>, !fp8.token
  %w = fp8.wait %g, %t : tensor<16x8xf32>
  %k = arith.addf %p, %w : tensor<16x8xf32>
  %v = fp8.wait %h, %u : tensor<32x8xf32>
  return %k, %v : tensor<16x8xf32>, tensor<32x8xf32>
}
}
