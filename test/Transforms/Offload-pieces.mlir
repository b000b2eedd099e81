// What is made in pieces of rows goes to host memory when the last piece is there, under the name that this gives it.
//
// RUN: fp8-opt %s --compile=target=h200,policy=min-cut,pieces=2 --compile-to=placed | FileCheck %s
// RUN: fp8-opt %s --fp8-build-backward --fp8-select-saved="policy=min-cut pieces=2" --fp8-split-rows | FileCheck %s --check-prefix=MARK

// The mark goes to the op that writes the last piece.
// MARK: math.tanh %{{[0-9]+}} : tensor<256x64xf32>
// MARK: fp8.update_slice {{.*}}[0, 0] : tensor<256x64xf32> -> tensor<512x64xf32>
// MARK: math.tanh %{{[0-9]+}} : tensor<256x64xf32>
// MARK: fp8.update_slice {{.*}}[256, 0] into({{.*}}) {fp8.offload = array<i64: 0>}

// CHECK: forward {
// CHECK: %[[FIRST:.*]] = fp8.kernel loop
// CHECK: fp8.update_slice %{{.*}} [0, 0] : tensor<256x64xf32> -> tensor<512x64xf32>
// CHECK-NOT: fp8.offload_start
// CHECK: %[[WHOLE:.*]] = fp8.kernel loop {{.*}}%[[FIRST]] : tensor<512x64xf32>)
// CHECK: fp8.update_slice %{{.*}} [256, 0] into
// CHECK: %[[OUT:.*]]:2 = fp8.kernel copy (%{{.*}} = %[[WHOLE]] : tensor<512x64xf32>) -> (!fp8.host<tensor<512x64xf32>>, !fp8.token)
// CHECK: fp8.matmul
// CHECK: %[[THERE:.*]] = fp8.wait %[[OUT]]#0, %[[OUT]]#1
// CHECK-NEXT: fp8.free %[[FIRST]] : tensor<512x64xf32>
// CHECK: residuals(%[[THERE]], {{.*}}) : tensor<512x64xf32> residuals(!fp8.host<tensor<512x64xf32>>, tensor<512x64xf32>)
// CHECK: } backward (%[[KEPT:.*]]: !fp8.host<tensor<512x64xf32>>, {{.*}}) {
// CHECK: fp8.kernel copy (%{{.*}} = %[[KEPT]] :
func.func @step(%x: tensor<512x64xf32>, %w1: tensor<64x64xf32> {fp8.parameter}, %w2: tensor<64x64xf32> {fp8.parameter},
    %w3: tensor<64x64xf32> {fp8.parameter}) -> tensor<512x64xf32> {
  %m = fp8.matmul %x, %w1 : tensor<512x64xf32>, tensor<64x64xf32> -> tensor<512x64xf32>
  %n = fp8.matmul %x, %w2 : tensor<512x64xf32>, tensor<64x64xf32> -> tensor<512x64xf32>
  %s = arith.addf %m, %n : tensor<512x64xf32>
  %a = math.tanh %s {fp8.policy = "offload"} : tensor<512x64xf32>
  %o = fp8.matmul %a, %w3 : tensor<512x64xf32>, tensor<64x64xf32> -> tensor<512x64xf32>
  %p = math.tanh %o : tensor<512x64xf32>
  return %p : tensor<512x64xf32>
}
