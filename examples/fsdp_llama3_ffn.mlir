// python3 examples/gen.py --layers=4 --kind=fsdp --tokens=131072 --dim=4096 --ffn=14336 --recipe=tensorwise --ranks=8
// 4 feed-forward layers with residual, weights sharded (FSDP) on 8 ranks, forward only.

module attributes {fp8.grid = {fsdp = 8 : i64}} {
func.func @fsdp(
    %x: tensor<16384x4096xbf16> {fp8.shard = ["fsdp", ""]} loc("x"),
    %layers.0.w1: tensor<1792x4096xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.0.w1"),
    %layers.0.w3: tensor<1792x4096xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.0.w3"),
    %layers.0.w2: tensor<512x14336xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.0.w2"),
    %layers.1.w1: tensor<1792x4096xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.1.w1"),
    %layers.1.w3: tensor<1792x4096xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.1.w3"),
    %layers.1.w2: tensor<512x14336xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.1.w2"),
    %layers.2.w1: tensor<1792x4096xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.2.w1"),
    %layers.2.w3: tensor<1792x4096xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.2.w3"),
    %layers.2.w2: tensor<512x14336xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.2.w2"),
    %layers.3.w1: tensor<1792x4096xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.3.w1"),
    %layers.3.w3: tensor<1792x4096xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.3.w3"),
    %layers.3.w2: tensor<512x14336xbf16> {fp8.parameter, fp8.shard = ["fsdp", ""]} loc("layers.3.w2")) -> (tensor<16384x4096xbf16> {fp8.shard = ["fsdp", ""]}) {
  %layers.0.w1_all = fp8.all_gather %layers.0.w1 axis = "fsdp" dim = 0 : tensor<1792x4096xbf16> -> tensor<14336x4096xbf16> loc("layers.0.w1_all")
  %layers.0.gate = fp8.linear %x, %layers.0.w1_all recipe<tensorwise> : tensor<16384x4096xbf16>, tensor<14336x4096xbf16> -> tensor<16384x14336xbf16> loc("layers.0.gate")
  %layers.0.w3_all = fp8.all_gather %layers.0.w3 axis = "fsdp" dim = 0 : tensor<1792x4096xbf16> -> tensor<14336x4096xbf16> loc("layers.0.w3_all")
  %layers.0.up = fp8.linear %x, %layers.0.w3_all recipe<tensorwise> : tensor<16384x4096xbf16>, tensor<14336x4096xbf16> -> tensor<16384x14336xbf16> loc("layers.0.up")
  %layers.0.one = arith.constant dense<1.000000e+00> : tensor<16384x14336xf32> loc("layers.0.one")
  %layers.0.gate_f32 = arith.extf %layers.0.gate : tensor<16384x14336xbf16> to tensor<16384x14336xf32> loc("layers.0.gate_f32")
  %layers.0.silu_neg = arith.negf %layers.0.gate_f32 : tensor<16384x14336xf32> loc("layers.0.silu_neg")
  %layers.0.silu_exp = math.exp %layers.0.silu_neg : tensor<16384x14336xf32> loc("layers.0.silu_exp")
  %layers.0.silu_den = arith.addf %layers.0.silu_exp, %layers.0.one : tensor<16384x14336xf32> loc("layers.0.silu_den")
  %layers.0.sigmoid = arith.divf %layers.0.one, %layers.0.silu_den : tensor<16384x14336xf32> loc("layers.0.sigmoid")
  %layers.0.silu_f32 = arith.mulf %layers.0.gate_f32, %layers.0.sigmoid : tensor<16384x14336xf32> loc("layers.0.silu_f32")
  %layers.0.silu = arith.truncf %layers.0.silu_f32 : tensor<16384x14336xf32> to tensor<16384x14336xbf16> loc("layers.0.silu")
  %layers.0.act = arith.mulf %layers.0.silu, %layers.0.up : tensor<16384x14336xbf16> loc("layers.0.act")
  %layers.0.w2_all = fp8.all_gather %layers.0.w2 axis = "fsdp" dim = 0 : tensor<512x14336xbf16> -> tensor<4096x14336xbf16> loc("layers.0.w2_all")
  %layers.0.down = fp8.linear %layers.0.act, %layers.0.w2_all recipe<tensorwise> : tensor<16384x14336xbf16>, tensor<4096x14336xbf16> -> tensor<16384x4096xbf16> loc("layers.0.down")
  %layers.0.out = arith.addf %x, %layers.0.down {fp8.checkpoint} : tensor<16384x4096xbf16> loc("layers.0.out")
  %layers.1.w1_all = fp8.all_gather %layers.1.w1 axis = "fsdp" dim = 0 : tensor<1792x4096xbf16> -> tensor<14336x4096xbf16> loc("layers.1.w1_all")
  %layers.1.gate = fp8.linear %layers.0.out, %layers.1.w1_all recipe<tensorwise> : tensor<16384x4096xbf16>, tensor<14336x4096xbf16> -> tensor<16384x14336xbf16> loc("layers.1.gate")
  %layers.1.w3_all = fp8.all_gather %layers.1.w3 axis = "fsdp" dim = 0 : tensor<1792x4096xbf16> -> tensor<14336x4096xbf16> loc("layers.1.w3_all")
  %layers.1.up = fp8.linear %layers.0.out, %layers.1.w3_all recipe<tensorwise> : tensor<16384x4096xbf16>, tensor<14336x4096xbf16> -> tensor<16384x14336xbf16> loc("layers.1.up")
  %layers.1.one = arith.constant dense<1.000000e+00> : tensor<16384x14336xf32> loc("layers.1.one")
  %layers.1.gate_f32 = arith.extf %layers.1.gate : tensor<16384x14336xbf16> to tensor<16384x14336xf32> loc("layers.1.gate_f32")
  %layers.1.silu_neg = arith.negf %layers.1.gate_f32 : tensor<16384x14336xf32> loc("layers.1.silu_neg")
  %layers.1.silu_exp = math.exp %layers.1.silu_neg : tensor<16384x14336xf32> loc("layers.1.silu_exp")
  %layers.1.silu_den = arith.addf %layers.1.silu_exp, %layers.1.one : tensor<16384x14336xf32> loc("layers.1.silu_den")
  %layers.1.sigmoid = arith.divf %layers.1.one, %layers.1.silu_den : tensor<16384x14336xf32> loc("layers.1.sigmoid")
  %layers.1.silu_f32 = arith.mulf %layers.1.gate_f32, %layers.1.sigmoid : tensor<16384x14336xf32> loc("layers.1.silu_f32")
  %layers.1.silu = arith.truncf %layers.1.silu_f32 : tensor<16384x14336xf32> to tensor<16384x14336xbf16> loc("layers.1.silu")
  %layers.1.act = arith.mulf %layers.1.silu, %layers.1.up : tensor<16384x14336xbf16> loc("layers.1.act")
  %layers.1.w2_all = fp8.all_gather %layers.1.w2 axis = "fsdp" dim = 0 : tensor<512x14336xbf16> -> tensor<4096x14336xbf16> loc("layers.1.w2_all")
  %layers.1.down = fp8.linear %layers.1.act, %layers.1.w2_all recipe<tensorwise> : tensor<16384x14336xbf16>, tensor<4096x14336xbf16> -> tensor<16384x4096xbf16> loc("layers.1.down")
  %layers.1.out = arith.addf %layers.0.out, %layers.1.down {fp8.checkpoint} : tensor<16384x4096xbf16> loc("layers.1.out")
  %layers.2.w1_all = fp8.all_gather %layers.2.w1 axis = "fsdp" dim = 0 : tensor<1792x4096xbf16> -> tensor<14336x4096xbf16> loc("layers.2.w1_all")
  %layers.2.gate = fp8.linear %layers.1.out, %layers.2.w1_all recipe<tensorwise> : tensor<16384x4096xbf16>, tensor<14336x4096xbf16> -> tensor<16384x14336xbf16> loc("layers.2.gate")
  %layers.2.w3_all = fp8.all_gather %layers.2.w3 axis = "fsdp" dim = 0 : tensor<1792x4096xbf16> -> tensor<14336x4096xbf16> loc("layers.2.w3_all")
  %layers.2.up = fp8.linear %layers.1.out, %layers.2.w3_all recipe<tensorwise> : tensor<16384x4096xbf16>, tensor<14336x4096xbf16> -> tensor<16384x14336xbf16> loc("layers.2.up")
  %layers.2.one = arith.constant dense<1.000000e+00> : tensor<16384x14336xf32> loc("layers.2.one")
  %layers.2.gate_f32 = arith.extf %layers.2.gate : tensor<16384x14336xbf16> to tensor<16384x14336xf32> loc("layers.2.gate_f32")
  %layers.2.silu_neg = arith.negf %layers.2.gate_f32 : tensor<16384x14336xf32> loc("layers.2.silu_neg")
  %layers.2.silu_exp = math.exp %layers.2.silu_neg : tensor<16384x14336xf32> loc("layers.2.silu_exp")
  %layers.2.silu_den = arith.addf %layers.2.silu_exp, %layers.2.one : tensor<16384x14336xf32> loc("layers.2.silu_den")
  %layers.2.sigmoid = arith.divf %layers.2.one, %layers.2.silu_den : tensor<16384x14336xf32> loc("layers.2.sigmoid")
  %layers.2.silu_f32 = arith.mulf %layers.2.gate_f32, %layers.2.sigmoid : tensor<16384x14336xf32> loc("layers.2.silu_f32")
  %layers.2.silu = arith.truncf %layers.2.silu_f32 : tensor<16384x14336xf32> to tensor<16384x14336xbf16> loc("layers.2.silu")
  %layers.2.act = arith.mulf %layers.2.silu, %layers.2.up : tensor<16384x14336xbf16> loc("layers.2.act")
  %layers.2.w2_all = fp8.all_gather %layers.2.w2 axis = "fsdp" dim = 0 : tensor<512x14336xbf16> -> tensor<4096x14336xbf16> loc("layers.2.w2_all")
  %layers.2.down = fp8.linear %layers.2.act, %layers.2.w2_all recipe<tensorwise> : tensor<16384x14336xbf16>, tensor<4096x14336xbf16> -> tensor<16384x4096xbf16> loc("layers.2.down")
  %layers.2.out = arith.addf %layers.1.out, %layers.2.down {fp8.checkpoint} : tensor<16384x4096xbf16> loc("layers.2.out")
  %layers.3.w1_all = fp8.all_gather %layers.3.w1 axis = "fsdp" dim = 0 : tensor<1792x4096xbf16> -> tensor<14336x4096xbf16> loc("layers.3.w1_all")
  %layers.3.gate = fp8.linear %layers.2.out, %layers.3.w1_all recipe<tensorwise> : tensor<16384x4096xbf16>, tensor<14336x4096xbf16> -> tensor<16384x14336xbf16> loc("layers.3.gate")
  %layers.3.w3_all = fp8.all_gather %layers.3.w3 axis = "fsdp" dim = 0 : tensor<1792x4096xbf16> -> tensor<14336x4096xbf16> loc("layers.3.w3_all")
  %layers.3.up = fp8.linear %layers.2.out, %layers.3.w3_all recipe<tensorwise> : tensor<16384x4096xbf16>, tensor<14336x4096xbf16> -> tensor<16384x14336xbf16> loc("layers.3.up")
  %layers.3.one = arith.constant dense<1.000000e+00> : tensor<16384x14336xf32> loc("layers.3.one")
  %layers.3.gate_f32 = arith.extf %layers.3.gate : tensor<16384x14336xbf16> to tensor<16384x14336xf32> loc("layers.3.gate_f32")
  %layers.3.silu_neg = arith.negf %layers.3.gate_f32 : tensor<16384x14336xf32> loc("layers.3.silu_neg")
  %layers.3.silu_exp = math.exp %layers.3.silu_neg : tensor<16384x14336xf32> loc("layers.3.silu_exp")
  %layers.3.silu_den = arith.addf %layers.3.silu_exp, %layers.3.one : tensor<16384x14336xf32> loc("layers.3.silu_den")
  %layers.3.sigmoid = arith.divf %layers.3.one, %layers.3.silu_den : tensor<16384x14336xf32> loc("layers.3.sigmoid")
  %layers.3.silu_f32 = arith.mulf %layers.3.gate_f32, %layers.3.sigmoid : tensor<16384x14336xf32> loc("layers.3.silu_f32")
  %layers.3.silu = arith.truncf %layers.3.silu_f32 : tensor<16384x14336xf32> to tensor<16384x14336xbf16> loc("layers.3.silu")
  %layers.3.act = arith.mulf %layers.3.silu, %layers.3.up : tensor<16384x14336xbf16> loc("layers.3.act")
  %layers.3.w2_all = fp8.all_gather %layers.3.w2 axis = "fsdp" dim = 0 : tensor<512x14336xbf16> -> tensor<4096x14336xbf16> loc("layers.3.w2_all")
  %layers.3.down = fp8.linear %layers.3.act, %layers.3.w2_all recipe<tensorwise> : tensor<16384x14336xbf16>, tensor<4096x14336xbf16> -> tensor<16384x4096xbf16> loc("layers.3.down")
  %layers.3.out = arith.addf %layers.2.out, %layers.3.down : tensor<16384x4096xbf16> loc("layers.3.out")
  return %layers.3.out : tensor<16384x4096xbf16>
}
}
