// F17 (Megatron-LM 1478): the auxiliary loss was counted twice, since a recomputed region logged it again.
//
// Right: what is computed again is computed without its effect; the plan logs once.
//
// RUN: fp8-opt %s --compile=policy=recompute-all --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "[op for op in order if op.startswith('fp8.opaque')] == ['fp8.opaque#1']" "recomputed == {'p': 1}" "saved == {}"

func.func @f17(%x: tensor<256x256xf32> loc("x"), %dy: tensor<256x256xf32> {fp8.tangent} loc("dy")) -> (tensor<256x256xf32>, tensor<256x256xf32>) {
  %results:2 = fp8.step -> (tensor<256x256xf32>, tensor<256x256xf32>) forward {
    %p = fp8.opaque "router"(%x) : (tensor<256x256xf32>) -> tensor<256x256xf32> loc("p")
    fp8.opaque "log"(%p) {recompute = "never", stateful} : (tensor<256x256xf32>) -> ()
    %y = fp8.opaque "experts"(%p) : (tensor<256x256xf32>) -> tensor<256x256xf32> loc("y")
    fp8.yield %y residuals(%p) : tensor<256x256xf32> residuals(tensor<256x256xf32>)
  } backward (%pr: tensor<256x256xf32>) {
    %dx = fp8.opaque "backward"(%pr, %dy) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("dx")
    fp8.yield %dx : tensor<256x256xf32>
  }
  return %results#0, %results#1 : tensor<256x256xf32>, tensor<256x256xf32>
}
