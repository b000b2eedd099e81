// More rows than the blocks of a launch: a block gathers the maxima of columns over several rows, in shared memory, and
// combines them with those of other blocks at the end.

// RUN: fp8-opt %s --fp8-lower-to-cuda=chip=sm_90a | FileCheck %s
// RUN: fp8-kernel-test --target=h200 %s

// A block has 16 and 32 bytes a thread, for pairs of bf16 and for f32.
// CHECK: launches = [#fp8.launch<symbol = "{{.*}}", grid = [3168, 1, 1], block = [32, 1, 1], shared = 1536>
// CHECK: llvm.mlir.global external @{{.*}}_dynamic() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
func.func @maxima(%x: tensor<6500x8xbf16>, %y: tensor<6500x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<6500x1xf32>) {
  %0:3 = fp8.kernel loop (%a = %x : tensor<6500x8xbf16>, %b = %y : tensor<6500x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<6500x1xf32>) {
    %0 = fp8.amax %a group = [0, 1] : tensor<6500x8xbf16> -> tensor<1x8xf32>
    %1 = fp8.amax %b group = [0, 1] : tensor<6500x8xf32> -> tensor<1x8xf32>
    %2 = fp8.amax %a group = [1, 0] : tensor<6500x8xbf16> -> tensor<6500x1xf32>
    fp8.yield %0, %1, %2 : tensor<1x8xf32>, tensor<1x8xf32>, tensor<6500x1xf32>
  }
  return %0#0, %0#1, %0#2 : tensor<1x8xf32>, tensor<1x8xf32>, tensor<6500x1xf32>
}
