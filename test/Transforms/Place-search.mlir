// The greedy orders of placement need 3,072 bytes for these eight buffers, in units of 256 bytes and steps
//   5 at [0, 4), 3 at [1, 3), 3 at [2, 7), 2 at [3, 7), 6 at [4, 5), 5 at [5, 6), 6 at [6, 7), 1 at [7, 8),
// of which 2,816 are live at most. The search finds the packing that is no larger.
//
// RUN: fp8-opt %s --fp8-insert-frees --fp8-place | FileCheck %s
// RUN: fp8-opt %s --fp8-insert-frees --fp8-place --fp8-check-plan -o /dev/null
// CHECK: func.func @search({{.*}}) attributes {fp8.arena_bytes = 2816 : i64}
func.func @search(%x: tensor<64xf32>) {
  %b0 = fp8.kernel opaque (%i0 = %x : tensor<64xf32>) -> (tensor<320xf32>) {
    %0 = fp8.opaque "o"(%i0) : (tensor<64xf32>) -> tensor<320xf32>
    fp8.yield %0 : tensor<320xf32>
  }
  %b1 = fp8.kernel opaque (%i0 = %x : tensor<64xf32>) -> (tensor<192xf32>) {
    %0 = fp8.opaque "o"(%i0) : (tensor<64xf32>) -> tensor<192xf32>
    fp8.yield %0 : tensor<192xf32>
  }
  %b2 = fp8.kernel opaque (%i0 = %x : tensor<64xf32>, %i1 = %b1 : tensor<192xf32>) -> (tensor<192xf32>) {
    %0 = fp8.opaque "o"(%i0, %i1) : (tensor<64xf32>, tensor<192xf32>) -> tensor<192xf32>
    fp8.yield %0 : tensor<192xf32>
  }
  %b3 = fp8.kernel opaque (%i0 = %x : tensor<64xf32>, %i1 = %b0 : tensor<320xf32>) -> (tensor<128xf32>) {
    %0 = fp8.opaque "o"(%i0, %i1) : (tensor<64xf32>, tensor<320xf32>) -> tensor<128xf32>
    fp8.yield %0 : tensor<128xf32>
  }
  %b4 = fp8.kernel opaque (%i0 = %x : tensor<64xf32>) -> (tensor<384xf32>) {
    %0 = fp8.opaque "o"(%i0) : (tensor<64xf32>) -> tensor<384xf32>
    fp8.yield %0 : tensor<384xf32>
  }
  %b5 = fp8.kernel opaque (%i0 = %x : tensor<64xf32>) -> (tensor<320xf32>) {
    %0 = fp8.opaque "o"(%i0) : (tensor<64xf32>) -> tensor<320xf32>
    fp8.yield %0 : tensor<320xf32>
  }
  %b6 = fp8.kernel opaque (%i0 = %x : tensor<64xf32>, %i1 = %b2 : tensor<192xf32>, %i2 = %b3 : tensor<128xf32>) -> (tensor<384xf32>) {
    %0 = fp8.opaque "o"(%i0, %i1, %i2) : (tensor<64xf32>, tensor<192xf32>, tensor<128xf32>) -> tensor<384xf32>
    fp8.yield %0 : tensor<384xf32>
  }
  %b7 = fp8.kernel opaque (%i0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %0 = fp8.opaque "o"(%i0) : (tensor<64xf32>) -> tensor<64xf32>
    fp8.yield %0 : tensor<64xf32>
  }
  return
}
