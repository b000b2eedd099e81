// Waits that are missing, late, doubled or exchanged.
//
// RUN: fp8-opt %s --fp8-check-plan -split-input-file -verify-diagnostics

module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @source_freed_before_wait(%x: tensor<64xf32>) -> tensor<128xf32> {
  %q = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-note @+1 {{started here}}
  %g, %t = fp8.kernel collective (%0 = %q : tensor<64xf32>) -> (tensor<128xf32>, !fp8.token) {
    %1, %2 = fp8.all_gather_start %0 axis = "tp" dim = 0 : tensor<64xf32> -> tensor<128xf32>, !fp8.token
    fp8.yield %1, %2 : tensor<128xf32>, !fp8.token
  }
  // expected-error @+1 {{'fp8.free' op frees 'math.exp#0.0' (256 bytes) before the wait for a collective that uses it}}
  fp8.free %q : tensor<64xf32>
  %w = fp8.wait %g, %t : tensor<128xf32>
  return %w : tensor<128xf32>
}
}

// -----

module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @result_freed_before_wait(%x: tensor<64xf32>) {
  // expected-note @+1 {{started here}}
  %g, %t = fp8.kernel collective (%0 = %x : tensor<64xf32>) -> (tensor<128xf32>, !fp8.token) {
    %1, %2 = fp8.all_gather_start %0 axis = "tp" dim = 0 : tensor<64xf32> -> tensor<128xf32>, !fp8.token
    fp8.yield %1, %2 : tensor<128xf32>, !fp8.token
  }
  // expected-error @+2 {{'fp8.free' op frees 'fp8.all_gather_start#0.0' (512 bytes) before the wait for a collective that uses it}}
  // expected-note @+1 {{freed here}}
  fp8.free %g : tensor<128xf32>
  // expected-error @+1 {{'fp8.wait' op uses 'fp8.all_gather_start#0.0' (512 bytes) after it was freed}}
  %w = fp8.wait %g, %t : tensor<128xf32>
  return
}
}

// -----

module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @read_before_wait(%x: tensor<64xf32>) -> tensor<128xf32> {
  // expected-note @+1 {{in flight since here}}
  %g, %t = fp8.kernel collective (%0 = %x : tensor<64xf32>) -> (tensor<128xf32>, !fp8.token) {
    %1, %2 = fp8.all_gather_start %0 axis = "tp" dim = 0 : tensor<64xf32> -> tensor<128xf32>, !fp8.token
    fp8.yield %1, %2 : tensor<128xf32>, !fp8.token
  }
  // expected-error @+1 {{'fp8.kernel' op reads 'fp8.all_gather_start#0.0' (512 bytes) before the wait for it}}
  %y = fp8.kernel loop (%0 = %g : tensor<128xf32>) -> (tensor<128xf32>) {
    %1 = math.exp %0 : tensor<128xf32>
    fp8.yield %1 : tensor<128xf32>
  }
  %w = fp8.wait %g, %t : tensor<128xf32>
  fp8.free %g : tensor<128xf32>
  return %y : tensor<128xf32>
}
}

// -----

module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @missing_wait(%x: tensor<64xf32>) -> tensor<128xf32> {
  // expected-error @+1 {{'fp8.kernel' op starts a collective that nothing waits for}}
  %g, %t = fp8.kernel collective (%0 = %x : tensor<64xf32>) -> (tensor<128xf32>, !fp8.token) {
    %1, %2 = fp8.all_gather_start %0 axis = "tp" dim = 0 : tensor<64xf32> -> tensor<128xf32>, !fp8.token
    fp8.yield %1, %2 : tensor<128xf32>, !fp8.token
  }
  return %g : tensor<128xf32>
}
}

// -----

// Two gathers, waited for in kernels, with their tokens exchanged.
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @swapped(%x: tensor<64xf32>, %z: tensor<64xf32>) -> (tensor<128xf32>, tensor<128xf32>) {
  %g, %t = fp8.kernel collective (%0 = %x : tensor<64xf32>) -> (tensor<128xf32>, !fp8.token) {
    %1, %2 = fp8.all_gather_start %0 axis = "tp" dim = 0 : tensor<64xf32> -> tensor<128xf32>, !fp8.token
    fp8.yield %1, %2 : tensor<128xf32>, !fp8.token
  }
  // expected-note @+1 {{the token comes from here, with 'fp8.all_gather_start#1.0'}}
  %h, %u = fp8.kernel collective (%0 = %z : tensor<64xf32>) -> (tensor<128xf32>, !fp8.token) {
    %1, %2 = fp8.all_gather_start %0 axis = "tp" dim = 0 : tensor<64xf32> -> tensor<128xf32>, !fp8.token
    fp8.yield %1, %2 : tensor<128xf32>, !fp8.token
  }
  %v = fp8.kernel collective (%0 = %g : tensor<128xf32>, %1 = %u : !fp8.token) -> (tensor<128xf32>) {
    // expected-error @+1 {{'fp8.wait' op expected the token of what makes 'fp8.all_gather_start#0.0', but got that of another one}}
    %2 = fp8.wait %0, %1 : tensor<128xf32>
    fp8.yield %2 : tensor<128xf32>
  }
  %w = fp8.kernel collective (%0 = %h : tensor<128xf32>, %1 = %t : !fp8.token) -> (tensor<128xf32>) {
    %2 = fp8.wait %0, %1 : tensor<128xf32>
    fp8.yield %2 : tensor<128xf32>
  }
  return %v, %w : tensor<128xf32>, tensor<128xf32>
}
}
