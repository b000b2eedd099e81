// Offsets in one arena: multiples of 256, buffers that are live together apart, memory used again after its free.
//
// RUN: fp8-opt %s -split-input-file --fp8-place | FileCheck %s
// RUN: fp8-opt %s -split-input-file --fp8-place --fp8-check-plan -o /dev/null

// %a [0, 400) takes 512 bytes; %b is beside it; %c is made after %a's free and takes its place. A kernel's result is
// made while its operands are alive.
// CHECK-LABEL: func.func @reuse(
// CHECK-SAME: fp8.arena_bytes = 1024 : i64
// CHECK: fp8.kernel loop {{.*}}offsets = array<i64: [[A:0|512]]>
// CHECK: fp8.kernel loop {{.*}}offsets = array<i64: [[B:0|512]]>
// CHECK: fp8.kernel loop {{.*}}offsets = array<i64: [[A]]>
// CHECK: fp8.kernel loop {{.*}}offsets = array<i64: [[B]]>
func.func @reuse(%x: tensor<100xf32>) -> tensor<100xf32> {
  %a = fp8.kernel loop (%i = %x : tensor<100xf32>) -> (tensor<100xf32>) {
    %0 = math.exp %i : tensor<100xf32>
    fp8.yield %0 : tensor<100xf32>
  }
  %b = fp8.kernel loop (%i = %a : tensor<100xf32>) -> (tensor<100xf32>) {
    %0 = math.tanh %i : tensor<100xf32>
    fp8.yield %0 : tensor<100xf32>
  }
  fp8.free %a : tensor<100xf32>
  %c = fp8.kernel loop (%i = %b : tensor<100xf32>) -> (tensor<100xf32>) {
    %0 = math.log %i : tensor<100xf32>
    fp8.yield %0 : tensor<100xf32>
  }
  fp8.free %b : tensor<100xf32>
  %d = fp8.kernel loop (%i = %c : tensor<100xf32>) -> (tensor<100xf32>) {
    %0 = math.absf %i : tensor<100xf32>
    fp8.yield %0 : tensor<100xf32>
  }
  fp8.free %c : tensor<100xf32>
  return %d : tensor<100xf32>
}

// -----

// The caller's buffer takes no place, the arena's result does; the workspace lies beside both while its kernel runs.
// A token has no storage. All offsets of one kernel are in the order of its results.
// CHECK-LABEL: func.func @caller(
// CHECK-SAME: fp8.arena_bytes = 1280 : i64
// CHECK: fp8.kernel opaque {{.*}} -> (tensor<8xf32>, tensor<8xf32>) attributes {offsets = array<i64: -1, {{[0-9]+}}>, workspace = 1000 : i64, workspace_offset = {{0|256}} : i64}
func.func @caller(%x: tensor<8xf32>) -> (tensor<8xf32> {fp8.placement = "caller"}, tensor<8xf32> {fp8.placement = "arena"}) {
  %a:2 = fp8.kernel opaque (%i = %x : tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {workspace = 1000 : i64} {
    %0:2 = fp8.opaque "two"(%i) {scratch_bytes = 1000 : i64} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    fp8.yield %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
  }
  return %a#0, %a#1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @token(
// CHECK-SAME: fp8.arena_bytes = 256 : i64
// CHECK: offsets = array<i64: 0, -1>
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @token(%x: tensor<8xf32>) -> tensor<16xf32> {
  %g, %t = fp8.kernel collective (%i = %x : tensor<8xf32>) -> (tensor<16xf32>, !fp8.token) {
    %0, %1 = fp8.all_gather_start %i axis = "tp" dim = 0 : tensor<8xf32> -> tensor<16xf32>, !fp8.token
    fp8.yield %0, %1 : tensor<16xf32>, !fp8.token
  }
  %w = fp8.wait %g, %t : tensor<16xf32>
  return %w : tensor<16xf32>
}
}

// -----

// A program that allocates nothing.
// CHECK-LABEL: func.func @nothing(
// CHECK-SAME: fp8.arena_bytes = 0 : i64
func.func @nothing(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
