// What is not known is null, with the reason beside it: a program that fp8-select-saved has not seen has neither a
// policy nor bounds. Values without a name are called by their op.
//
// RUN: fp8-opt %s --fp8-form-kernels --fp8-insert-frees --fp8-place | fp8-opt - --compile --emit=plan | FileCheck %s
// CHECK: "arena_bytes": 1280,
// CHECK-NEXT: "balanced_peak_bytes": 804,
// CHECK-NEXT: "bound_kind": null,
// CHECK-NEXT: "communication_us": 0,
// CHECK-NEXT: "device_bytes": 1680,
// CHECK-NEXT: "frees": [
// CHECK-NEXT: {
// CHECK-NEXT: "after": "fp8.opaque#1.0",
// CHECK-NEXT: "after_kind": "kernel",
// CHECK-NEXT: "bytes": 400,
// CHECK-NEXT: "naive_after": "fp8.opaque#1.0",
// CHECK-NEXT: "naive_after_kind": "kernel",
// CHECK-NEXT: "value": "fp8.opaque#0.1"
// CHECK: "functions": [
// CHECK: "gap_pct": null,
// CHECK-NEXT: "gap_reason": "fp8-select-saved has not run on this function",
// CHECK-NEXT: "grouped": [],
// CHECK-NEXT: "hidden_us": 0,
// CHECK-NEXT: "host_bytes": 0,
// CHECK-NEXT: "host_hidden_us": 0,
// CHECK-NEXT: "host_us": 0,
// CHECK-NEXT: "in_place": [],
// CHECK-NEXT: "interrupted": false,
// CHECK-NEXT: "lossy": [],
// CHECK-NEXT: "lower_bound_bytes": null,
// CHECK-NEXT: "lower_bound_reason": "fp8-select-saved has not run on this function",
// CHECK-NEXT: "min_feasible_peak_bytes": null,
// CHECK-NEXT: "min_feasible_peak_reason": "fp8-select-saved has not run on this function",
// CHECK: "peak_bytes": 804,
// CHECK-NEXT: "pieces": [],
// CHECK-NEXT: "policy": "",
func.func @line(%x: tensor<100xf32>) -> (tensor<1xf32>, tensor<100xf32>) {
  %a:2 = fp8.opaque "two"(%x) : (tensor<100xf32>) -> (tensor<1xf32>, tensor<100xf32>)
  %b = fp8.opaque "one"(%a#1) : (tensor<100xf32>) -> tensor<100xf32>
  return %a#0, %b : tensor<1xf32>, tensor<100xf32>
}
