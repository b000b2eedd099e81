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

