// F9 (Megatron-LM 1863; TransformerEngine 2637): a gather was handed scales in the matmul's layout, and a shard that is no
// multiple of 128 tokens stopped with an assertion, later dequantised what was quantised already.
//
// Right: scales travel compact (a gather of the other layout is refused). With 64 tokens a rank the groups of 128 tokens
// that the weight gradient wants straddle the ranks, so bf16 travels (2 bytes an element), once, and is cast on arrival;
// nothing is dequantised. With 128 tokens FP8 and scales travel.
//
// RUN: split-file %s %t
// RUN: fp8-opt %t/n64.mlir --compile=policy=save-all --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "[(t['own_bytes'], t['result_bytes']) for t in transfers] == [(64 * 256 * 2, 128 * 256 * 2), (65536, 32768)]"
// RUN: fp8-opt %t/n64.mlir --compile=policy=save-all --compile-to=joint | FileCheck %s --implicit-check-not=fp8.dequantize
// CHECK: fp8.all_gather %{{.*}} : tensor<64x256xbf16> -> tensor<128x256xbf16>
// RUN: fp8-opt %t/n128.mlir --compile=policy=save-all --compile-to=joint | FileCheck %s --check-prefix=WHOLE --implicit-check-not=fp8.dequantize
// WHOLE: fp8.all_gather %{{.*}} : tensor<128x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]{{.*}}>> -> tensor<256x256xf8E4M3FN
// WHOLE: fp8.all_gather %{{.*}} : tensor<128x256xf8E4M3FN, #fp8.tensor<scale = [128, 1]{{.*}}>> -> tensor<256x256xf8E4M3FN
// RUN: not fp8-opt %t/ready.mlir 2>&1 | FileCheck %s --check-prefix=READY
// READY: error: 'fp8.all_gather' op expected compact scales

//--- n64.mlir
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f9(%x: tensor<64x256xbf16> loc("x"), %w: tensor<128x256xbf16> {fp8.parameter} loc("w")) -> tensor<128x128xbf16> {
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x256xbf16> -> tensor<128x256xbf16> loc("g")
  %y = fp8.linear %g, %w recipe<block128> : tensor<128x256xbf16>, tensor<128x256xbf16> -> tensor<128x128xbf16> loc("y")
  return %y : tensor<128x128xbf16>
}
}

//--- n128.mlir
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f9(%x: tensor<128x256xbf16> loc("x"), %w: tensor<128x256xbf16> {fp8.parameter} loc("w")) -> tensor<256x128xbf16> {
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<128x256xbf16> -> tensor<256x256xbf16> loc("g")
  %y = fp8.linear %g, %w recipe<block128> : tensor<256x256xbf16>, tensor<128x256xbf16> -> tensor<256x128xbf16> loc("y")
  return %y : tensor<256x128xbf16>
}
}

//--- ready.mlir
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f(%q: tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>>) {
  %g = fp8.all_gather %q axis = "tp" dim = 0 : tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>> -> tensor<128x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>>
  return
}
}
