// RUN: split-file %s %t
// RUN: not fp8-interpret %t/large.mlir --reference=%t/out 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not fp8-interpret %t/type.mlir --reference=%t/out 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not fp8-interpret %t/type.mlir --reference=%t/out --steps=0 2>&1 | FileCheck %s --check-prefix=STEPS
// RUN: not fp8-interpret %t/type.mlir --reference=%t/out --function=g 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not ls %t/out

// LARGE: error: expected a program whose values take at most 34359738368 bytes in all to interpret, but 'large' takes more
//--- large.mlir
func.func @large(%x: tensor<1048576x1048576xf32>) -> tensor<1048576x1048576xf32> {
  return %x : tensor<1048576x1048576xf32>
}
// TYPE: error: expected tensors of bf16, f32, FP8 or integers to interpret, but got 'tensor<4xf64>'
// STEPS: error: expected at least one step and one microbatch, but got 0 and 1
// NAME: error: expected a function 'g' to run, but the module has none
//--- type.mlir
func.func @type(%x: tensor<4xf64>) -> tensor<4xf64> {
  return %x : tensor<4xf64>
}
