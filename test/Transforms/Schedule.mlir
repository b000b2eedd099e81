// The order with the lowest peak of those that are tried; the program's order where no other is lower.
//
// RUN: fp8-opt %s -split-input-file --fp8-schedule | FileCheck %s
// RUN: fp8-opt %s -split-input-file --fp8-schedule --fp8-insert-frees --fp8-check-plan -o /dev/null

// In program order %a and %b, 4096 bytes each, are live together: 8192 and a sum. Reduced one after the other, one of
// them is.
// CHECK-LABEL: func.func @reduce_first(
// CHECK: math.exp
// CHECK: fp8.reduce
// CHECK: math.tanh
// CHECK: fp8.reduce
func.func @reduce_first(%x: tensor<1024xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
  %a = fp8.kernel loop (%i = %x : tensor<1024xf32>) -> (tensor<1024xf32>) {
    %0 = math.exp %i : tensor<1024xf32>
    fp8.yield %0 : tensor<1024xf32>
  }
  %b = fp8.kernel loop (%i = %x : tensor<1024xf32>) -> (tensor<1024xf32>) {
    %0 = math.tanh %i : tensor<1024xf32>
    fp8.yield %0 : tensor<1024xf32>
  }
  %c = fp8.kernel loop (%i = %a : tensor<1024xf32>) -> (tensor<1xf32>) {
    %0 = fp8.reduce sum %i [0] : tensor<1024xf32> -> tensor<1xf32>
    fp8.yield %0 : tensor<1xf32>
  }
  %d = fp8.kernel loop (%i = %b : tensor<1024xf32>) -> (tensor<1xf32>) {
    %0 = fp8.reduce sum %i [0] : tensor<1024xf32> -> tensor<1xf32>
    fp8.yield %0 : tensor<1xf32>
  }
  return %c, %d : tensor<1xf32>, tensor<1xf32>
}

// -----

// Nothing is gained by another order: the program's stays.
// CHECK-LABEL: func.func @same(
// CHECK: math.exp
// CHECK: math.tanh
// CHECK: math.log
func.func @same(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %a = fp8.kernel loop (%i = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %0 = math.exp %i : tensor<8xf32>
    fp8.yield %0 : tensor<8xf32>
  }
  %b = fp8.kernel loop (%i = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %0 = math.tanh %i : tensor<8xf32>
    fp8.yield %0 : tensor<8xf32>
  }
  %c = fp8.kernel loop (%i = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %0 = math.log %i : tensor<8xf32>
    fp8.yield %0 : tensor<8xf32>
  }
  return %a, %b, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Collectives keep their order on every rank, whatever it costs.
// CHECK-LABEL: func.func @collectives(
// CHECK: fp8.all_gather %{{.*}} : tensor<1024xf32>
// CHECK: fp8.all_gather %{{.*}} : tensor<512xf32>
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @collectives(%x: tensor<1024xf32>, %y: tensor<512xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
  %a = fp8.kernel collective (%i = %x : tensor<1024xf32>) -> (tensor<2048xf32>) {
    %0 = fp8.all_gather %i axis = "tp" dim = 0 : tensor<1024xf32> -> tensor<2048xf32>
    fp8.yield %0 : tensor<2048xf32>
  }
  %b = fp8.kernel collective (%i = %y : tensor<512xf32>) -> (tensor<1024xf32>) {
    %0 = fp8.all_gather %i axis = "tp" dim = 0 : tensor<512xf32> -> tensor<1024xf32>
    fp8.yield %0 : tensor<1024xf32>
  }
  %c = fp8.kernel loop (%i = %b : tensor<1024xf32>) -> (tensor<1xf32>) {
    %0 = fp8.reduce sum %i [0] : tensor<1024xf32> -> tensor<1xf32>
    fp8.yield %0 : tensor<1xf32>
  }
  %d = fp8.kernel loop (%i = %a : tensor<2048xf32>) -> (tensor<1xf32>) {
    %0 = fp8.reduce sum %i [0] : tensor<2048xf32> -> tensor<1xf32>
    fp8.yield %0 : tensor<1xf32>
  }
  return %c, %d : tensor<1xf32>, tensor<1xf32>
}
}
