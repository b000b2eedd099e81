#row = #fp8.tensor<scale = [1, all]>
#col = #fp8.tensor<scale = [all, 1]>
func.func @f12(%qkv: tensor<256x256xbf16> loc("qkv"), %w: tensor<256x256xf8E4M3FN, #col> loc("w"), %sw: tensor<1x256xf32> loc("sw"),
    %dyt: tensor<256x256xf8E4M3FN, #row> {fp8.tangent} loc("dyt"), %sdy: tensor<256x1xf32> loc("sdy"), %do: tensor<256x256xbf16> {fp8.tangent} loc("do"))
    -> (tensor<256x256xbf16>, tensor<256x256xbf16>, tensor<256x256xbf16>) {
  %results:3 = fp8.step -> (tensor<256x256xbf16>, tensor<256x256xbf16>, tensor<256x256xbf16>) forward {
    %o = fp8.opaque "attention"(%qkv) {recompute = "never"} : (tensor<256x256xbf16>) -> tensor<256x256xbf16> loc("o")
    %m = fp8.amax %o group = [1, 0] : tensor<256x256xbf16> -> tensor<256x1xf32> loc("m")
    %s = fp8.scale %m format = f8E4M3FN : tensor<256x1xf32> loc("s")
    %q = fp8.cast %o, %s : tensor<256x256xbf16>, tensor<256x1xf32> -> tensor<256x256xf8E4M3FN, #row> loc("q")
    %y = fp8.matmul %q, %w scales(%s, %sw : tensor<256x1xf32>, tensor<1x256xf32>) : tensor<256x256xf8E4M3FN, #row>, tensor<256x256xf8E4M3FN, #col> -> tensor<256x256xbf16> loc("y")
    %cm = fp8.amax %o group = [0, 1] : tensor<256x256xbf16> -> tensor<1x256xf32> loc("cm")
    %cs = fp8.scale %cm format = f8E4M3FN : tensor<1x256xf32> loc("cs")
    %c = fp8.cast %o, %cs : tensor<256x256xbf16>, tensor<1x256xf32> -> tensor<256x256xf8E4M3FN, #col> loc("c")
    fp8.yield %y residuals(%o, %c, %cs) : tensor<256x256xbf16> residuals(tensor<256x256xbf16>, tensor<256x256xf8E4M3FN, #col>, tensor<1x256xf32>)
  } backward (%o: tensor<256x256xbf16>, %c: tensor<256x256xf8E4M3FN, #col>, %cs: tensor<1x256xf32>) {
    %dw = fp8.matmul %dyt, %c scales(%sdy, %cs : tensor<256x1xf32>, tensor<1x256xf32>) : tensor<256x256xf8E4M3FN, #row>, tensor<256x256xf8E4M3FN, #col> -> tensor<256x256xbf16> loc("dw")
    %dqkv = fp8.opaque "attention_backward"(%qkv, %o, %do) : (tensor<256x256xbf16>, tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16> loc("dqkv")
    fp8.yield %dw, %dqkv : tensor<256x256xbf16>, tensor<256x256xbf16>
  }
  return %results#0, %results#1, %results#2 : tensor<256x256xbf16>, tensor<256x256xbf16>, tensor<256x256xbf16>
}

