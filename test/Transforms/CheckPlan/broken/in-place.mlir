// Results over operands that are still needed, or that the kernel reads elsewhere than it writes.
//
// RUN: fp8-opt %s --fp8-check-plan -split-input-file -verify-diagnostics

func.func @read_later(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xbf16>) {
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-note @+1 {{written here}}
  %b = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) attributes {in_place = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+1 {{uses 'math.exp#0.0' (256 bytes) after 'math.exp#1.0' was written over it}}
  %c = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xbf16>) {
    %1 = arith.truncf %0 : tensor<64xf32> to tensor<64xbf16>
    fp8.yield %1 : tensor<64xbf16>
  }
  return %b, %c : tensor<64xf32>, tensor<64xbf16>
}

// -----

func.func @freed(%x: tensor<64xf32>) -> tensor<64xf32> {
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-note @+1 {{written here}}
  %b = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) attributes {in_place = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+1 {{frees 'math.exp#0.0' (256 bytes), but 'math.exp#1.0' is written over it}}
  fp8.free %a : tensor<64xf32>
  return %b : tensor<64xf32>
}

// -----

func.func @never_freed(%x: tensor<64xf32>) -> tensor<64xbf16> {
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+1 {{makes 'math.exp#1.0' (256 bytes), which is never freed}}
  %b = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) attributes {in_place = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  %c = fp8.kernel loop (%0 = %b : tensor<64xf32>) -> (tensor<64xbf16>) {
    %1 = arith.truncf %0 : tensor<64xf32> to tensor<64xbf16>
    fp8.yield %1 : tensor<64xbf16>
  }
  return %c : tensor<64xbf16>
}

// -----

func.func @not_donated(%x: tensor<64xf32>) -> tensor<64xf32> {
  // expected-error @+1 {{writes 'math.exp#0.0' over 'arg0', an argument that is not marked 'fp8.donated'}}
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {in_place = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %a : tensor<64xf32>
}

// -----

func.func @freed_argument(%x: tensor<64xf32> {fp8.donated}) -> tensor<64xbf16> {
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {in_place = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  %b = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xbf16>) {
    %1 = arith.truncf %0 : tensor<64xf32> to tensor<64xbf16>
    fp8.yield %1 : tensor<64xbf16>
  }
  // expected-error @+1 {{frees 'math.exp#0.0' (256 bytes), but it is written over an argument of the function}}
  fp8.free %a : tensor<64xf32>
  return %b : tensor<64xbf16>
}

// -----

func.func @result(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32> {fp8.placement = "caller"}) {
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+3 {{writes 'math.exp#1.0' over 'math.exp#0.0', which is a result of the function}}
  // expected-error @+2 {{but it is a result in the caller's buffer}}
  // expected-note @+1 {{written here}}
  %b = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) attributes {in_place = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+1 {{uses 'math.exp#0.0' (256 bytes) after 'math.exp#1.0' was written over it}}
  return %a, %b : tensor<64xf32>, tensor<64xf32>
}

// -----

func.func @kept(%x: tensor<64xf32>, %dy: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %y, %dx = fp8.step -> (tensor<64xf32>, tensor<64xf32>) forward {
    %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    // expected-error @+2 {{writes 'math.exp#1.0' over 'math.exp#0.0', which is kept for backward}}
    // expected-note @+1 {{written here}}
    %b = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) attributes {in_place = array<i64: 0>} {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    // expected-error @+1 {{uses 'math.exp#0.0' (256 bytes) after}}
    fp8.yield %b residuals(%a) : tensor<64xf32> residuals(tensor<64xf32>)
  } backward (%r: tensor<64xf32>) {
    %c = fp8.kernel loop (%0 = %dy : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    fp8.yield %c : tensor<64xf32>
  }
  return %y, %dx : tensor<64xf32>, tensor<64xf32>
}

// -----

func.func @moved(%x: tensor<8x8xf32> {fp8.donated}) -> tensor<8x8xf32> {
  // expected-error @+1 {{writes 'fp8.transpose#0.0' over 'arg0', but reads it in 'fp8.transpose' at other elements than it writes}}
  %a = fp8.kernel loop (%0 = %x : tensor<8x8xf32>) -> (tensor<8x8xf32>) attributes {in_place = array<i64: 0>} {
    // expected-note @+1 {{read here}}
    %1 = fp8.transpose %0 [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
    fp8.yield %1 : tensor<8x8xf32>
  }
  return %a : tensor<8x8xf32>
}

// -----

func.func @reduced(%x: tensor<8x8xf32> {fp8.donated}) -> tensor<8x8xf32> {
  // expected-error @+1 {{but reads it in 'fp8.reduce' at other elements than it writes}}
  %a = fp8.kernel loop (%0 = %x : tensor<8x8xf32>) -> (tensor<8x8xf32>) attributes {in_place = array<i64: 0>} {
    // expected-note @+1 {{read here}}
    %1 = fp8.reduce sum %0 [1] : tensor<8x8xf32> -> tensor<8x1xf32>
    %2 = fp8.broadcast %1 : tensor<8x1xf32> -> tensor<8x8xf32>
    %3 = arith.mulf %0, %2 : tensor<8x8xf32>
    fp8.yield %3 : tensor<8x8xf32>
  }
  return %a : tensor<8x8xf32>
}

// -----

func.func @passes(%x: tensor<8x8xf32> {fp8.donated}, %z: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // expected-error @+1 {{but computes result 1 from it too, in a later pass perhaps: it reads back a reduction}}
  %a:2 = fp8.kernel loop (%0 = %x : tensor<8x8xf32>, %1 = %z : tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
      attributes {in_place = array<i64: 0, -1>} {
    %2 = math.exp %0 : tensor<8x8xf32>
    %3 = fp8.reduce sum %1 [1] : tensor<8x8xf32> -> tensor<8x1xf32>
    %4 = fp8.broadcast %3 : tensor<8x1xf32> -> tensor<8x8xf32>
    %5 = arith.mulf %0, %4 : tensor<8x8xf32>
    fp8.yield %2, %5 : tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %a#0, %a#1 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

func.func @multiplied(%x: tensor<8x8xbf16> {fp8.donated}) -> tensor<8x8xbf16> {
  // expected-error @+1 {{which is not its accumulator and nothing else}}
  %a = fp8.kernel matmul (%0 = %x : tensor<8x8xbf16>) -> (tensor<8x8xbf16>) attributes {in_place = array<i64: 0>} {
    %1 = fp8.matmul %0, %0 : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
    fp8.yield %1 : tensor<8x8xbf16>
  }
  return %a : tensor<8x8xbf16>
}

// -----

func.func @view(%x: tensor<8x8xf32> {fp8.donated}) -> tensor<8x8xf32> {
  %t = fp8.permute %x [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  // expected-error @+1 {{which it reads as a view}}
  %a = fp8.kernel loop (%0 = %t : tensor<8x8xf32>) -> (tensor<8x8xf32>) attributes {in_place = array<i64: 0>} {
    %1 = math.exp %0 : tensor<8x8xf32>
    fp8.yield %1 : tensor<8x8xf32>
  }
  return %a : tensor<8x8xf32>
}

// -----

func.func @two_names(%x: tensor<64xf32> {fp8.donated}) -> tensor<64xf32> {
  %b = fp8.remat_barrier %x id = 0 : tensor<64xf32>
  // expected-error @+1 {{which another operand names too}}
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>, %1 = %b : tensor<64xf32>) -> (tensor<64xf32>)
      attributes {in_place = array<i64: 0>} {
    %2 = arith.addf %0, %1 : tensor<64xf32>
    fp8.yield %2 : tensor<64xf32>
  }
  return %a : tensor<64xf32>
}

// -----

func.func @other_slot(%x: tensor<64xf32>) -> tensor<64xf32> attributes {fp8.arena_bytes = 512 : i64} {
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+1 {{places 'math.exp#1.0' (256 bytes) at 256, but it is written over 'math.exp#0.0' (256 bytes) at 0}}
  %b = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) attributes {in_place = array<i64: 0>, offsets = array<i64: 256>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %b : tensor<64xf32>
}

// -----

func.func @argument_slot(%x: tensor<64xf32> {fp8.donated}) -> tensor<64xf32> attributes {fp8.arena_bytes = 512 : i64} {
  // expected-error @+1 {{places 'math.exp#0.0' (256 bytes) at 0, but it is written over an argument; expected offset -1}}
  %b = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {in_place = array<i64: 0>, offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %b : tensor<64xf32>
}

// -----

// While a gather reads it.
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @in_flight(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<16xf32>) {
  %q = fp8.kernel loop (%i = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %0 = math.exp %i : tensor<8xf32>
    fp8.yield %0 : tensor<8xf32>
  }
  // expected-note @+1 {{started here}}
  %g, %t = fp8.kernel collective (%i = %q : tensor<8xf32>) -> (tensor<16xf32>, !fp8.token) {
    %0, %1 = fp8.all_gather_start %i axis = "tp" dim = 0 : tensor<8xf32> -> tensor<16xf32>, !fp8.token
    fp8.yield %0, %1 : tensor<16xf32>, !fp8.token
  }
  // expected-error @+1 {{writes 'math.tanh#0.0' over 'math.exp#0.0' (32 bytes) before the wait for a collective that uses it}}
  %o = fp8.kernel loop (%i = %q : tensor<8xf32>) -> (tensor<8xf32>) attributes {in_place = array<i64: 0>} {
    %0 = math.tanh %i : tensor<8xf32>
    fp8.yield %0 : tensor<8xf32>
  }
  %w = fp8.wait %g, %t : tensor<16xf32>
  return %o, %w : tensor<8xf32>, tensor<16xf32>
}
}

// -----

// A product of groups has no accumulator.
func.func @grouped(%x: tensor<8x8xbf16> {fp8.donated}, %w: tensor<2x8x8xbf16>, %o: tensor<3xi32>) -> tensor<8x8xbf16> {
  // expected-error @+1 {{which is not its accumulator and nothing else}}
  %a = fp8.kernel matmul (%0 = %x : tensor<8x8xbf16>, %1 = %w : tensor<2x8x8xbf16>, %2 = %o : tensor<3xi32>) -> (tensor<8x8xbf16>)
      attributes {in_place = array<i64: 0>} {
    %3 = fp8.grouped_matmul %0, %1 offsets(%2 : tensor<3xi32>) align = 1 : tensor<8x8xbf16>, tensor<2x8x8xbf16> -> tensor<8x8xbf16>
    fp8.yield %3 : tensor<8x8xbf16>
  }
  return %a : tensor<8x8xbf16>
}

// -----

// Parts along the columns of a matrix lie in stretches of a row.
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @gather(%x: tensor<2x64xf32>) -> tensor<2x128xf32> {
  %q = fp8.kernel loop (%i = %x : tensor<2x64xf32>) -> (tensor<2x64xf32>) {
    %0 = math.exp %i : tensor<2x64xf32>
    fp8.yield %0 : tensor<2x64xf32>
  }
  // expected-error @+1 {{but the parts along dimension 1 are no stretches of memory: expected a size of 1 in dimension 0, but got 2}}
  %g = fp8.kernel collective (%i = %q : tensor<2x64xf32>) -> (tensor<2x128xf32>) attributes {in_place = array<i64: 0>} {
    %0 = fp8.all_gather %i axis = "tp" dim = 1 : tensor<2x64xf32> -> tensor<2x128xf32>
    fp8.yield %0 : tensor<2x128xf32>
  }
  return %g : tensor<2x128xf32>
}
}

// -----

// A part begins where its slot is aligned.
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @gather(%x: tensor<16xf32>) -> tensor<32xf32> {
  %q = fp8.kernel loop (%i = %x : tensor<16xf32>) -> (tensor<16xf32>) {
    %0 = math.exp %i : tensor<16xf32>
    fp8.yield %0 : tensor<16xf32>
  }
  // expected-error @+1 {{whose 64 bytes are no multiple of 256}}
  %g = fp8.kernel collective (%i = %q : tensor<16xf32>) -> (tensor<32xf32>) attributes {in_place = array<i64: 0>} {
    %0 = fp8.all_gather %i axis = "tp" dim = 0 : tensor<16xf32> -> tensor<32xf32>
    fp8.yield %0 : tensor<32xf32>
  }
  return %g : tensor<32xf32>
}
}

// -----

// A matmul writes over its accumulator and nothing else.
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @gather(%x: tensor<16x16xf32>) -> tensor<32x16xf32> {
  %q = fp8.kernel matmul (%i = %x : tensor<16x16xf32>) -> (tensor<16x16xf32>) {
    %0 = fp8.matmul %i, %i : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    fp8.yield %0 : tensor<16x16xf32>
  }
  // expected-error @+1 {{which is not made whole and apart by a loop kernel}}
  %g = fp8.kernel collective (%i = %q : tensor<16x16xf32>) -> (tensor<32x16xf32>) attributes {in_place = array<i64: 0>} {
    %0 = fp8.all_gather %i axis = "tp" dim = 0 : tensor<16x16xf32> -> tensor<32x16xf32>
    fp8.yield %0 : tensor<32x16xf32>
  }
  return %g : tensor<32x16xf32>
}
}

// -----

// An argument is where it is.
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @gather(%x: tensor<64xf32> {fp8.donated}) -> tensor<128xf32> {
  // expected-error @+1 {{which is not made whole and apart by a loop kernel}}
  %g = fp8.kernel collective (%i = %x : tensor<64xf32>) -> (tensor<128xf32>) attributes {in_place = array<i64: 0>} {
    %0 = fp8.all_gather %i axis = "tp" dim = 0 : tensor<64xf32> -> tensor<128xf32>
    fp8.yield %0 : tensor<128xf32>
  }
  return %g : tensor<128xf32>
}
}

// -----

// The other ranks write their parts before the wait, so the part may be read before the gather and not after it.
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @gather(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<128xf32>) {
  %q = fp8.kernel loop (%i = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %0 = math.exp %i : tensor<64xf32>
    fp8.yield %0 : tensor<64xf32>
  }
  // expected-note @+1 {{written here}}
  %g = fp8.kernel collective (%i = %q : tensor<64xf32>) -> (tensor<128xf32>) attributes {in_place = array<i64: 0>} {
    %0 = fp8.all_gather %i axis = "tp" dim = 0 : tensor<64xf32> -> tensor<128xf32>
    fp8.yield %0 : tensor<128xf32>
  }
  // expected-error @+1 {{uses 'math.exp#0.0' (256 bytes) after 'fp8.all_gather#0.0' was written over it}}
  %o = fp8.kernel loop (%i = %q : tensor<64xf32>) -> (tensor<64xf32>) {
    %0 = math.tanh %i : tensor<64xf32>
    fp8.yield %0 : tensor<64xf32>
  }
  return %o, %g : tensor<64xf32>, tensor<128xf32>
}
}
