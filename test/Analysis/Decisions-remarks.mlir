// RUN: fp8-opt %s --fp8-select-saved=policy=op-list --remarks-filter=fp8-select-saved --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s
// RUN: fp8-opt %s --fp8-select-saved=policy=op-list -o /dev/null 2>&1 | FileCheck %s --check-prefix=OFF --allow-empty

// Each decision is a remark with its reason and its bytes; without a filter there is none.

// CHECK: remark: loc("w_abs"): [Passed] kept | Category:fp8-select-saved
// CHECK-SAME: Reason="'math.absf' is in the list of op-list and backward reads its result: 4,096 B"
// CHECK-SAME: bytes=4096
// CHECK: remark: loc("w_exp"): [Passed] recomputed | Category:fp8-select-saved
// CHECK-SAME: Reason="recompute costs
// CHECK-SAME: bytes=4096
// OFF-NOT: remark
func.func @f(%w: tensor<32x64xbf16> {fp8.parameter}, %d: tensor<32x64xbf16> {fp8.tangent}) -> (tensor<32x64xbf16>, tensor<32x64xbf16>) {
  %y, %g = fp8.step -> (tensor<32x64xbf16>, tensor<32x64xbf16>) forward {
    %e = math.exp %w : tensor<32x64xbf16> loc("w_exp")
    %a = math.absf %e : tensor<32x64xbf16> loc("w_abs")
    %n = arith.negf %a : tensor<32x64xbf16>
    fp8.yield %n residuals(%e, %a) : tensor<32x64xbf16> residuals(tensor<32x64xbf16>, tensor<32x64xbf16>)
  } backward (%e: tensor<32x64xbf16>, %a: tensor<32x64xbf16>) {
    %p = arith.mulf %d, %e : tensor<32x64xbf16>
    %q = arith.mulf %p, %a : tensor<32x64xbf16>
    fp8.yield %q : tensor<32x64xbf16>
  }
  return %y, %g : tensor<32x64xbf16>, tensor<32x64xbf16>
}
