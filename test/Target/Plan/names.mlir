// Each value and each kernel of a function has a name of its own: results of one op go by their numbers, also when they are
// computed again, and in the names of what is made of them; of ops that have one name the later ones are marked. So frees can
// be told apart, and those that are early counted. check_plan.py finds all names anew from the placed IR.
//
// RUN: %python %S/check_plan.py %s %fp8_src_root/lib/Target/Target/targets h200 save-all recompute-all min-cut auto
// RUN: fp8-opt %s --compile=policy=save-all --emit=plan -o %t.json
// RUN: %python -c "import json, sys; plan = json.load(open(sys.argv[1])); print(*[entry['value'] for entry in plan['saved']])" \
// RUN:   %t.json | FileCheck %s --check-prefix=SAVED
// RUN: fp8-opt %s --compile=policy=recompute-all --emit=plan -o %t.json
// RUN: %python -c "import json, sys; plan = json.load(open(sys.argv[1])); print(*[entry['op'] for entry in plan['timeline']])" \
// RUN:   %t.json | FileCheck %s --check-prefix=ORDER
// RUN: fp8-opt %s --compile=policy=recompute-all,split=backward --emit=plan | FileCheck %s --check-prefix=SPLIT
//
// SAVED: pair#0 pair#1 pair#0.col.scale w.col.scale act act'2
// ORDER: fp8.push_amax#0 fp8.push_amax#1 pair#0 pair#0.row.scale
// ORDER: pair#0~recomputed pair#0.row.scale~recomputed
// SPLIT: "value": "pair#1"
func.func @step(%x: tensor<256x128xbf16> loc("x"), %w: tensor<128x128xbf16> {fp8.parameter} loc("w"),
    %h0: tensor<4xf32> {fp8.state} loc("h0"), %h1: tensor<4xf32> {fp8.state} loc("h1")) -> tensor<256x128xbf16> {
  %pair:2 = fp8.opaque "pair"(%x) {adjoint = {name = "pair_backward", operands = [0], results = [0, 1]}}
    : (tensor<256x128xbf16>) -> (tensor<256x128xbf16>, tensor<256x128xbf16>) loc("pair")
  %m = fp8.amax %x group = [0, 0] : tensor<256x128xbf16> -> tensor<1x1xf32>
  fp8.push_amax %m, %h0 : tensor<1x1xf32>, tensor<4xf32>
  fp8.push_amax %m, %h1 : tensor<1x1xf32>, tensor<4xf32>
  %l = fp8.linear %pair#0, %w recipe<rowwise> : tensor<256x128xbf16>, tensor<128x128xbf16> -> tensor<256x128xbf16> loc("l")
  %a = math.tanh %l : tensor<256x128xbf16> loc("act")
  %b = arith.addf %a, %pair#1 : tensor<256x128xbf16> loc("b")
  %c = math.tanh %b : tensor<256x128xbf16> loc("act")
  %y = arith.addf %c, %x : tensor<256x128xbf16> loc("y")
  return %y : tensor<256x128xbf16>
}
