// Every op, in its own form, in the generic form, and through bytecode.
// RUN: fp8-opt %s | FileCheck %s
// RUN: fp8-opt %s | fp8-opt | FileCheck %s
// RUN: fp8-opt %s --mlir-print-op-generic | fp8-opt | FileCheck %s
// RUN: fp8-opt %s --emit-bytecode | fp8-opt | FileCheck %s
// RUN: fp8-opt %s --verify-roundtrip | FileCheck %s

// CHECK: module attributes {fp8.grid = {dp = 2 : i64, tp = 4 : i64}, fp8.target = "cpu"}
module attributes {fp8.grid = {dp = 2 : i64, tp = 4 : i64}, fp8.target = "cpu"} {

// CHECK-LABEL: func @random
// CHECK-SAME: fp8.coordinate = "tp"
func.func @random(%seed: tensor<1x1xi32>, %offset: tensor<1x1xi32>, %tp: tensor<1x1xi32> {fp8.coordinate = "tp"})
    -> (tensor<64x32xf32>, tensor<64x32xf32>) {
  // CHECK: fp8.random %{{.*}}, %{{.*}} : tensor<1x1xi32> -> tensor<64x32xf32>
  %0 = fp8.random %seed, %offset : tensor<1x1xi32> -> tensor<64x32xf32>
  // CHECK: fp8.random %{{.*}}, %{{.*}} coordinates(%{{.*}} : tensor<1x1xi32>) shard = ["", "tp"] {stream = 3 : i64} : tensor<1x1xi32> -> tensor<64x32xf32>
  %1 = fp8.random %seed, %offset coordinates(%tp : tensor<1x1xi32>) shard = ["", "tp"] {stream = 3 : i64} : tensor<1x1xi32> -> tensor<64x32xf32>
  return %0, %1 : tensor<64x32xf32>, tensor<64x32xf32>
}

// CHECK-LABEL: func @linears
// CHECK-SAME: fp8.parameter
// CHECK-SAME: fp8.state
// CHECK-SAME: fp8.placement = "caller"
func.func @linears(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16> {fp8.parameter}, %dy: tensor<64x48xbf16> {fp8.tangent},
    %h: tensor<16xf32> {fp8.state}, %s: tensor<1x1xf32> {fp8.state})
    -> (tensor<64x48xbf16> {fp8.placement = "caller"}, tensor<64x32xf32>) {
  // CHECK: fp8.linear %{{.*}}, %{{.*}} recipe <rowwise> {fp8.checkpoint, fp8.policy = "save"} : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  %0 = fp8.linear %x, %w recipe<rowwise> {fp8.checkpoint, fp8.policy = "save"} : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  // CHECK: fp8.linear %{{.*}} recipe <tensorwise, dy = f8E4M3FN, pow2 = floor, fast = [fprop, dgrad]> {fp8.policy = ["recompute"]}
  %1 = fp8.linear %x, %w recipe<tensorwise, dy = f8E4M3FN, pow2 = floor, fast = [fprop, dgrad]> {fp8.policy = ["recompute"]} : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xf32>
  // CHECK: fp8.linear %{{.*}} recipe <block128>
  %2 = fp8.linear %x, %w recipe<block128> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  // CHECK: fp8.linear %{{.*}} state(%{{.*}} : tensor<16xf32>, {{.*}}) recipe <delayed, x = f8E5M2, dy = f8E4M3FN, fast = []>
  %3 = fp8.linear %x, %w state(%h, %s, %h, %s, %h, %s : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>)
    recipe<delayed, x = f8E5M2, dy = f8E4M3FN, fast = []> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  // CHECK: fp8.linear_dgrad %{{.*}} recipe <rowwise> : tensor<64x48xbf16>, tensor<48x32xbf16> -> tensor<64x32xf32>
  %dx = fp8.linear_dgrad %dy, %w recipe<rowwise> : tensor<64x48xbf16>, tensor<48x32xbf16> -> tensor<64x32xf32>
  // CHECK: fp8.linear_wgrad %{{.*}} recipe <rowwise> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<48x32xbf16>
  %dw = fp8.linear_wgrad %dy, %x recipe<rowwise> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<48x32xbf16>
  return %0, %dx : tensor<64x48xbf16>, tensor<64x32xf32>
}

// CHECK-LABEL: func @casts
func.func @casts(%x: tensor<64x32xbf16>, %h: tensor<16xf32> {fp8.state}, %t: tensor<1x1xf32> {fp8.state}) -> tensor<64x32xbf16> {
  // CHECK: fp8.amax %{{.*}} group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
  %m = fp8.amax %x group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
  // CHECK: fp8.scale %{{.*}} format = f8E4M3FN {division = #fp8.division<double>, eps = 9.9999999999999998E-13 : f64} : tensor<64x1xf32>
  %s = fp8.scale %m format = f8E4M3FN {eps = 1.0e-12 : f64, division = #fp8.division<double>} : tensor<64x1xf32>
  // CHECK: fp8.scale %{{.*}} format = f8E5M2 {margin = 3 : i64, nonfinite = #fp8.nonfinite<saturate>, pow2 = #fp8.pow2<ceil>}
  %s2 = fp8.scale %m format = f8E5M2 {margin = 3, nonfinite = #fp8.nonfinite<saturate>, pow2 = #fp8.pow2<ceil>} : tensor<64x1xf32>
  // CHECK: fp8.cast %{{.*}}, %{{.*}} : tensor<64x32xbf16>, tensor<64x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  %q = fp8.cast %x, %s : tensor<64x32xbf16>, tensor<64x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  // CHECK: fp8.cast %{{.*}} {saturate = false} : {{.*}} -> tensor<64x32xf8E5M2, #fp8.tensor<scale = [1, all], pow2>>
  %q2 = fp8.cast %x, %s2 {saturate = false} : tensor<64x32xbf16>, tensor<64x1xf32> -> tensor<64x32xf8E5M2, #fp8.tensor<scale = [1, all], pow2>>
  // CHECK: fp8.dequantize %{{.*}}, %{{.*}} : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<64x1xf32> -> tensor<64x32xbf16>
  %d = fp8.dequantize %q, %s : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<64x1xf32> -> tensor<64x32xbf16>
  %m1 = fp8.amax %x group = [0, 0] : tensor<64x32xbf16> -> tensor<1x1xf32>
  // CHECK: fp8.push_amax %{{.*}}, %{{.*}} : tensor<1x1xf32>, tensor<16xf32>
  fp8.push_amax %m1, %h : tensor<1x1xf32>, tensor<16xf32>
  // CHECK: fp8.update_scale %{{.*}}, %{{.*}} format = f8E4M3FN : tensor<16xf32>, tensor<1x1xf32>
  fp8.update_scale %h, %t format = f8E4M3FN : tensor<16xf32>, tensor<1x1xf32>
  return %d : tensor<64x32xbf16>
}

// CHECK-LABEL: func @views
func.func @views(%x: tensor<64x256xbf16>, %q: tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], pow2, layout = gemm_ready>>,
                 %b: tensor<64x32xbf16, #fp8.tensor<bounds = [4096, none]>>, %g: tensor<64x32xi8>) {
  // CHECK: fp8.permute %{{.*}} [1, 0] : tensor<64x256xbf16> -> tensor<256x64xbf16>
  %p = fp8.permute %x [1, 0] : tensor<64x256xbf16> -> tensor<256x64xbf16>
  // CHECK: fp8.permute %{{.*}} [1, 0] : tensor<64x32xbf16, #fp8.tensor<bounds = [4096, none]>> -> tensor<32x64xbf16, #fp8.tensor<bounds = [none, 4096]>>
  %pb = fp8.permute %b [1, 0] : tensor<64x32xbf16, #fp8.tensor<bounds = [4096, none]>> -> tensor<32x64xbf16, #fp8.tensor<bounds = [none, 4096]>>
  // CHECK: fp8.transpose %{{.*}} [1, 0] : {{.*}} -> tensor<256x64xf8E4M3FN, #fp8.tensor<scale = [128, 1], pow2, layout = gemm_ready>>
  %t = fp8.transpose %q [1, 0] : tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], pow2, layout = gemm_ready>> -> tensor<256x64xf8E4M3FN, #fp8.tensor<scale = [128, 1], pow2, layout = gemm_ready>>
  // CHECK: fp8.slice %{{.*}} [0, 128] : tensor<64x256xbf16> -> tensor<64x128xbf16>
  %s = fp8.slice %x [0, 128] : tensor<64x256xbf16> -> tensor<64x128xbf16>
  // CHECK: fp8.slice %{{.*}} [8, 128]
  %sq = fp8.slice %q [8, 128] : tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], pow2, layout = gemm_ready>> -> tensor<7x128xf8E4M3FN, #fp8.tensor<scale = [1, 128], pow2, layout = gemm_ready>>
  // CHECK: fp8.pad %{{.*}} [0, 64] : tensor<64x128xbf16> -> tensor<64x256xbf16>
  %d = fp8.pad %s [0, 64] : tensor<64x128xbf16> -> tensor<64x256xbf16>
  // CHECK: %[[P:.*]] = fp8.update_slice %{{.*}} [0, 128] : tensor<64x128xbf16> -> tensor<64x256xbf16>
  %p0 = fp8.update_slice %s [0, 128] : tensor<64x128xbf16> -> tensor<64x256xbf16>
  // CHECK: fp8.update_slice %{{.*}} [0, 0] into(%[[P]] : tensor<64x256xbf16>) : tensor<64x128xbf16> -> tensor<64x256xbf16>
  %p1 = fp8.update_slice %s [0, 0] into(%p0 : tensor<64x256xbf16>) : tensor<64x128xbf16> -> tensor<64x256xbf16>
  // CHECK: fp8.reshape %{{.*}} : tensor<64x256xbf16> -> tensor<4x4096xbf16>
  %r = fp8.reshape %x : tensor<64x256xbf16> -> tensor<4x4096xbf16>
  // CHECK: fp8.bitcast %{{.*}} : tensor<64x32xi8> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  %c = fp8.bitcast %g : tensor<64x32xi8> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  // A slice of leading rows, and a permute that moves no byte, are contiguous.
  %lead = fp8.slice %x [8, 0] : tensor<64x256xbf16> -> tensor<8x256xbf16>
  %one = fp8.reshape %lead : tensor<8x256xbf16> -> tensor<1x2048xbf16>
  %flip = fp8.permute %one [1, 0] : tensor<1x2048xbf16> -> tensor<2048x1xbf16>
  // CHECK: fp8.reshape %{{.*}} : tensor<2048x1xbf16> -> tensor<2048xbf16>
  %flat = fp8.reshape %flip : tensor<2048x1xbf16> -> tensor<2048xbf16>
  return
}

// CHECK-LABEL: func @matmuls
func.func @matmuls(%a: tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, %b: tensor<256x384xf8E5M2, #fp8.tensor<scale = [all, all]>>, %s: tensor<1x1xf32>,
    %ra: tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %rb: tensor<256x384xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>, %sra: tensor<256x1xf32>, %srb: tensor<1x384xf32>,
    %ba: tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>, %bb: tensor<256x384xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>, %sba: tensor<256x2xf32>, %sbb: tensor<2x3xf32>,
    %ca: tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>, %cb: tensor<256x384xf8E4M3FN, #fp8.tensor<scale = [128, 1]>>, %sca: tensor<2x2xf32>, %scb: tensor<2x384xf32>,
    %ha: tensor<256x256xbf16>, %hb: tensor<256x384xbf16>, %acc: tensor<256x384xf32>) {
  // CHECK: fp8.matmul %{{.*}}, %{{.*}} scales(%{{.*}}, %{{.*}} : tensor<1x1xf32>, tensor<1x1xf32>) acc(%{{.*}} : tensor<256x384xf32>) {fast_accum = true} : {{.*}} -> tensor<256x384xf32>
  %0 = fp8.matmul %a, %b scales(%s, %s : tensor<1x1xf32>, tensor<1x1xf32>) acc(%acc : tensor<256x384xf32>) {fast_accum = true}
    : tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<256x384xf8E5M2, #fp8.tensor<scale = [all, all]>> -> tensor<256x384xf32>
  // CHECK: fp8.matmul {{.*}}scale = [1, all]{{.*}}scale = [all, 1]{{.*}} -> tensor<256x384xbf16>
  %1 = fp8.matmul %ra, %rb scales(%sra, %srb : tensor<256x1xf32>, tensor<1x384xf32>)
    : tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<256x384xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<256x384xbf16>
  // CHECK: fp8.matmul {{.*}}scale = [1, 128]{{.*}}scale = [128, 128]
  %2 = fp8.matmul %ba, %bb scales(%sba, %sbb : tensor<256x2xf32>, tensor<2x3xf32>)
    : tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>, tensor<256x384xf8E4M3FN, #fp8.tensor<scale = [128, 128]>> -> tensor<256x384xbf16>
  // CHECK: fp8.matmul {{.*}}scale = [128, 128]{{.*}}scale = [128, 1]
  %3 = fp8.matmul %ca, %cb scales(%sca, %scb : tensor<2x2xf32>, tensor<2x384xf32>)
    : tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>, tensor<256x384xf8E4M3FN, #fp8.tensor<scale = [128, 1]>> -> tensor<256x384xbf16>
  // CHECK: fp8.matmul {{.*}}scale = [1, 128]{{.*}}scale = [128, 1]
  %4 = fp8.matmul %ba, %cb scales(%sba, %scb : tensor<256x2xf32>, tensor<2x384xf32>)
    : tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>, tensor<256x384xf8E4M3FN, #fp8.tensor<scale = [128, 1]>> -> tensor<256x384xbf16>
  // CHECK: fp8.matmul %{{[a-z0-9]+}}, %{{[a-z0-9]+}} : tensor<256x256xbf16>, tensor<256x384xbf16> -> tensor<256x384xf32>
  %5 = fp8.matmul %ha, %hb : tensor<256x256xbf16>, tensor<256x384xbf16> -> tensor<256x384xf32>
  return
}

// CHECK-LABEL: func @compute
func.func @compute(%x: tensor<64x32xf32>, %y: tensor<64x32xbf16>) {
  // CHECK: fp8.reduce sum %{{.*}} [1] : tensor<64x32xf32> -> tensor<64x1xf32>
  %s = fp8.reduce sum %x [1] : tensor<64x32xf32> -> tensor<64x1xf32>
  // CHECK: fp8.reduce max %{{.*}} [0, 1] : tensor<64x32xbf16> -> tensor<1x1xf32>
  %m = fp8.reduce max %y [0, 1] : tensor<64x32xbf16> -> tensor<1x1xf32>
  // CHECK: fp8.broadcast %{{.*}} : tensor<64x1xf32> -> tensor<64x32xf32>
  %b = fp8.broadcast %s : tensor<64x1xf32> -> tensor<64x32xf32>
  // CHECK: fp8.opaque "attention"(%{{.*}}, %{{.*}}) {adjoint = {{{.*}}}, aliases = {{\[\[}}0, 1]], flops = 1000 : i64, scratch_bytes = 4096 : i64} : (tensor<64x32xf32>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
  %o = fp8.opaque "attention"(%x, %y) {flops = 1000, scratch_bytes = 4096, aliases = [[0, 1]],
    adjoint = {name = "attention_backward", operands = [0, 1], results = [0], flops = 7 : i64}} : (tensor<64x32xf32>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
  // CHECK: fp8.opaque "log"(%{{.*}}) {recompute = "never", stateful} : (tensor<64x32xbf16>) -> ()
  fp8.opaque "log"(%y) {recompute = "never", stateful} : (tensor<64x32xbf16>) -> ()
  return
}

// CHECK-LABEL: func @collectives
func.func @collectives(%x: tensor<64x32xbf16>, %q: tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>) -> tensor<256x32xbf16> {
  // CHECK: fp8.all_gather %{{.*}} axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>
  // CHECK: fp8.all_gather %{{.*}} axis = "dp" dim = 1 : {{.*}} -> tensor<64x512xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>
  %h = fp8.all_gather %q axis = "dp" dim = 1 : tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>> -> tensor<64x512xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>
  // CHECK: %{{.*}}, %{{.*}} = fp8.all_gather_start %{{.*}} axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
  %r, %t = fp8.all_gather_start %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
  // CHECK: fp8.wait %{{.*}}, %{{.*}} : tensor<256x32xbf16>
  %w = fp8.wait %r, %t : tensor<256x32xbf16>
  // CHECK: fp8.reduce_scatter sum %{{.*}} axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>
  %s = fp8.reduce_scatter sum %w axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>
  // CHECK: fp8.reduce_scatter sum %{{.*}} axis = "tp" dim = 1 acc = bf16 : tensor<256x32xbf16> -> tensor<256x8xbf16>
  %s1 = fp8.reduce_scatter sum %w axis = "tp" dim = 1 acc = bf16 : tensor<256x32xbf16> -> tensor<256x8xbf16>
  // CHECK: fp8.reduce_scatter_start max %{{.*}} axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>, !fp8.token
  %s2, %t2 = fp8.reduce_scatter_start max %w axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>, !fp8.token
  %w2 = fp8.wait %s2, %t2 : tensor<64x32xbf16>
  // CHECK: fp8.all_reduce sum %{{.*}} axis = "dp" acc = f32 : tensor<64x32xbf16> -> tensor<64x32xbf16>
  %a = fp8.all_reduce sum %x axis = "dp" acc = f32 : tensor<64x32xbf16> -> tensor<64x32xbf16>
  // CHECK: fp8.all_reduce_start max %{{.*}} axis = "dp" : tensor<64x32xbf16> -> tensor<64x32xbf16>, !fp8.token
  %a2, %t3 = fp8.all_reduce_start max %x axis = "dp" : tensor<64x32xbf16> -> tensor<64x32xbf16>, !fp8.token
  %w3 = fp8.wait %a2, %t3 : tensor<64x32xbf16>
  // CHECK: fp8.all_to_all %{{.*}} axis = "tp" split = 0 concat = 1 : tensor<64x32xbf16> -> tensor<16x128xbf16>
  %e = fp8.all_to_all %x axis = "tp" split = 0 concat = 1 : tensor<64x32xbf16> -> tensor<16x128xbf16>
  // CHECK: fp8.all_to_all_start %{{.*}} axis = "tp" split = 0 concat = 0 : tensor<64x32xbf16> -> tensor<64x32xbf16>, !fp8.token
  %e2, %t4 = fp8.all_to_all_start %x axis = "tp" split = 0 concat = 0 : tensor<64x32xbf16> -> tensor<64x32xbf16>, !fp8.token
  %w4 = fp8.wait %e2, %t4 : tensor<64x32xbf16>
  return %w : tensor<256x32xbf16>
}

// CHECK-LABEL: func @program
// CHECK-SAME: attributes {fp8.arena_bytes = 1024 : i64}
func.func @program(%x: tensor<8x16xf32>, %dy: tensor<8x16xf32> {fp8.tangent}) -> (tensor<8x16xf32>, tensor<8x16xf32>) attributes {fp8.arena_bytes = 1024 : i64} {
  // CHECK: fp8.step {note = "kept"} -> (tensor<8x16xf32>, tensor<8x16xf32>) forward {
  %y, %dx = fp8.step {note = "kept"} -> (tensor<8x16xf32>, tensor<8x16xf32>) forward {
    // CHECK: fp8.kernel loop (%{{.*}} = %{{.*}} : tensor<8x16xf32>) -> (tensor<8x16xf32>) attributes {offsets = array<i64: 0>} {
    %e = fp8.kernel loop (%a = %x : tensor<8x16xf32>) -> (tensor<8x16xf32>) attributes {offsets = array<i64: 0>} {
      %0 = math.exp %a : tensor<8x16xf32>
      fp8.yield %0 : tensor<8x16xf32>
    }
    // CHECK: fp8.kernel matmul (%{{.*}} = %{{.*}} : tensor<8x16xf32>, %{{.*}} = %{{.*}} : tensor<8x16xf32>) -> (tensor<8x8xf32>) attributes {offsets = array<i64: -1>, workspace = 512 : i64, workspace_offset = 256 : i64} {
    %m = fp8.kernel matmul (%a = %x : tensor<8x16xf32>, %b = %e : tensor<8x16xf32>) -> (tensor<8x8xf32>)
        attributes {offsets = array<i64: -1>, workspace = 512 : i64, workspace_offset = 256 : i64} {
      %p = fp8.permute %b [1, 0] : tensor<8x16xf32> -> tensor<16x8xf32>
      %0 = fp8.matmul %a, %p : tensor<8x16xf32>, tensor<16x8xf32> -> tensor<8x8xf32>
      fp8.yield %0 : tensor<8x8xf32>
    }
    // CHECK: fp8.free %{{.*}} : tensor<8x8xf32>
    fp8.free %m : tensor<8x8xf32>
    // CHECK: fp8.yield %{{.*}} residuals(%{{.*}}) : tensor<8x16xf32> residuals(tensor<8x16xf32>)
    fp8.yield %e residuals(%e) : tensor<8x16xf32> residuals(tensor<8x16xf32>)
  // CHECK: } backward (%{{.*}}: tensor<8x16xf32>) {
  } backward (%r: tensor<8x16xf32>) {
    // CHECK: fp8.remat_barrier %{{.*}} after(%{{.*}} : tensor<8x16xf32>) id = 3 : tensor<8x16xf32>
    %b = fp8.remat_barrier %r after(%dy : tensor<8x16xf32>) id = 3 : tensor<8x16xf32>
    // CHECK: fp8.remat_barrier %{{.*}} id = 4 : tensor<8x16xf32>
    %c = fp8.remat_barrier %x id = 4 : tensor<8x16xf32>
    %g = fp8.kernel loop (%p = %dy : tensor<8x16xf32>, %q = %b : tensor<8x16xf32>) -> (tensor<8x16xf32>) {
      %0 = arith.mulf %p, %q : tensor<8x16xf32>
      fp8.yield %0 : tensor<8x16xf32>
    }
    // CHECK: fp8.free %{{.*}} : tensor<8x16xf32>
    fp8.free %r : tensor<8x16xf32>
    // CHECK: fp8.yield %{{.*}} : tensor<8x16xf32>
    fp8.yield %g : tensor<8x16xf32>
  }
  return %y, %dx : tensor<8x16xf32>, tensor<8x16xf32>
}

// CHECK-LABEL: func @grouped
// CHECK-SAME: fp8.rows_per_group = 16 : i64
func.func @grouped(%x: tensor<64x32xbf16>, %w: tensor<2x48x32xbf16>, %dy: tensor<64x48xbf16>, %o: tensor<3xi32> {fp8.rows_per_group = 16 : i64},
    %q: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %v: tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>>,
    %sq: tensor<64x1xf32>, %sv: tensor<2x1x48xf32>) {
  // CHECK: fp8.grouped_matmul %{{.*}}, %{{.*}} offsets(%{{.*}} : tensor<3xi32>) scales(%{{.*}}, %{{.*}} : tensor<64x1xf32>, tensor<2x1x48xf32>) align = 16 balanced = 32 : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>> -> tensor<64x48xbf16>
  %0 = fp8.grouped_matmul %q, %v offsets(%o : tensor<3xi32>) scales(%sq, %sv : tensor<64x1xf32>, tensor<2x1x48xf32>) align = 16 balanced = 32 : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>> -> tensor<64x48xbf16>
  // CHECK: fp8.grouped_matmul %{{.*}}, %{{.*}} offsets(%{{.*}} : tensor<3xi32>) align = 1 : tensor<32x64xbf16>, tensor<64x48xbf16> -> tensor<2x32x48xf32>
  %t = fp8.permute %x [1, 0] : tensor<64x32xbf16> -> tensor<32x64xbf16>
  %1 = fp8.grouped_matmul %t, %dy offsets(%o : tensor<3xi32>) align = 1 : tensor<32x64xbf16>, tensor<64x48xbf16> -> tensor<2x32x48xf32>
  // CHECK: fp8.grouped_linear %{{.*}}, %{{.*}} offsets(%{{.*}} : tensor<3xi32>) recipe <block128> balanced = 32 : tensor<64x32xbf16>, tensor<2x48x32xbf16> -> tensor<64x48xbf16>
  %2 = fp8.grouped_linear %x, %w offsets(%o : tensor<3xi32>) recipe<block128> balanced = 32 : tensor<64x32xbf16>, tensor<2x48x32xbf16> -> tensor<64x48xbf16>
  // CHECK: fp8.grouped_linear_dgrad %{{.*}}, %{{.*}} offsets(%{{.*}} : tensor<3xi32>) recipe <rowwise> : tensor<64x48xbf16>, tensor<2x48x32xbf16> -> tensor<64x32xbf16>
  %3 = fp8.grouped_linear_dgrad %dy, %w offsets(%o : tensor<3xi32>) recipe<rowwise> : tensor<64x48xbf16>, tensor<2x48x32xbf16> -> tensor<64x32xbf16>
  // CHECK: fp8.grouped_linear_wgrad %{{.*}}, %{{.*}} offsets(%{{.*}} : tensor<3xi32>) recipe <tensorwise> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<2x48x32xbf16>
  %4 = fp8.grouped_linear_wgrad %dy, %x offsets(%o : tensor<3xi32>) recipe<tensorwise> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<2x48x32xbf16>
  return
}

// CHECK-LABEL: func @kernels
func.func @kernels(%x: tensor<64x32xbf16>, %m: tensor<1x1xf32>, %h: tensor<16xf32> {fp8.state}) {
  // CHECK: fp8.kernel state (%{{.*}} = %{{.*}} : tensor<1x1xf32>, %{{.*}} = %{{.*}} : tensor<16xf32>) {
  fp8.kernel state (%a = %m : tensor<1x1xf32>, %b = %h : tensor<16xf32>) {
    fp8.push_amax %a, %b : tensor<1x1xf32>, tensor<16xf32>
    fp8.yield
  }
  // CHECK: fp8.kernel collective (%{{.*}} = %{{.*}} : tensor<64x32xbf16>) -> (tensor<256x32xbf16>, !fp8.token) {
  %g, %t = fp8.kernel collective (%a = %x : tensor<64x32xbf16>) -> (tensor<256x32xbf16>, !fp8.token) {
    %r, %u = fp8.all_gather_start %a axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
    fp8.yield %r, %u : tensor<256x32xbf16>, !fp8.token
  }
  %w = fp8.wait %g, %t : tensor<256x32xbf16>
  // CHECK: fp8.kernel opaque -> (tensor<4xf32>) {
  %o = fp8.kernel opaque -> (tensor<4xf32>) {
    %0 = fp8.opaque "random"() : () -> tensor<4xf32>
    fp8.yield %0 : tensor<4xf32>
  }
  return
}

}
