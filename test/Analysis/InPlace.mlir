// Which results are written over which operands, where frees are placed, and where they lie then.
//
// RUN: fp8-opt %s -split-input-file --fp8-insert-frees --fp8-check-plan --fp8-place --fp8-check-plan | FileCheck %s
// What stands there already is decided anew.
// RUN: fp8-opt %s -split-input-file --fp8-insert-frees --fp8-insert-frees --fp8-place --fp8-check-plan | FileCheck %s

// A chain keeps one slot, which is freed under its last name. Two results of one pass take two operands.
// CHECK-LABEL: func.func @chain(
// CHECK-SAME: fp8.arena_bytes = 1024
// CHECK: %[[A:.*]]:2 = fp8.kernel loop {{.*}}offsets = array<i64: [[P:0|512]], [[Q:0|512]]>}
// CHECK-NOT: fp8.free
// CHECK: %[[B:.*]]:2 = fp8.kernel loop {{.*}}in_place = array<i64: 0, 1>, offsets = array<i64: [[Q]], [[P]]>}
// CHECK-NOT: fp8.free
// CHECK: %[[C:.*]] = fp8.kernel loop {{.*}}in_place = array<i64: 0>, offsets = array<i64: [[Q]]>}
// CHECK: fp8.free %[[B]]#1 :
// CHECK: fp8.kernel loop
// CHECK: fp8.free %[[C]] :
func.func @chain(%x: tensor<128xf32>) -> tensor<128xbf16> {
  %a:2 = fp8.kernel loop (%i = %x : tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>) {
    %0 = math.exp %i : tensor<128xf32>
    %1 = math.tanh %i : tensor<128xf32>
    fp8.yield %0, %1 : tensor<128xf32>, tensor<128xf32>
  }
  %b:2 = fp8.kernel loop (%i = %a#1 : tensor<128xf32>, %j = %a#0 : tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>)
      attributes {in_place = array<i64: 1, 0>} {
    %0 = arith.addf %i, %j : tensor<128xf32>
    %1 = arith.mulf %i, %j : tensor<128xf32>
    fp8.yield %0, %1 : tensor<128xf32>, tensor<128xf32>
  }
  %c = fp8.kernel loop (%i = %b#0 : tensor<128xf32>, %j = %b#1 : tensor<128xf32>) -> (tensor<128xf32>) {
    %0 = arith.addf %i, %j : tensor<128xf32>
    fp8.yield %0 : tensor<128xf32>
  }
  %d = fp8.kernel loop (%i = %c : tensor<128xf32>) -> (tensor<128xbf16>) {
    %0 = arith.truncf %i : tensor<128xf32> to tensor<128xbf16>
    fp8.yield %0 : tensor<128xbf16>
  }
  return %d : tensor<128xbf16>
}

// -----

// Gradient accumulation: the result lies in the argument, which has no offset, and takes no byte of the arena. What is
// read through a barrier is the same storage.
// CHECK-LABEL: func.func @accumulate(
// CHECK-SAME: fp8.arena_bytes = 0
// CHECK: fp8.kernel matmul {{.*}}in_place = array<i64: 2>, offsets = array<i64: -1>}
// CHECK: fp8.kernel loop {{.*}}in_place = array<i64: 0>, offsets = array<i64: -1>}
// CHECK-NOT: fp8.free
func.func @accumulate(%a: tensor<16x8xbf16>, %b: tensor<8x32xbf16>, %main_grad: tensor<16x32xf32> {fp8.donated})
    -> tensor<16x32xf32> {
  %m = fp8.remat_barrier %main_grad id = 0 : tensor<16x32xf32>
  %d = fp8.kernel matmul (%i = %a : tensor<16x8xbf16>, %j = %b : tensor<8x32xbf16>, %c = %m : tensor<16x32xf32>)
      -> (tensor<16x32xf32>) {
    %0 = fp8.matmul %i, %j acc(%c : tensor<16x32xf32>) : tensor<16x8xbf16>, tensor<8x32xbf16> -> tensor<16x32xf32>
    fp8.yield %0 : tensor<16x32xf32>
  }
  %e = fp8.kernel loop (%i = %d : tensor<16x32xf32>) -> (tensor<16x32xf32>) {
    %0 = arith.negf %i : tensor<16x32xf32>
    fp8.yield %0 : tensor<16x32xf32>
  }
  return %e : tensor<16x32xf32>
}

// -----

// A donated argument goes before a buffer: the buffer is free after the kernel, the result costs nothing.
// CHECK-LABEL: func.func @donated_first(
// CHECK: %[[A:.*]] = fp8.kernel loop
// CHECK: fp8.kernel loop {{.*}}in_place = array<i64: 1>, offsets = array<i64: -1>}
// CHECK: fp8.free %[[A]]
func.func @donated_first(%x: tensor<64xf32>, %old: tensor<64xf32> {fp8.donated}) -> tensor<64xf32> {
  %a = fp8.kernel loop (%i = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %0 = math.exp %i : tensor<64xf32>
    fp8.yield %0 : tensor<64xf32>
  }
  %b = fp8.kernel loop (%i = %a : tensor<64xf32>, %j = %old : tensor<64xf32>) -> (tensor<64xf32>) {
    %0 = arith.addf %i, %j : tensor<64xf32>
    fp8.yield %0 : tensor<64xf32>
  }
  return %b : tensor<64xf32>
}

// -----

// A residual is handed on in backward; nothing is written over what backward still reads, over an argument that is not
// donated or over a result.
// CHECK-LABEL: func.func @step(
// CHECK: fp8.kernel loop
// CHECK-NOT: in_place
// CHECK: } backward (%[[R:.*]]: tensor<64xf32>) {
// CHECK: fp8.kernel loop (%{{.*}} = %[[R]] : {{.*}}in_place = array<i64: 0>
// CHECK-NOT: fp8.free
// CHECK: return
func.func @step(%x: tensor<64xf32>, %dy: tensor<64xf32> {fp8.tangent}) -> (tensor<64xf32>, tensor<64xf32>) {
  %y, %dx = fp8.step -> (tensor<64xf32>, tensor<64xf32>) forward {
    %a = fp8.kernel loop (%i = %x : tensor<64xf32>) -> (tensor<64xf32>) {
      %0 = math.exp %i : tensor<64xf32>
      fp8.yield %0 : tensor<64xf32>
    }
    %b = fp8.kernel loop (%i = %a : tensor<64xf32>) -> (tensor<64xf32>) {
      %0 = math.tanh %i : tensor<64xf32>
      fp8.yield %0 : tensor<64xf32>
    }
    fp8.yield %b residuals(%a) : tensor<64xf32> residuals(tensor<64xf32>)
  } backward (%r: tensor<64xf32>) {
    %e = fp8.kernel loop (%i = %r : tensor<64xf32>, %j = %dy : tensor<64xf32>) -> (tensor<64xf32>) {
      %0 = arith.mulf %i, %j : tensor<64xf32>
      fp8.yield %0 : tensor<64xf32>
    }
    fp8.yield %e : tensor<64xf32>
  }
  return %y, %dx : tensor<64xf32>, tensor<64xf32>
}

// -----

// What the kernel reads elsewhere than it writes, or in a pass before: of the operands only %f, from which nothing but
// the first result is computed and elementwise, may be written over.
// CHECK-LABEL: func.func @passes(
// CHECK: fp8.kernel loop
// CHECK: fp8.kernel loop {{.*}}in_place = array<i64: 5, -1, -1>
func.func @passes(%x: tensor<8x8xf32>)
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32> {fp8.placement = "caller"}) {
  %k:6 = fp8.kernel loop (%i = %x : tensor<8x8xf32>)
      -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<1x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %0 = math.exp %i : tensor<8x8xf32>
    %1 = math.tanh %i : tensor<8x8xf32>
    %2 = arith.negf %i : tensor<8x8xf32>
    %3 = fp8.reduce sum %i [0] : tensor<8x8xf32> -> tensor<1x8xf32>
    %4 = math.log %i : tensor<8x8xf32>
    %5 = math.absf %i : tensor<8x8xf32>
    fp8.yield %0, %1, %2, %3, %4, %5
      : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<1x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  %r:3 = fp8.kernel loop (%a = %k#0 : tensor<8x8xf32>, %b = %k#1 : tensor<8x8xf32>, %c = %k#2 : tensor<8x8xf32>,
                          %d = %k#3 : tensor<1x8xf32>, %e = %k#4 : tensor<8x8xf32>, %f = %k#5 : tensor<8x8xf32>)
      -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %s = fp8.reduce sum %a [1] : tensor<8x8xf32> -> tensor<8x1xf32>
    %sb = fp8.broadcast %s : tensor<8x1xf32> -> tensor<8x8xf32>
    %db = fp8.broadcast %d : tensor<1x8xf32> -> tensor<8x8xf32>
    %bt = fp8.permute %b [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
    %ct = fp8.transpose %c [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
    %0 = arith.addf %sb, %f : tensor<8x8xf32>
    %1 = arith.addf %db, %bt : tensor<8x8xf32>
    %2 = arith.addf %1, %e : tensor<8x8xf32>
    %3 = arith.addf %e, %sb : tensor<8x8xf32>
    fp8.yield %0, %2, %3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#0, %r#1, %r#2 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// A matmul may not write over what it multiplies, nor over an accumulator of another type, nor one that it multiplies
// too.
// CHECK-LABEL: func.func @matmuls(
// CHECK-NOT: in_place
func.func @matmuls(%x: tensor<8x8xbf16>) -> (tensor<8x8xbf16>, tensor<8x8xf32>, tensor<8x8xbf16>) {
  %a:3 = fp8.kernel loop (%i = %x : tensor<8x8xbf16>) -> (tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>) {
    %0 = math.exp %i : tensor<8x8xbf16>
    %1 = math.tanh %i : tensor<8x8xbf16>
    %2 = arith.negf %i : tensor<8x8xbf16>
    fp8.yield %0, %1, %2 : tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>
  }
  %m = fp8.kernel matmul (%i = %a#0 : tensor<8x8xbf16>, %j = %x : tensor<8x8xbf16>) -> (tensor<8x8xbf16>) {
    %0 = fp8.matmul %i, %j : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
    fp8.yield %0 : tensor<8x8xbf16>
  }
  %n = fp8.kernel matmul (%i = %x : tensor<8x8xbf16>, %c = %a#1 : tensor<8x8xbf16>) -> (tensor<8x8xf32>) {
    %0 = fp8.matmul %i, %i acc(%c : tensor<8x8xbf16>) : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xf32>
    fp8.yield %0 : tensor<8x8xf32>
  }
  %o = fp8.kernel matmul (%i = %x : tensor<8x8xbf16>, %c = %a#2 : tensor<8x8xbf16>) -> (tensor<8x8xbf16>) {
    %0 = fp8.matmul %i, %c acc(%c : tensor<8x8xbf16>) : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
    fp8.yield %0 : tensor<8x8xbf16>
  }
  return %m, %n, %o : tensor<8x8xbf16>, tensor<8x8xf32>, tensor<8x8xbf16>
}

// -----

// What only a gather reads is made in its place of the result, which is there from then on. The wait stands where it stood, and the result is freed once. Not done: for what another kernel reads too, for
// parts that are no stretches of the result, for parts of less than a slot's alignment, and for an argument.
// CHECK-LABEL: func.func @gather(
// CHECK-SAME: fp8.arena_bytes = 768
// CHECK: fp8.kernel loop {{.*}}offsets = array<i64: [[AT:0|256]]>}
// CHECK-NOT: fp8.free
// CHECK: %[[G:.*]]:2 = fp8.kernel collective {{.*}}in_place = array<i64: 0, -1>, offsets = array<i64: [[AT]], -1>}
// CHECK-NOT: fp8.free
// CHECK: fp8.wait
// CHECK-NOT: fp8.free
// CHECK: fp8.kernel loop
// CHECK: fp8.free %[[G]]#0 : tensor<128xf32>
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @gather(%x: tensor<64xf32>) -> tensor<128xbf16> {
  %q = fp8.kernel loop (%i = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %0 = math.exp %i : tensor<64xf32>
    fp8.yield %0 : tensor<64xf32>
  }
  %g, %t = fp8.kernel collective (%i = %q : tensor<64xf32>) -> (tensor<128xf32>, !fp8.token) {
    %0, %1 = fp8.all_gather_start %i axis = "tp" dim = 0 : tensor<64xf32> -> tensor<128xf32>, !fp8.token
    fp8.yield %0, %1 : tensor<128xf32>, !fp8.token
  }
  %w = fp8.wait %g, %t : tensor<128xf32>
  %y = fp8.kernel loop (%i = %w : tensor<128xf32>) -> (tensor<128xbf16>) {
    %0 = arith.truncf %i : tensor<128xf32> to tensor<128xbf16>
    fp8.yield %0 : tensor<128xbf16>
  }
  return %y : tensor<128xbf16>
}
}

// -----

// CHECK-LABEL: func.func @other_gathers(
// CHECK-NOT: in_place
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @other_gathers(%x: tensor<2x128xf32>, %z: tensor<16xf32>)
    -> (tensor<4x128xf32>, tensor<2x128xf32>, tensor<2x256xf32>, tensor<32xf32>, tensor<4x128xf32>) {
  %q:2 = fp8.kernel loop (%i = %x : tensor<2x128xf32>) -> (tensor<2x128xf32>, tensor<2x128xf32>) {
    %0 = math.exp %i : tensor<2x128xf32>
    %1 = math.tanh %i : tensor<2x128xf32>
    fp8.yield %0, %1 : tensor<2x128xf32>, tensor<2x128xf32>
  }
  %p = fp8.kernel loop (%i = %z : tensor<16xf32>) -> (tensor<16xf32>) {
    %0 = math.exp %i : tensor<16xf32>
    fp8.yield %0 : tensor<16xf32>
  }
  %a = fp8.kernel collective (%i = %q#0 : tensor<2x128xf32>) -> (tensor<4x128xf32>) {
    %0 = fp8.all_gather %i axis = "tp" dim = 0 : tensor<2x128xf32> -> tensor<4x128xf32>
    fp8.yield %0 : tensor<4x128xf32>
  }
  %b = fp8.kernel collective (%i = %q#0 : tensor<2x128xf32>) -> (tensor<2x128xf32>) {
    %0 = fp8.all_reduce sum %i axis = "tp" : tensor<2x128xf32> -> tensor<2x128xf32>
    fp8.yield %0 : tensor<2x128xf32>
  }
  %c = fp8.kernel collective (%i = %q#1 : tensor<2x128xf32>) -> (tensor<2x256xf32>) {
    %0 = fp8.all_gather %i axis = "tp" dim = 1 : tensor<2x128xf32> -> tensor<2x256xf32>
    fp8.yield %0 : tensor<2x256xf32>
  }
  %d = fp8.kernel collective (%i = %p : tensor<16xf32>) -> (tensor<32xf32>) {
    %0 = fp8.all_gather %i axis = "tp" dim = 0 : tensor<16xf32> -> tensor<32xf32>
    fp8.yield %0 : tensor<32xf32>
  }
  %e = fp8.kernel collective (%i = %x : tensor<2x128xf32>) -> (tensor<4x128xf32>) {
    %0 = fp8.all_gather %i axis = "tp" dim = 0 : tensor<2x128xf32> -> tensor<4x128xf32>
    fp8.yield %0 : tensor<4x128xf32>
  }
  return %a, %b, %c, %d, %e : tensor<4x128xf32>, tensor<2x128xf32>, tensor<2x256xf32>, tensor<32xf32>, tensor<4x128xf32>
}
}

// -----

// The peak is where the part is made: all of the result would not fit there.
// CHECK-LABEL: func.func @at_the_peak(
// CHECK-NOT: in_place
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @at_the_peak(%x: tensor<256xf32>) -> tensor<128xbf16> {
  %big = fp8.kernel loop (%i = %x : tensor<256xf32>) -> (tensor<256xf32>) {
    %0 = math.exp %i : tensor<256xf32>
    fp8.yield %0 : tensor<256xf32>
  }
  %q = fp8.kernel loop (%i = %big : tensor<256xf32>) -> (tensor<64xf32>) {
    %0 = fp8.slice %i [0] : tensor<256xf32> -> tensor<64xf32>
    %1 = math.tanh %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  %g = fp8.kernel collective (%i = %q : tensor<64xf32>) -> (tensor<128xf32>) {
    %0 = fp8.all_gather %i axis = "tp" dim = 0 : tensor<64xf32> -> tensor<128xf32>
    fp8.yield %0 : tensor<128xf32>
  }
  %y = fp8.kernel loop (%i = %g : tensor<128xf32>) -> (tensor<128xbf16>) {
    %0 = arith.truncf %i : tensor<128xf32> to tensor<128xbf16>
    fp8.yield %0 : tensor<128xbf16>
  }
  return %y : tensor<128xbf16>
}
}
