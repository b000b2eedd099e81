// Gathers in pieces, with what is made for them and the products that read them.
//
// RUN: fp8-opt %s --fp8-split-rows=pieces=2 -split-input-file | FileCheck %s
// RUN: fp8-opt %s --fp8-split-rows -split-input-file | FileCheck %s --check-prefix=MARKED

// A piece is 16 of the 32 rows of each rank's shard: cast, gathered with its scales, and multiplied rank by rank, into rows
// that are 32 apart. Without a mark on the gather it is whole.
//
// CHECK-LABEL: func.func @rows
// CHECK:         %[[X0:.*]] = fp8.slice %arg0 [0, 0] : tensor<32x64xbf16> -> tensor<16x64xbf16>
// CHECK:         %[[Q0:.*]] = fp8.cast %[[X0]]
// CHECK:         %[[G0:.*]] = fp8.all_gather %[[Q0]] {{.*}} -> tensor<32x64xf8E4M3FN
// CHECK:         %[[S0:.*]] = fp8.all_gather {{.*}} : tensor<16x1xf32> -> tensor<32x1xf32>
// CHECK:         %[[A:.*]] = fp8.slice %[[G0]] [0, 0] {{.*}} -> tensor<16x64xf8E4M3FN
// CHECK:         %[[AS:.*]] = fp8.slice %[[S0]] [0, 0] : tensor<32x1xf32> -> tensor<16x1xf32>
// CHECK:         %[[Y0:.*]] = fp8.matmul %[[A]], %arg2 scales(%[[AS]], %arg3
// CHECK:         %[[P0:.*]] = fp8.update_slice %[[Y0]] [0, 0] : tensor<16x96xbf16> -> tensor<64x96xbf16>
// CHECK:         fp8.slice %[[G0]] [16, 0]
// CHECK:         %[[P1:.*]] = fp8.update_slice %{{.*}} [32, 0] into(%[[P0]]
// CHECK:         fp8.slice %arg0 [16, 0]
// CHECK:         fp8.all_gather {{.*}} -> tensor<32x64xf8E4M3FN
// CHECK:         %[[P2:.*]] = fp8.update_slice %{{.*}} [16, 0] into(%[[P1]]
// CHECK:         %[[P3:.*]] = fp8.update_slice %{{.*}} [48, 0] into(%[[P2]]
// CHECK:         return %[[P3]]
// MARKED-LABEL: func.func @rows
// MARKED-NOT:     fp8.update_slice
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @rows(%x: tensor<32x64xbf16>, %s: tensor<32x1xf32>, %w: tensor<64x96xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>,
    %sw: tensor<1x96xf32>) -> tensor<64x96xbf16> {
  %q = fp8.cast %x, %s : tensor<32x64xbf16>, tensor<32x1xf32> -> tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  %g = fp8.all_gather %q axis = "tp" dim = 0 : tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<64x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  %sg = fp8.all_gather %s axis = "tp" dim = 0 : tensor<32x1xf32> -> tensor<64x1xf32>
  %y = fp8.matmul %g, %w scales(%sg, %sw : tensor<64x1xf32>, tensor<1x96xf32>)
    : tensor<64x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<64x96xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<64x96xbf16>
  return %y : tensor<64x96xbf16>
}
}

// -----

// The gradient of a weight is a sum over all tokens. Its columns, features of what is gathered, are independent. A mark on
// the gather is enough.
//
// MARKED-LABEL: func.func @columns
// MARKED:         %[[X0:.*]] = fp8.slice %arg0 [0, 0] : tensor<32x64xbf16> -> tensor<32x32xbf16>
// MARKED:         %[[E0:.*]] = math.exp %[[X0]]
// MARKED:         %[[G0:.*]] = fp8.all_gather %[[E0]] axis = "tp" dim = 0 : tensor<32x32xbf16> -> tensor<64x32xbf16>
// MARKED:         %[[D0:.*]] = fp8.matmul %arg1, %[[G0]] acc(%{{.*}} : tensor<16x32xbf16>)
// MARKED:         %[[W0:.*]] = fp8.update_slice %[[D0]] [0, 0] : tensor<16x32xbf16> -> tensor<16x64xbf16>
// MARKED:         fp8.slice %arg0 [0, 32]
// MARKED:         fp8.update_slice %{{.*}} [0, 32] into(%[[W0]]
// MARKED-NOT:     fp8.pieces
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @columns(%x: tensor<32x64xbf16>, %dy: tensor<16x64xbf16>, %total: tensor<16x64xbf16>) -> tensor<16x64xbf16> {
  %e = math.exp %x : tensor<32x64xbf16>
  %g = fp8.all_gather %e axis = "tp" dim = 0 {fp8.pieces = 2 : i64} : tensor<32x64xbf16> -> tensor<64x64xbf16>
  %dw = fp8.matmul %dy, %g acc(%total : tensor<16x64xbf16>) : tensor<16x64xbf16>, tensor<64x64xbf16> -> tensor<16x64xbf16>
  return %dw : tensor<16x64xbf16>
}
}

// -----

// One product for each rank's block of what is gathered: a piece is a part of every block.
//
// CHECK-LABEL: func.func @blocks
// CHECK:         %[[T0:.*]] = fp8.transpose %{{.*}} [1, 0] : tensor<32x32xbf16> -> tensor<32x32xbf16>
// CHECK:         %[[G0:.*]] = fp8.all_gather %[[T0]] axis = "tp" dim = 0 : tensor<32x32xbf16> -> tensor<64x32xbf16>
// CHECK:         fp8.slice %[[G0]] [0, 0] : tensor<64x32xbf16> -> tensor<32x32xbf16>
// CHECK:         fp8.slice %[[G0]] [32, 0] : tensor<64x32xbf16> -> tensor<32x32xbf16>
// CHECK:         %[[D0:.*]] = fp8.matmul %arg1, %{{.*}} -> tensor<16x32xbf16>
// CHECK:         %[[D1:.*]] = fp8.matmul %arg2, %{{.*}} acc(%[[D0]] : tensor<16x32xbf16>)
// CHECK:         fp8.update_slice %[[D1]] [0, 0] : tensor<16x32xbf16> -> tensor<16x64xbf16>
// CHECK:         fp8.update_slice %{{.*}} [0, 32] into(
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @blocks(%x: tensor<32x64xbf16>, %dy: tensor<16x32xbf16>, %dz: tensor<16x32xbf16>) -> tensor<16x64xbf16> {
  %t = fp8.transpose %x [1, 0] : tensor<32x64xbf16> -> tensor<64x32xbf16>
  %g = fp8.all_gather %t axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<128x32xbf16>
  %g0 = fp8.slice %g [0, 0] : tensor<128x32xbf16> -> tensor<64x32xbf16>
  %g1 = fp8.slice %g [64, 0] : tensor<128x32xbf16> -> tensor<64x32xbf16>
  %b0 = fp8.permute %g0 [1, 0] : tensor<64x32xbf16> -> tensor<32x64xbf16>
  %b1 = fp8.permute %g1 [1, 0] : tensor<64x32xbf16> -> tensor<32x64xbf16>
  %d0 = fp8.matmul %dy, %b0 : tensor<16x32xbf16>, tensor<32x64xbf16> -> tensor<16x64xbf16>
  %d1 = fp8.matmul %dz, %b1 acc(%d0 : tensor<16x64xbf16>) : tensor<16x32xbf16>, tensor<32x64xbf16> -> tensor<16x64xbf16>
  return %d1 : tensor<16x64xbf16>
}
}

// -----

// Whole stay: what something else reads too; columns of an argument, which are no stretch of memory; what goes through an
// op known only by its shapes; a block that straddles two shards.
//
// CHECK-LABEL: func.func @whole
// CHECK-NOT:     fp8.update_slice
// CHECK:         return
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @whole(%x: tensor<32x64xbf16>, %w: tensor<64x96xbf16>, %dy: tensor<16x64xbf16>, %dz: tensor<16x32xbf16>)
    -> (tensor<64x96xbf16>, tensor<64x64xbf16>, tensor<16x64xbf16>, tensor<64x96xbf16>, tensor<16x64xbf16>) {
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<32x64xbf16> -> tensor<64x64xbf16>
  %y = fp8.matmul %g, %w : tensor<64x64xbf16>, tensor<64x96xbf16> -> tensor<64x96xbf16>
  %g2 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<32x64xbf16> -> tensor<64x64xbf16>
  %dw = fp8.matmul %dy, %g2 : tensor<16x64xbf16>, tensor<64x64xbf16> -> tensor<16x64xbf16>
  %g3 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<32x64xbf16> -> tensor<64x64xbf16>
  %z = fp8.opaque "norm"(%g3) : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %v = fp8.matmul %z, %w : tensor<64x64xbf16>, tensor<64x96xbf16> -> tensor<64x96xbf16>
  %t = fp8.transpose %x [1, 0] : tensor<32x64xbf16> -> tensor<64x32xbf16>
  %g4 = fp8.all_gather %t axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<128x32xbf16>
  %b = fp8.slice %g4 [32, 0] : tensor<128x32xbf16> -> tensor<64x32xbf16>
  %bt = fp8.permute %b [1, 0] : tensor<64x32xbf16> -> tensor<32x64xbf16>
  %d = fp8.matmul %dz, %bt : tensor<16x32xbf16>, tensor<32x64xbf16> -> tensor<16x64xbf16>
  return %y, %g, %dw, %v, %d : tensor<64x96xbf16>, tensor<64x64xbf16>, tensor<16x64xbf16>, tensor<64x96xbf16>, tensor<16x64xbf16>
}
}

// -----

// Of rows gathered along two axes the outer gather is in pieces, what the inner one gives is read a part at a time.
//
// CHECK-LABEL: func.func @two_axes
// CHECK:         %[[I:.*]] = fp8.all_gather %arg0 axis = "dp" dim = 0 : tensor<16x64xbf16> -> tensor<32x64xbf16>
// CHECK:         %[[S:.*]] = fp8.slice %[[I]] [0, 0] : tensor<32x64xbf16> -> tensor<16x64xbf16>
// CHECK:         fp8.all_gather %[[S]] axis = "tp" dim = 0 : tensor<16x64xbf16> -> tensor<32x64xbf16>
module attributes {fp8.grid = {dp = 2 : i64, tp = 2 : i64}} {
func.func @two_axes(%h: tensor<16x64xbf16>, %w: tensor<64x96xbf16>) -> tensor<64x96xbf16> {
  %half = fp8.all_gather %h axis = "dp" dim = 0 : tensor<16x64xbf16> -> tensor<32x64xbf16>
  %g = fp8.all_gather %half axis = "tp" dim = 0 : tensor<32x64xbf16> -> tensor<64x64xbf16>
  %y = fp8.matmul %g, %w : tensor<64x64xbf16>, tensor<64x96xbf16> -> tensor<64x96xbf16>
  return %y : tensor<64x96xbf16>
}
}
