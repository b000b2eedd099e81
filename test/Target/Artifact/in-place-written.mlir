// What is written in place in planned IR is run as it stands: two results over two operands crosswise, both computed from
// both, rows longer than a vector; and a later pass over rows that reads a reduction of another operand. Equal to the
// interpreter on random, special and arbitrary bits.

// RUN: fp8-opt %s --fp8-place -o %t.mlir
// RUN: fp8-kernel-test %t.mlir -o %t.fp8
// RUN: fp8-run %t.fp8 --memory=planned --microbatches=2 | FileCheck %s
// RUN: fp8-run %t.fp8 --memory=dynamic --microbatches=2 | FileCheck %s
// CHECK: measured peak {{.*}}, equal

func.func @crosswise(%x: tensor<33x37xf32> {fp8.donated}, %y: tensor<33x37xbf16>)
    -> (tensor<33x37xf32>, tensor<33x37xf32>, tensor<33x37xf32>) {
  %a:2 = fp8.kernel loop (%i = %y : tensor<33x37xbf16>) -> (tensor<33x37xf32>, tensor<33x37xf32>) {
    %0 = arith.extf %i : tensor<33x37xbf16> to tensor<33x37xf32>
    %1 = math.exp %0 : tensor<33x37xf32>
    %2 = math.tanh %0 : tensor<33x37xf32>
    fp8.yield %1, %2 : tensor<33x37xf32>, tensor<33x37xf32>
  }
  %b:2 = fp8.kernel loop (%i = %a#0 : tensor<33x37xf32>, %j = %a#1 : tensor<33x37xf32>)
      -> (tensor<33x37xf32>, tensor<33x37xf32>) attributes {in_place = array<i64: 1, 0>} {
    %0 = arith.addf %i, %j : tensor<33x37xf32>
    %1 = arith.subf %i, %j : tensor<33x37xf32>
    fp8.yield %0, %1 : tensor<33x37xf32>, tensor<33x37xf32>
  }
  %c = fp8.kernel loop (%i = %x : tensor<33x37xf32>, %j = %b#0 : tensor<33x37xf32>) -> (tensor<33x37xf32>)
      attributes {in_place = array<i64: 0>} {
    %s = fp8.reduce sum %j [1] : tensor<33x37xf32> -> tensor<33x1xf32>
    %0 = fp8.broadcast %s : tensor<33x1xf32> -> tensor<33x37xf32>
    %1 = arith.mulf %i, %0 : tensor<33x37xf32>
    %2 = arith.addf %1, %i : tensor<33x37xf32>
    fp8.yield %2 : tensor<33x37xf32>
  }
  return %b#0, %b#1, %c : tensor<33x37xf32>, tensor<33x37xf32>, tensor<33x37xf32>
}
