// A block holds rows in registers: one read of memory gives the row's maximum, its scale and the cast, and the maxima
// of the columns on the way, which a second launch turns into scales where they were gathered. While a row is worked on,
// the next two are copied to shared memory.

// RUN: fp8-opt %s --fp8-lower-to-cuda=chip=sm_90a | FileCheck %s --check-prefix=IR
// RUN: fp8-opt %s --compile --emit=ptx | FileCheck %s

// IR: fills = [#fp8.fill<buffer = 3, bytes = 16384>]
// IR-SAME: launches = [#fp8.launch<symbol = "[[MAIN:.*]]", grid = [{{[0-9]+}}, 1, 1], block = [256, 1, 1], shared = 24576>,
// IR-SAME: #fp8.launch<symbol = "[[TAIL:.*]]", grid = [16, 1, 1], block = [256, 1, 1], shared = 0>]
// IR: gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_90a", features = "+ptx80">]
// IR: llvm.func @[[MAIN]](%{{.*}}: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias, llvm.readonly}

// CHECK: .version 8.0
// CHECK: .target sm_90a
// CHECK: .visible .entry k0_amax_scale_cast_amax_scale(
// CHECK: .reqntid 256, 1, 1
// CHECK: .minnctapersm 3
// Two copies of 16 bytes a thread and row: of two rows before the loop, of one more in it, each a group.
// CHECK-COUNT-4: cp.async.cg.shared.global [{{.*}}], [{{.*}}], 16, %
// CHECK: cp.async.wait_group 3
// CHECK: ld.shared.v4.b32
// CHECK: max.NaN.xorsign.abs.bf16x2
// CHECK-COUNT-2: cp.async.cg.shared.global
// CHECK-NOT: cp.async.cg.shared.global
// CHECK-NOT: ld.global
// CHECK: redux.sync.max.u32
// CHECK: bar.sync
// CHECK-NOT: bar.sync
// CHECK: div.rn.f32
// CHECK: atom.global.max.u32
// CHECK: .visible .entry k0_amax_scale_cast_amax_scale_1(

module attributes {fp8.target = "h200"} {
  func.func @f(%x: tensor<16384x4096xbf16>) -> (tensor<16384x1xf32>, tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x4096xf32>) {
    %0:3 = fp8.kernel loop (%a = %x : tensor<16384x4096xbf16>) -> (tensor<16384x1xf32>, tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x4096xf32>) {
      %m = fp8.amax %a group = [1, 0] : tensor<16384x4096xbf16> -> tensor<16384x1xf32>
      %s = fp8.scale %m format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0E-12 : f64} : tensor<16384x1xf32>
      %q = fp8.cast %a, %s : tensor<16384x4096xbf16>, tensor<16384x1xf32> -> tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
      %cm = fp8.amax %a group = [0, 1] : tensor<16384x4096xbf16> -> tensor<1x4096xf32>
      %cs = fp8.scale %cm format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0E-12 : f64} : tensor<1x4096xf32>
      fp8.yield %s, %q, %cs : tensor<16384x1xf32>, tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x4096xf32>
    }
    return %0#0, %0#1, %0#2 : tensor<16384x1xf32>, tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x4096xf32>
  }
}
