// More rows than the blocks of a launch: a block gathers the maxima of columns over several rows, in shared memory, and
// combines them with those of other blocks at the end.

// RUN: fp8-opt %s --fp8-lower-to-cuda=chip=sm_90a | FileCheck %s
// RUN: fp8-kernel-test --target=h200 %s
// RUN: fp8-kernel-test --target=h200 --geometry=row:1:2:0 %s
// RUN: fp8-kernel-test --target=h200 --geometry=row:1:1:3 %s

// A block has 16 and 32 bytes a thread, for pairs of bf16 and for f32, and as much for each of two rows on their way.
// CHECK: launches = [#fp8.launch<symbol = "{{.*}}", grid = [2376, 1, 1], block = [32, 1, 1], shared = 4608>
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

// Rows of several vectors a thread, the last of them not in all threads; a f8 operand is copied by 8 bytes, f32 in two
// pieces of 16. The cast waits for the maximum of its row.
func.func @wide(%x: tensor<1060x776xbf16>, %y: tensor<1060x776xf32>, %z: tensor<1060x776xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %s: tensor<1060x1xf32>) -> (tensor<1x776xf32>, tensor<1060x776xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
  %0:2 = fp8.kernel loop (%a = %x : tensor<1060x776xbf16>, %b = %y : tensor<1060x776xf32>, %c = %z : tensor<1060x776xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %d = %s : tensor<1060x1xf32>) -> (tensor<1x776xf32>, tensor<1060x776xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
    %0 = fp8.dequantize %c, %d : tensor<1060x776xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1060x1xf32> -> tensor<1060x776xbf16>
    %1 = arith.addf %a, %0 : tensor<1060x776xbf16>
    %2 = arith.truncf %b : tensor<1060x776xf32> to tensor<1060x776xbf16>
    %3 = arith.mulf %1, %2 : tensor<1060x776xbf16>
    %4 = fp8.amax %3 group = [0, 1] : tensor<1060x776xbf16> -> tensor<1x776xf32>
    %5 = fp8.amax %3 group = [1, 0] : tensor<1060x776xbf16> -> tensor<1060x1xf32>
    %6 = fp8.scale %5 format = f8E4M3FN : tensor<1060x1xf32>
    %7 = fp8.cast %3, %6 : tensor<1060x776xbf16>, tensor<1060x1xf32> -> tensor<1060x776xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    fp8.yield %4, %7 : tensor<1x776xf32>, tensor<1060x776xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  }
  return %0#0, %0#1 : tensor<1x776xf32>, tensor<1060x776xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
}
