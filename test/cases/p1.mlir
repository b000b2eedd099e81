// P1 (pytorch 141881; torchao 562, 936): an FP8 copy of every weight was held from forward to backward, because it is
// smaller than the weight; but the weight is a parameter and resident anyway.
//
// Right: nothing is kept for backward (+0, not +67,108,864 bytes); the copy is cast and transposed again.
//
// RUN: fp8-opt %s --compile=policy=min-cut --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved_bytes == 0" "recomputed == {'w8': 1, 'w8t': 1}" \
// RUN:   "freed['w8t'] == ['y']" "freed['w8t~recomputed'] == ['dx']"

#all = #fp8.tensor<scale = [all, all]>
func.func @p1(%x: tensor<256x8192xf8E4M3FN, #all> loc("x"), %sx: tensor<1x1xf32> loc("sx"), %w: tensor<8192x8192xbf16> {fp8.parameter} loc("w"), %s: tensor<1x1xf32> {fp8.parameter} loc("s"),
    %dy: tensor<256x8192xf8E4M3FN, #all> {fp8.tangent} loc("dy"), %sdy: tensor<1x1xf32> loc("sdy")) -> (tensor<256x8192xbf16>, tensor<256x8192xbf16>) {
  %results:2 = fp8.step -> (tensor<256x8192xbf16>, tensor<256x8192xbf16>) forward {
    %w8 = fp8.cast %w, %s : tensor<8192x8192xbf16>, tensor<1x1xf32> -> tensor<8192x8192xf8E4M3FN, #all> loc("w8")
    %w8t = fp8.transpose %w8 [1, 0] : tensor<8192x8192xf8E4M3FN, #all> -> tensor<8192x8192xf8E4M3FN, #all> loc("w8t")
    %y = fp8.matmul %x, %w8t scales(%sx, %s : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<256x8192xf8E4M3FN, #all>, tensor<8192x8192xf8E4M3FN, #all> -> tensor<256x8192xbf16> loc("y")
    fp8.yield %y residuals(%w8t) : tensor<256x8192xbf16> residuals(tensor<8192x8192xf8E4M3FN, #all>)
  } backward (%w8t: tensor<8192x8192xf8E4M3FN, #all>) {
    %v = fp8.permute %w8t [1, 0] : tensor<8192x8192xf8E4M3FN, #all> -> tensor<8192x8192xf8E4M3FN, #all>
    %dx = fp8.matmul %dy, %v scales(%sdy, %s : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<256x8192xf8E4M3FN, #all>, tensor<8192x8192xf8E4M3FN, #all> -> tensor<256x8192xbf16> loc("dx")
    fp8.yield %dx : tensor<256x8192xbf16>
  }
  return %results#0, %results#1 : tensor<256x8192xbf16>, tensor<256x8192xbf16>
}
