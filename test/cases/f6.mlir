// F6 (torchao 893): with the whole region checkpointed the maximum of a tensor was computed again, one more pass over
// it, although it has 4 bytes.
//
// Right: the scale (4 bytes) is kept and only the cast is computed again. A plan that may keep more (auto, with no
// budget) keeps the cast too, but never computes the maximum again. recompute-all is the fault itself.
//
// RUN: fp8-opt %s --compile=policy=min-cut --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'s': 4}" "recomputed == {'q': 1}"
// RUN: fp8-opt %s --compile=policy=op-list --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'m': 4}" "recomputed == {'s': 1, 'q': 1}"
// RUN: fp8-opt %s --compile=policy=auto --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved['s'] == 4" "'m' not in recomputed"
// RUN: fp8-opt %s --compile=policy=recompute-all --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "recomputed['m'] == 1"

#all = #fp8.tensor<scale = [all, all]>
func.func @f6(%x: tensor<4096x4096xbf16> loc("x"), %w: tensor<4096x4096xf8E4M3FN, #all> loc("w"), %sw: tensor<1x1xf32> loc("sw"),
    %dyt: tensor<4096x4096xf8E4M3FN, #all> {fp8.tangent} loc("dyt"), %sdy: tensor<1x1xf32> loc("sdy")) -> (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) {
  %y, %dw = fp8.step -> (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) forward {
    %m = fp8.amax %x group = [0, 0] : tensor<4096x4096xbf16> -> tensor<1x1xf32> loc("m")
    %s = fp8.scale %m format = f8E4M3FN : tensor<1x1xf32> loc("s")
    %q = fp8.cast %x, %s : tensor<4096x4096xbf16>, tensor<1x1xf32> -> tensor<4096x4096xf8E4M3FN, #all> loc("q")
    %y0 = fp8.matmul %q, %w scales(%s, %sw : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<4096x4096xf8E4M3FN, #all>, tensor<4096x4096xf8E4M3FN, #all> -> tensor<4096x4096xbf16> loc("y")
    fp8.yield %y0 residuals(%q, %s) : tensor<4096x4096xbf16> residuals(tensor<4096x4096xf8E4M3FN, #all>, tensor<1x1xf32>)
  } backward (%qr: tensor<4096x4096xf8E4M3FN, #all>, %sr: tensor<1x1xf32>) {
    %dw0 = fp8.matmul %dyt, %qr scales(%sdy, %sr : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<4096x4096xf8E4M3FN, #all>, tensor<4096x4096xf8E4M3FN, #all> -> tensor<4096x4096xbf16> loc("dw")
    fp8.yield %dw0 : tensor<4096x4096xbf16>
  }
  return %y, %dw : tensor<4096x4096xbf16>, tensor<4096x4096xbf16>
}
