// No function of a split step hands another what waits in host memory.
//
// RUN: not fp8-opt %s --compile=policy=min-cut,split=backward 2>&1 | FileCheck %s
// RUN: not fp8-opt %s --compile=policy=min-cut,split=wgrad 2>&1 | FileCheck %s

// CHECK: Offload-split-invalid.mlir:[[@LINE+4]]:{{.*}}: error: 'math.tanh' op is to wait in host memory, which no function of a split step hands to another; compile with split=none, or without 'host-memory' and 'fp8.policy' "offload"
// CHECK-NOT: error
func.func @step(%x: tensor<64x64xf32>, %w1: tensor<64x64xf32> {fp8.parameter}, %w2: tensor<64x64xf32> {fp8.parameter}) -> tensor<64x64xf32> {
  %m = fp8.matmul %x, %w1 : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %a = math.tanh %m {fp8.policy = "offload"} : tensor<64x64xf32>
  %o = fp8.matmul %a, %w2 : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  return %o : tensor<64x64xf32>
}
