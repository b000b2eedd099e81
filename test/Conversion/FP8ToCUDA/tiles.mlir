// A transposed cast goes through shared memory in tiles: 16 bytes in, 16 bytes out, and the conversion itself packs
// neighbours along the column.

// RUN: fp8-opt %s --compile --emit=ptx | FileCheck %s
// RUN: fp8-opt %S/../../../examples/llama3_ffn_small.mlir --compile=target=h200 --emit=ptx \
// RUN: | FileCheck %s --check-prefix=STREAM
// RUN: fp8-opt %S/../../../examples/ffn_block128.mlir --compile=target=h200 --emit=ptx | FileCheck %s --check-prefix=HELD

// Three transposed casts of computed values: a loop over pairs of rows, few registers, three stores before one barrier.
// STREAM: _extf_negf_exp_addf_divf_mulf_shared0[49152];
// STREAM-COUNT-24: st.shared.b16
// STREAM: bar.sync
// STREAM-NOT: bar.sync
// STREAM-COUNT-12: st.global.v4.b32

// Values that wait for maxima of their columns: four rows a thread; the scales are computed by one thread a column.
// HELD: .reqntid 512, 1, 1
// HELD-NEXT: .minnctapersm 1
// HELD: shared6[512];
// HELD: .visible .entry

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
