// A transposed cast goes through shared memory in tiles: 16 bytes in, 16 bytes out, and the conversion itself packs
// neighbours along the column.

// RUN: fp8-opt %s --compile --emit=ptx | FileCheck %s

// CHECK: .visible .entry k0_cast_transpose(
// CHECK: .reqntid 256, 1, 1
// CHECK: .shared .align 16 .b8 k0_cast_transpose_shared0[16384];
// CHECK-NOT: .local
// CHECK-COUNT-10: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK-COUNT-16: cvt.rn.satfinite.e4m3x2.f32
// CHECK-NOT: cvt.rn.satfinite
// CHECK-COUNT-8: st.shared.v2.b16
// CHECK-COUNT-16: cvt.rn.satfinite.e4m3x2.f32
// CHECK-COUNT-8: st.shared.v2.b16
// CHECK: bar.sync
// CHECK-COUNT-4: st.global.v4.b32
// CHECK-NOT: st.global

module attributes {fp8.target = "h200"} {
  func.func @f(%x: tensor<16384x4096xbf16>, %s: tensor<1x4096xf32>) -> tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [1, all]>> {
    %0 = fp8.kernel loop (%a = %x : tensor<16384x4096xbf16>, %b = %s : tensor<1x4096xf32>) -> (tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
      %q = fp8.cast %a, %b : tensor<16384x4096xbf16>, tensor<1x4096xf32> -> tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
      %t = fp8.transpose %q [1, 0] : tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
      fp8.yield %t : tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    }
    return %0 : tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  }
}
