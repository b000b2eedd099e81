// P5 (pytorch 190758): below a budget dropout was drawn again in backward, so gradients were silently wrong.
//
// Right: what draws random numbers is not run again whatever the policy or the budget: its mask is kept, 33,554,432 bytes.
//
// A draw that depends on nothing but a seed, an offset and its place may run again, since it draws the same: its seed and
// offset are 8 bytes, and the mask is kept or not as any other value; bits are those of every other plan.
//
// RUN: split-file %s %t
// RUN: fp8-opt %t/fresh.mlir --compile=policy=recompute-all --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'mask': 33554432}" "recomputed == {}"
// RUN: fp8-opt %t/fresh.mlir --compile=policy=auto --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'mask': 33554432}" "min_feasible_peak_bytes == peak_bytes"

// RUN: fp8-opt %t/counted.mlir --compile=policy=recompute-all --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {}" "recomputed['mask'] == 1" "recomputed['u'] == 1"
// RUN: fp8-opt %t/counted.mlir --compile=policy=save-all --emit=plan -o %t.json
// RUN: %python %S/plan.py %t.json "saved == {'mask': 33554432}" "recomputed == {}"
// RUN: fp8-run %t/small.mlir --policy=recompute-all --check --json=%t.a.json
// RUN: fp8-run %t/small.mlir --policy=save-all --check --json=%t.b.json
// RUN: %python %fp8_src_root/test/examples/Inputs/same_outputs.py %t.a.json %t.b.json

//--- fresh.mlir
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

//--- counted.mlir
func.func @p5(%x: tensor<8192x4096xf32> loc("x"), %seed: tensor<1x1xi32> loc("seed"), %offset: tensor<1x1xi32> loc("offset")) -> tensor<8192x4096xf32> {
  %u = fp8.random %seed, %offset : tensor<1x1xi32> -> tensor<8192x4096xf32> loc("u")
  %p = arith.constant dense<2.500000e-01> : tensor<8192x4096xf32>
  %zero = arith.constant dense<0.000000e+00> : tensor<8192x4096xf32>
  %mask = arith.cmpf oge, %u, %p : tensor<8192x4096xf32> loc("mask")
  %y = arith.select %mask, %x, %zero : tensor<8192x4096xi1>, tensor<8192x4096xf32> loc("y")
  return %y : tensor<8192x4096xf32>
}

//--- small.mlir
func.func @p5(%x: tensor<48x80xf32> loc("x"), %seed: tensor<1x1xi32> loc("seed"), %offset: tensor<1x1xi32> loc("offset")) -> tensor<48x80xf32> {
  %u = fp8.random %seed, %offset : tensor<1x1xi32> -> tensor<48x80xf32> loc("u")
  %p = arith.constant dense<2.500000e-01> : tensor<48x80xf32>
  %zero = arith.constant dense<0.000000e+00> : tensor<48x80xf32>
  %mask = arith.cmpf oge, %u, %p : tensor<48x80xf32> loc("mask")
  %y = arith.select %mask, %x, %zero : tensor<48x80xi1>, tensor<48x80xf32> loc("y")
  return %y : tensor<48x80xf32>
}
