// F7 (TransformerEngine 1190, 1254, 415; Megatron-LM 1152): with delayed scaling, recomputation read the amax history
// again after it had been updated, and updated it twice.
//
// Right: what was read from the history is kept (4 bytes), even by recompute-all, casts are computed again with it,
// and the push is in the plan once.
//
// RUN: fp8-opt %s --compile=policy=recompute-all --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'hm': 4}" "recomputed == {'s': 1, 'q': 1}" \
// RUN:   "[op for op in order if 'push' in op] == ['fp8.push_amax#0']"
// RUN: fp8-opt %s --compile=policy=min-cut --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'s': 4}" "recomputed == {'q': 1}"
// RUN: fp8-opt %s --compile=policy=recompute-all --compile-to=placed | FileCheck %s
// CHECK-COUNT-1: fp8.push_amax
// CHECK-NOT: fp8.push_amax

#all = #fp8.tensor<scale = [all, all]>
func.func @f7(%x: tensor<256x256xbf16> loc("x"), %hist: tensor<16xf32> {fp8.state} loc("hist"), %w: tensor<256x256xf8E4M3FN, #all> loc("w"), %sw: tensor<1x1xf32> loc("sw"),
    %dyt: tensor<256x256xf8E4M3FN, #all> {fp8.tangent} loc("dyt"), %sdy: tensor<1x1xf32> loc("sdy")) -> (tensor<256x256xbf16>, tensor<256x256xbf16>) {
  %y, %dw = fp8.step -> (tensor<256x256xbf16>, tensor<256x256xbf16>) forward {
    %hm = fp8.amax %hist group = [0] : tensor<16xf32> -> tensor<1xf32> loc("hm")
    %hr = fp8.reshape %hm : tensor<1xf32> -> tensor<1x1xf32>
    %s = fp8.scale %hr format = f8E4M3FN : tensor<1x1xf32> loc("s")
    %q = fp8.cast %x, %s : tensor<256x256xbf16>, tensor<1x1xf32> -> tensor<256x256xf8E4M3FN, #all> loc("q")
    %m = fp8.amax %x group = [0, 0] : tensor<256x256xbf16> -> tensor<1x1xf32> loc("m")
    fp8.push_amax %m, %hist : tensor<1x1xf32>, tensor<16xf32>
    %y0 = fp8.matmul %q, %w scales(%s, %sw : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<256x256xf8E4M3FN, #all>, tensor<256x256xf8E4M3FN, #all> -> tensor<256x256xbf16> loc("y")
    fp8.yield %y0 residuals(%q, %s) : tensor<256x256xbf16> residuals(tensor<256x256xf8E4M3FN, #all>, tensor<1x1xf32>)
  } backward (%qr: tensor<256x256xf8E4M3FN, #all>, %sr: tensor<1x1xf32>) {
    %dw0 = fp8.matmul %dyt, %qr scales(%sdy, %sr : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<256x256xf8E4M3FN, #all>, tensor<256x256xf8E4M3FN, #all> -> tensor<256x256xbf16> loc("dw")
    fp8.yield %dw0 : tensor<256x256xbf16>
  }
  return %y, %dw : tensor<256x256xbf16>, tensor<256x256xbf16>
}
