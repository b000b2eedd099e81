// RUN: fp8-opt %s '--fp8-select-saved=policy=auto budget=25390 fuse=none' | FileCheck %s
// RUN: fp8-opt %s --compile=budget=25390,fuse=none --emit=plan | FileCheck %s --check-prefix=PLAN

// The smallest plan of a small program, found by a search over states: one second run of "f0" serves "b9" and the second run
// of "f1", which comes last, for "b6". In the order of the program "b6" would come first, and no drop says that what it reads
// is computed again for "b9" too, but not for "b7".

// CHECK-LABEL: func.func @step
// CHECK: } backward
// CHECK: opaque "b5"
// CHECK: opaque "b7"
// CHECK: opaque "b8"
// CHECK: %[[F0:.*]] = fp8.opaque "f0"
// CHECK: opaque "b9"({{.*}}%[[F0]])
// CHECK: opaque "b10"
// CHECK: opaque "f1"(%[[F0]])
// CHECK: opaque "b6"
// CHECK-NOT: fp8.opaque
// CHECK: fp8.yield

// PLAN-DAG: "peak_bytes": 25344
func.func @step(%x: tensor<64xf32>) -> (tensor<1344xf32>, tensor<896xf32>, tensor<128xf32>) {
  %r:3 = fp8.step -> (tensor<1344xf32>, tensor<896xf32>, tensor<128xf32>) forward {
  %v0 = fp8.opaque "f0"(%x) {flops = 20000 : i64, bytes = 1 : i64, scratch_bytes = 3712 : i64} : (tensor<64xf32>) -> tensor<128xf32>
  %v1 = fp8.opaque "f1"(%v0) {flops = 200000 : i64, bytes = 1 : i64} : (tensor<128xf32>) -> tensor<1216xf32>
  %v2 = fp8.opaque "f2"(%v1) {flops = 140000 : i64, bytes = 1 : i64} : (tensor<1216xf32>) -> tensor<1280xf32>
  %v3 = fp8.opaque "f3"(%v2, %v1, %v0) {flops = 180000 : i64, bytes = 1 : i64} : (tensor<1280xf32>, tensor<1216xf32>, tensor<128xf32>) -> tensor<1024xf32>
  %v4 = fp8.opaque "f4"(%v3, %v2) {flops = 300000 : i64, bytes = 1 : i64} : (tensor<1024xf32>, tensor<1280xf32>) -> tensor<1344xf32>
  fp8.yield %v4 residuals(%v0, %v1, %v2, %v3, %v4) : tensor<1344xf32> residuals(tensor<128xf32>, tensor<1216xf32>, tensor<1280xf32>, tensor<1024xf32>, tensor<1344xf32>)
  } backward (%v0: tensor<128xf32>, %v1: tensor<1216xf32>, %v2: tensor<1280xf32>, %v3: tensor<1024xf32>, %v4: tensor<1344xf32>) {
  %v5 = fp8.opaque "b5"(%v3, %v4) {flops = 240000 : i64, bytes = 1 : i64} : (tensor<1024xf32>, tensor<1344xf32>) -> tensor<1344xf32>
  %v6 = fp8.opaque "b6"(%v5, %v1) {flops = 200000 : i64, bytes = 1 : i64} : (tensor<1344xf32>, tensor<1216xf32>) -> tensor<896xf32>
  %v7 = fp8.opaque "b7"(%v5, %v2, %v1, %v0) {flops = 140000 : i64, bytes = 1 : i64} : (tensor<1344xf32>, tensor<1280xf32>, tensor<1216xf32>, tensor<128xf32>) -> tensor<1024xf32>
  %v8 = fp8.opaque "b8"(%v7, %v5, %v2) {flops = 320000 : i64, bytes = 1 : i64} : (tensor<1024xf32>, tensor<1344xf32>, tensor<1280xf32>) -> tensor<1280xf32>
  %v9 = fp8.opaque "b9"(%v8, %v7, %v0) {flops = 20000 : i64, bytes = 1 : i64} : (tensor<1280xf32>, tensor<1024xf32>, tensor<128xf32>) -> tensor<1216xf32>
  %v10 = fp8.opaque "b10"(%v9, %v7) {flops = 180000 : i64, bytes = 1 : i64, scratch_bytes = 3968 : i64} : (tensor<1216xf32>, tensor<1024xf32>) -> tensor<128xf32>
  fp8.yield %v6, %v10 : tensor<896xf32>, tensor<128xf32>
  }
  return %r#0, %r#1, %r#2 : tensor<1344xf32>, tensor<896xf32>, tensor<128xf32>
}
