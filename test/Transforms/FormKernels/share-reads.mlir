// RUN: fp8-opt %s -split-input-file --fp8-form-kernels | FileCheck %s
// RUN: fp8-opt %s -split-input-file --fp8-set-target=target=cpu --fp8-form-kernels | FileCheck %s --check-prefix=CPU

// The column maxima join the kernel that casts the rows: x is read once for
// both. The cast of the columns needs them complete, so it is a kernel of its
// own, by tiles.
module attributes {fp8.target = "h200"} {
  // CHECK-LABEL: func.func @measure
  // CHECK: fp8.kernel loop
  // CHECK-DAG: fp8.amax %{{.*}} group = [1, 0]
  // CHECK-DAG: fp8.amax %{{.*}} group = [0, 1]
  // CHECK: fp8.kernel loop
  // CHECK: fp8.cast
  // CHECK: fp8.transpose
  // CHECK-NOT: fp8.kernel
  // CPU-LABEL: func.func @measure
  // CPU-COUNT-3: fp8.kernel loop
  func.func @measure(%x: tensor<256x512xbf16>)
      -> (tensor<256x512xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<512x256xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
    %ra = fp8.amax %x group = [1, 0] : tensor<256x512xbf16> -> tensor<256x1xf32>
    %rs = fp8.scale %ra format = f8E4M3FN : tensor<256x1xf32>
    %r = fp8.cast %x, %rs : tensor<256x512xbf16>, tensor<256x1xf32> -> tensor<256x512xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    %ca = fp8.amax %x group = [0, 1] : tensor<256x512xbf16> -> tensor<1x512xf32>
    %cs = fp8.scale %ca format = f8E4M3FN : tensor<1x512xf32>
    %c = fp8.cast %x, %cs : tensor<256x512xbf16>, tensor<1x512xf32> -> tensor<256x512xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    %t = fp8.transpose %c [1, 0] : tensor<256x512xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<512x256xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    return %r, %t : tensor<256x512xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<512x256xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  }
}

// -----

// Two products of the same two tensors, each measured by column and then cast:
// instead of writing both and reading them again (four passes), the casting
// kernel reads the two tensors (two passes) and multiplies again. No product is
// a result of a kernel.
module attributes {fp8.target = "h200"} {
  // CHECK-LABEL: func.func @again
  // CHECK: fp8.kernel loop
  // CHECK-SAME: -> (tensor<1x4096xf32>, tensor<1x4096xf32>)
  // CHECK: fp8.kernel loop
  // CHECK: arith.mulf
  // CHECK: fp8.transpose
  // CHECK: arith.addf
  // CHECK: fp8.transpose
  // CHECK-NOT: fp8.kernel
  func.func @again(%a: tensor<4096x4096xbf16>, %b: tensor<4096x4096xbf16>)
      -> (tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
    %p = arith.mulf %a, %b : tensor<4096x4096xbf16>
    %pa = fp8.amax %p group = [0, 1] : tensor<4096x4096xbf16> -> tensor<1x4096xf32>
    %ps = fp8.scale %pa format = f8E4M3FN : tensor<1x4096xf32>
    %pc = fp8.cast %p, %ps : tensor<4096x4096xbf16>, tensor<1x4096xf32> -> tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    %pt = fp8.transpose %pc [1, 0] : tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    %q = arith.addf %p, %b : tensor<4096x4096xbf16>
    %qa = fp8.amax %q group = [0, 1] : tensor<4096x4096xbf16> -> tensor<1x4096xf32>
    %qs = fp8.scale %qa format = f8E4M3FN : tensor<1x4096xf32>
    %qc = fp8.cast %q, %qs : tensor<4096x4096xbf16>, tensor<1x4096xf32> -> tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    %qt = fp8.transpose %qc [1, 0] : tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    return %pt, %qt : tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  }

  // One product of three tensors, cast once: three passes instead of two, so it
  // is stored.
  // CHECK-LABEL: func.func @stored
  // CHECK: fp8.kernel loop
  // CHECK-SAME: -> (tensor<4096x4096xbf16>, tensor<1x4096xf32>)
  func.func @stored(%a: tensor<4096x4096xbf16>, %b: tensor<4096x4096xbf16>, %c: tensor<4096x4096xbf16>)
      -> tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>> {
    %p0 = arith.mulf %a, %b : tensor<4096x4096xbf16>
    %p = arith.mulf %p0, %c : tensor<4096x4096xbf16>
    %pa = fp8.amax %p group = [0, 1] : tensor<4096x4096xbf16> -> tensor<1x4096xf32>
    %ps = fp8.scale %pa format = f8E4M3FN : tensor<1x4096xf32>
    %pc = fp8.cast %p, %ps : tensor<4096x4096xbf16>, tensor<1x4096xf32> -> tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    %pt = fp8.transpose %pc [1, 0] : tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    return %pt : tensor<4096x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  }

  // A row maximum is used at once by a cast of the same row; a transpose needs
  // tiles: two kernels.
  // CHECK-LABEL: func.func @shapes
  // CHECK: fp8.kernel loop
  // CHECK: fp8.cast
  // CHECK-NOT: fp8.transpose
  // CHECK: fp8.kernel loop
  // CHECK: fp8.transpose
  func.func @shapes(%x: tensor<256x512xbf16>) -> (tensor<512x256xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>) {
    %ra = fp8.amax %x group = [1, 0] : tensor<256x512xbf16> -> tensor<256x1xf32>
    %rs = fp8.scale %ra format = f8E4M3FN : tensor<256x1xf32>
    %r = fp8.cast %x, %rs : tensor<256x512xbf16>, tensor<256x1xf32> -> tensor<256x512xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    %t = fp8.transpose %r [1, 0] : tensor<256x512xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<512x256xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    return %t : tensor<512x256xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
  }
}
