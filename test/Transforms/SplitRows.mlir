// RUN: fp8-opt %s --fp8-split-rows=pieces=2 -split-input-file | FileCheck %s
// RUN: fp8-opt %s --fp8-split-rows -split-input-file | FileCheck %s --check-prefix=MARKED

// Two products meet in one tensor: its cast is assembled, the maxima of the pieces' columns are combined. What reads
// the region stands behind it. Without a mark or the option nothing is split.
//
// CHECK-LABEL: func.func @ffn
// CHECK:         %[[X0:.*]] = fp8.slice %arg0 [0, 0] : tensor<64x32xbf16> -> tensor<32x32xbf16>
// CHECK:         %[[G0:.*]] = fp8.matmul %[[X0]], %arg1 : {{.*}} -> tensor<32x96xbf16>
// CHECK:         %[[U0:.*]] = fp8.matmul %{{.*}}, %arg2 : {{.*}} -> tensor<32x96xbf16>
// CHECK:         %[[A0:.*]] = arith.mulf %[[G0]], %[[U0]] : tensor<32x96xbf16>
// CHECK:         %[[M0:.*]] = fp8.amax %[[A0]] group = [0, 1]
// CHECK:         %[[Q0:.*]] = fp8.cast %[[A0]]
// CHECK:         %[[W0:.*]] = fp8.update_slice %[[Q0]] [0, 0] : tensor<32x96xf8E4M3FN{{.*}}> -> tensor<64x96xf8E4M3FN
// CHECK:         fp8.slice %arg0 [32, 0]
// CHECK:         %[[A1:.*]] = arith.mulf %{{.*}}, %{{.*}} : tensor<32x96xbf16>
// CHECK:         %[[M1:.*]] = fp8.amax %[[A1]] group = [0, 1]
// CHECK:         %[[W1:.*]] = fp8.update_slice %{{.*}} [32, 0] into(%[[W0]] :
// CHECK:         %[[M:.*]] = arith.maximumf %[[M1]], %[[M0]] : tensor<1x96xf32>
// CHECK:         %[[E:.*]] = math.sqrt %[[M]]
// CHECK:         return %[[W1]], %[[E]]
// MARKED-LABEL: func.func @ffn
// MARKED-NOT:     fp8.update_slice
func.func @ffn(%x: tensor<64x32xbf16>, %w1: tensor<32x96xbf16>, %w3: tensor<32x96xbf16>)
    -> (tensor<64x96xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x96xf32>) {
  %gate = fp8.matmul %x, %w1 : tensor<64x32xbf16>, tensor<32x96xbf16> -> tensor<64x96xbf16>
  %up = fp8.matmul %x, %w3 : tensor<64x32xbf16>, tensor<32x96xbf16> -> tensor<64x96xbf16>
  %act = arith.mulf %gate, %up : tensor<64x96xbf16>
  %c = fp8.amax %act group = [0, 1] : tensor<64x96xbf16> -> tensor<1x96xf32>
  %e = math.sqrt %c : tensor<1x96xf32>
  %m = fp8.amax %act group = [1, 0] : tensor<64x96xbf16> -> tensor<64x1xf32>
  %s = fp8.scale %m format = f8E4M3FN : tensor<64x1xf32>
  %q = fp8.cast %act, %s : tensor<64x96xbf16>, tensor<64x1xf32> -> tensor<64x96xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  return %q, %e : tensor<64x96xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x96xf32>
}

// -----

// A mark is enough. Columns of a transposed result; the operand's own cast goes along; a last piece is shorter.
//
// MARKED-LABEL: func.func @transposed
// MARKED:         %[[X:.*]] = fp8.slice %arg0 [0, 0] : tensor<50x32xbf16> -> tensor<17x32xbf16>
// MARKED:         fp8.cast %[[X]]
// MARKED:         fp8.update_slice %{{.*}} [0, 0] : tensor<96x17xf8E4M3FN{{.*}}> -> tensor<96x50xf8E4M3FN
// MARKED:         fp8.update_slice %{{.*}} [0, 17] into(
// MARKED:         fp8.update_slice %{{.*}} [0, 34] into({{.*}}) : tensor<96x16xf8E4M3FN
// MARKED-NOT:     fp8.pieces
func.func @transposed(%x: tensor<50x32xbf16>, %sx: tensor<50x1xf32>,
    %w: tensor<32x96xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>, %sw: tensor<1x96xf32>, %s: tensor<1x96xf32>)
    -> tensor<96x50xf8E4M3FN, #fp8.tensor<scale = [1, all]>> {
  %q = fp8.cast %x, %sx : tensor<50x32xbf16>, tensor<50x1xf32> -> tensor<50x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  %y = fp8.matmul %q, %w scales(%sx, %sw : tensor<50x1xf32>, tensor<1x96xf32>) {fp8.pieces = 3 : i64}
    : tensor<50x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<32x96xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<50x96xbf16>
  %c = fp8.cast %y, %s : tensor<50x96xbf16>, tensor<1x96xf32> -> tensor<50x96xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
  %t = fp8.transpose %c [1, 0] : tensor<50x96xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<96x50xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  return %t : tensor<96x50xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
}

// -----

// A sum over the rows has one order and stays whole; then there is nothing to win.
//
// CHECK-LABEL: func.func @sum
// CHECK-NOT:     fp8.update_slice
func.func @sum(%x: tensor<64x32xbf16>, %w: tensor<32x96xbf16>) -> tensor<1x96xf32> {
  %y = fp8.matmul %x, %w : tensor<64x32xbf16>, tensor<32x96xbf16> -> tensor<64x96xbf16>
  %e = math.exp %y : tensor<64x96xbf16>
  %s = fp8.reduce sum %e [0] : tensor<64x96xbf16> -> tensor<1x96xf32>
  return %s : tensor<1x96xf32>
}

// -----

// Sums and maxima along the rows are independent by rows.
//
// CHECK-LABEL: func.func @norm
// CHECK:         fp8.reduce sum {{.*}} [1] : tensor<32x96xbf16> -> tensor<32x1xf32>
// CHECK:         fp8.update_slice {{.*}} [32, 0] into({{.*}}) : tensor<32x1xf32> -> tensor<64x1xf32>
func.func @norm(%x: tensor<64x32xbf16>, %w: tensor<32x96xbf16>) -> tensor<64x1xf32> {
  %y = fp8.matmul %x, %w : tensor<64x32xbf16>, tensor<32x96xbf16> -> tensor<64x96xbf16>
  %q = arith.mulf %y, %y : tensor<64x96xbf16>
  %s = fp8.reduce sum %q [1] : tensor<64x96xbf16> -> tensor<64x1xf32>
  %r = math.rsqrt %s : tensor<64x1xf32>
  return %r : tensor<64x1xf32>
}

// -----

// Blocks of 128 rows are not cut.
//
// CHECK-LABEL: func.func @blocks
// CHECK:         fp8.update_slice {{.*}} [0, 0] : tensor<128x256xf8E4M3FN{{.*}}> -> tensor<200x256xf8E4M3FN
// CHECK:         fp8.update_slice {{.*}} [1, 0] into({{.*}}) : tensor<1x256xf32> -> tensor<2x256xf32>
// CHECK:         fp8.update_slice {{.*}} [128, 0] into({{.*}}) : tensor<72x256xf8E4M3FN
func.func @blocks(%x: tensor<200x32xbf16>, %w: tensor<32x256xbf16>)
    -> (tensor<200x256xf8E4M3FN, #fp8.tensor<scale = [128, 1]>>, tensor<2x256xf32>) {
  %y = fp8.matmul %x, %w : tensor<200x32xbf16>, tensor<32x256xbf16> -> tensor<200x256xbf16>
  %m = fp8.amax %y group = [128, 1] : tensor<200x256xbf16> -> tensor<2x256xf32>
  %s = fp8.scale %m format = f8E4M3FN : tensor<2x256xf32>
  %q = fp8.cast %y, %s : tensor<200x256xbf16>, tensor<2x256xf32> -> tensor<200x256xf8E4M3FN, #fp8.tensor<scale = [128, 1]>>
  return %q, %s : tensor<200x256xf8E4M3FN, #fp8.tensor<scale = [128, 1]>>, tensor<2x256xf32>
}

// -----

// An op known only by its shapes needs all rows; what it reads is whole.
//
// CHECK-LABEL: func.func @opaque
// CHECK-NOT:     fp8.update_slice
func.func @opaque(%x: tensor<64x32xbf16>, %w: tensor<32x96xbf16>) -> tensor<64x96xbf16> {
  %y = fp8.matmul %x, %w : tensor<64x32xbf16>, tensor<32x96xbf16> -> tensor<64x96xbf16>
  %o = fp8.opaque "attention"(%y) : (tensor<64x96xbf16>) -> tensor<64x96xbf16>
  return %o : tensor<64x96xbf16>
}

// -----

// A condition that is no tensor is one for all rows.
//
// CHECK-LABEL: func.func @select
// CHECK:         arith.select %arg3, %{{.*}}, %{{.*}} : tensor<32x96xbf16>
// CHECK:         fp8.update_slice %{{.*}} [32, 0] into
func.func @select(%x: tensor<64x32xbf16>, %w: tensor<32x96xbf16>, %v: tensor<32x96xbf16>, %c: i1) -> tensor<64x96xbf16> {
  %y = fp8.matmul %x, %w : tensor<64x32xbf16>, tensor<32x96xbf16> -> tensor<64x96xbf16>
  %z = fp8.matmul %x, %v : tensor<64x32xbf16>, tensor<32x96xbf16> -> tensor<64x96xbf16>
  %s = arith.select %c, %y, %z : tensor<64x96xbf16>
  return %s : tensor<64x96xbf16>
}
