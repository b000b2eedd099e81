// F1 (TransformerEngine 2125): the gathered input of a column-parallel linear lived past its matmul.
//
// 256 tokens on 2 ranks, 256 channels, 1x128 scales. Right: what backward keeps is the column copy of the shard, 32 KiB and
// 1 KiB of scales; the row copy lies in the gathered tensor, and so does not outlive it, which goes (64 KiB) directly after the
// matmul and is never among what is kept.
//
// RUN: fp8-opt %s --compile=policy=save-all --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'x.col128.scale.shard': 1024, 'x.col128.e4m3.shard': 32768}" \
// RUN:   "freed['x.row128.e4m3'] == ['y']" "{i['value']: i['over'] for i in in_place}['x.row128.e4m3'] == 'x.row128.e4m3.shard'" \
// RUN:   "[t['result_bytes'] for t in transfers if t['value'] == 'x.row128.e4m3'] == [65536]"
// RUN: fp8-opt %s --compile=policy=save-all --compile-to=placed | fp8-opt --fp8-check-plan -o /dev/null

module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f1(%in: tensor<128x256xbf16> {fp8.frozen} loc("in"), %w: tensor<128x256xbf16> {fp8.parameter} loc("w")) -> tensor<256x128xbf16> {
  %x = fp8.opaque "norm"(%in) {recompute = "never"} : (tensor<128x256xbf16>) -> tensor<128x256xbf16> loc("x")
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<128x256xbf16> -> tensor<256x256xbf16> loc("x")
  %y = fp8.linear %g, %w recipe<block128> : tensor<256x256xbf16>, tensor<128x256xbf16> -> tensor<256x128xbf16> loc("y")
  return %y : tensor<256x128xbf16>
}
}
