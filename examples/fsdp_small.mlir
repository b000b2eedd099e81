// python3 examples/gen.py --layers=2 --kind=fsdp --tokens=256 --dim=128 --ffn=256 --recipe=tensorwise --ranks=4
// 2 feed-forward layers with residual, weights sharded (FSDP) on 4 ranks, forward only.

module attributes {fp8.grid = {fsdp = 4 : i64}} {
func.func @fsdp(
    %x: tensor<64x128xbf16> {fp8.shard = ["fsdp", ""]} loc("x"),
    %layers.0.w1: tensor<64x128xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.0.w1"),
    %layers.0.w3: tensor<64x128xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.0.w3"),
    %layers.0.w2: tensor<32x256xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.0.w2"),
    %layers.1.w1: tensor<64x128xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.1.w1"),
    %layers.1.w3: tensor<64x128xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.1.w3"),
    %layers.1.w2: tensor<32x256xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.1.w2")) -> (tensor<64x128xbf16> {fp8.shard = ["fsdp", ""]}) {
  %layers.0.w1_all = fp8.all_gather %layers.0.w1 axis = "fsdp" dim = 0 : tensor<64x128xbf16> -> tensor<256x128xbf16> loc("layers.0.w1_all")
  %layers.0.gate = fp8.linear %x, %layers.0.w1_all recipe<tensorwise> : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16> loc("layers.0.gate")
  %layers.0.w3_all = fp8.all_gather %layers.0.w3 axis = "fsdp" dim = 0 : tensor<64x128xbf16> -> tensor<256x128xbf16> loc("layers.0.w3_all")
  %layers.0.up = fp8.linear %x, %layers.0.w3_all recipe<tensorwise> : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16> loc("layers.0.up")
  %layers.0.one = arith.constant dense<1.000000e+00> : tensor<64x256xf32> loc("layers.0.one")
  %layers.0.gate_f32 = arith.extf %layers.0.gate : tensor<64x256xbf16> to tensor<64x256xf32> loc("layers.0.gate_f32")
  %layers.0.silu_neg = arith.negf %layers.0.gate_f32 : tensor<64x256xf32> loc("layers.0.silu_neg")
  %layers.0.silu_exp = math.exp %layers.0.silu_neg : tensor<64x256xf32> loc("layers.0.silu_exp")
  %layers.0.silu_den = arith.addf %layers.0.silu_exp, %layers.0.one : tensor<64x256xf32> loc("layers.0.silu_den")
  %layers.0.sigmoid = arith.divf %layers.0.one, %layers.0.silu_den : tensor<64x256xf32> loc("layers.0.sigmoid")
  %layers.0.silu_f32 = arith.mulf %layers.0.gate_f32, %layers.0.sigmoid : tensor<64x256xf32> loc("layers.0.silu_f32")
  %layers.0.silu = arith.truncf %layers.0.silu_f32 : tensor<64x256xf32> to tensor<64x256xbf16> loc("layers.0.silu")
  %layers.0.act = arith.mulf %layers.0.silu, %layers.0.up : tensor<64x256xbf16> loc("layers.0.act")
  %layers.0.w2_all = fp8.all_gather %layers.0.w2 axis = "fsdp" dim = 0 : tensor<32x256xbf16> -> tensor<128x256xbf16> loc("layers.0.w2_all")
  %layers.0.down = fp8.linear %layers.0.act, %layers.0.w2_all recipe<tensorwise> : tensor<64x256xbf16>, tensor<128x256xbf16> -> tensor<64x128xbf16> loc("layers.0.down")
  %layers.0.out = arith.addf %x, %layers.0.down {fp8.checkpoint} : tensor<64x128xbf16> loc("layers.0.out")
  %layers.1.w1_all = fp8.all_gather %layers.1.w1 axis = "fsdp" dim = 0 : tensor<64x128xbf16> -> tensor<256x128xbf16> loc("layers.1.w1_all")
  %layers.1.gate = fp8.linear %layers.0.out, %layers.1.w1_all recipe<tensorwise> : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16> loc("layers.1.gate")
  %layers.1.w3_all = fp8.all_gather %layers.1.w3 axis = "fsdp" dim = 0 : tensor<64x128xbf16> -> tensor<256x128xbf16> loc("layers.1.w3_all")
  %layers.1.up = fp8.linear %layers.0.out, %layers.1.w3_all recipe<tensorwise> : tensor<64x128xbf16>, tensor<256x128xbf16> -> tensor<64x256xbf16> loc("layers.1.up")
  %layers.1.one = arith.constant dense<1.000000e+00> : tensor<64x256xf32> loc("layers.1.one")
  %layers.1.gate_f32 = arith.extf %layers.1.gate : tensor<64x256xbf16> to tensor<64x256xf32> loc("layers.1.gate_f32")
  %layers.1.silu_neg = arith.negf %layers.1.gate_f32 : tensor<64x256xf32> loc("layers.1.silu_neg")
  %layers.1.silu_exp = math.exp %layers.1.silu_neg : tensor<64x256xf32> loc("layers.1.silu_exp")
  %layers.1.silu_den = arith.addf %layers.1.silu_exp, %layers.1.one : tensor<64x256xf32> loc("layers.1.silu_den")
  %layers.1.sigmoid = arith.divf %layers.1.one, %layers.1.silu_den : tensor<64x256xf32> loc("layers.1.sigmoid")
  %layers.1.silu_f32 = arith.mulf %layers.1.gate_f32, %layers.1.sigmoid : tensor<64x256xf32> loc("layers.1.silu_f32")
  %layers.1.silu = arith.truncf %layers.1.silu_f32 : tensor<64x256xf32> to tensor<64x256xbf16> loc("layers.1.silu")
  %layers.1.act = arith.mulf %layers.1.silu, %layers.1.up : tensor<64x256xbf16> loc("layers.1.act")
  %layers.1.w2_all = fp8.all_gather %layers.1.w2 axis = "fsdp" dim = 0 : tensor<32x256xbf16> -> tensor<128x256xbf16> loc("layers.1.w2_all")
  %layers.1.down = fp8.linear %layers.1.act, %layers.1.w2_all recipe<tensorwise> : tensor<64x256xbf16>, tensor<128x256xbf16> -> tensor<64x128xbf16> loc("layers.1.down")
  %layers.1.out = arith.addf %layers.0.out, %layers.1.down : tensor<64x128xbf16> loc("layers.1.out")
  return %layers.1.out : tensor<64x128xbf16>
}
}
