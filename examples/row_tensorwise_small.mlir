// python3 examples/gen.py --layers=1 --kind=row --tokens=512 --dim=256 --ffn=512 --recipe=tensorwise --ranks=4
// 1 row-parallel linears on 4 ranks, forward only.

module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @row(
    %x: tensor<512x128xbf16> {fp8.shard = ["", "tp"]} loc("x"),
    %layers.0.w: tensor<256x128xbf16> {fp8.parameter, fp8.shard = ["", "tp"]} loc("layers.0.w")) -> (tensor<128x256xbf16> {fp8.shard = ["tp", ""]}) {
  %layers.0.part = fp8.linear %x, %layers.0.w recipe<tensorwise> : tensor<512x128xbf16>, tensor<256x128xbf16> -> tensor<512x256xbf16> loc("layers.0.part")
  %layers.0.y = fp8.reduce_scatter sum %layers.0.part axis = "tp" dim = 0 : tensor<512x256xbf16> -> tensor<128x256xbf16> loc("layers.0.y")
  return %layers.0.y : tensor<128x256xbf16>
}
}
