// F3 (TransformerEngine 3130): a quantised gradient was never freed with column parallelism and sequence parallelism,
// since only one branch of the code freed it.
//
// Right: the row copy dies after dx, the column copy after dw, and dy, an argument, is never freed.
//
// RUN: fp8-opt %s --compile --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "freed['r'] == ['dx']" "freed['c'] == ['dw']" "'dy' not in freed" \
// RUN:   "set(freed) == {'r', 'c', 'rs', 'cs'}"

#row = #fp8.tensor<scale = [1, all]>
#col = #fp8.tensor<scale = [all, 1]>
func.func @f3(%dy: tensor<256x256xbf16> loc("dy"), %w: tensor<256x256xf8E4M3FN, #col>, %sw: tensor<1x256xf32>,
    %x: tensor<256x256xf8E4M3FN, #col>, %sx: tensor<1x256xf32>) -> (tensor<256x256xbf16>, tensor<256x256xbf16>) {
  %results:2 = fp8.step -> (tensor<256x256xbf16>, tensor<256x256xbf16>) forward {
    fp8.yield
  } backward {
    %rm = fp8.amax %dy group = [1, 0] : tensor<256x256xbf16> -> tensor<256x1xf32>
    %rs = fp8.scale %rm format = f8E4M3FN : tensor<256x1xf32> loc("rs")
    %r = fp8.cast %dy, %rs : tensor<256x256xbf16>, tensor<256x1xf32> -> tensor<256x256xf8E4M3FN, #row> loc("r")
    %cm = fp8.amax %dy group = [0, 1] : tensor<256x256xbf16> -> tensor<1x256xf32>
    %cs = fp8.scale %cm format = f8E4M3FN : tensor<1x256xf32> loc("cs")
    %c = fp8.cast %dy, %cs : tensor<256x256xbf16>, tensor<1x256xf32> -> tensor<256x256xf8E4M3FN, #col> loc("c")
    %dx = fp8.matmul %r, %w scales(%rs, %sw : tensor<256x1xf32>, tensor<1x256xf32>) : tensor<256x256xf8E4M3FN, #row>, tensor<256x256xf8E4M3FN, #col> -> tensor<256x256xbf16> loc("dx")
    %ct = fp8.permute %c [1, 0] : tensor<256x256xf8E4M3FN, #col> -> tensor<256x256xf8E4M3FN, #row>
    %cst = fp8.permute %cs [1, 0] : tensor<1x256xf32> -> tensor<256x1xf32>
    %dw = fp8.matmul %ct, %x scales(%cst, %sx : tensor<256x1xf32>, tensor<1x256xf32>) : tensor<256x256xf8E4M3FN, #row>, tensor<256x256xf8E4M3FN, #col> -> tensor<256x256xbf16> loc("dw")
    fp8.yield %dx, %dw : tensor<256x256xbf16>, tensor<256x256xbf16>
  }
  return %results#0, %results#1 : tensor<256x256xbf16>, tensor<256x256xbf16>
}
