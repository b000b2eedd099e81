// A placed step end to end: the command list of the manifest, a run with the arena watched (what is planned is what
// is measured), equality with the interpreter, and the same bytes from the same input.

// RUN: fp8-kernel-test %s -o %t.fp8
// RUN: fp8-kernel-test %s -o %t.again.fp8 --artifact-only
// RUN: cmp %t.fp8 %t.again.fp8
// RUN: fp8-run %t.fp8 | FileCheck %s --check-prefix=MEASURED
// RUN: %python %S/Inputs/section.py %t.fp8 manifest | FileCheck %s

// e, h, y and the workspace: 8,192 + 4,096 + 8,192 + 262,144.
// MEASURED: planned peak   282,624 B
// MEASURED: measured peak  282,624 B, equal
// MEASURED: arena          290,304 B
// MEASURED: saved          8,192 B

// CHECK: "arguments": [
// CHECK: "init_scale": 0.125,
// CHECK: "name": "w",
// CHECK: "role": "parameter",
// CHECK: "buffers": [
// CHECK: "kind": "residual",
// CHECK-NEXT: "name": "e",
// CHECK: "kind": "workspace",

// The transposed view of the weight is strides, and costs no copy.
// CHECK: "commands": [
// CHECK: "op": "gemm",
// CHECK: "name": "result#0",
func.func @step(%x: tensor<64x32xf32> loc("x"), %w: tensor<32x64xbf16> {fp8.parameter} loc("w"),
                %dy: tensor<32x64xf32> {fp8.tangent} loc("dy"))
    -> (tensor<64x64xbf16>, tensor<32x64xf32>, tensor<1x1xf32> {fp8.placement = "caller"})
    attributes {fp8.arena_bytes = 290304 : i64} {
  %y, %dx, %m = fp8.step -> (tensor<64x64xbf16>, tensor<32x64xf32>, tensor<1x1xf32>) forward {
    %e = fp8.kernel loop (%a = %x : tensor<64x32xf32>) -> (tensor<64x32xf32>) attributes {offsets = array<i64: 0>} {
      %0 = math.exp %a : tensor<64x32xf32> loc("e")
      fp8.yield %0 : tensor<64x32xf32>
    }
    %h = fp8.kernel loop (%a = %e : tensor<64x32xf32>) -> (tensor<64x32xbf16>) attributes {offsets = array<i64: 8192>} {
      %0 = arith.truncf %a : tensor<64x32xf32> to tensor<64x32xbf16>
      fp8.yield %0 : tensor<64x32xbf16>
    }
    %y = fp8.kernel matmul (%a = %h : tensor<64x32xbf16>, %b = %w : tensor<32x64xbf16>) -> (tensor<64x64xbf16>)
        attributes {offsets = array<i64: 12288>, workspace = 262144 : i64, workspace_offset = 20480 : i64} {
      %0 = fp8.matmul %a, %b : tensor<64x32xbf16>, tensor<32x64xbf16> -> tensor<64x64xbf16>
      fp8.yield %0 : tensor<64x64xbf16>
    }
    fp8.free %h : tensor<64x32xbf16>
    fp8.yield %y residuals(%e) : tensor<64x64xbf16> residuals(tensor<64x32xf32>)
  } backward (%r: tensor<64x32xf32>) {
    %m = fp8.kernel loop (%a = %r : tensor<64x32xf32>) -> (tensor<1x1xf32>) attributes {offsets = array<i64: -1>} {
      %0 = fp8.amax %a group = [0, 0] : tensor<64x32xf32> -> tensor<1x1xf32>
      fp8.yield %0 : tensor<1x1xf32>
    }
    %dx = fp8.kernel loop (%a = %dy : tensor<32x64xf32>, %b = %r : tensor<64x32xf32>) -> (tensor<32x64xf32>)
        attributes {offsets = array<i64: 20480>} {
      %t = fp8.permute %b [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>
      %0 = arith.mulf %a, %t : tensor<32x64xf32>
      fp8.yield %0 : tensor<32x64xf32>
    }
    fp8.free %r : tensor<64x32xf32>
    fp8.yield %dx, %m : tensor<32x64xf32>, tensor<1x1xf32>
  }
  return %y, %dx, %m : tensor<64x64xbf16>, tensor<32x64xf32>, tensor<1x1xf32>
}
