// Offsets that are missing, meet, or leave the arena.
//
// RUN: fp8-opt %s --fp8-check-plan -split-input-file -verify-diagnostics

// 65 floats take 260 bytes, so their slot ends at 512.
func.func @overlap(%x: tensor<65xf32>) -> tensor<65xf32> attributes {fp8.arena_bytes = 1024 : i64} {
  // expected-note @+1 {{placed here}}
  %a = fp8.kernel loop (%0 = %x : tensor<65xf32>) -> (tensor<65xf32>) attributes {offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<65xf32>
    fp8.yield %1 : tensor<65xf32>
  }
  // expected-error @+1 {{'fp8.kernel' op places 'math.exp#1.0' (260 bytes) at 256 to 768, where 'math.exp#0.0' (260 bytes) is live at 0 to 512}}
  %y = fp8.kernel loop (%0 = %a : tensor<65xf32>) -> (tensor<65xf32>) attributes {offsets = array<i64: 256>} {
    %1 = math.exp %0 : tensor<65xf32>
    fp8.yield %1 : tensor<65xf32>
  }
  fp8.free %a : tensor<65xf32>
  return %y : tensor<65xf32>
}

// -----

// The lower slot is entered second.
func.func @overlap_from_below(%x: tensor<65xf32>) -> tensor<65xf32> attributes {fp8.arena_bytes = 1024 : i64} {
  // expected-note @+1 {{placed here}}
  %a = fp8.kernel loop (%0 = %x : tensor<65xf32>) -> (tensor<65xf32>) attributes {offsets = array<i64: 256>} {
    %1 = math.exp %0 : tensor<65xf32>
    fp8.yield %1 : tensor<65xf32>
  }
  // expected-error @+1 {{places 'math.exp#1.0' (260 bytes) at 0 to 512, where 'math.exp#0.0' (260 bytes) is live at 256 to 768}}
  %y = fp8.kernel loop (%0 = %a : tensor<65xf32>) -> (tensor<65xf32>) attributes {offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<65xf32>
    fp8.yield %1 : tensor<65xf32>
  }
  fp8.free %a : tensor<65xf32>
  return %y : tensor<65xf32>
}

// -----

// A result lives to the end: nothing may follow in its place.
func.func @overlap_with_result(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) attributes {fp8.arena_bytes = 512 : i64} {
  // expected-note @+1 {{placed here}}
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+1 {{places 'math.exp#1.0' (256 bytes) at 0 to 256, where 'math.exp#0.0' (256 bytes) is live at 0 to 256}}
  %b = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %a, %b : tensor<64xf32>, tensor<64xf32>
}

// -----

// Two results of one kernel.
func.func @overlap_in_kernel(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<1xf32>) attributes {fp8.arena_bytes = 512 : i64} {
  // expected-error @+2 {{places 'fp8.amax#0.0' (4 bytes) at 0 to 256, where 'math.exp#0.0' (256 bytes) is live at 0 to 256}}
  // expected-note @+1 {{placed here}}
  %y, %m = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>, tensor<1xf32>) attributes {offsets = array<i64: 0, 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    %2 = fp8.amax %1 group = [0] : tensor<64xf32> -> tensor<1xf32>
    fp8.yield %1, %2 : tensor<64xf32>, tensor<1xf32>
  }
  return %y, %m : tensor<64xf32>, tensor<1xf32>
}

// -----

// The workspace meets the operand, which is freed only after the kernel.
func.func @workspace_on_operand(%x: tensor<64xf32>) -> tensor<64xf32> attributes {fp8.arena_bytes = 1024 : i64} {
  // expected-note @+1 {{placed here}}
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 256>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+1 {{places workspace (300 bytes) at 0 to 512, where 'math.exp#0.0' (256 bytes) is live at 256 to 512}}
  %y = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 512>, workspace = 300 : i64, workspace_offset = 0 : i64} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  fp8.free %a : tensor<64xf32>
  return %y : tensor<64xf32>
}

// -----

func.func @workspace_on_result(%x: tensor<64xf32>) -> tensor<64xf32> attributes {fp8.arena_bytes = 1024 : i64} {
  // expected-error @+2 {{places workspace (1 bytes) at 512 to 768, where 'math.exp#0.0' (256 bytes) is live at 512 to 768}}
  // expected-note @+1 {{placed here}}
  %y = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 512>, workspace = 1 : i64, workspace_offset = 512 : i64} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

func.func @workspace_without_offset(%x: tensor<64xf32>) -> tensor<64xf32> attributes {fp8.arena_bytes = 1024 : i64} {
  // expected-error @+1 {{expected a 'workspace_offset' for a workspace of 1 bytes}}
  %y = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 512>, workspace = 1 : i64} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

// 260 bytes take 512.
func.func @arena_too_small(%x: tensor<65xf32>) -> tensor<65xf32> attributes {fp8.arena_bytes = 511 : i64} {
  // expected-error @+1 {{places 'math.exp#0.0' (260 bytes) at 0 to 512, beyond the end of the arena at 511}}
  %y = fp8.kernel loop (%0 = %x : tensor<65xf32>) -> (tensor<65xf32>) attributes {offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<65xf32>
    fp8.yield %1 : tensor<65xf32>
  }
  return %y : tensor<65xf32>
}

// -----

// An offset near the end of the numbers.
func.func @offset_too_large(%x: tensor<65xf32>) -> tensor<65xf32> attributes {fp8.arena_bytes = 512 : i64} {
  // expected-error @+1 {{places 'math.exp#0.0' (260 bytes) at 9223372036854775552 to 9223372036854776064, beyond the end of the arena at 512}}
  %y = fp8.kernel loop (%0 = %x : tensor<65xf32>) -> (tensor<65xf32>) attributes {offsets = array<i64: 9223372036854775552>} {
    %1 = math.exp %0 : tensor<65xf32>
    fp8.yield %1 : tensor<65xf32>
  }
  return %y : tensor<65xf32>
}

// -----

func.func @no_offset(%x: tensor<64xf32>) -> tensor<64xf32> attributes {fp8.arena_bytes = 512 : i64} {
  // expected-error @+1 {{expected an offset for 'math.exp#0.0' (256 bytes)}}
  %y = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

func.func @no_arena(%x: tensor<64xf32>) -> tensor<64xf32> {
  // expected-error @+1 {{has an offset, but its function has no 'fp8.arena_bytes'}}
  %y = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

func.func @caller_in_arena(%x: tensor<64xf32>) -> (tensor<64xf32> {fp8.placement = "caller"}) attributes {fp8.arena_bytes = 512 : i64} {
  // expected-error @+1 {{places 'math.exp#0.0' (256 bytes) at 0, but it is a result in the caller's buffer; expected offset -1}}
  %y = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

func.func @arena_in_caller(%x: tensor<64xf32>) -> (tensor<64xf32> {fp8.placement = "arena"}) attributes {fp8.arena_bytes = 512 : i64} {
  // expected-error @+1 {{expected an offset in the arena for 'math.exp#0.0' (256 bytes), but got -1}}
  %y = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: -1>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

func.func @both(%x: tensor<64xf32>) -> (tensor<64xf32> {fp8.placement = "caller"}, tensor<64xf32>) attributes {fp8.arena_bytes = 512 : i64} {
  // expected-error @+1 {{makes 'math.exp#0.0' (256 bytes), which is a result in the arena and a result in the caller's buffer}}
  %y = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: -1>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %y, %y : tensor<64xf32>, tensor<64xf32>
}

// -----

func.func @piece_elsewhere(%x: tensor<32x16xbf16>) -> tensor<64x16xbf16> attributes {fp8.arena_bytes = 4096 : i64} {
  %a = fp8.kernel loop (%0 = %x : tensor<32x16xbf16>) -> (tensor<64x16xbf16>) attributes {offsets = array<i64: 0>} {
    %1 = fp8.update_slice %0 [0, 0] : tensor<32x16xbf16> -> tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  // expected-error @+1 {{places result 0 at 2048, but it stays where an operand is; expected offset -1}}
  %b = fp8.kernel loop (%0 = %x : tensor<32x16xbf16>, %w = %a : tensor<64x16xbf16>) -> (tensor<64x16xbf16>) attributes {offsets = array<i64: 2048>} {
    %1 = fp8.update_slice %0 [32, 0] into(%w : tensor<64x16xbf16>) : tensor<32x16xbf16> -> tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  return %b : tensor<64x16xbf16>
}
