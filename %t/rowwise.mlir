#all = #fp8.tensor<scale = [all, all]>
#col = #fp8.tensor<scale = [all, 1]>
func.func @f5(%x: tensor<256x16384xf8E4M3FN, #all> loc("x"), %sx: tensor<1x1xf32> loc("sx"), %w: tensor<4096x16384xbf16> {fp8.parameter} loc("w"),
    %dy: tensor<256x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>> {fp8.tangent} loc("dy"), %sdy: tensor<256x1xf32> loc("sdy")) -> (tensor<256x4096xbf16>, tensor<256x16384xbf16>) {
  %y, %dx = fp8.step -> (tensor<256x4096xbf16>, tensor<256x16384xbf16>) forward {
    %a = math.absf %w : tensor<4096x16384xbf16> loc("a")
    %m = fp8.reduce max %a [0, 1] : tensor<4096x16384xbf16> -> tensor<1x1xf32> loc("m")
    %s = fp8.scale %m format = f8E4M3FN : tensor<1x1xf32> loc("s")
    %q = fp8.cast %w, %s : tensor<4096x16384xbf16>, tensor<1x1xf32> -> tensor<4096x16384xf8E4M3FN, #all> loc("q")
    %qt = fp8.permute %q [1, 0] : tensor<4096x16384xf8E4M3FN, #all> -> tensor<16384x4096xf8E4M3FN, #all>
    %y0 = fp8.matmul %x, %qt scales(%sx, %s : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<256x16384xf8E4M3FN, #all>, tensor<16384x4096xf8E4M3FN, #all> -> tensor<256x4096xbf16> loc("y")
    fp8.yield %y0 residuals(%a, %m) : tensor<256x4096xbf16> residuals(tensor<4096x16384xbf16>, tensor<1x1xf32>)
  } backward (%ar: tensor<4096x16384xbf16>, %mr: tensor<1x1xf32>) {
    %cm = fp8.reduce max %ar [0] : tensor<4096x16384xbf16> -> tensor<1x16384xf32> loc("cm")
    %mb = fp8.broadcast %mr : tensor<1x1xf32> -> tensor<1x16384xf32>
    %cl = arith.minimumf %cm, %mb : tensor<1x16384xf32>
    %cs = fp8.scale %cl format = f8E4M3FN : tensor<1x16384xf32> loc("cs")
    %qc = fp8.cast %w, %cs : tensor<4096x16384xbf16>, tensor<1x16384xf32> -> tensor<4096x16384xf8E4M3FN, #col> loc("qc")
    %dx0 = fp8.matmul %dy, %qc scales(%sdy, %cs : tensor<256x1xf32>, tensor<1x16384xf32>) : tensor<256x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<4096x16384xf8E4M3FN, #col> -> tensor<256x16384xbf16> loc("dx")
    fp8.yield %dx0 : tensor<256x16384xbf16>
  }
  return %y, %dx : tensor<256x4096xbf16>, tensor<256x16384xbf16>
}

