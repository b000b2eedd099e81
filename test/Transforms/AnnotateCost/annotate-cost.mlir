// RUN: fp8-opt %s -split-input-file -fp8-annotate-cost | FileCheck %s

// Counts by hand. ns = max(flops / rate, bytes / copy rate) + link + launch on the module's target.

!q = tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
!r = tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>

// CHECK-LABEL: func.func @matmul_row
// 2 * 64 * 48 * 32 flops; 64 * 32 + 32 * 48 + 4 * (64 + 48) bytes read, 2 * 64 * 48 written. cpu: 196608 flops at
// 20e9 /s take 9830.4 ns, 10176 bytes at 8e9 /s 1272 ns; a launch 1000 ns.
// CHECK: fp8.cost = {bytes_read = 4032 : i64, bytes_written = 6144 : i64, flops_f8_row = 196608 : i64, ns = 10830 : i64, recompute = "yes"}
func.func @matmul_row(%a: !q, %b: !r, %sa: tensor<64x1xf32>, %sb: tensor<1x48xf32>) -> tensor<64x48xbf16> {
  %y = fp8.matmul %a, %b scales(%sa, %sb : tensor<64x1xf32>, tensor<1x48xf32>) : !q, !r -> tensor<64x48xbf16>
  return %y : tensor<64x48xbf16>
}

// -----

// CHECK-LABEL: func.func @matmul_kinds
// 2 * 16 * 16 * 16 + 16 * 16 with an accumulator; read 2 * 512 + 1024. The accumulator and the result, 2048 bytes at 8e9 /s, take
// 256 ns after the products, 8448 flops at 20e9 /s, 422.4 ns; a launch 1000 ns.
// CHECK: fp8.matmul {{.*}}fp8.cost = {bytes_accumulated = 2048 : i64, bytes_read = 2048 : i64, bytes_written = 1024 : i64, flops_bf16 = 8448 : i64, ns = 1678 : i64,
// CHECK: fp8.matmul {{.*}}fp8.cost = {{.*}}flops_f32 = 8192 : i64
// CHECK: fp8.matmul {{.*}}fp8.cost = {bytes_read = 520 : i64, {{.*}}flops_f8 = 8192 : i64
// CHECK: fp8.matmul {{.*}}fp8.cost = {{.*}}flops_f8_block = 8192 : i64
!t = tensor<16x16xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
!x = tensor<16x16xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>
!w = tensor<16x16xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>
func.func @matmul_kinds(%b: tensor<16x16xbf16>, %f: tensor<16x16xf32>, %t: !t, %s: tensor<1x1xf32>, %x: !x, %sx: tensor<16x1xf32>, %w: !w) {
  %0 = fp8.matmul %b, %b acc(%f : tensor<16x16xf32>) : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xf32>
  %1 = fp8.matmul %f, %f : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %2 = fp8.matmul %t, %t scales(%s, %s : tensor<1x1xf32>, tensor<1x1xf32>) : !t, !t -> tensor<16x16xf32>
  %3 = fp8.matmul %x, %w scales(%sx, %s : tensor<16x1xf32>, tensor<1x1xf32>) : !x, !w -> tensor<16x16xf32>
  return
}

// -----

// On the h200: 2 * 16384 * 14336 * 4096 flops at 1378e12 /s take 1396331.9 ns, longer than moving 252 + 470 MB at
// 3.46e12 /s; a launch 3000 ns.
// CHECK-LABEL: func.func @linear_h200
// CHECK: fp8.linear {{.*}}fp8.cost = {bytes_read = 251658240 : i64, bytes_written = 469762048 : i64, flops_f8_row = 1924145348608 : i64, ns = 1399332 : i64, recompute = "yes"}
module attributes {fp8.target = "h200"} {
func.func @linear_h200(%x: tensor<16384x4096xbf16>, %w: tensor<14336x4096xbf16>) -> tensor<16384x14336xbf16> {
  %y = fp8.linear %x, %w recipe <rowwise> : tensor<16384x4096xbf16>, tensor<14336x4096xbf16> -> tensor<16384x14336xbf16>
  return %y : tensor<16384x14336xbf16>
}
}

// -----

// A gather receives three of four shards: 3 * 4096 bytes at 4e9 /s take 3072 ns, after 10000 ns; moving 20480 bytes
// 2560 ns; a launch 1000 ns. Waiting costs a launch: the work stands at the start.
// CHECK-LABEL: func.func @gather
// CHECK: fp8.all_gather {{.*}}fp8.cost = {bytes_read = 4096 : i64, bytes_sent = 12288 : i64, bytes_written = 16384 : i64, ns = 16632 : i64, recompute = "priced"}
// CHECK: fp8.all_gather_start {{.*}}fp8.cost = {{.*}}bytes_sent = 12288
// CHECK: fp8.wait {{.*}}fp8.cost = {ns = 0 : i64, recompute = "priced"}
module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @gather(%x: tensor<64x32xbf16>) -> tensor<256x32xbf16> {
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>
  %h, %t = fp8.all_gather_start %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
  %r = fp8.wait %h, %t : tensor<256x32xbf16>
  return %r : tensor<256x32xbf16>
}
}

// -----

// Four ranks. A reduce-scatter of 16,384 bytes receives three parts; an all-reduce, which does not know of how many, all of
// it twice; of 4,096 bytes exchanged three quarters go over the link.
// CHECK-LABEL: func.func @reductions
// CHECK: fp8.reduce_scatter {{.*}}fp8.cost = {bytes_read = 16384 : i64, bytes_sent = 12288 : i64, bytes_written = 4096 : i64, flops_f32 = 8192 : i64, ns = {{[0-9]+}} : i64, recompute = "priced"}
// CHECK: fp8.all_reduce {{.*}}fp8.cost = {bytes_read = 16384 : i64, bytes_sent = 32768 : i64, bytes_written = 16384 : i64, flops_f32 = 8192 : i64
// CHECK: fp8.all_to_all {{.*}}fp8.cost = {bytes_read = 4096 : i64, bytes_sent = 3072 : i64, bytes_written = 4096 : i64, ns = {{[0-9]+}} : i64, recompute = "priced"}
module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @reductions(%x: tensor<256x32xbf16>, %z: tensor<64x32xbf16>) -> (tensor<64x32xbf16>, tensor<256x32xbf16>, tensor<16x128xbf16>) {
  %s = fp8.reduce_scatter sum %x axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>
  %a = fp8.all_reduce sum %x axis = "tp" : tensor<256x32xbf16> -> tensor<256x32xbf16>
  %e = fp8.all_to_all %z axis = "tp" split = 0 concat = 1 : tensor<64x32xbf16> -> tensor<16x128xbf16>
  return %s, %a, %e : tensor<64x32xbf16>, tensor<256x32xbf16>, tensor<16x128xbf16>
}
}

// -----

// CHECK-LABEL: func.func @elementwise
// Two operands of 4 * 1000 bytes, one result: 12000 bytes at 8e9 /s take 1500 ns, 1000 flops 50 ns.
// CHECK: arith.addf {{.*}}fp8.cost = {bytes_read = 8000 : i64, bytes_written = 4000 : i64, flops_f32 = 1000 : i64, ns = 2500 : i64, recompute = "yes"}
// CHECK: math.exp {{.*}}flops_f32 = 21000 : i64
// CHECK: math.log {{.*}}flops_f32 = 23000 : i64
// CHECK: math.tanh {{.*}}flops_f32 = 37000 : i64
// CHECK: math.erf {{.*}}flops_f32 = 49000 : i64
// CHECK: math.rsqrt {{.*}}flops_f32 = 2000 : i64
// CHECK: arith.truncf {{.*}}bytes_read = 4000 : i64, bytes_written = 2000 : i64, flops_f32 = 1000 : i64
// CHECK: arith.cmpf {{.*}}bytes_read = 8000 : i64, bytes_written = 1000 : i64
func.func @elementwise(%a: tensor<1000xf32>, %b: tensor<1000xf32>) {
  %0 = arith.addf %a, %b : tensor<1000xf32>
  %1 = math.exp %a : tensor<1000xf32>
  %2 = math.log %a : tensor<1000xf32>
  %3 = math.tanh %a : tensor<1000xf32>
  %4 = math.erf %a : tensor<1000xf32>
  %5 = math.rsqrt %a : tensor<1000xf32>
  %6 = arith.truncf %a : tensor<1000xf32> to tensor<1000xbf16>
  %7 = arith.cmpf oeq, %a, %b : tensor<1000xf32>
  return
}

// -----

// CHECK-LABEL: func.func @casts
// CHECK: fp8.amax {{.*}}fp8.cost = {bytes_read = 4096 : i64, bytes_written = 256 : i64, flops_f32 = 2048 : i64
// CHECK: fp8.scale {{.*}}fp8.cost = {bytes_read = 256 : i64, bytes_written = 256 : i64, flops_f32 = 192 : i64
// CHECK: fp8.cast {{.*}}fp8.cost = {bytes_read = 4352 : i64, bytes_written = 2048 : i64, flops_f32 = 2048 : i64
// CHECK: fp8.dequantize {{.*}}fp8.cost = {bytes_read = 2304 : i64, bytes_written = 4096 : i64, flops_f32 = 2048 : i64
// CHECK: fp8.permute {{.*}}fp8.cost = {ns = 0 : i64, recompute = "free"}
// CHECK: fp8.transpose {{.*}}fp8.cost = {bytes_read = 4096 : i64, bytes_written = 4096 : i64, ns = 2024 : i64, recompute = "yes"}
// CHECK: fp8.reduce {{.*}}fp8.cost = {bytes_read = 4096 : i64, bytes_written = 256 : i64, flops_f32 = 2048 : i64
// CHECK: fp8.broadcast {{.*}}fp8.cost = {bytes_read = 256 : i64, bytes_written = 8192 : i64, ns =
// CHECK: fp8.push_amax {{.*}}fp8.cost = {bytes_read = 8 : i64, bytes_written = 4 : i64, flops_f32 = 1 : i64, ns = {{[0-9]+}} : i64, recompute = "never"}
// CHECK: fp8.update_scale {{.*}}fp8.cost = {bytes_read = 20 : i64, bytes_written = 20 : i64, flops_f32 = 7 : i64, ns = {{[0-9]+}} : i64, recompute = "never"}
// CHECK: fp8.opaque "a"{{.*}}fp8.cost = {bytes_read = 77 : i64, flops_bf16 = 99 : i64, ns = {{[0-9]+}} : i64, recompute = "yes", scratch = 4096 : i64}
// CHECK: fp8.opaque "b"{{.*}}fp8.cost = {bytes_read = 4096 : i64, bytes_written = 256 : i64, ns = {{[0-9]+}} : i64, recompute = "never"}
!q = tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
func.func @casts(%x: tensor<64x32xbf16>, %h: tensor<4xf32> {fp8.state}, %sh: tensor<1x1xf32> {fp8.state}, %one: tensor<1x1xf32>) {
  %m = fp8.amax %x group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
  %s = fp8.scale %m format = f8E4M3FN : tensor<64x1xf32>
  %q = fp8.cast %x, %s : tensor<64x32xbf16>, tensor<64x1xf32> -> !q
  %d = fp8.dequantize %q, %s : !q, tensor<64x1xf32> -> tensor<64x32xbf16>
  %p = fp8.permute %x [1, 0] : tensor<64x32xbf16> -> tensor<32x64xbf16>
  %t = fp8.transpose %x [1, 0] : tensor<64x32xbf16> -> tensor<32x64xbf16>
  %r = fp8.reduce sum %x [1] : tensor<64x32xbf16> -> tensor<64x1xf32>
  %b = fp8.broadcast %r : tensor<64x1xf32> -> tensor<64x32xf32>
  fp8.push_amax %one, %h : tensor<1x1xf32>, tensor<4xf32>
  fp8.update_scale %h, %sh format = f8E4M3FN : tensor<4xf32>, tensor<1x1xf32>
  %o = fp8.opaque "a"(%x) {flops = 99 : i64, bytes = 77 : i64, scratch_bytes = 4096 : i64} : (tensor<64x32xbf16>) -> tensor<64x1xf32>
  %n = fp8.opaque "b"(%x) {recompute = "never"} : (tensor<64x32xbf16>) -> tensor<64x1xf32>
  return
}

// -----

// CHECK-LABEL: func.func @grouped
// The rows grouped, and the sum: 2 * 64 * 32 * 48 flops at the capacity of 64 rows, for any number of groups. Read are
// 64 * 32 + 2 * 32 * 48 + 4 * (64 + 2 * 48) bytes and 3 offsets of 4; then 2 * (32 * 64 + 64 * 48) and the offsets.
// CHECK: fp8.grouped_matmul {{.*}}fp8.cost = {bytes_read = 5772 : i64, bytes_written = 6144 : i64, flops_f8_row = 196608 : i64,
// CHECK: fp8.grouped_matmul {{.*}}fp8.cost = {bytes_read = 10252 : i64, bytes_written = 12288 : i64, flops_bf16 = 196608 : i64,
// CHECK: fp8.grouped_linear {{.*}}fp8.cost = {{.*}}flops_f8 = 196608 : i64
// CHECK: fp8.grouped_linear_dgrad {{.*}}fp8.cost = {{.*}}flops_f8_row = 196608 : i64
// CHECK: fp8.grouped_linear_wgrad {{.*}}fp8.cost = {{.*}}flops_f8_block = 196608 : i64
!a = tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
!b = tensor<2x32x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>>
func.func @grouped(%a: !a, %b: !b, %sa: tensor<64x1xf32>, %sb: tensor<2x1x48xf32>, %x: tensor<64x32xbf16>, %xt: tensor<32x64xbf16>,
                   %dy: tensor<64x48xbf16>, %w: tensor<2x48x32xbf16>, %o: tensor<3xi32>) {
  %0 = fp8.grouped_matmul %a, %b offsets(%o : tensor<3xi32>) scales(%sa, %sb : tensor<64x1xf32>, tensor<2x1x48xf32>) align = 16 : !a, !b -> tensor<64x48xbf16>
  %1 = fp8.grouped_matmul %xt, %dy offsets(%o : tensor<3xi32>) align = 16 : tensor<32x64xbf16>, tensor<64x48xbf16> -> tensor<2x32x48xf32>
  %2 = fp8.grouped_linear %x, %w offsets(%o : tensor<3xi32>) recipe<tensorwise> : tensor<64x32xbf16>, tensor<2x48x32xbf16> -> tensor<64x48xbf16>
  %3 = fp8.grouped_linear_dgrad %dy, %w offsets(%o : tensor<3xi32>) recipe<rowwise> : tensor<64x48xbf16>, tensor<2x48x32xbf16> -> tensor<64x32xbf16>
  %4 = fp8.grouped_linear_wgrad %dy, %x offsets(%o : tensor<3xi32>) recipe<block128> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<2x48x32xbf16>
  return
}
