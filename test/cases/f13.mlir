// F13 (TransformerEngine 1865, Megatron-LM): discarding a norm's output freed nothing, since its quantised copy was
// kept beside the norm's input.
//
// Right: x is kept (the norm's backward needs it anyway); the norm and the quantised copy are computed again.
// min-cut also keeps the norm's and the scale's factors, 1 KiB each.
//
// RUN: fp8-opt %s --compile=policy=min-cut --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'x': 131072, 'rn': 1024, 'cs': 1024}" \
// RUN:   "recomputed['a'] == recomputed['c'] == 1"
// RUN: fp8-opt %s --compile=policy=recompute-all --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'x': 131072}" "saved_bytes == 131072"

#row = #fp8.tensor<scale = [1, all]>
#col = #fp8.tensor<scale = [all, 1]>
func.func @f13(%in: tensor<256x256xbf16> loc("in"), %w: tensor<256x256xf8E4M3FN, #col> loc("w"), %sw: tensor<1x256xf32> loc("sw"),
    %dyt: tensor<256x256xf8E4M3FN, #row> {fp8.tangent} loc("dyt"), %sdy: tensor<256x1xf32> loc("sdy"), %da: tensor<256x256xbf16> {fp8.tangent} loc("da"))
    -> (tensor<256x256xbf16>, tensor<256x256xbf16>, tensor<256x256xbf16>) {
  %results:3 = fp8.step -> (tensor<256x256xbf16>, tensor<256x256xbf16>, tensor<256x256xbf16>) forward {
    %x = fp8.opaque "producer"(%in) {recompute = "never"} : (tensor<256x256xbf16>) -> tensor<256x256xbf16> loc("x")
    // A norm without its mean: a = x * rsqrt(sum(x * x)).
    %xf = arith.extf %x : tensor<256x256xbf16> to tensor<256x256xf32> loc("xf")
    %sq = arith.mulf %xf, %xf : tensor<256x256xf32> loc("sq")
    %ss = fp8.reduce sum %sq [1] : tensor<256x256xf32> -> tensor<256x1xf32> loc("ss")
    %rn = math.rsqrt %ss : tensor<256x1xf32> loc("rn")
    %rb = fp8.broadcast %rn : tensor<256x1xf32> -> tensor<256x256xf32> loc("rb")
    %af = arith.mulf %xf, %rb : tensor<256x256xf32> loc("af")
    %a = arith.truncf %af : tensor<256x256xf32> to tensor<256x256xbf16> loc("a")
    %m = fp8.amax %a group = [1, 0] : tensor<256x256xbf16> -> tensor<256x1xf32> loc("m")
    %s = fp8.scale %m format = f8E4M3FN : tensor<256x1xf32> loc("s")
    %q = fp8.cast %a, %s : tensor<256x256xbf16>, tensor<256x1xf32> -> tensor<256x256xf8E4M3FN, #row> loc("q")
    %y = fp8.matmul %q, %w scales(%s, %sw : tensor<256x1xf32>, tensor<1x256xf32>) : tensor<256x256xf8E4M3FN, #row>, tensor<256x256xf8E4M3FN, #col> -> tensor<256x256xbf16> loc("y")
    %cm = fp8.amax %a group = [0, 1] : tensor<256x256xbf16> -> tensor<1x256xf32> loc("cm")
    %cs = fp8.scale %cm format = f8E4M3FN : tensor<1x256xf32> loc("cs")
    %c = fp8.cast %a, %cs : tensor<256x256xbf16>, tensor<1x256xf32> -> tensor<256x256xf8E4M3FN, #col> loc("c")
    fp8.yield %y residuals(%x, %c, %cs) : tensor<256x256xbf16> residuals(tensor<256x256xbf16>, tensor<256x256xf8E4M3FN, #col>, tensor<1x256xf32>)
  } backward (%x: tensor<256x256xbf16>, %c: tensor<256x256xf8E4M3FN, #col>, %cs: tensor<1x256xf32>) {
    %dw = fp8.matmul %dyt, %c scales(%sdy, %cs : tensor<256x1xf32>, tensor<1x256xf32>) : tensor<256x256xf8E4M3FN, #row>, tensor<256x256xf8E4M3FN, #col> -> tensor<256x256xbf16> loc("dw")
    %dx = arith.mulf %x, %da : tensor<256x256xbf16> loc("dx")
    fp8.yield %dw, %dx : tensor<256x256xbf16>, tensor<256x256xbf16>
  }
  return %results#0, %results#1, %results#2 : tensor<256x256xbf16>, tensor<256x256xbf16>, tensor<256x256xbf16>
}
