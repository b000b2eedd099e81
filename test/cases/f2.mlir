// F2 (TransformerEngine 2125): the gathered column copy of a quantised input outlived its transpose.
//
// 256 tokens on 2 ranks, 256 channels: the gathered FP8 tensor has 64 KiB, its 128x1 scales 2 KiB. Right: %c is freed
// directly after the transpose, so 128 KiB of data are live inside it and 64 KiB after it (beside the result, 128 KiB,
// and the matmul's workspace, 256 KiB). The scales live on, since the transpose moves only the data.
//
// RUN: fp8-opt %s --compile --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "freed['c'] == ['t']" "freed['t'] == ['dw']" "freed['s'] == ['dw']" \
// RUN:   "live['t'] == 65536 + 65536 + 2048" "live['dw'] == 65536 + 2048 + 131072 + 262144"

module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f2(%q: tensor<128x256xf8E4M3FN, #fp8.tensor<scale = [128, 1]>>, %sq: tensor<1x256xf32>,
    %dyt: tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>, %sdy: tensor<256x2xf32>) -> (tensor<256x256xbf16>) {
  %results = fp8.step -> (tensor<256x256xbf16>) forward {
    %c = fp8.all_gather %q axis = "tp" dim = 0 : tensor<128x256xf8E4M3FN, #fp8.tensor<scale = [128, 1]>> -> tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [128, 1]>> loc("c")
    %s = fp8.all_gather %sq axis = "tp" dim = 0 : tensor<1x256xf32> -> tensor<2x256xf32> loc("s")
    %t = fp8.transpose %c [1, 0] : tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [128, 1]>> -> tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>> loc("t")
    %v = fp8.permute %t [1, 0] : tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>> -> tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [128, 1]>>
    %dw = fp8.matmul %dyt, %v scales(%sdy, %s : tensor<256x2xf32>, tensor<2x256xf32>) : tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>, tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [128, 1]>> -> tensor<256x256xbf16> loc("dw")
    fp8.yield %dw : tensor<256x256xbf16>
  } backward {
    fp8.yield
  }
  return %results : tensor<256x256xbf16>
}
}
