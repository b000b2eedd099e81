// F10 (TransformerEngine 2168, ROCm 218): FP8 weights cost as much as BF16, since the row copy and its transpose were
// both kept from forward on.
//
// The weight arrives by a gather, so it is not resident. Scaled by 128x128 its transpose is exact, so one copy (64 KiB)
// and its scale are enough, and the transpose is made before the gradient that reads it and freed after it. The same
// rewrite on 1x128 is refused: a transpose turns its groups to 128x1 (second program).
//
// RUN: split-file %s %t
// RUN: fp8-opt %t/weight.mlir --compile=policy=min-cut --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'w8': 65536, 's': 16}" "recomputed == {'t': 1}" \
// RUN:   "freed['t~recomputed'] == ['dx']" "freed['w8'] == ['t~recomputed']"
// RUN: not fp8-opt %t/refused.mlir 2>&1 | FileCheck %s
// CHECK: error: 'fp8.transpose' op

//--- weight.mlir
#block = #fp8.tensor<scale = [128, 128]>
#row = #fp8.tensor<scale = [1, 128]>
module attributes {fp8.grid = {fsdp = 2 : i64}} {
func.func @f10(%x: tensor<256x256xf8E4M3FN, #row> loc("x"), %sx: tensor<256x2xf32> loc("sx"), %shard: tensor<128x256xbf16> {fp8.parameter} loc("shard"),
    %dy: tensor<256x256xf8E4M3FN, #row> {fp8.tangent} loc("dy"), %sdy: tensor<256x2xf32> loc("sdy")) -> (tensor<256x256xbf16>, tensor<256x256xbf16>) {
  %results:2 = fp8.step -> (tensor<256x256xbf16>, tensor<256x256xbf16>) forward {
    %w = fp8.all_gather %shard axis = "fsdp" dim = 0 : tensor<128x256xbf16> -> tensor<256x256xbf16> loc("w")
    %m = fp8.amax %w group = [128, 128] : tensor<256x256xbf16> -> tensor<2x2xf32> loc("m")
    %s = fp8.scale %m format = f8E4M3FN : tensor<2x2xf32> loc("s")
    %w8 = fp8.cast %w, %s : tensor<256x256xbf16>, tensor<2x2xf32> -> tensor<256x256xf8E4M3FN, #block> loc("w8")
    %v = fp8.permute %w8 [1, 0] : tensor<256x256xf8E4M3FN, #block> -> tensor<256x256xf8E4M3FN, #block>
    %sv = fp8.permute %s [1, 0] : tensor<2x2xf32> -> tensor<2x2xf32>
    %y = fp8.matmul %x, %v scales(%sx, %sv : tensor<256x2xf32>, tensor<2x2xf32>) : tensor<256x256xf8E4M3FN, #row>, tensor<256x256xf8E4M3FN, #block> -> tensor<256x256xbf16> loc("y")
    // The eager cache.
    %t = fp8.transpose %w8 [1, 0] : tensor<256x256xf8E4M3FN, #block> -> tensor<256x256xf8E4M3FN, #block> loc("t")
    fp8.yield %y residuals(%t, %s) : tensor<256x256xbf16> residuals(tensor<256x256xf8E4M3FN, #block>, tensor<2x2xf32>)
  } backward (%t: tensor<256x256xf8E4M3FN, #block>, %s: tensor<2x2xf32>) {
    %b = fp8.permute %t [1, 0] : tensor<256x256xf8E4M3FN, #block> -> tensor<256x256xf8E4M3FN, #block>
    %dx = fp8.matmul %dy, %b scales(%sdy, %s : tensor<256x2xf32>, tensor<2x2xf32>) : tensor<256x256xf8E4M3FN, #row>, tensor<256x256xf8E4M3FN, #block> -> tensor<256x256xbf16> loc("dx")
    fp8.yield %dx : tensor<256x256xbf16>
  }
  return %results#0, %results#1 : tensor<256x256xbf16>, tensor<256x256xbf16>
}
}

//--- refused.mlir
func.func @refused(%q: tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>) {
  %t = fp8.transpose %q [1, 0] : tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>> -> tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>
  return
}
