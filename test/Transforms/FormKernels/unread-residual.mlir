// A residual that backward does not read is dropped. (It once was an op in no kernel, which the yield still used.)

// RUN: fp8-opt %s --fp8-form-kernels | FileCheck %s
// RUN: fp8-opt %s --fp8-compile=policy=save-all | FileCheck %s

// CHECK-LABEL: func.func @unread
// CHECK: fp8.yield %{{[^ ]+}} residuals(%{{[^ ,]+}}) : tensor<8xf32> residuals(tensor<8xf32>)
// CHECK-NEXT: } backward (%{{[^ ,]+}}: tensor<8xf32>) {
func.func @unread(%x: tensor<8xf32>, %d: tensor<8xf32> {fp8.tangent}) -> (tensor<8xf32>, tensor<8xf32>) {
  %y, %dx = fp8.step -> (tensor<8xf32>, tensor<8xf32>) forward {
    %a = math.exp %x : tensor<8xf32>
    %b = math.tanh %a : tensor<8xf32>
    %c = arith.negf %b : tensor<8xf32>
    fp8.yield %c residuals(%a, %b) : tensor<8xf32> residuals(tensor<8xf32>, tensor<8xf32>)
  } backward (%ar: tensor<8xf32>, %br: tensor<8xf32>) {
    %g = arith.mulf %d, %br : tensor<8xf32>
    fp8.yield %g : tensor<8xf32>
  }
  return %y, %dx : tensor<8xf32>, tensor<8xf32>
}

// A view that nothing reads does not read.

// CHECK-LABEL: func.func @unread_view
// CHECK: fp8.yield %{{[^ ]+}} residuals(%{{[^ ,]+}}) :
func.func @unread_view(%x: tensor<8x4xf32>, %d: tensor<8x4xf32> {fp8.tangent}) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %y, %dx = fp8.step -> (tensor<8x4xf32>, tensor<8x4xf32>) forward {
    %a = math.exp %x : tensor<8x4xf32>
    %b = math.tanh %a : tensor<8x4xf32>
    %c = arith.negf %b : tensor<8x4xf32>
    fp8.yield %c residuals(%a, %b) : tensor<8x4xf32> residuals(tensor<8x4xf32>, tensor<8x4xf32>)
  } backward (%ar: tensor<8x4xf32>, %br: tensor<8x4xf32>) {
    %v = fp8.permute %ar [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
    %g = arith.mulf %d, %br : tensor<8x4xf32>
    fp8.yield %g : tensor<8x4xf32>
  }
  return %y, %dx : tensor<8x4xf32>, tensor<8x4xf32>
}
