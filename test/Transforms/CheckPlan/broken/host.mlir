// Copies to host memory and back that are missing, doubled, too early or in the wrong place.
//
// RUN: fp8-opt %s --fp8-check-plan -split-input-file -verify-diagnostics

func.func @source_freed_before_wait(%x: tensor<64xf32>) -> tensor<64xf32> {
  %q = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-note @+1 {{started here}}
  %h, %t = fp8.kernel copy (%0 = %q : tensor<64xf32>) -> (!fp8.host<tensor<64xf32>>, !fp8.token) {
    %1, %2 = fp8.offload_start %0 : tensor<64xf32> -> !fp8.host<tensor<64xf32>>, !fp8.token
    fp8.yield %1, %2 : !fp8.host<tensor<64xf32>>, !fp8.token
  }
  // expected-error @+1 {{'fp8.free' op frees 'math.exp#0.0' (256 bytes) before the wait for a copy that uses it}}
  fp8.free %q : tensor<64xf32>
  %w = fp8.wait %h, %t : !fp8.host<tensor<64xf32>>
  %y, %u = fp8.kernel copy (%0 = %w : !fp8.host<tensor<64xf32>>) -> (tensor<64xf32>, !fp8.token) {
    %1, %2 = fp8.prefetch_start %0 : !fp8.host<tensor<64xf32>> -> tensor<64xf32>, !fp8.token
    fp8.yield %1, %2 : tensor<64xf32>, !fp8.token
  }
  %z = fp8.wait %y, %u : tensor<64xf32>
  return %z : tensor<64xf32>
}

// -----

func.func @read_before_wait(%x: tensor<64xf32>) -> tensor<64xf32> {
  %q = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-note @+1 {{started here}}
  %h, %t = fp8.kernel copy (%0 = %q : tensor<64xf32>) -> (!fp8.host<tensor<64xf32>>, !fp8.token) {
    %1, %2 = fp8.offload_start %0 : tensor<64xf32> -> !fp8.host<tensor<64xf32>>, !fp8.token
    fp8.yield %1, %2 : !fp8.host<tensor<64xf32>>, !fp8.token
  }
  // expected-error @+2 {{copies 'math.exp#0.0' (256 bytes) back before the wait for its copy to the host}}
  // expected-note @+1 {{in flight since here}}
  %y, %u = fp8.kernel copy (%0 = %h : !fp8.host<tensor<64xf32>>) -> (tensor<64xf32>, !fp8.token) {
    %1, %2 = fp8.prefetch_start %0 : !fp8.host<tensor<64xf32>> -> tensor<64xf32>, !fp8.token
    fp8.yield %1, %2 : tensor<64xf32>, !fp8.token
  }
  %w = fp8.wait %h, %t : !fp8.host<tensor<64xf32>>
  fp8.free %q : tensor<64xf32>
  // expected-error @+1 {{'fp8.kernel' op reads 'fp8.prefetch_start#0.0' (256 bytes) before the wait for it}}
  %r = fp8.kernel loop (%0 = %y : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  %z = fp8.wait %y, %u : tensor<64xf32>
  fp8.free %y : tensor<64xf32>
  return %r : tensor<64xf32>
}

// -----

// Kept on the device too, and back twice.
func.func @twice(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %y, %dx = fp8.step -> (tensor<64xf32>, tensor<64xf32>) forward {
    %q = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    // expected-error @+1 {{copies 'math.exp#0.0' (256 bytes) to the host, but it is kept on the device for backward too}}
    %h, %t = fp8.kernel copy (%0 = %q : tensor<64xf32>) -> (!fp8.host<tensor<64xf32>>, !fp8.token) {
      %1, %2 = fp8.offload_start %0 : tensor<64xf32> -> !fp8.host<tensor<64xf32>>, !fp8.token
      fp8.yield %1, %2 : !fp8.host<tensor<64xf32>>, !fp8.token
    }
    %r = fp8.kernel loop (%0 = %q : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    %w = fp8.wait %h, %t : !fp8.host<tensor<64xf32>>
    fp8.yield %r residuals(%w, %q) : tensor<64xf32> residuals(!fp8.host<tensor<64xf32>>, tensor<64xf32>)
  } backward (%k: !fp8.host<tensor<64xf32>>, %q: tensor<64xf32>) {
    // expected-note @+1 {{first copied back here}}
    %y0, %u0 = fp8.kernel copy (%0 = %k : !fp8.host<tensor<64xf32>>) -> (tensor<64xf32>, !fp8.token) {
      %1, %2 = fp8.prefetch_start %0 : !fp8.host<tensor<64xf32>> -> tensor<64xf32>, !fp8.token
      fp8.yield %1, %2 : tensor<64xf32>, !fp8.token
    }
    %z0 = fp8.wait %y0, %u0 : tensor<64xf32>
    fp8.free %y0, %q : tensor<64xf32>, tensor<64xf32>
    // expected-error @+1 {{copies 'math.exp#0.0' (256 bytes) back a second time}}
    %y1, %u1 = fp8.kernel copy (%0 = %k : !fp8.host<tensor<64xf32>>) -> (tensor<64xf32>, !fp8.token) {
      %1, %2 = fp8.prefetch_start %0 : !fp8.host<tensor<64xf32>> -> tensor<64xf32>, !fp8.token
      fp8.yield %1, %2 : tensor<64xf32>, !fp8.token
    }
    %z1 = fp8.wait %y1, %u1 : tensor<64xf32>
    fp8.yield %z1 : tensor<64xf32>
  }
  return %y, %dx : tensor<64xf32>, tensor<64xf32>
}

// -----

// Two values at one place in host memory, one of them never comes back, and a wait for the other one's copy.
func.func @places(%x: tensor<64xf32>) -> tensor<64xf32> attributes {fp8.arena_bytes = 512 : i64, fp8.host_bytes = 300 : i64} {
  %q = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+2 {{copies 'math.exp#0.0' (256 bytes) to the host, but nothing copies it back}}
  // expected-note @+1 {{placed here}}
  %h, %t = fp8.kernel copy (%0 = %q : tensor<64xf32>) -> (!fp8.host<tensor<64xf32>>, !fp8.token) attributes {offsets = array<i64: 0, -1>} {
    %1, %2 = fp8.offload_start %0 : tensor<64xf32> -> !fp8.host<tensor<64xf32>>, !fp8.token
    fp8.yield %1, %2 : !fp8.host<tensor<64xf32>>, !fp8.token
  }
  %w = fp8.wait %h, %t : !fp8.host<tensor<64xf32>>
  fp8.free %q : tensor<64xf32>
  %p = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+1 {{places 'math.exp#1.0' (256 bytes) in host memory at 0, where 'math.exp#0.0' (256 bytes) lies}}
  %g, %s = fp8.kernel copy (%0 = %p : tensor<64xf32>) -> (!fp8.host<tensor<64xf32>>, !fp8.token) attributes {offsets = array<i64: 0, -1>} {
    %1, %2 = fp8.offload_start %0 : tensor<64xf32> -> !fp8.host<tensor<64xf32>>, !fp8.token
    fp8.yield %1, %2 : !fp8.host<tensor<64xf32>>, !fp8.token
  }
  %v = fp8.wait %g, %s : !fp8.host<tensor<64xf32>>
  fp8.free %p : tensor<64xf32>
  %o = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) attributes {offsets = array<i64: 0>} {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+1 {{places 'math.exp#2.0' (256 bytes) at 256, beyond the end of host memory at 300}}
  %f, %r = fp8.kernel copy (%0 = %o : tensor<64xf32>) -> (!fp8.host<tensor<64xf32>>, !fp8.token) attributes {offsets = array<i64: 256, -1>} {
    %1, %2 = fp8.offload_start %0 : tensor<64xf32> -> !fp8.host<tensor<64xf32>>, !fp8.token
    fp8.yield %1, %2 : !fp8.host<tensor<64xf32>>, !fp8.token
  }
  %n = fp8.wait %f, %r : !fp8.host<tensor<64xf32>>
  fp8.free %o : tensor<64xf32>
  %y, %u = fp8.kernel copy (%0 = %v : !fp8.host<tensor<64xf32>>) -> (tensor<64xf32>, !fp8.token) attributes {offsets = array<i64: 0, -1>} {
    %1, %2 = fp8.prefetch_start %0 : !fp8.host<tensor<64xf32>> -> tensor<64xf32>, !fp8.token
    fp8.yield %1, %2 : tensor<64xf32>, !fp8.token
  }
  %z = fp8.wait %y, %u : tensor<64xf32>
  %y2, %u2 = fp8.kernel copy (%0 = %n : !fp8.host<tensor<64xf32>>) -> (tensor<64xf32>, !fp8.token) attributes {offsets = array<i64: 256, -1>} {
    %1, %2 = fp8.prefetch_start %0 : !fp8.host<tensor<64xf32>> -> tensor<64xf32>, !fp8.token
    fp8.yield %1, %2 : tensor<64xf32>, !fp8.token
  }
  %z2 = fp8.wait %y2, %u2 : tensor<64xf32>
  fp8.free %y2 : tensor<64xf32>
  return %z : tensor<64xf32>
}
