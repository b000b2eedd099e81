// Results over operands, run: a gradient accumulated in a donated f32 argument costs no bytes, and kernels with
// reductions in between hand one buffer on. Outputs equal the interpreter's bit for bit and the measured peak is the
// planned one in both memory modes, with other inputs in every microbatch.

// RUN: fp8-run %s --memory=planned --check --steps=2 --microbatches=2 | FileCheck %s --check-prefix=MEASURED
// RUN: fp8-run %s --memory=dynamic --check --steps=2 --microbatches=2 | FileCheck %s --check-prefix=MEASURED
// RUN: fp8-opt %s --compile --emit=report | FileCheck %s --check-prefix=REPORT
// RUN: fp8-opt %s --compile --emit=artifact -o %t.fp8
// RUN: %python %S/Inputs/section.py %t.fp8 manifest | FileCheck %s

// MEASURED: measured peak {{.*}}, equal
// MEASURED: check {{.*}} outputs, equal to the reference bit for bit

// REPORT: Written in place
// REPORT-NEXT: 12,288 B  dw over argument main_grad
// REPORT-NEXT: 2,048 B  y over b
// REPORT-NEXT: 2,048 B  w over y

// dw is the argument 3, and no buffer.
// CHECK: "buffers": [
// CHECK-NOT: "name": "dw"
// CHECK-NOT: "name": "y"
// CHECK-NOT: "name": "w"
// CHECK: "commands": [
// CHECK: "results": [
// CHECK: "name": "dw",
// CHECK: "ref": {
// CHECK-NEXT: "arg": 3
func.func @step(%x: tensor<40x48xbf16> loc("x"), %dy: tensor<40x64xbf16> {fp8.tangent} loc("dy"),
                %s: tensor<32x16xf32> loc("s"), %main_grad: tensor<64x48xf32> {fp8.donated} loc("main_grad"))
    -> (tensor<64x48xf32>, tensor<1x16xf32>, tensor<32x16xf32>) {
  %t = fp8.permute %dy [1, 0] : tensor<40x64xbf16> -> tensor<64x40xbf16>
  %dw = fp8.matmul %t, %x acc(%main_grad : tensor<64x48xf32>)
    : tensor<64x40xbf16>, tensor<40x48xbf16> -> tensor<64x48xf32> loc("dw")
  // A sum over rows is known only after a loop, so these are three kernels. The second one computes from %u both what the
  // sum reads and what is read elementwise, so only %b may be written over.
  %a = math.exp %s : tensor<32x16xf32> loc("a")
  %b = math.tanh %s : tensor<32x16xf32> loc("b")
  %m = fp8.reduce sum %a [0] : tensor<32x16xf32> -> tensor<1x16xf32> loc("m")
  %mb = fp8.broadcast %m : tensor<1x16xf32> -> tensor<32x16xf32>
  %u0 = arith.addf %a, %b : tensor<32x16xf32>
  %u = arith.addf %u0, %mb : tensor<32x16xf32>
  %v = arith.mulf %u, %b : tensor<32x16xf32>
  %n = fp8.reduce sum %u [0] : tensor<32x16xf32> -> tensor<1x16xf32>
  %nb = fp8.broadcast %n : tensor<1x16xf32> -> tensor<32x16xf32>
  %y = arith.subf %u, %v : tensor<32x16xf32> loc("y")
  %w = arith.mulf %y, %nb : tensor<32x16xf32> loc("w")
  return %dw, %m, %w : tensor<64x48xf32>, tensor<1x16xf32>, tensor<32x16xf32>
}
