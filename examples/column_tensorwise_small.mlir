// python3 examples/gen.py --layers=1 --kind=column --tokens=512 --dim=256 --ffn=512 --recipe=tensorwise --ranks=4
// 1 LayerNorms and column-parallel linears on 4 ranks, forward only.

module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @column(
    %x: tensor<128x256xbf16> {fp8.shard = ["tp", ""]} loc("x"),
    %layers.0.gain: tensor<1x256xbf16> {fp8.parameter} loc("layers.0.gain"),
    %layers.0.bias: tensor<1x256xbf16> {fp8.parameter} loc("layers.0.bias"),
    %layers.0.w: tensor<128x256xbf16> {fp8.parameter, fp8.shard = ["tp", ""]} loc("layers.0.w")) -> (tensor<512x128xbf16> {fp8.shard = ["", "tp"]}) {
  %layers.0.ln_dim = arith.constant dense<2.560000e+02> : tensor<128x1xf32> loc("layers.0.ln_dim")
  %layers.0.ln_f32 = arith.extf %x : tensor<128x256xbf16> to tensor<128x256xf32> loc("layers.0.ln_f32")
  %layers.0.ln_sum = fp8.reduce sum %layers.0.ln_f32 [1] : tensor<128x256xf32> -> tensor<128x1xf32> loc("layers.0.ln_sum")
  %layers.0.ln_mean = arith.divf %layers.0.ln_sum, %layers.0.ln_dim : tensor<128x1xf32> loc("layers.0.ln_mean")
  %layers.0.ln_mean_b = fp8.broadcast %layers.0.ln_mean : tensor<128x1xf32> -> tensor<128x256xf32> loc("layers.0.ln_mean_b")
  %layers.0.ln_centred = arith.subf %layers.0.ln_f32, %layers.0.ln_mean_b : tensor<128x256xf32> loc("layers.0.ln_centred")
  %layers.0.ln_square = arith.mulf %layers.0.ln_centred, %layers.0.ln_centred : tensor<128x256xf32> loc("layers.0.ln_square")
  %layers.0.ln_squares = fp8.reduce sum %layers.0.ln_square [1] : tensor<128x256xf32> -> tensor<128x1xf32> loc("layers.0.ln_squares")
  %layers.0.ln_variance = arith.divf %layers.0.ln_squares, %layers.0.ln_dim : tensor<128x1xf32> loc("layers.0.ln_variance")
  %layers.0.ln_eps = arith.constant dense<7.62939453125000000e-06> : tensor<128x1xf32> loc("layers.0.ln_eps")
  %layers.0.ln_var = arith.addf %layers.0.ln_variance, %layers.0.ln_eps : tensor<128x1xf32> loc("layers.0.ln_var")
  %layers.0.ln_rsqrt = math.rsqrt %layers.0.ln_var : tensor<128x1xf32> loc("layers.0.ln_rsqrt")
  %layers.0.ln_factor = fp8.broadcast %layers.0.ln_rsqrt : tensor<128x1xf32> -> tensor<128x256xf32> loc("layers.0.ln_factor")
  %layers.0.ln_scaled = arith.mulf %layers.0.ln_centred, %layers.0.ln_factor : tensor<128x256xf32> loc("layers.0.ln_scaled")
  %layers.0.ln_gain_f32 = arith.extf %layers.0.gain : tensor<1x256xbf16> to tensor<1x256xf32> loc("layers.0.ln_gain_f32")
  %layers.0.ln_gain = fp8.broadcast %layers.0.ln_gain_f32 : tensor<1x256xf32> -> tensor<128x256xf32> loc("layers.0.ln_gain")
  %layers.0.ln_bias_f32 = arith.extf %layers.0.bias : tensor<1x256xbf16> to tensor<1x256xf32> loc("layers.0.ln_bias_f32")
  %layers.0.ln_bias = fp8.broadcast %layers.0.ln_bias_f32 : tensor<1x256xf32> -> tensor<128x256xf32> loc("layers.0.ln_bias")
  %layers.0.ln_times = arith.mulf %layers.0.ln_scaled, %layers.0.ln_gain : tensor<128x256xf32> loc("layers.0.ln_times")
  %layers.0.ln_wide = arith.addf %layers.0.ln_times, %layers.0.ln_bias : tensor<128x256xf32> loc("layers.0.ln_wide")
  %layers.0.ln = arith.truncf %layers.0.ln_wide : tensor<128x256xf32> to tensor<128x256xbf16> loc("layers.0.ln")
  %layers.0.ln_all = fp8.all_gather %layers.0.ln axis = "tp" dim = 0 : tensor<128x256xbf16> -> tensor<512x256xbf16> loc("layers.0.ln_all")
  %layers.0.y = fp8.linear %layers.0.ln_all, %layers.0.w recipe<tensorwise> : tensor<512x256xbf16>, tensor<128x256xbf16> -> tensor<512x128xbf16> loc("layers.0.y")
  return %layers.0.y : tensor<512x128xbf16>
}
}
