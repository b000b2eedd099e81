// F18 (pytorch 188655): the source of an asynchronous collective was freed, and written over, while it ran.
//
// Right: the source is freed at the wait, not at its last reader, the start; what runs in between does not lie in it. It has
// storage of its own, since an opaque op makes it.
//
// RUN: fp8-opt %s --compile --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "freed['a'] == ['w']" "freed['g'] == ['c']" \
// RUN:   "live['o'] == 16384 + 32768 + 32768" "live['w'] == 16384 + 32768 + 32768"
// RUN: fp8-opt %s --compile --compile-to=placed | fp8-opt --fp8-check-plan -o /dev/null

module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f18(%x: tensor<64x64xf32>, %z: tensor<128x64xf32>) -> tensor<128x64xf32> {
  %results = fp8.step -> (tensor<128x64xf32>) forward {
    %a = fp8.opaque "exp"(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("a")
    %g, %t = fp8.all_gather_start %a axis = "tp" dim = 0 : tensor<64x64xf32> -> tensor<128x64xf32>, !fp8.token loc("g")
    %o = fp8.opaque "other"(%z) : (tensor<128x64xf32>) -> tensor<128x64xf32> loc("o")
    %w = fp8.wait %g, %t : tensor<128x64xf32> loc("w")
    %c = fp8.opaque "sum"(%w, %o) : (tensor<128x64xf32>, tensor<128x64xf32>) -> tensor<128x64xf32> loc("c")
    fp8.yield %c : tensor<128x64xf32>
  } backward {
    fp8.yield
  }
  return %results : tensor<128x64xf32>
}
}
