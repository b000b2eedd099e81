// What `fp8.policy` says to offload is copied out as soon as it is made and back in time for its first reader. The device
// has its bytes until the copy out is done and forward has read it, and again from the start of the copy back.
//
// RUN: fp8-opt %s --compile=target=h200,policy=min-cut --compile-to=placed | FileCheck %s
// RUN: fp8-opt %s --compile=target=h200,policy=min-cut --compile-to=planned | fp8-opt --compile --compile-to=placed | FileCheck %s
// RUN: fp8-opt %s --compile=target=cpu,policy=min-cut --compile-to=placed | FileCheck %s --check-prefix=CPU

// CHECK-LABEL: func.func @step
// CHECK-SAME: fp8.host_bytes = 524288 : i64
// CHECK: forward {
// CHECK: %[[A:.*]] = fp8.kernel loop
// CHECK-NEXT: math.tanh
// CHECK: %[[A_HOST:.*]]:2 = fp8.kernel copy (%[[X:.*]] = %[[A]] : tensor<256x256xf32>) -> (!fp8.host<tensor<256x256xf32>>, !fp8.token) attributes {offsets = array<i64: 0, -1>}
// CHECK-NEXT: fp8.offload_start %[[X]]
// CHECK: math.tanh
// CHECK: %[[B_HOST:.*]]:2 = fp8.kernel copy {{.*}} attributes {offsets = array<i64: 262144, -1>}
// The copies take longer than what is left of forward, which waits for them.
// CHECK: fp8.matmul
// CHECK: %[[A_THERE:.*]] = fp8.wait %[[A_HOST]]#0, %[[A_HOST]]#1 : !fp8.host<tensor<256x256xf32>>
// CHECK-NEXT: fp8.free %[[A]]
// CHECK: %[[B_THERE:.*]] = fp8.wait %[[B_HOST]]#0, %[[B_HOST]]#1
// CHECK: residuals(%[[A_THERE]], %[[B_THERE]]) : tensor<256x256xf32> residuals(!fp8.host<tensor<256x256xf32>>, !fp8.host<tensor<256x256xf32>>)
// CHECK: } backward (%[[A_KEPT:.*]]: !fp8.host<tensor<256x256xf32>>, %[[B_KEPT:.*]]: !fp8.host<tensor<256x256xf32>>) {
// What is read first comes back first.
// CHECK: %[[B_BACK:.*]]:2 = fp8.kernel copy (%{{.*}} = %[[B_KEPT]] :
// CHECK: %[[A_BACK:.*]]:2 = fp8.kernel copy (%{{.*}} = %[[A_KEPT]] :
// CHECK: %[[B:.*]] = fp8.wait %[[B_BACK]]#0, %[[B_BACK]]#1 : tensor<256x256xf32>
// CHECK: fp8.kernel {{.*}}%[[B]]
// CHECK: %[[A_AGAIN:.*]] = fp8.wait %[[A_BACK]]#0, %[[A_BACK]]#1 : tensor<256x256xf32>
// CHECK: fp8.kernel {{.*}}%[[A_AGAIN]]

// Where copies keep the kernels from running, there is nothing to hide behind: each stands where it is needed.
// CPU: math.tanh
// CPU: %[[OUT:.*]]:2 = fp8.kernel copy
// CPU: fp8.wait %[[OUT]]#0
// CPU: fp8.matmul
// CPU: } backward
// CPU: fp8.matmul
// CPU: %[[BACK:.*]]:2 = fp8.kernel copy
// CPU: fp8.prefetch_start
// CPU: fp8.wait %[[BACK]]#0
func.func @step(%x: tensor<256x256xf32>, %w1: tensor<256x256xf32> {fp8.parameter},
    %w2: tensor<256x256xf32> {fp8.parameter}, %w3: tensor<256x256xf32> {fp8.parameter}) -> tensor<256x256xf32> {
  %m = fp8.matmul %x, %w1 : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32>
  %a = math.tanh %m {fp8.policy = "offload"} : tensor<256x256xf32>
  %n = fp8.matmul %a, %w2 : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32>
  %b = math.tanh %n {fp8.policy = "offload"} : tensor<256x256xf32>
  %o = fp8.matmul %b, %w3 : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32>
  return %o : tensor<256x256xf32>
}
