// Generic launches of captured graphs: vectors of 16 where what is read follows each other too, sums of a few elements where they
// are read, and sums over outer dimensions with neighbours in the lanes of a warp.

// RUN: fp8-opt %s --fp8-lower-to-cuda=chip=sm_90a | FileCheck %s --check-prefix=IR
// RUN: fp8-opt %s --compile --emit=ptx | FileCheck %s

module attributes {fp8.target = "h200"} {

// Of [tokens, heads, width] to [heads, tokens, width], the halves of the width changed over.
// IR-LABEL: func @rotated
// IR: launches = [#fp8.launch<symbol = "{{[a-z0-9_]+}}", grid = [1024, 1, 1], block = [256, 1, 1], shared = 0>]
// CHECK-LABEL: .entry k0_
// CHECK: ld.global{{.*}}.v4.b32
// CHECK: st.global{{.*}}.v4.b32
func.func @rotated(%x: tensor<1024x32x128xbf16>) -> tensor<32x1024x128xbf16> {
  %0 = fp8.kernel loop (%a = %x : tensor<1024x32x128xbf16>) -> (tensor<32x1024x128xbf16>) {
    %l = fp8.slice %a [0, 0, 64] : tensor<1024x32x128xbf16> -> tensor<1024x32x64xbf16>
    %p = fp8.permute %l [1, 0, 2] : tensor<1024x32x64xbf16> -> tensor<32x1024x64xbf16>
    %n = arith.negf %p : tensor<32x1024x64xbf16>
    %low = fp8.pad %n [0, 0, 0] : tensor<32x1024x64xbf16> -> tensor<32x1024x128xbf16>
    %h = fp8.slice %a [0, 0, 0] : tensor<1024x32x128xbf16> -> tensor<1024x32x64xbf16>
    %q = fp8.permute %h [1, 0, 2] : tensor<1024x32x64xbf16> -> tensor<32x1024x64xbf16>
    %high = fp8.pad %q [0, 0, 64] : tensor<32x1024x64xbf16> -> tensor<32x1024x128xbf16>
    %r = arith.addf %low, %high : tensor<32x1024x128xbf16>
    fp8.yield %r : tensor<32x1024x128xbf16>
  }
  return %0 : tensor<32x1024x128xbf16>
}

// One launch, no workspace, vectors.
// IR-LABEL: func @few
// IR: launches = [#fp8.launch<symbol = "{{[a-z0-9_]+}}", grid = [256, 1, 1], block = [256, 1, 1], shared = 0>]
// IR-NOT: workspace
// CHECK-LABEL: .entry k1_
// CHECK: ld.global{{.*}}.v4.b32
// CHECK-NOT: bar.sync
func.func @few(%x: tensor<8x4x1024x128xbf16>) -> tensor<8x1x1024x128xbf16> {
  %0 = fp8.kernel loop (%a = %x : tensor<8x4x1024x128xbf16>) -> (tensor<8x1x1024x128xbf16>) {
    %s = fp8.reduce sum %a [1] : tensor<8x4x1024x128xbf16> -> tensor<8x1x1024x128xbf16>
    fp8.yield %s : tensor<8x1x1024x128xbf16>
  }
  return %0 : tensor<8x1x1024x128xbf16>
}

// A block for 32 columns.
// CHECK-LABEL: .entry k2_
// IR-LABEL: func @columns
// IR: launches = [#fp8.launch<symbol = "{{[a-z0-9_]+}}", grid = [128, 1, 1], block = [512, 1, 1], shared = 0>]
func.func @columns(%x: tensor<16384x4096xbf16>) -> tensor<1x4096xf32> {
  %0 = fp8.kernel loop (%a = %x : tensor<16384x4096xbf16>) -> (tensor<1x4096xf32>) {
    %s = fp8.reduce sum %a [0] : tensor<16384x4096xbf16> -> tensor<1x4096xf32>
    fp8.yield %s : tensor<1x4096xf32>
  }
  return %0 : tensor<1x4096xf32>
}

// The columns' sum needs those of the rows, which a launch before it keeps.
// IR-LABEL: func @rows_then_columns
// IR: launches = [#fp8.launch<symbol = "{{[a-z0-9_]+}}", grid = [16384, 1, 1], block = [256, 1, 1], shared = 0>,
// IR-SAME: #fp8.launch<symbol = "{{[a-z0-9_]+}}_1", grid = [128, 1, 1], block = [512, 1, 1], shared = 0>,
// IR-SAME: #fp8.launch<symbol = "{{[a-z0-9_]+}}_2", grid = [16384, 1, 1], block = [256, 1, 1], shared = 0>]
// IR-SAME: workspace = 65536
func.func @rows_then_columns(%x: tensor<16384x4096xf32>) -> (tensor<16384x4096xf32>, tensor<1x4096xf32>) {
  %0:2 = fp8.kernel loop (%a = %x : tensor<16384x4096xf32>) -> (tensor<16384x4096xf32>, tensor<1x4096xf32>) attributes {workspace = 65536} {
    %s = fp8.reduce sum %a [1] : tensor<16384x4096xf32> -> tensor<16384x1xf32>
    %b = fp8.broadcast %s : tensor<16384x1xf32> -> tensor<16384x4096xf32>
    %n = arith.divf %a, %b : tensor<16384x4096xf32>
    %c = fp8.reduce sum %n [0] : tensor<16384x4096xf32> -> tensor<1x4096xf32>
    fp8.yield %n, %c : tensor<16384x4096xf32>, tensor<1x4096xf32>
  }
  return %0#0, %0#1 : tensor<16384x4096xf32>, tensor<1x4096xf32>
}

// Rows of the matrix that all heads of a token are, not of a head.
// IR-LABEL: func @heads_of_a_token
// IR: launches = [#fp8.launch<symbol = "{{[a-z0-9_]+}}", grid = [16384, 1, 1], block = [256, 1, 1], shared = 0>]
func.func @heads_of_a_token(%x: tensor<16384x32x128xbf16>) -> tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>> {
  %0 = fp8.kernel loop (%a = %x : tensor<16384x32x128xbf16>) -> (tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
    %r = fp8.reshape %a : tensor<16384x32x128xbf16> -> tensor<16384x4096xbf16>
    %m = fp8.amax %r group = [1, 0] : tensor<16384x4096xbf16> -> tensor<16384x1xf32>
    %s = fp8.scale %m format = f8E4M3FN : tensor<16384x1xf32>
    %q = fp8.cast %r, %s : tensor<16384x4096xbf16>, tensor<16384x1xf32> -> tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    fp8.yield %q : tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  }
  return %0 : tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
}
}
