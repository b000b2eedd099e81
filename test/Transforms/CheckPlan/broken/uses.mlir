// Uses after a free, directly and through every kind of alias.
//
// RUN: fp8-opt %s --fp8-check-plan -split-input-file -verify-diagnostics

func.func @use_after_free(%x: tensor<64xf32>) -> tensor<64xf32> {
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32> loc("a")
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-note @+1 {{freed here}}
  fp8.free %a : tensor<64xf32>
  // expected-error @+1 {{'fp8.kernel' op uses 'a' (256 bytes) after it was freed}}
  %y = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

func.func @use_through_view(%x: tensor<8x8xf32>) -> tensor<64xf32> {
  %a = fp8.kernel loop (%0 = %x : tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %1 = math.exp %0 : tensor<8x8xf32>
    fp8.yield %1 : tensor<8x8xf32>
  }
  %v = fp8.reshape %a : tensor<8x8xf32> -> tensor<64xf32>
  %b = fp8.remat_barrier %v id = 0 : tensor<64xf32>
  // expected-note @+1 {{freed here}}
  fp8.free %a : tensor<8x8xf32>
  // expected-error @+1 {{'fp8.kernel' op uses 'math.exp#0.0' (256 bytes) after it was freed}}
  %y = fp8.kernel loop (%0 = %b : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

// The residual is the second exp's result; the free in backward comes one use too early.
func.func @use_of_residual(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = fp8.step -> (tensor<64xf32>) forward {
    %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    %b = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    fp8.free %a : tensor<64xf32>
    fp8.yield residuals(%b) residuals(tensor<64xf32>)
  } backward (%r: tensor<64xf32>) {
    // expected-note @+1 {{freed here}}
    fp8.free %r : tensor<64xf32>
    // expected-error @+1 {{'fp8.kernel' op uses 'math.exp#1.0' (256 bytes) after it was freed}}
    %d = fp8.kernel loop (%0 = %r : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    fp8.yield %d : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

func.func @use_through_opaque(%x: tensor<64xf32>) -> tensor<64xf32> {
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  %b = fp8.kernel opaque (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = fp8.opaque "in_place"(%0) {aliases = [[0, 0]]} : (tensor<64xf32>) -> tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-note @+1 {{freed here}}
  fp8.free %a : tensor<64xf32>
  // expected-error @+1 {{'fp8.kernel' op uses 'math.exp#0.0' (256 bytes) after it was freed}}
  %y = fp8.kernel loop (%0 = %b : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}
