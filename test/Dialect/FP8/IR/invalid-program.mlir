// Step, yield, kernel, barrier, free; a label names the constraint.
// RUN: fp8-opt %s -split-input-file -verify-diagnostics

// step C1, another terminator
func.func @f() {
  // expected-error@+1 {{expected the forward region to be one block that ends with 'fp8.yield'}}
  "fp8.step"() ({
    llvm.unreachable
  }, {
    fp8.yield
  }) : () -> ()
  return
}

// -----

// step C1, no block
func.func @f() {
  // expected-error@+1 {{region #0 ('forward') failed to verify constraint: region with 1 blocks}}
  "fp8.step"() ({}, {
    fp8.yield
  }) : () -> ()
  return
}

// -----

// step C1, an empty block
func.func @f() {
  // expected-error@+1 {{expects a non-empty block}}
  "fp8.step"() ({
    fp8.yield
  }, {
  ^bb0:
  }) : () -> ()
  return
}

// -----

// step C1, arguments of the forward block
func.func @f() {
  // expected-error@+1 {{expected no arguments of the forward region, but got 1}}
  "fp8.step"() ({
  ^bb0(%a: tensor<8xf32>):
    fp8.yield
  }, {
    fp8.yield
  }) : () -> ()
  return
}

// -----

// step C1, a region missing
func.func @f() {
  // expected-error@+1 {{expected 2 regions}}
  "fp8.step"() ({
    fp8.yield
  }) : () -> ()
  return
}

// -----

// step C2
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 1 arguments of the backward region, as many as the forward yield's residuals, but got 0}}
  fp8.step forward {
    fp8.yield residuals(%x) residuals(tensor<8xf32>)
  } backward {
    fp8.yield
  }
  return
}

// -----

// step C2
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected arguments of the backward region with the types of the forward yield's residuals, but number 0 is 'tensor<8xbf16>' where that is 'tensor<8xf32>'}}
  fp8.step forward {
    fp8.yield residuals(%x) residuals(tensor<8xf32>)
  } backward (%r: tensor<8xbf16>) {
    fp8.yield
  }
  return
}

// -----

// step C3
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected no residuals on the backward yield, but got 1}}
  fp8.step forward {
    fp8.yield
  } backward {
    fp8.yield residuals(%x) residuals(tensor<8xf32>)
  }
  return
}

// -----

// step C4
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 1 results, as many as the values of both yields, but got 2}}
  %0, %1 = fp8.step -> (tensor<8xf32>, tensor<8xf32>) forward {
    fp8.yield %x : tensor<8xf32>
  } backward {
    fp8.yield
  }
  return
}

// -----

// step C4
func.func @f(%x: tensor<8xf32>, %y: tensor<8xbf16>) {
  // expected-error@+1 {{expected results with the types of the values of both yields, but number 1 is 'tensor<8xf32>' where that is 'tensor<8xbf16>'}}
  %0, %1 = fp8.step -> (tensor<8xf32>, tensor<8xf32>) forward {
    fp8.yield %x : tensor<8xf32>
  } backward {
    fp8.yield %y : tensor<8xbf16>
  }
  return
}

// -----

// step C5
func.func @f() {
  // expected-note@+1 {{the first one is here}}
  fp8.step forward {
    fp8.yield
  } backward {
    fp8.yield
  }
  // expected-error@+1 {{expected one step in a function, but got a second one}}
  fp8.step forward {
    fp8.yield
  } backward {
    fp8.yield
  }
  return
}

// -----

// step C5
// expected-error@+1 {{expected to stand directly in a function, but got 'builtin.module' around it}}
fp8.step forward {
  fp8.yield
} backward {
  fp8.yield
}

// -----

// step C5
func.func @f() {
  fp8.step forward {
    // expected-error@+1 {{expected to stand directly in a function, but got 'fp8.step' around it}}
    fp8.step forward {
      fp8.yield
    } backward {
      fp8.yield
    }
    fp8.yield
  } backward {
    fp8.yield
  }
  return
}

// -----

// yield C1
func.func @f(%x: tensor<8xf32>) {
  fp8.kernel loop (%a = %x : tensor<8xf32>) {
    // expected-error@+1 {{expected residuals only in the forward region of a step, but got 1}}
    fp8.yield residuals(%a) residuals(tensor<8xf32>)
  }
  return
}

// -----

// yield, parent
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expects parent op to be one of 'fp8.step, fp8.kernel'}}
  fp8.yield %x : tensor<8xf32>
}

// -----

// kernel C1
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 1 arguments of the body, as many as the operands, but got 0}}
  "fp8.kernel"(%x) <{kind = #fp8<kernel_kind loop>}> ({
    fp8.yield
  }) : (tensor<8xf32>) -> ()
  return
}

// -----

// kernel C1
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected arguments of the body with the types of the operands, but number 0 is 'tensor<8xbf16>' where that is 'tensor<8xf32>'}}
  "fp8.kernel"(%x) <{kind = #fp8<kernel_kind loop>}> ({
  ^bb0(%a: tensor<8xbf16>):
    fp8.yield
  }) : (tensor<8xf32>) -> ()
  return
}

// -----

// kernel C1
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected results with the types of the values of the yield, but number 0 is 'tensor<8xbf16>' where that is 'tensor<8xf32>'}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>) -> (tensor<8xbf16>) {
    fp8.yield %a : tensor<8xf32>
  }
  return
}

// -----

// kernel C1, another terminator
func.func @f() {
  // expected-error@+1 {{expected the body to be one block that ends with 'fp8.yield'}}
  fp8.kernel loop {
    llvm.unreachable
  }
  return
}

// -----

// kernel, kind missing
func.func @f() {
  // expected-error@+1 {{requires attribute 'kind'}}
  "fp8.kernel"() ({
    fp8.yield
  }) : () -> ()
  return
}

// -----

// kernel, kind unknown
func.func @f() {
  // expected-error@+1 {{expected 'loop', 'matmul', 'collective', 'opaque', 'state' or 'copy', but got 'while'}}
  fp8.kernel while {
    fp8.yield
  }
  return
}

// -----

// kernel, kind given twice
func.func @f() {
  // expected-error@+1 {{expected the kind of a kernel once, but got 'kind' again}}
  fp8.kernel loop attributes {kind = #fp8<kernel_kind loop>} {
    fp8.yield
  }
  return
}

// -----

// kernel C2
func.func @f(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{expected only ops that a 'loop' kernel runs, but got 'fp8.matmul'}}
  %0 = fp8.kernel loop (%a = %x : tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    // expected-note@+1 {{it stands here}}
    %m = fp8.matmul %a, %a : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
    fp8.yield %m : tensor<8x8xf32>
  }
  return
}

// -----

// kernel C2
func.func @f(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{expected only ops that a 'matmul' kernel runs, but got 'math.exp'}}
  %0 = fp8.kernel matmul (%a = %x : tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    // expected-note@+1 {{it stands here}}
    %e = math.exp %a : tensor<8x8xf32>
    %m = fp8.matmul %a, %e : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
    fp8.yield %m : tensor<8x8xf32>
  }
  return
}

// -----

// kernel C2
func.func @f(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{expected exactly one op that a 'matmul' kernel runs, but got 2}}
  %0 = fp8.kernel matmul (%a = %x : tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %m = fp8.matmul %a, %a : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
    %n = fp8.matmul %a, %m : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
    fp8.yield %n : tensor<8x8xf32>
  }
  return
}

// -----

// kernel C2
func.func @f(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{expected exactly one op that a 'opaque' kernel runs, but got 0}}
  fp8.kernel opaque (%a = %x : tensor<8x8xf32>) {
    fp8.yield
  }
  return
}

// -----

// kernel C2
func.func @f(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{expected only ops that a 'state' kernel runs, but got 'fp8.amax'}}
  fp8.kernel state (%a = %x : tensor<8x8xf32>) {
    // expected-note@+1 {{it stands here}}
    %m = fp8.amax %a group = [0, 0] : tensor<8x8xf32> -> tensor<1x1xf32>
    fp8.yield
  }
  return
}

// -----

// kernel C2
func.func @f(%x: tensor<8x8xf32>) {
  // expected-error@+1 {{expected only ops that a 'collective' kernel runs, but got 'fp8.opaque'}}
  fp8.kernel collective (%a = %x : tensor<8x8xf32>) {
    // expected-note@+1 {{it stands here}}
    %m = fp8.opaque "f"(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    fp8.yield
  }
  return
}

// -----

// kernel C2, no region inside
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected only ops that a 'loop' kernel runs, but got 'fp8.kernel'}}
  fp8.kernel loop (%a = %x : tensor<8xf32>) {
    // expected-note@+1 {{it stands here}}
    fp8.kernel loop {
      fp8.yield
    }
    fp8.yield
  }
  return
}

// -----

// kernel, isolated
func.func @f(%x: tensor<8xf32>) {
  // expected-note@+1 {{required by region isolation constraints}}
  %0 = fp8.kernel loop -> (tensor<8xf32>) {
    // expected-error@+1 {{using value defined outside the region}}
    %e = math.exp %x : tensor<8xf32>
    fp8.yield %e : tensor<8xf32>
  }
  return
}

// -----

// kernel C3
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'offsets' with one entry per result (1), but got 2}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) attributes {offsets = array<i64: 0, 256>} {
    fp8.yield %a : tensor<8xf32>
  }
  return
}

// -----

// kernel C3
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'offsets' of -1 or multiples of 256, but got 128}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) attributes {offsets = array<i64: 128>} {
    fp8.yield %a : tensor<8xf32>
  }
  return
}

// -----

// kernel C3
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected 'offsets' of -1 or multiples of 256, but got -256}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) attributes {offsets = array<i64: -256>} {
    fp8.yield %a : tensor<8xf32>
  }
  return
}

// -----

// kernel C4
func.func @f() {
  // expected-error@+1 {{expected 'workspace' not to be negative, but got -1}}
  fp8.kernel loop attributes {workspace = -1} {
    fp8.yield
  }
  return
}

// -----

// kernel C4
func.func @f() {
  // expected-error@+1 {{expected 'workspace_offset' only beside a 'workspace' above 0, but got one}}
  fp8.kernel loop attributes {workspace_offset = 0} {
    fp8.yield
  }
  return
}

// -----

// kernel C4
func.func @f() {
  // expected-error@+1 {{expected 'workspace_offset' to be a multiple of 256, but got 8}}
  fp8.kernel loop attributes {workspace = 16, workspace_offset = 8} {
    fp8.yield
  }
  return
}

// -----

// kernel, an attribute of the wrong kind
func.func @f() {
  // expected-error@+1 {{attribute 'workspace' failed to satisfy constraint: 64-bit signless integer attribute}}
  fp8.kernel loop attributes {workspace = "much"} {
    fp8.yield
  }
  return
}

// -----

// remat_barrier C1
func.func @f(%x: tensor<8xf32>) {
  fp8.step forward {
    fp8.yield
  } backward {
    // expected-note@+1 {{the first barrier with this id is here}}
    %a = fp8.remat_barrier %x id = 3 : tensor<8xf32>
    // expected-error@+1 {{expected an 'id' of its own, but got 3 again}}
    %b = fp8.remat_barrier %x id = 3 : tensor<8xf32>
    fp8.yield
  }
  return
}

// -----

// free C1
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected results or residuals, but got argument 0 of 'func.func'}}
  fp8.free %x : tensor<8xf32>
  return
}

// -----

// free C1
func.func @f(%x: tensor<8x4xf32>) {
  %k = fp8.kernel loop (%a = %x : tensor<8x4xf32>) -> (tensor<8x4xf32>) {
    %e = math.exp %a : tensor<8x4xf32>
    fp8.yield %e : tensor<8x4xf32>
  }
  %p = fp8.permute %k [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  // expected-error@+1 {{expected the root of a storage, but got a view made by 'fp8.permute'}}
  fp8.free %p : tensor<4x8xf32>
  return
}

// -----

// kernel C5
func.func @f(%x: tensor<8xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{expected 'in_place' with one entry per result (1), but got 2}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>, %b = %y : tensor<4xf32>) -> (tensor<8xf32>)
      attributes {in_place = array<i64: -1, -1>} {
    %1 = math.exp %a : tensor<8xf32>
    fp8.yield %1 : tensor<8xf32>
  }
  return
}

// -----

// kernel C5
func.func @f(%x: tensor<8xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{expected 'in_place' of -1 or operand numbers below 2, but got 2}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>, %b = %y : tensor<4xf32>) -> (tensor<8xf32>)
      attributes {in_place = array<i64: 2>} {
    %1 = math.exp %a : tensor<8xf32>
    fp8.yield %1 : tensor<8xf32>
  }
  return
}

// -----

// kernel C5
func.func @f(%x: tensor<8xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{expected 'in_place' of -1 or operand numbers below 2, but got -2}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>, %b = %y : tensor<4xf32>) -> (tensor<8xf32>)
      attributes {in_place = array<i64: -2>} {
    %1 = math.exp %a : tensor<8xf32>
    fp8.yield %1 : tensor<8xf32>
  }
  return
}

// -----

// kernel C5
func.func @f(%x: tensor<8xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{expected result 0 to be of as many bytes as operand 1, which it is written over, but got 'tensor<8xf32>' and 'tensor<4xf32>'}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>, %b = %y : tensor<4xf32>) -> (tensor<8xf32>)
      attributes {in_place = array<i64: 1>} {
    %1 = math.exp %a : tensor<8xf32>
    fp8.yield %1 : tensor<8xf32>
  }
  return
}

// -----

// kernel C5
func.func @f(%x: tensor<8xf32>, %y: tensor<4xf32>) {
  // expected-error@+1 {{expected no 'in_place' on a 'opaque' kernel}}
  %0 = fp8.kernel opaque (%a = %x : tensor<8xf32>, %b = %y : tensor<4xf32>) -> (tensor<8xf32>)
      attributes {in_place = array<i64: 0>} {
    %1 = fp8.opaque "f"(%a) : (tensor<8xf32>) -> tensor<8xf32>
    fp8.yield %1 : tensor<8xf32>
  }
  return
}

// -----

// kernel C5
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected no 'in_place' on a 'collective' kernel that does not begin with a gather}}
  %0 = fp8.kernel collective (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) attributes {in_place = array<i64: 0>} {
    %1 = fp8.all_reduce sum %a axis = "tp" : tensor<8xf32> -> tensor<8xf32>
    fp8.yield %1 : tensor<8xf32>
  }
  return
}
}

// -----

// kernel C5
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected no operand twice in 'in_place', but got 0 again}}
  %0:2 = fp8.kernel loop (%a = %x : tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
      attributes {in_place = array<i64: 0, 0>} {
    %1 = math.exp %a : tensor<8xf32>
    fp8.yield %1, %1 : tensor<8xf32>, tensor<8xf32>
  }
  return
}

// -----

// kernel C6
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{expected a fill of one of 2 buffers, but got number 2}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>) -> (tensor<8xf32>)
      attributes {fills = [#fp8.fill<buffer = 2, bytes = 4>]} {
    %1 = math.exp %a : tensor<8xf32>
    fp8.yield %1 : tensor<8xf32>
  }
  return
}

// -----

// kernel C7, a piece that is read
func.func @f(%x: tensor<32x16xbf16>) -> tensor<64x16xbf16> {
  // expected-error@+1 {{expected the result of 'fp8.update_slice' to be yielded, once, and not to be read}}
  %r = fp8.kernel loop (%0 = %x : tensor<32x16xbf16>) -> (tensor<64x16xbf16>) {
    // expected-note@+1 {{it stands here}}
    %1 = fp8.update_slice %0 [0, 0] : tensor<32x16xbf16> -> tensor<64x16xbf16>
    %2 = arith.negf %1 : tensor<64x16xbf16>
    fp8.yield %2 : tensor<64x16xbf16>
  }
  return %r : tensor<64x16xbf16>
}
