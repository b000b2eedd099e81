// python3 examples/gen.py --layers=2 --kind=ffn --tokens=256 --dim=256 --ffn=640 --recipe=delayed
// 2 feed-forward layers with residual: h = x + w2(silu(w1(x)) * w3(x)), forward only.

func.func @ffn(
    %x: tensor<256x256xbf16> loc("x"),
    %layers.0.w1: tensor<640x256xbf16> {fp8.parameter} loc("layers.0.w1"),
    %layers.0.w1.x_history: tensor<16xf32> {fp8.state} loc("layers.0.w1.x_history"),
    %layers.0.w1.x_scale: tensor<1x1xf32> {fp8.state} loc("layers.0.w1.x_scale"),
    %layers.0.w1.w_history: tensor<16xf32> {fp8.state} loc("layers.0.w1.w_history"),
    %layers.0.w1.w_scale: tensor<1x1xf32> {fp8.state} loc("layers.0.w1.w_scale"),
    %layers.0.w1.dy_history: tensor<16xf32> {fp8.state} loc("layers.0.w1.dy_history"),
    %layers.0.w1.dy_scale: tensor<1x1xf32> {fp8.state} loc("layers.0.w1.dy_scale"),
    %layers.0.w3: tensor<640x256xbf16> {fp8.parameter} loc("layers.0.w3"),
    %layers.0.w3.x_history: tensor<16xf32> {fp8.state} loc("layers.0.w3.x_history"),
    %layers.0.w3.x_scale: tensor<1x1xf32> {fp8.state} loc("layers.0.w3.x_scale"),
    %layers.0.w3.w_history: tensor<16xf32> {fp8.state} loc("layers.0.w3.w_history"),
    %layers.0.w3.w_scale: tensor<1x1xf32> {fp8.state} loc("layers.0.w3.w_scale"),
    %layers.0.w3.dy_history: tensor<16xf32> {fp8.state} loc("layers.0.w3.dy_history"),
    %layers.0.w3.dy_scale: tensor<1x1xf32> {fp8.state} loc("layers.0.w3.dy_scale"),
    %layers.0.w2: tensor<256x640xbf16> {fp8.parameter} loc("layers.0.w2"),
    %layers.0.w2.x_history: tensor<16xf32> {fp8.state} loc("layers.0.w2.x_history"),
    %layers.0.w2.x_scale: tensor<1x1xf32> {fp8.state} loc("layers.0.w2.x_scale"),
    %layers.0.w2.w_history: tensor<16xf32> {fp8.state} loc("layers.0.w2.w_history"),
    %layers.0.w2.w_scale: tensor<1x1xf32> {fp8.state} loc("layers.0.w2.w_scale"),
    %layers.0.w2.dy_history: tensor<16xf32> {fp8.state} loc("layers.0.w2.dy_history"),
    %layers.0.w2.dy_scale: tensor<1x1xf32> {fp8.state} loc("layers.0.w2.dy_scale"),
    %layers.1.w1: tensor<640x256xbf16> {fp8.parameter} loc("layers.1.w1"),
    %layers.1.w1.x_history: tensor<16xf32> {fp8.state} loc("layers.1.w1.x_history"),
    %layers.1.w1.x_scale: tensor<1x1xf32> {fp8.state} loc("layers.1.w1.x_scale"),
    %layers.1.w1.w_history: tensor<16xf32> {fp8.state} loc("layers.1.w1.w_history"),
    %layers.1.w1.w_scale: tensor<1x1xf32> {fp8.state} loc("layers.1.w1.w_scale"),
    %layers.1.w1.dy_history: tensor<16xf32> {fp8.state} loc("layers.1.w1.dy_history"),
    %layers.1.w1.dy_scale: tensor<1x1xf32> {fp8.state} loc("layers.1.w1.dy_scale"),
    %layers.1.w3: tensor<640x256xbf16> {fp8.parameter} loc("layers.1.w3"),
    %layers.1.w3.x_history: tensor<16xf32> {fp8.state} loc("layers.1.w3.x_history"),
    %layers.1.w3.x_scale: tensor<1x1xf32> {fp8.state} loc("layers.1.w3.x_scale"),
    %layers.1.w3.w_history: tensor<16xf32> {fp8.state} loc("layers.1.w3.w_history"),
    %layers.1.w3.w_scale: tensor<1x1xf32> {fp8.state} loc("layers.1.w3.w_scale"),
    %layers.1.w3.dy_history: tensor<16xf32> {fp8.state} loc("layers.1.w3.dy_history"),
    %layers.1.w3.dy_scale: tensor<1x1xf32> {fp8.state} loc("layers.1.w3.dy_scale"),
    %layers.1.w2: tensor<256x640xbf16> {fp8.parameter} loc("layers.1.w2"),
    %layers.1.w2.x_history: tensor<16xf32> {fp8.state} loc("layers.1.w2.x_history"),
    %layers.1.w2.x_scale: tensor<1x1xf32> {fp8.state} loc("layers.1.w2.x_scale"),
    %layers.1.w2.w_history: tensor<16xf32> {fp8.state} loc("layers.1.w2.w_history"),
    %layers.1.w2.w_scale: tensor<1x1xf32> {fp8.state} loc("layers.1.w2.w_scale"),
    %layers.1.w2.dy_history: tensor<16xf32> {fp8.state} loc("layers.1.w2.dy_history"),
    %layers.1.w2.dy_scale: tensor<1x1xf32> {fp8.state} loc("layers.1.w2.dy_scale")) -> tensor<256x256xbf16> {
  %one = arith.constant dense<1.000000e+00> : tensor<256x640xf32> loc("one")
  %layers.0.gate = fp8.linear %x, %layers.0.w1 state(%layers.0.w1.x_history, %layers.0.w1.x_scale, %layers.0.w1.w_history, %layers.0.w1.w_scale, %layers.0.w1.dy_history, %layers.0.w1.dy_scale : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>) recipe<delayed> : tensor<256x256xbf16>, tensor<640x256xbf16> -> tensor<256x640xbf16> loc("layers.0.gate")
  %layers.0.up = fp8.linear %x, %layers.0.w3 state(%layers.0.w3.x_history, %layers.0.w3.x_scale, %layers.0.w3.w_history, %layers.0.w3.w_scale, %layers.0.w3.dy_history, %layers.0.w3.dy_scale : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>) recipe<delayed> : tensor<256x256xbf16>, tensor<640x256xbf16> -> tensor<256x640xbf16> loc("layers.0.up")
  %layers.0.gate_f32 = arith.extf %layers.0.gate : tensor<256x640xbf16> to tensor<256x640xf32> loc("layers.0.gate_f32")
  %layers.0.silu_neg = arith.negf %layers.0.gate_f32 : tensor<256x640xf32> loc("layers.0.silu_neg")
  %layers.0.silu_exp = math.exp %layers.0.silu_neg : tensor<256x640xf32> loc("layers.0.silu_exp")
  %layers.0.silu_den = arith.addf %layers.0.silu_exp, %one : tensor<256x640xf32> loc("layers.0.silu_den")
  %layers.0.sigmoid = arith.divf %one, %layers.0.silu_den : tensor<256x640xf32> loc("layers.0.sigmoid")
  %layers.0.silu_f32 = arith.mulf %layers.0.gate_f32, %layers.0.sigmoid : tensor<256x640xf32> loc("layers.0.silu_f32")
  %layers.0.silu = arith.truncf %layers.0.silu_f32 : tensor<256x640xf32> to tensor<256x640xbf16> loc("layers.0.silu")
  %layers.0.act = arith.mulf %layers.0.silu, %layers.0.up : tensor<256x640xbf16> loc("layers.0.act")
  %layers.0.down = fp8.linear %layers.0.act, %layers.0.w2 state(%layers.0.w2.x_history, %layers.0.w2.x_scale, %layers.0.w2.w_history, %layers.0.w2.w_scale, %layers.0.w2.dy_history, %layers.0.w2.dy_scale : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>) recipe<delayed> : tensor<256x640xbf16>, tensor<256x640xbf16> -> tensor<256x256xbf16> loc("layers.0.down")
  %layers.0.out = arith.addf %x, %layers.0.down {fp8.checkpoint} : tensor<256x256xbf16> loc("layers.0.out")
  %layers.1.gate = fp8.linear %layers.0.out, %layers.1.w1 state(%layers.1.w1.x_history, %layers.1.w1.x_scale, %layers.1.w1.w_history, %layers.1.w1.w_scale, %layers.1.w1.dy_history, %layers.1.w1.dy_scale : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>) recipe<delayed> : tensor<256x256xbf16>, tensor<640x256xbf16> -> tensor<256x640xbf16> loc("layers.1.gate")
  %layers.1.up = fp8.linear %layers.0.out, %layers.1.w3 state(%layers.1.w3.x_history, %layers.1.w3.x_scale, %layers.1.w3.w_history, %layers.1.w3.w_scale, %layers.1.w3.dy_history, %layers.1.w3.dy_scale : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>) recipe<delayed> : tensor<256x256xbf16>, tensor<640x256xbf16> -> tensor<256x640xbf16> loc("layers.1.up")
  %layers.1.gate_f32 = arith.extf %layers.1.gate : tensor<256x640xbf16> to tensor<256x640xf32> loc("layers.1.gate_f32")
  %layers.1.silu_neg = arith.negf %layers.1.gate_f32 : tensor<256x640xf32> loc("layers.1.silu_neg")
  %layers.1.silu_exp = math.exp %layers.1.silu_neg : tensor<256x640xf32> loc("layers.1.silu_exp")
  %layers.1.silu_den = arith.addf %layers.1.silu_exp, %one : tensor<256x640xf32> loc("layers.1.silu_den")
  %layers.1.sigmoid = arith.divf %one, %layers.1.silu_den : tensor<256x640xf32> loc("layers.1.sigmoid")
  %layers.1.silu_f32 = arith.mulf %layers.1.gate_f32, %layers.1.sigmoid : tensor<256x640xf32> loc("layers.1.silu_f32")
  %layers.1.silu = arith.truncf %layers.1.silu_f32 : tensor<256x640xf32> to tensor<256x640xbf16> loc("layers.1.silu")
  %layers.1.act = arith.mulf %layers.1.silu, %layers.1.up : tensor<256x640xbf16> loc("layers.1.act")
  %layers.1.down = fp8.linear %layers.1.act, %layers.1.w2 state(%layers.1.w2.x_history, %layers.1.w2.x_scale, %layers.1.w2.w_history, %layers.1.w2.w_scale, %layers.1.w2.dy_history, %layers.1.w2.dy_scale : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>) recipe<delayed> : tensor<256x640xbf16>, tensor<256x640xbf16> -> tensor<256x256xbf16> loc("layers.1.down")
  %layers.1.out = arith.addf %layers.0.out, %layers.1.down : tensor<256x256xbf16> loc("layers.1.out")
  return %layers.1.out : tensor<256x256xbf16>
}
