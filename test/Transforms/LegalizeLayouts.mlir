// RUN: fp8-opt %s -split-input-file --fp8-legalize-layouts | FileCheck %s

// An operand that lies along k already is left alone; a view is all it takes to
// see a weight so. A value that two matmuls read is moved once, behind what
// makes it.

module attributes {fp8.target = "h200"} {
  // CHECK-LABEL: func.func @products
  func.func @products(%dy: tensor<32x64xbf16>, %w: tensor<64x48xbf16>, %x: tensor<32x48xbf16>, %sr: tensor<32x1xf32>,
                      %sc: tensor<1x64xf32>, %sw: tensor<1x48xf32>, %swr: tensor<64x1xf32>)
      -> (tensor<32x48xbf16>, tensor<64x48xbf16>, tensor<64x48xbf16>, tensor<32x64xbf16>) {
    // CHECK: %[[DYR:.*]] = fp8.cast %{{.*}} -> tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    %dyr = fp8.cast %dy, %sr : tensor<32x64xbf16>, tensor<32x1xf32> -> tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    // CHECK: %[[DYC:.*]] = fp8.cast {{.*}} -> tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    // CHECK-NEXT: %[[DYT:.*]] = fp8.transpose %[[DYC]] [1, 0] : {{.*}} -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    %dyc = fp8.cast %dy, %sc : tensor<32x64xbf16>, tensor<1x64xf32> -> tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    // CHECK: %[[WC:.*]] = fp8.cast {{.*}} -> tensor<64x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    // CHECK-NEXT: %[[WT:.*]] = fp8.transpose %[[WC]] [1, 0] : {{.*}} -> tensor<48x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    %wc = fp8.cast %w, %sw : tensor<64x48xbf16>, tensor<1x48xf32> -> tensor<64x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    // CHECK: %[[XC:.*]] = fp8.cast {{.*}} -> tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    // CHECK-NEXT: %[[XT:.*]] = fp8.transpose %[[XC]]
    %xc = fp8.cast %x, %sw : tensor<32x48xbf16>, tensor<1x48xf32> -> tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>

    // dgrad
    // CHECK: %[[WV:.*]] = fp8.permute %[[WT]] [1, 0]
    // CHECK: fp8.matmul %[[DYR]], %[[WV]]
    %dx = fp8.matmul %dyr, %wc scales(%sr, %sw : tensor<32x1xf32>, tensor<1x48xf32>) : tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<64x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<32x48xbf16>
    // wgrad, twice
    %dyv = fp8.permute %dyc [1, 0] : tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    %scv = fp8.permute %sc [1, 0] : tensor<1x64xf32> -> tensor<64x1xf32>
    // CHECK: %[[XV:.*]] = fp8.permute %[[XT]] [1, 0]
    // CHECK: fp8.matmul %[[DYT]], %[[XV]]
    %dw = fp8.matmul %dyv, %xc scales(%scv, %sw : tensor<64x1xf32>, tensor<1x48xf32>) : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<64x48xbf16>
    // CHECK-NOT: fp8.transpose
    // CHECK: fp8.matmul %[[DYT]]
    %dv = fp8.matmul %dyv, %xc scales(%scv, %sw : tensor<64x1xf32>, tensor<1x48xf32>) : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<64x48xbf16>
    // fprop: the weight's rows lie along k.
    // CHECK: %[[WR:.*]] = fp8.cast
    %wr = fp8.cast %w, %swr : tensor<64x48xbf16>, tensor<64x1xf32> -> tensor<64x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    // CHECK: %[[WRV:.*]] = fp8.permute %[[WR]] [1, 0]
    %wv = fp8.permute %wr [1, 0] : tensor<64x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<48x64xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    %xr = fp8.cast %x, %sr : tensor<32x48xbf16>, tensor<32x1xf32> -> tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    %swv = fp8.permute %swr [1, 0] : tensor<64x1xf32> -> tensor<1x64xf32>
    // CHECK: fp8.matmul %{{.*}}, %[[WRV]]
    %y = fp8.matmul %xr, %wv scales(%sr, %swv : tensor<32x1xf32>, tensor<1x64xf32>) : tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<48x64xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<32x64xbf16>
    return %dx, %dw, %dv, %y : tensor<32x48xbf16>, tensor<64x48xbf16>, tensor<64x48xbf16>, tensor<32x64xbf16>
  }

  // A bf16 matmul takes both orders.
  // CHECK-LABEL: func.func @bf16
  // CHECK-NOT: fp8.transpose
  func.func @bf16(%a: tensor<32x64xbf16>, %b: tensor<64x48xbf16>) -> tensor<32x48xbf16> {
    %y = fp8.matmul %a, %b : tensor<32x64xbf16>, tensor<64x48xbf16> -> tensor<32x48xbf16>
    return %y : tensor<32x48xbf16>
  }
}

// -----

// The default target takes every order.
// CHECK-LABEL: func.func @cpu
// CHECK-NOT: fp8.transpose
func.func @cpu(%a: tensor<32x64xbf16>, %b: tensor<64x48xbf16>, %s: tensor<1x1xf32>) -> tensor<32x48xbf16> {
  %qa = fp8.cast %a, %s : tensor<32x64xbf16>, tensor<1x1xf32> -> tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
  %qb = fp8.cast %b, %s : tensor<64x48xbf16>, tensor<1x1xf32> -> tensor<64x48xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
  %y = fp8.matmul %qa, %qb scales(%s, %s : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<64x48xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<32x48xbf16>
  return %y : tensor<32x48xbf16>
}

// -----

// Products of groups: the weights of all experts at once, and both operands of the gradient of the weights.

module attributes {fp8.target = "h200"} {
  // CHECK-LABEL: func.func @grouped
  func.func @grouped(%dy: tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %w: tensor<2x64x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>>,
                     %x: tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>, %sr: tensor<32x1xf32>, %sw: tensor<2x1x48xf32>,
                     %sc: tensor<1x64xf32>, %sx: tensor<1x48xf32>, %d: tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>, %o: tensor<3xi32>)
      -> (tensor<32x48xbf16>, tensor<2x64x48xbf16>) {
    // CHECK: %[[WT:.*]] = fp8.transpose %{{.*}} [0, 2, 1] : {{.*}} -> tensor<2x48x64xf8E4M3FN, #fp8.tensor<scale = [1, 1, all]>>
    // CHECK: %[[WV:.*]] = fp8.permute %[[WT]] [0, 2, 1]
    // CHECK: fp8.grouped_matmul %{{.*}}, %[[WV]]
    %dx = fp8.grouped_matmul %dy, %w offsets(%o : tensor<3xi32>) scales(%sr, %sw : tensor<32x1xf32>, tensor<2x1x48xf32>) align = 16 : tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<2x64x48xf8E4M3FN, #fp8.tensor<scale = [1, all, 1]>> -> tensor<32x48xbf16>
    // CHECK: %[[DT:.*]] = fp8.transpose %{{.*}} [1, 0] : {{.*}} -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    // CHECK: %[[XT:.*]] = fp8.transpose %{{.*}} [1, 0] : {{.*}} -> tensor<48x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    // CHECK: %[[XV:.*]] = fp8.permute %[[XT]] [1, 0]
    // CHECK: fp8.grouped_matmul %[[DT]], %[[XV]]
    %dv = fp8.permute %d [1, 0] : tensor<32x64xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    %sv = fp8.permute %sc [1, 0] : tensor<1x64xf32> -> tensor<64x1xf32>
    %dw = fp8.grouped_matmul %dv, %x offsets(%o : tensor<3xi32>) scales(%sv, %sx : tensor<64x1xf32>, tensor<1x48xf32>) align = 16 : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<2x64x48xbf16>
    return %dx, %dw : tensor<32x48xbf16>, tensor<2x64x48xbf16>
  }
}
