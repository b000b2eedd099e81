// An opaque op whose result has the storage of its operand, from joint IR to offsets: one buffer, live as long as either
// name of it is read, and kept for backward as one.
//
// RUN: fp8-opt %s --compile=policy=save-all --compile-to=placed | FileCheck %s
// RUN: fp8-opt %s --compile=policy=save-all --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fp8-opt %s --compile=policy=recompute-all --compile-to=placed | FileCheck %s --check-prefix=AGAIN
// RUN: fp8-opt %s --compile=policy=min-cut --compile-to=placed -o %t.mlir
// RUN: fp8-opt %s --compile=policy=auto --compile-to=placed -o %t.mlir

// Both names cross to backward; the storage is freed once, after the last reader of either.
// CHECK: %[[W:.*]] = fp8.kernel loop
// CHECK: math.exp
// CHECK: %[[Y:.*]] = fp8.kernel opaque (%{{.*}} = %[[W]] : {{.*}}offsets = array<i64: -1>}
// CHECK: fp8.opaque "reshape"
// CHECK-NOT: fp8.free
// CHECK: fp8.yield %{{.*}} residuals(%[[W]], %[[Y]])
// CHECK: backward (%[[RW:.*]]: tensor<256xf32>, %[[RY:.*]]: tensor<16x16xf32>)
// CHECK: fp8.free %[[RW]] :
// CHECK-NOT: fp8.free
// CHECK: return

// PLAN: "saved_bytes": 1024,

// Both run again in backward, which reads the result only after the opaque op has run.
// AGAIN: } backward {
// AGAIN: math.exp
// AGAIN: fp8.opaque "reshape"
// AGAIN: math.tanh
func.func @step(%x: tensor<256xf32>, %dy: tensor<16x16xf32> {fp8.tangent})
    -> (tensor<16x16xbf16>, tensor<16x16xf32>, tensor<256xf32>) {
  %a, %b, %c = fp8.step -> (tensor<16x16xbf16>, tensor<16x16xf32>, tensor<256xf32>) forward {
    %w = math.exp %x : tensor<256xf32>
    %y = fp8.opaque "reshape"(%w) {aliases = [[0, 0]]} : (tensor<256xf32>) -> tensor<16x16xf32>
    %z = math.tanh %y : tensor<16x16xf32>
    %t = arith.truncf %z : tensor<16x16xf32> to tensor<16x16xbf16>
    fp8.yield %t residuals(%w, %y) : tensor<16x16xbf16> residuals(tensor<256xf32>, tensor<16x16xf32>)
  } backward (%w: tensor<256xf32>, %y: tensor<16x16xf32>) {
    %z = math.tanh %y : tensor<16x16xf32>
    %p = arith.mulf %z, %dy : tensor<16x16xf32>
    %q = fp8.opaque "last"(%w) : (tensor<256xf32>) -> tensor<256xf32>
    fp8.yield %p, %q : tensor<16x16xf32>, tensor<256xf32>
  }
  return %a, %b, %c : tensor<16x16xbf16>, tensor<16x16xf32>, tensor<256xf32>
}
