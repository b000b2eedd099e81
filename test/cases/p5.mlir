// P5 (pytorch 190758): below a budget dropout was drawn again in backward, so gradients were silently wrong.
//
// Right: what draws random numbers is not run again whatever the policy or the budget: its mask is kept, 33,554,432 bytes.
//
// RUN: fp8-opt %s --compile=policy=recompute-all --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'mask': 33554432}" "recomputed == {}"
// RUN: fp8-opt %s --compile=policy=auto --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'mask': 33554432}" "min_feasible_peak_bytes == peak_bytes"

func.func @p5(%x: tensor<8192x4096xbf16> loc("x"), %dy: tensor<8192x4096xbf16> {fp8.tangent} loc("dy")) -> (tensor<8192x4096xbf16>, tensor<8192x4096xbf16>) {
  %results:2 = fp8.step -> (tensor<8192x4096xbf16>, tensor<8192x4096xbf16>) forward {
    %mask = fp8.opaque "dropout_mask"() {recompute = "never"} : () -> tensor<8192x4096xi8> loc("mask")
    %y = fp8.opaque "drop"(%x, %mask) : (tensor<8192x4096xbf16>, tensor<8192x4096xi8>) -> tensor<8192x4096xbf16> loc("y")
    fp8.yield %y residuals(%mask) : tensor<8192x4096xbf16> residuals(tensor<8192x4096xi8>)
  } backward (%mr: tensor<8192x4096xi8>) {
    %dx = fp8.opaque "drop"(%dy, %mr) : (tensor<8192x4096xbf16>, tensor<8192x4096xi8>) -> tensor<8192x4096xbf16> loc("dx")
    fp8.yield %dx : tensor<8192x4096xbf16>
  }
  return %results#0, %results#1 : tensor<8192x4096xbf16>, tensor<8192x4096xbf16>
}
