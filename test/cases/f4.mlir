// F4 (TransformerEngine 2125, inner): freeing a quantised tensor also emptied its scale, which the gathered tensor
// still used.
//
// Right: liveness is per component. The local shard lies in the gathered tensor, and its scale (4 bytes) dies at the matmul
// (which also holds its result, 128 KiB, and a workspace of 256 KiB).
//
// RUN: fp8-opt %s --compile --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "[i['over'] for i in in_place] == ['d']" "freed['s'] == ['y']" "freed['g'] == ['y']" \
// RUN:   "live['y'] == 65536 + 4 + 131072 + 262144"

#all = #fp8.tensor<scale = [all, all]>
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f4(%x: tensor<128x256xbf16>, %w: tensor<256x256xf8E4M3FN, #all>, %sw: tensor<1x1xf32>) -> (tensor<256x256xbf16>) {
  %results = fp8.step -> (tensor<256x256xbf16>) forward {
    %m = fp8.amax %x group = [0, 0] : tensor<128x256xbf16> -> tensor<1x1xf32>
    %s = fp8.scale %m format = f8E4M3FN : tensor<1x1xf32> loc("s")
    %d = fp8.cast %x, %s : tensor<128x256xbf16>, tensor<1x1xf32> -> tensor<128x256xf8E4M3FN, #all> loc("d")
    %g = fp8.all_gather %d axis = "tp" dim = 0 : tensor<128x256xf8E4M3FN, #all> -> tensor<256x256xf8E4M3FN, #all> loc("g")
    %y = fp8.matmul %g, %w scales(%s, %sw : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<256x256xf8E4M3FN, #all>, tensor<256x256xf8E4M3FN, #all> -> tensor<256x256xbf16> loc("y")
    fp8.yield %y : tensor<256x256xbf16>
  } backward {
    fp8.yield
  }
  return %results : tensor<256x256xbf16>
}
}
