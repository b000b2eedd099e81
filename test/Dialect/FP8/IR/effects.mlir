// Which ops may be merged or dropped, and which may not.
// RUN: fp8-opt %s -cse -canonicalize | FileCheck %s

module attributes {fp8.grid = {tp = 4}} {

// Without state a linear has no effect; with state each one pushes its amax.
// CHECK-LABEL: func @linears
// CHECK-COUNT-1: fp8.linear %{{.*}} recipe <rowwise>
// CHECK-COUNT-2: fp8.linear %{{.*}} state({{.*}}) recipe <delayed>
// CHECK-COUNT-2: fp8.linear_dgrad %{{.*}} state({{.*}}) recipe <delayed>
// CHECK-COUNT-2: fp8.linear_wgrad %{{.*}} state({{.*}}) recipe <delayed>
// CHECK-NOT: fp8.linear
// CHECK: return
func.func @linears(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>, %dy: tensor<64x48xbf16>, %h: tensor<16xf32> {fp8.state}, %s: tensor<1x1xf32> {fp8.state})
    -> (tensor<64x48xbf16>, tensor<64x48xbf16>) {
  %unused = fp8.linear %x, %w recipe<block128> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  %unused2 = fp8.linear_dgrad %dy, %w recipe<rowwise> : tensor<64x48xbf16>, tensor<48x32xbf16> -> tensor<64x32xbf16>
  %unused3 = fp8.linear_wgrad %dy, %x recipe<rowwise> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<48x32xbf16>
  %0 = fp8.linear %x, %w recipe<rowwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  %1 = fp8.linear %x, %w recipe<rowwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  %2 = fp8.linear %x, %w state(%h, %s, %h, %s, %h, %s : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>)
    recipe<delayed> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  %3 = fp8.linear %x, %w state(%h, %s, %h, %s, %h, %s : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>)
    recipe<delayed> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  %4 = fp8.linear_dgrad %dy, %w state(%h, %s, %h, %s, %h, %s : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>)
    recipe<delayed> : tensor<64x48xbf16>, tensor<48x32xbf16> -> tensor<64x32xbf16>
  %5 = fp8.linear_dgrad %dy, %w state(%h, %s, %h, %s, %h, %s : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>)
    recipe<delayed> : tensor<64x48xbf16>, tensor<48x32xbf16> -> tensor<64x32xbf16>
  %6 = fp8.linear_wgrad %dy, %x state(%h, %s, %h, %s, %h, %s : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>)
    recipe<delayed> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<48x32xbf16>
  %7 = fp8.linear_wgrad %dy, %x state(%h, %s, %h, %s, %h, %s : tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>, tensor<16xf32>, tensor<1x1xf32>)
    recipe<delayed> : tensor<64x48xbf16>, tensor<64x32xbf16> -> tensor<48x32xbf16>
  return %0, %1 : tensor<64x48xbf16>, tensor<64x48xbf16>
}

// CHECK-LABEL: func @opaques
// CHECK-COUNT-2: fp8.opaque "random"
// CHECK-COUNT-1: fp8.opaque "pure"
// CHECK-NOT: fp8.opaque
// CHECK: return
func.func @opaques(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = fp8.opaque "random"(%x) {stateful, recompute = "never"} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = fp8.opaque "random"(%x) {stateful, recompute = "never"} : (tensor<8xf32>) -> tensor<8xf32>
  %2 = fp8.opaque "pure"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = fp8.opaque "pure"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %4 = fp8.opaque "unused"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %2, %3 : tensor<8xf32>, tensor<8xf32>
}

// A collective is never merged nor dropped: the ranks would no longer meet.
// CHECK-LABEL: func @gathers
// CHECK-COUNT-2: fp8.all_gather
// CHECK: return
func.func @gathers(%x: tensor<64x32xbf16>) {
  %0 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>
  %1 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>
  return
}

// Each push counts, and a free ends the storage.
// CHECK-LABEL: func @state
// CHECK-COUNT-2: fp8.push_amax
// CHECK-COUNT-2: fp8.update_scale
// CHECK: fp8.free
// CHECK: return
func.func @state(%m: tensor<1x1xf32>, %h: tensor<16xf32> {fp8.state}, %s: tensor<1x1xf32> {fp8.state}) {
  fp8.push_amax %m, %h : tensor<1x1xf32>, tensor<16xf32>
  fp8.push_amax %m, %h : tensor<1x1xf32>, tensor<16xf32>
  fp8.update_scale %h, %s format = f8E4M3FN : tensor<16xf32>, tensor<1x1xf32>
  fp8.update_scale %h, %s format = f8E4M3FN : tensor<16xf32>, tensor<1x1xf32>
  %k = fp8.kernel loop (%a = %m : tensor<1x1xf32>) -> (tensor<1x1xf32>) {
    %e = math.exp %a : tensor<1x1xf32>
    fp8.yield %e : tensor<1x1xf32>
  }
  fp8.free %k : tensor<1x1xf32>
  return
}

// The clones of a recomputation stay apart from each other and from their original.
// CHECK-LABEL: func @barriers
// CHECK-COUNT-2: fp8.kernel loop
// CHECK-COUNT-2: fp8.remat_barrier
// CHECK: fp8.kernel loop
// CHECK: fp8.kernel loop
// CHECK: fp8.yield
func.func @barriers(%x: tensor<8xf32>, %dy: tensor<8xf32> {fp8.tangent}) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %y, %a, %b = fp8.step -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) forward {
    %e = fp8.kernel loop (%p = %x : tensor<8xf32>) -> (tensor<8xf32>) {
      %0 = math.exp %p : tensor<8xf32>
      fp8.yield %0 : tensor<8xf32>
    }
    // A second kernel of another kind of work, so that the counts above are exact.
    %t = fp8.kernel loop (%p = %e : tensor<8xf32>) -> (tensor<8xf32>) {
      %0 = math.tanh %p : tensor<8xf32>
      fp8.yield %0 : tensor<8xf32>
    }
    fp8.yield %t : tensor<8xf32>
  } backward {
    %b0 = fp8.remat_barrier %x after(%dy : tensor<8xf32>) id = 0 : tensor<8xf32>
    %b1 = fp8.remat_barrier %x after(%dy : tensor<8xf32>) id = 1 : tensor<8xf32>
    %e0 = fp8.kernel loop (%p = %b0 : tensor<8xf32>) -> (tensor<8xf32>) {
      %0 = math.exp %p : tensor<8xf32>
      fp8.yield %0 : tensor<8xf32>
    }
    %e1 = fp8.kernel loop (%p = %b1 : tensor<8xf32>) -> (tensor<8xf32>) {
      %0 = math.exp %p : tensor<8xf32>
      fp8.yield %0 : tensor<8xf32>
    }
    fp8.yield %e0, %e1 : tensor<8xf32>, tensor<8xf32>
  }
  return %y, %a, %b : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

}
