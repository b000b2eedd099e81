// What one pass over memory can do is one kernel; each function has one rule.
//
// RUN: fp8-opt %s -split-input-file --fp8-form-kernels | FileCheck %s
// RUN: fp8-opt %s -split-input-file --fp8-form-kernels=fuse=none | FileCheck %s --check-prefix=NONE

// Without fusion every op that runs is a kernel of its own; views are still inside of kernels.
// NONE-LABEL: func.func @rows(
// NONE-COUNT-4: fp8.kernel loop
// NONE-NOT: fp8.kernel
// NONE-LABEL: func.func @columns(

// A row reduction is known while its row is at hand: amax, scale and cast are one kernel, and only what is read outside
// of it is a buffer.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: %[[X:[a-z0-9]*]]:
// CHECK-NEXT: %[[K:.*]]:2 = fp8.kernel loop (%[[A:.*]] = %[[X]] : tensor<64x32xbf16>) -> (tensor<64x1xf32>, tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>)
// CHECK-NEXT: %[[E:.*]] = arith.negf %[[A]]
// CHECK-NEXT: %[[M:.*]] = fp8.amax %[[E]]
// CHECK-NEXT: %[[S:.*]] = fp8.scale %[[M]]
// CHECK-NEXT: %[[Q:.*]] = fp8.cast %[[E]], %[[S]]
// CHECK-NEXT: fp8.yield %[[S]], %[[Q]]
// CHECK-NOT: fp8.kernel
// CHECK: return %[[K]]#1, %[[K]]#0
func.func @rows(%x: tensor<64x32xbf16>) -> (tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<64x1xf32>) {
  %e = arith.negf %x : tensor<64x32xbf16>
  %m = fp8.amax %e group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
  %s = fp8.scale %m format = f8E4M3FN : tensor<64x1xf32>
  %q = fp8.cast %e, %s : tensor<64x32xbf16>, tensor<64x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  return %q, %s : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<64x1xf32>
}

// -----

// A column reduction is known after the loop: the scale may follow in its kernel, the cast may not.
// CHECK-LABEL: func.func @columns(
// CHECK-SAME: %[[X:[a-z0-9]*]]:
// CHECK-NEXT: %[[K:.*]] = fp8.kernel loop (%{{.*}} = %[[X]] : tensor<64x32xbf16>) -> (tensor<1x32xf32>)
// CHECK-NEXT: fp8.amax
// CHECK-NEXT: fp8.scale
// CHECK-NEXT: fp8.yield
// CHECK: fp8.kernel loop (%{{.*}} = %[[X]] : tensor<64x32xbf16>, %{{.*}} = %[[K]] : tensor<1x32xf32>)
// CHECK-NEXT: fp8.cast
func.func @columns(%x: tensor<64x32xbf16>) -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> {
  %m = fp8.amax %x group = [0, 1] : tensor<64x32xbf16> -> tensor<1x32xf32>
  %s = fp8.scale %m format = f8E4M3FN : tensor<1x32xf32>
  %q = fp8.cast %x, %s : tensor<64x32xbf16>, tensor<1x32xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
  return %q : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
}

// -----

// So is the maximum of a whole tensor.
// CHECK-LABEL: func.func @tensorwise(
// CHECK: fp8.kernel loop
// CHECK-NEXT: fp8.amax
// CHECK-NEXT: fp8.scale
// CHECK-NEXT: fp8.yield
// CHECK: fp8.kernel loop
// CHECK-NEXT: fp8.cast
// CHECK-NOT: fp8.kernel
func.func @tensorwise(%x: tensor<64x32xbf16>) -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>> {
  %m = fp8.amax %x group = [0, 0] : tensor<64x32xbf16> -> tensor<1x1xf32>
  %s = fp8.scale %m format = f8E4M3FN : tensor<1x1xf32>
  %q = fp8.cast %x, %s : tensor<64x32xbf16>, tensor<1x1xf32> -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
  return %q : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
}

// -----

// A 128x128 block lies within the 128 rows that a kernel holds: one kernel.
// CHECK-LABEL: func.func @blocks(
// CHECK: fp8.kernel loop
// CHECK-NEXT: fp8.amax
// CHECK-NEXT: fp8.scale
// CHECK-NEXT: fp8.cast
// CHECK-NOT: fp8.kernel
func.func @blocks(%x: tensor<256x384xbf16>) -> (tensor<256x384xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>, tensor<2x3xf32>) {
  %m = fp8.amax %x group = [128, 128] : tensor<256x384xbf16> -> tensor<2x3xf32>
  %s = fp8.scale %m format = f8E4M3FN : tensor<2x3xf32>
  %q = fp8.cast %x, %s : tensor<256x384xbf16>, tensor<2x3xf32> -> tensor<256x384xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>
  return %q, %s : tensor<256x384xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>, tensor<2x3xf32>
}

// -----

// A transpose may end a kernel; what reads it is another one, since its order in memory is another.
// CHECK-LABEL: func.func @transposed(
// CHECK: %[[T:.*]] = fp8.kernel loop
// CHECK-NEXT: math.exp
// CHECK-NEXT: fp8.transpose
// CHECK-NEXT: fp8.yield
// CHECK: fp8.kernel loop (%{{.*}} = %[[T]]
// CHECK-NEXT: math.tanh
func.func @transposed(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = math.exp %x : tensor<64x64xf32>
  %t = fp8.transpose %e [1, 0] : tensor<64x64xf32> -> tensor<64x64xf32>
  %h = math.tanh %t : tensor<64x64xf32>
  return %h : tensor<64x64xf32>
}

// -----

// A view is cloned into the kernels that read through it, and a kernel takes the root. What reads a view of a value is
// not in that value's kernel.
// CHECK-LABEL: func.func @views(
// CHECK-NEXT: %[[E:.*]] = fp8.kernel loop
// CHECK-NEXT: math.exp
// CHECK-NEXT: fp8.yield
// CHECK: fp8.kernel loop (%[[A:.*]] = %[[E]] : tensor<64x32xf32>)
// CHECK-NEXT: %[[P:.*]] = fp8.permute %[[A]]
// CHECK-NEXT: math.tanh %[[P]]
// CHECK: fp8.kernel matmul (%[[B:.*]] = %[[E]] : tensor<64x32xf32>) -> (tensor<32x32xf32>)
// CHECK-NEXT: %[[Q:.*]] = fp8.permute %[[B]]
// CHECK-NEXT: fp8.matmul %[[Q]], %[[B]]
func.func @views(%x: tensor<64x32xf32>) -> (tensor<32x64xf32>, tensor<32x32xf32>) {
  %e = math.exp %x : tensor<64x32xf32>
  %p = fp8.permute %e [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>
  %h = math.tanh %p : tensor<32x64xf32>
  %g = fp8.matmul %p, %e : tensor<32x64xf32>, tensor<64x32xf32> -> tensor<32x32xf32>
  return %h, %g : tensor<32x64xf32>, tensor<32x32xf32>
}

// -----

// No kernel waits for itself: the sum reads the matmul, which reads the exponential, so it may not join that one.
// CHECK-LABEL: func.func @cycle(
// CHECK: %[[E:.*]] = fp8.kernel loop
// CHECK-NEXT: math.exp
// CHECK-NEXT: fp8.yield
// CHECK: %[[G:.*]] = fp8.kernel matmul
// CHECK: fp8.kernel loop
// CHECK-NEXT: arith.addf
func.func @cycle(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = math.exp %x : tensor<64x64xf32>
  %g = fp8.matmul %e, %x : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %s = arith.addf %e, %g : tensor<64x64xf32>
  return %s : tensor<64x64xf32>
}

// -----

// Loops of other shapes are other kernels, even where one reads the other's values.
// CHECK-LABEL: func.func @shapes(
// CHECK-COUNT-2: fp8.kernel loop
// CHECK-NOT: fp8.kernel
func.func @shapes(%x: tensor<64x32xf32>, %y: tensor<2x64x32xf32>) -> (tensor<64x32xf32>, tensor<2x64x32xf32>) {
  %a = math.exp %x : tensor<64x32xf32>
  %b = math.exp %y : tensor<2x64x32xf32>
  return %a, %b : tensor<64x32xf32>, tensor<2x64x32xf32>
}

// -----

// What is used by nobody is still a buffer of a kernel that is not a loop, and nothing of a loop.
// CHECK-LABEL: func.func @unused(
// CHECK: fp8.kernel opaque {{.*}} -> (tensor<8xf32>, tensor<8xf32>)
func.func @unused(%x: tensor<8xf32>) -> tensor<8xf32> {
  %p:2 = fp8.opaque "two"(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %p#0 : tensor<8xf32>
}

// -----

// The kinds, and the workspace that each needs: the runtime's matmul packs panels, an opaque says its scratch.
// CHECK-LABEL: func.func @kinds(
// CHECK: fp8.kernel collective
// CHECK: fp8.kernel opaque
// CHECK-SAME: workspace = 1000
// CHECK: fp8.kernel matmul
// CHECK-SAME: workspace = 262144
// CHECK: fp8.kernel state
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @kinds(%x: tensor<32x64xf32>, %h: tensor<16xf32> {fp8.state}) -> tensor<64x64xf32> {
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<32x64xf32> -> tensor<64x64xf32>
  %o = fp8.opaque "o"(%g) {scratch_bytes = 1000 : i64} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = fp8.matmul %o, %g : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %m = fp8.amax %y group = [0, 0] : tensor<64x64xf32> -> tensor<1x1xf32>
  fp8.push_amax %m, %h : tensor<1x1xf32>, tensor<16xf32>
  return %y : tensor<64x64xf32>
}
}

// -----

// A kernel may end before another one begins and wait for it all the same: the matmul reads the first kernel, whose
// second member reads the transpose. Its product must not join the kernel of the transpose.
// CHECK-LABEL: func.func @later_member(
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<8x8xf32>, %[[Z:[a-z0-9]*]]: tensor<8x8xf32>)
// CHECK: %[[T:.*]]:2 = fp8.kernel loop (%{{.*}} = %[[Z]] : tensor<8x8xf32>)
// CHECK: %[[P:.*]]:2 = fp8.kernel loop (%{{.*}} = %[[X]] : tensor<8x8xf32>, %{{.*}} = %[[T]]#1 : tensor<8x8xf32>)
// CHECK: %[[G:.*]] = fp8.kernel matmul (%{{.*}} = %[[P]]#0 : tensor<8x8xf32>, %{{.*}} = %[[X]] : tensor<8x8xf32>)
// CHECK: %[[U:.*]] = fp8.kernel loop (%{{.*}} = %[[G]] : tensor<8x8xf32>, %{{.*}} = %[[T]]#0 : tensor<8x8xf32>)
// CHECK: return %[[P]]#1, %[[U]]
func.func @later_member(%x: tensor<8x8xf32>, %z: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %p = math.tanh %x : tensor<8x8xf32>
  %g = fp8.matmul %p, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %e = math.exp %z : tensor<8x8xf32>
  %t = fp8.transpose %e [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  %q = arith.mulf %p, %t : tensor<8x8xf32>
  %u = arith.mulf %g, %e : tensor<8x8xf32>
  return %q, %u : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// A matmul reads memory, so a constant that it reads is written by a kernel first.
// CHECK-LABEL: func.func @constant_operand(
// CHECK-SAME: %[[X:[a-z0-9]*]]:
// CHECK: %[[C:.*]] = fp8.kernel loop -> (tensor<3x2xf32>)
// CHECK-NEXT: arith.constant dense<1.000000e+00>
// CHECK: fp8.kernel matmul (%{{.*}} = %[[X]] : tensor<2x3xf32>, %{{.*}} = %[[C]] : tensor<3x2xf32>)
func.func @constant_operand(%x: tensor<2x3xf32>) -> tensor<2x2xf32> {
  %c = arith.constant dense<1.0> : tensor<3x2xf32>
  %y = fp8.matmul %x, %c : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
