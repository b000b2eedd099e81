// F16 (Megatron-LM 2063, 3461): gathering parameters took more memory with MXFP8, since the buffer of the gradients (from
// backward to the optimizer) and that of the gathered parameters (from there to the next forward) had memory of their own.
//
// Right: their lifetimes do not meet, so they share one place: the maximum, not the sum.
//
// RUN: fp8-opt %s --compile --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "arena_bytes == 2 * 1048576" "freed['grads'] == ['new']" "freed['params'] == ['first']"
// RUN: fp8-opt %s --compile --compile-to=placed | FileCheck %s
// CHECK: fp8.kernel opaque {{.*}} -> (tensor<512x512xf32>) attributes {offsets = array<i64: [[AT:[0-9]+]]>}
// CHECK: fp8.kernel collective {{.*}} -> (tensor<512x512xf32>) attributes {offsets = array<i64: [[AT]]>}

module attributes {fp8.grid = {dp = 4 : i64}} {
func.func @f16(%x: tensor<512x512xf32> {fp8.frozen}) -> tensor<512x512xf32> {
  %grads = fp8.opaque "backward"(%x) : (tensor<512x512xf32>) -> tensor<512x512xf32> loc("grads")
  %new = fp8.opaque "optimizer"(%grads) : (tensor<512x512xf32>) -> tensor<128x512xf32> loc("new")
  %params = fp8.all_gather %new axis = "dp" dim = 0 : tensor<128x512xf32> -> tensor<512x512xf32> loc("params")
  %first = fp8.opaque "forward"(%params) : (tensor<512x512xf32>) -> tensor<512x512xf32> loc("first")
  return %first : tensor<512x512xf32>
}
}
