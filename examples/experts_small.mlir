// python3 examples/experts.py --recipe=block128 --ranks=4 --experts=2 --tokens=256 --dim=128 --ffn=128 --capacity=2.0
// Experts on 4 ranks, 2 each, forward only.

module attributes {fp8.grid = {ep = 4 : i64}} {
func.func @experts(
    %x: tensor<256x128xbf16> {fp8.shard = ["ep", ""]} loc("x"),
    %offsets: tensor<3xi32> {fp8.rows_per_group = 128 : i64} loc("offsets"),
    %fc1.weight: tensor<2x256x128xbf16> {fp8.parameter} loc("fc1.weight"),
    %fc2.weight: tensor<2x128x128xbf16> {fp8.parameter} loc("fc2.weight")) -> (tensor<256x128xbf16> {fp8.shard = ["ep", ""]}) {
  %received = fp8.all_to_all %x axis = "ep" split = 0 concat = 0 : tensor<256x128xbf16> -> tensor<256x128xbf16> loc("received")
  %routed = fp8.pad %received [0, 0] : tensor<256x128xbf16> -> tensor<512x128xbf16> loc("routed")
  %fc1 = fp8.grouped_linear %routed, %fc1.weight offsets(%offsets : tensor<3xi32>) recipe<block128> balanced = 256 : tensor<512x128xbf16>, tensor<2x256x128xbf16> -> tensor<512x256xbf16> loc("fc1")
  %gate = fp8.slice %fc1 [0, 0] : tensor<512x256xbf16> -> tensor<512x128xbf16> loc("gate")
  %silu_in = arith.extf %gate : tensor<512x128xbf16> to tensor<512x128xf32> loc("silu_in")
  %silu_one = arith.constant dense<1.000000e+00> : tensor<512x128xf32> loc("silu_one")
  %silu_neg = arith.negf %silu_in : tensor<512x128xf32> loc("silu_neg")
  %silu_exp = math.exp %silu_neg : tensor<512x128xf32> loc("silu_exp")
  %silu_den = arith.addf %silu_exp, %silu_one : tensor<512x128xf32> loc("silu_den")
  %silu_sigmoid = arith.divf %silu_one, %silu_den : tensor<512x128xf32> loc("silu_sigmoid")
  %silu_f32 = arith.mulf %silu_in, %silu_sigmoid : tensor<512x128xf32> loc("silu_f32")
  %silu = arith.truncf %silu_f32 : tensor<512x128xf32> to tensor<512x128xbf16> loc("silu")
  %up = fp8.slice %fc1 [0, 128] : tensor<512x256xbf16> -> tensor<512x128xbf16> loc("up")
  %act = arith.mulf %silu, %up : tensor<512x128xbf16> loc("act")
  %fc2 = fp8.grouped_linear %act, %fc2.weight offsets(%offsets : tensor<3xi32>) recipe<block128> balanced = 256 : tensor<512x128xbf16>, tensor<2x128x128xbf16> -> tensor<512x128xbf16> loc("fc2")
  %kept = fp8.slice %fc2 [0, 0] : tensor<512x128xbf16> -> tensor<256x128xbf16> loc("kept")
  %combined = fp8.all_to_all %kept axis = "ep" split = 0 concat = 0 : tensor<256x128xbf16> -> tensor<256x128xbf16> loc("combined")
  %out = arith.addf %x, %combined : tensor<256x128xbf16> loc("out")
  return %out : tensor<256x128xbf16>
}
}
