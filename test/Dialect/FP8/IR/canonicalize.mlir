// What folds, and what must not.
// RUN: fp8-opt %s -canonicalize -split-input-file | FileCheck %s

// CHECK-LABEL: func @identities
// CHECK-SAME: (%[[X:.*]]: tensor<64x32xbf16>)
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
func.func @identities(%x: tensor<64x32xbf16>)
    -> (tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>) {
  %0 = fp8.permute %x [0, 1] : tensor<64x32xbf16> -> tensor<64x32xbf16>
  %1 = fp8.transpose %x [0, 1] : tensor<64x32xbf16> -> tensor<64x32xbf16>
  %2 = fp8.slice %x [0, 0] : tensor<64x32xbf16> -> tensor<64x32xbf16>
  %3 = fp8.pad %x [0, 0] : tensor<64x32xbf16> -> tensor<64x32xbf16>
  %4 = fp8.reshape %x : tensor<64x32xbf16> -> tensor<64x32xbf16>
  %5 = fp8.bitcast %x : tensor<64x32xbf16> -> tensor<64x32xbf16>
  %6 = fp8.broadcast %x : tensor<64x32xbf16> -> tensor<64x32xbf16>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>, tensor<64x32xbf16>
}

// -----

// CHECK-LABEL: func @there_and_back
// CHECK-SAME: (%[[X:.*]]: tensor<4x8x16xbf16>)
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]]
func.func @there_and_back(%x: tensor<4x8x16xbf16>) -> (tensor<4x8x16xbf16>, tensor<4x8x16xbf16>, tensor<4x8x16xbf16>, tensor<4x8x16xbf16>) {
  %0 = fp8.permute %x [2, 0, 1] : tensor<4x8x16xbf16> -> tensor<16x4x8xbf16>
  %1 = fp8.permute %0 [1, 2, 0] : tensor<16x4x8xbf16> -> tensor<4x8x16xbf16>
  %2 = fp8.transpose %x [2, 0, 1] : tensor<4x8x16xbf16> -> tensor<16x4x8xbf16>
  %3 = fp8.transpose %2 [1, 2, 0] : tensor<16x4x8xbf16> -> tensor<4x8x16xbf16>
  %4 = fp8.reshape %x : tensor<4x8x16xbf16> -> tensor<512xbf16>
  %5 = fp8.reshape %4 : tensor<512xbf16> -> tensor<4x8x16xbf16>
  %6 = fp8.bitcast %x : tensor<4x8x16xbf16> -> tensor<4x8x16xi16>
  %7 = fp8.bitcast %6 : tensor<4x8x16xi16> -> tensor<4x8x16xbf16>
  return %1, %3, %5, %7 : tensor<4x8x16xbf16>, tensor<4x8x16xbf16>, tensor<4x8x16xbf16>, tensor<4x8x16xbf16>
}

// -----

// Two in a row become one. Result dimension i of the pair is dimension inner[outer[i]] of the operand.
// CHECK-LABEL: func @pairs
// CHECK-SAME: (%[[X:.*]]: tensor<4x8x16xbf16>, %[[Y:.*]]: tensor<4x1xf32>)
// CHECK-DAG: %[[P:.*]] = fp8.permute %[[X]] [0, 2, 1] : tensor<4x8x16xbf16> -> tensor<4x16x8xbf16>
// CHECK-DAG: %[[T:.*]] = fp8.transpose %[[X]] [1, 2, 0] : tensor<4x8x16xbf16> -> tensor<8x16x4xbf16>
// CHECK-DAG: %[[S:.*]] = fp8.slice %[[X]] [1, 3, 5] : tensor<4x8x16xbf16> -> tensor<1x2x3xbf16>
// CHECK-DAG: %[[R:.*]] = fp8.reshape %[[X]] : tensor<4x8x16xbf16> -> tensor<2x256xbf16>
// CHECK-DAG: %[[B:.*]] = fp8.broadcast %[[Y]] : tensor<4x1xf32> -> tensor<4x7xf32>
// CHECK: return %[[P]], %[[T]], %[[S]], %[[R]], %[[B]]
func.func @pairs(%x: tensor<4x8x16xbf16>, %y: tensor<4x1xf32>)
    -> (tensor<4x16x8xbf16>, tensor<8x16x4xbf16>, tensor<1x2x3xbf16>, tensor<2x256xbf16>, tensor<4x7xf32>) {
  %0 = fp8.permute %x [2, 0, 1] : tensor<4x8x16xbf16> -> tensor<16x4x8xbf16>
  %1 = fp8.permute %0 [1, 0, 2] : tensor<16x4x8xbf16> -> tensor<4x16x8xbf16>
  %2 = fp8.transpose %x [2, 0, 1] : tensor<4x8x16xbf16> -> tensor<16x4x8xbf16>
  %3 = fp8.transpose %2 [2, 0, 1] : tensor<16x4x8xbf16> -> tensor<8x16x4xbf16>
  %4 = fp8.slice %x [1, 2, 2] : tensor<4x8x16xbf16> -> tensor<3x4x8xbf16>
  %5 = fp8.slice %4 [0, 1, 3] : tensor<3x4x8xbf16> -> tensor<1x2x3xbf16>
  %6 = fp8.reshape %x : tensor<4x8x16xbf16> -> tensor<512xbf16>
  %7 = fp8.reshape %6 : tensor<512xbf16> -> tensor<2x256xbf16>
  %8 = fp8.broadcast %y : tensor<4x1xf32> -> tensor<4x7xf32>
  %9 = fp8.broadcast %8 : tensor<4x7xf32> -> tensor<4x7xf32>
  return %1, %3, %5, %7, %9 : tensor<4x16x8xbf16>, tensor<8x16x4xbf16>, tensor<1x2x3xbf16>, tensor<2x256xbf16>, tensor<4x7xf32>
}

// -----

// A scaled encoding goes along.
// CHECK-LABEL: func @scaled
// CHECK-SAME: (%[[X:.*]]: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>)
// CHECK-NEXT: return %[[X]]
func.func @scaled(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> {
  %0 = fp8.transpose %x [1, 0] : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
  %1 = fp8.transpose %0 [1, 0] : tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  return %1 : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
}

// -----

// A bitcast through bytes does not rename a scaled tensor.
// CHECK-LABEL: func @bytes
// CHECK: fp8.bitcast
// CHECK: fp8.bitcast
func.func @bytes(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) -> tensor<64x32xf8E4M3FN> {
  %0 = fp8.bitcast %x : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<64x32xi8>
  %1 = fp8.bitcast %0 : tensor<64x32xi8> -> tensor<64x32xf8E4M3FN>
  return %1 : tensor<64x32xf8E4M3FN>
}

// -----

// A view and a copy are not the same thing, and a maximum of absolute values stays two ops.
// CHECK-LABEL: func @apart
// CHECK: fp8.permute
// CHECK: fp8.transpose
// CHECK: math.absf
// CHECK: fp8.reduce max
func.func @apart(%x: tensor<64x32xbf16>) -> (tensor<64x32xbf16>, tensor<64x1xf32>) {
  %0 = fp8.permute %x [1, 0] : tensor<64x32xbf16> -> tensor<32x64xbf16>
  %1 = fp8.transpose %0 [1, 0] : tensor<32x64xbf16> -> tensor<64x32xbf16>
  %2 = math.absf %x : tensor<64x32xbf16>
  %3 = fp8.reduce max %2 [1] : tensor<64x32xbf16> -> tensor<64x1xf32>
  return %1, %3 : tensor<64x32xbf16>, tensor<64x1xf32>
}
