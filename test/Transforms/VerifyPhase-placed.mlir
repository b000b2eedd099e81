// RUN: fp8-opt %s -split-input-file -verify-diagnostics -fp8-verify-phase=phase=placed

func.func @offsets(%x: tensor<8xf32>) attributes {fp8.arena_bytes = 256 : i64} {
  // expected-error@+1 {{expected 'offsets' for the results of a placed kernel; run 'fp8-place'}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    fp8.yield %a : tensor<8xf32>
  }
  return
}

// -----

func.func @workspace(%x: tensor<8xf32>) attributes {fp8.arena_bytes = 512 : i64} {
  // expected-error@+1 {{expected 'workspace_offset' for the workspace of a placed kernel; run 'fp8-place'}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) attributes {offsets = array<i64: 0>, workspace = 8 : i64} {
    fp8.yield %a : tensor<8xf32>
  }
  return
}

// -----

// expected-error@+1 {{expected 'fp8.arena_bytes' on a placed function; run 'fp8-place'}}
func.func @arena(%x: tensor<8xf32>) {
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) attributes {offsets = array<i64: 0>} {
    fp8.yield %a : tensor<8xf32>
  }
  return
}

// -----

// Good: also a kernel without results, and a function without kernels.
func.func @good(%m: tensor<1x1xf32>, %h: tensor<16xf32> {fp8.state}) attributes {fp8.arena_bytes = 512 : i64} {
  %0 = fp8.kernel loop (%a = %m : tensor<1x1xf32>) -> (tensor<1x1xf32>) attributes {offsets = array<i64: 0>, workspace = 8 : i64, workspace_offset = 256 : i64} {
    fp8.yield %a : tensor<1x1xf32>
  }
  fp8.kernel state (%a = %m : tensor<1x1xf32>, %b = %h : tensor<16xf32>) {
    fp8.push_amax %a, %b : tensor<1x1xf32>, tensor<16xf32>
    fp8.yield
  }
  return
}
func.func @nothing() {
  return
}
