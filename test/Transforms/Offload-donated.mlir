// What is to be in host memory, but is made where a donated argument was, takes no memory of the device and stays there.
//
// RUN: fp8-opt %s --compile=target=h200 --emit=plan | FileCheck %s
// RUN: sed 's/ {fp8.donated}//' %s | fp8-opt - --compile=target=h200 --emit=plan | FileCheck %s --check-prefix=OWN

// CHECK: "host_bytes": 0
// CHECK: "in_place": [
// CHECK: "over": "arg#0"
// CHECK-NEXT: "storage": "argument"
// CHECK-NEXT: "value": "math.tanh#0.0"

// OWN: "host_bytes": 262144
func.func @f(%x: tensor<256x256xf32> {fp8.donated}, %w: tensor<256x256xf32> {fp8.parameter}) -> tensor<256x256xf32> {
  %t = math.tanh %x {fp8.policy = "offload"} : tensor<256x256xf32>
  %y = arith.mulf %t, %w : tensor<256x256xf32>
  return %y : tensor<256x256xf32>
}
