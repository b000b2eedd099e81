// What reads a state that the step updates stays on its side of the update, although its only reader comes later: it is
// a kernel of its own, in program order with the update.
//
// RUN: fp8-opt %s --compile --compile-to=placed | FileCheck %s
// CHECK: fp8.kernel loop
// CHECK-NEXT: fp8.amax {{.*}} group = [0] : tensor<16xf32>
// CHECK: fp8.push_amax
// CHECK-NOT: fp8.amax {{.*}} group = [0] : tensor<16xf32>

#all = #fp8.tensor<scale = [all, all]>
func.func @f(%x: tensor<256x256xbf16> loc("x"), %hist: tensor<16xf32> {fp8.state} loc("hist")) -> (tensor<256x256xbf16>, tensor<1xf32>) {
  %y, %z = fp8.step -> (tensor<256x256xbf16>, tensor<1xf32>) forward {
    %hm = fp8.amax %hist group = [0] : tensor<16xf32> -> tensor<1xf32> loc("hm")
    %m = fp8.amax %x group = [0, 0] : tensor<256x256xbf16> -> tensor<1x1xf32> loc("m")
    fp8.push_amax %m, %hist : tensor<1x1xf32>, tensor<16xf32>
    %y0 = fp8.opaque "big"(%x) : (tensor<256x256xbf16>) -> tensor<256x256xbf16> loc("y0")
    %r = fp8.slice %y0 [0, 0] : tensor<256x256xbf16> -> tensor<1x1xbf16>
    %e = arith.extf %r : tensor<1x1xbf16> to tensor<1x1xf32> loc("e")
    %rr = fp8.reshape %e : tensor<1x1xf32> -> tensor<1xf32>
    %z0 = arith.addf %hm, %rr : tensor<1xf32> loc("z0")
    fp8.yield %y0, %z0 : tensor<256x256xbf16>, tensor<1xf32>
  } backward {
    fp8.yield
  }
  return %y, %z : tensor<256x256xbf16>, tensor<1xf32>
}
