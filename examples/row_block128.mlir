// python3 examples/gen.py --layers=1 --kind=row --tokens=16384 --dim=4096 --ffn=14336 --recipe=block128 --ranks=8
// 1 row-parallel linears on 8 ranks, forward only.

module attributes {fp8.grid = {tp = 8 : i64}} {
func.func @row(
    %x: tensor<16384x1792xbf16> {fp8.shard = ["", "tp"]} loc("x"),
    %layers.0.w: tensor<4096x1792xbf16> {fp8.parameter, fp8.shard = ["", "tp"]} loc("layers.0.w")) -> (tensor<2048x4096xbf16> {fp8.shard = ["tp", ""]}) {
  %layers.0.part = fp8.linear %x, %layers.0.w recipe<block128> : tensor<16384x1792xbf16>, tensor<4096x1792xbf16> -> tensor<16384x4096xbf16> loc("layers.0.part")
  %layers.0.y = fp8.reduce_scatter sum %layers.0.part axis = "tp" dim = 0 : tensor<16384x4096xbf16> -> tensor<2048x4096xbf16> loc("layers.0.y")
  return %layers.0.y : tensor<2048x4096xbf16>
}
}
