// RUN: fp8-opt %s '--fp8-select-saved=policy=min-cut fuse=none' | FileCheck %s
// RUN: fp8-opt %s '--fp8-select-saved=policy=auto' | FileCheck %s

// A result that names the storage of an argument is kept and returned: nothing computes the argument, and the sentence says
// nothing of that.
// CHECK: fp8.decisions
  "func.func"() <{arg_attrs = [{}, {fp8.tangent}], function_type = (tensor<256xf32>, tensor<16x16xf32>) -> (tensor<16x16xbf16>, tensor<16x16xf32>, tensor<256xf32>), sym_name = "step"}> ({
  ^bb0(%arg0: tensor<256xf32>, %arg1: tensor<16x16xf32>):
    %0:3 = "fp8.step"() ({
      %4 = "math.exp"(%arg0) <{fastmath = #arith.fastmath<none>}> : (tensor<256xf32>) -> tensor<256xf32>
      %5 = "fp8.opaque"(%arg0) <{aliases = [[0, 0]], bytes = 0 : i64, flops = 0 : i64, name = "reshape", recompute = "yes", scratch_bytes = 0 : i64}> : (tensor<256xf32>) -> tensor<16x16xf32>
      %6 = "math.tanh"(%5) <{fastmath = #arith.fastmath<none>}> : (tensor<16x16xf32>) -> tensor<16x16xf32>
      %7 = "arith.truncf"(%6) : (tensor<16x16xf32>) -> tensor<16x16xbf16>
      "fp8.yield"(%7, %4, %5) <{operandSegmentSizes = array<i32: 1, 2>}> : (tensor<16x16xbf16>, tensor<256xf32>, tensor<16x16xf32>) -> ()
    }, {
    ^bb0(%arg2: tensor<256xf32>, %arg3: tensor<16x16xf32>):
      %1 = "math.tanh"(%arg3) <{fastmath = #arith.fastmath<none>}> : (tensor<16x16xf32>) -> tensor<16x16xf32>
      %2 = "arith.mulf"(%1, %arg1) <{fastmath = #arith.fastmath<none>}> : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %3 = "fp8.opaque"(%arg2) <{bytes = 0 : i64, flops = 0 : i64, name = "last", recompute = "yes", scratch_bytes = 0 : i64}> : (tensor<256xf32>) -> tensor<256xf32>
      "fp8.yield"(%2, %3) <{operandSegmentSizes = array<i32: 2, 0>}> : (tensor<16x16xf32>, tensor<256xf32>) -> ()
    }) : () -> (tensor<16x16xbf16>, tensor<16x16xf32>, tensor<256xf32>)
    "func.return"(%0#0, %0#1, %0#2) : (tensor<16x16xbf16>, tensor<16x16xf32>, tensor<256xf32>) -> ()
  }) : () -> ()
