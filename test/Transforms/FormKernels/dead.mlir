// What nothing reads is in no kernel: ops whose results only dead ops read, a residual that only a dead op reads and what
// made it, and ops of a plain function. An opaque op stays for its bytes.

// RUN: fp8-opt %s -split-input-file --fp8-form-kernels | FileCheck %s
// RUN: fp8-opt %s -split-input-file --fp8-compile=policy=auto | FileCheck %s

// CHECK-LABEL: func.func @line
// CHECK: fp8.kernel loop
// CHECK-NEXT: math.exp
// CHECK-NEXT: fp8.yield
// CHECK: fp8.opaque "kept"
// CHECK-NOT: math.
// CHECK: return
func.func @line(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = math.exp %x : tensor<8xf32>
  %b = math.tanh %a : tensor<8xf32>
  %c = math.absf %b : tensor<8xf32>
  %d = fp8.opaque "kept"(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @step
// CHECK-NOT: math.tanh
// CHECK-NOT: residuals
// CHECK: } backward {
// CHECK-NOT: math.log
func.func @step(%x: tensor<8xf32>, %d: tensor<8xf32> {fp8.tangent}) -> (tensor<8xf32>, tensor<8xf32>) {
  %y, %dx = fp8.step -> (tensor<8xf32>, tensor<8xf32>) forward {
    %a = math.exp %x : tensor<8xf32>
    %b = math.tanh %x : tensor<8xf32>
    fp8.yield %a residuals(%b) : tensor<8xf32> residuals(tensor<8xf32>)
  } backward (%br: tensor<8xf32>) {
    %g = arith.negf %d : tensor<8xf32>
    %l = math.log %br : tensor<8xf32>
    fp8.yield %g : tensor<8xf32>
  }
  return %y, %dx : tensor<8xf32>, tensor<8xf32>
}
