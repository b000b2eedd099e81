// P4 (pytorch 126338): a view between an asynchronous gather and its wait became a copy, and the wait was for the copy.
//
// Right: a bitcast is another name of the gathered buffer, of which there is one (33,554,432 bytes); the source stays until
// the wait, the result goes after its last use. A wait for anything but what the token belongs to is no program.
//
// RUN: split-file %s %t
// RUN: fp8-opt %t/view.mlir --compile --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "freed['shard'] == ['w']" "freed['g'] == ['y']" "peak_bytes == 33554432 // 4 + 33554432" \
// RUN:   "sum(t['result_bytes'] for t in transfers) == 33554432"
// RUN: not fp8-opt %t/early.mlir 2>&1 | FileCheck %s
// CHECK: error: 'fp8.all_gather_start' op expected the token to be waited for together with the result, but got a use by 'fp8.wait'

//--- view.mlir
module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @p4(%x: tensor<2048x4096xf8E5M2>) -> tensor<1x4096xi8> {
  %shard = fp8.opaque "cast"(%x) : (tensor<2048x4096xf8E5M2>) -> tensor<2048x4096xi8> loc("shard")
  %g, %t = fp8.all_gather_start %shard axis = "tp" dim = 0 : tensor<2048x4096xi8> -> tensor<8192x4096xi8>, !fp8.token loc("g")
  %w = fp8.wait %g, %t : tensor<8192x4096xi8> loc("w")
  %v = fp8.bitcast %w : tensor<8192x4096xi8> -> tensor<8192x4096xf8E4M3FN>
  %y = fp8.opaque "use"(%v) : (tensor<8192x4096xf8E4M3FN>) -> tensor<1x4096xi8> loc("y")
  return %y : tensor<1x4096xi8>
}
}

//--- early.mlir
module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @p4(%shard: tensor<2048x4096xi8>) -> tensor<8192x4096xf8E4M3FN> {
  %g, %t = fp8.all_gather_start %shard axis = "tp" dim = 0 : tensor<2048x4096xi8> -> tensor<8192x4096xi8>, !fp8.token
  %v = fp8.bitcast %g : tensor<8192x4096xi8> -> tensor<8192x4096xf8E4M3FN>
  %w = fp8.wait %v, %t : tensor<8192x4096xf8E4M3FN>
  return %w : tensor<8192x4096xf8E4M3FN>
}
}
