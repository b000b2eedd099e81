// Frees that are missing, doubled, or of something that is not the step's to free.
//
// RUN: fp8-opt %s --fp8-check-plan -split-input-file -verify-diagnostics

func.func @double_free(%x: tensor<64xf32>) {
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-note @+1 {{first freed here}}
  fp8.free %a : tensor<64xf32>
  // expected-error @+1 {{'fp8.free' op frees 'math.exp#0.0' (256 bytes) a second time}}
  fp8.free %a : tensor<64xf32>
  return
}

// -----

// One op may name a value twice.
func.func @double_free_in_one(%x: tensor<64xf32>) {
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+2 {{'fp8.free' op frees 'math.exp#0.0' (256 bytes) a second time}}
  // expected-note @+1 {{first freed here}}
  fp8.free %a, %a : tensor<64xf32>, tensor<64xf32>
  return
}

// -----

func.func @leak(%x: tensor<64xf32>) -> tensor<64xf32> {
  // expected-error @+1 {{'fp8.kernel' op makes 'math.exp#0.0' (256 bytes), which is never freed}}
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  %y = fp8.kernel loop (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

// The second result of a kernel is a buffer too, used or not.
func.func @leak_of_second_result(%x: tensor<64xf32>) -> tensor<64xf32> {
  // expected-error @+1 {{'fp8.kernel' op makes 'fp8.amax#0.0' (4 bytes), which is never freed}}
  %y, %m = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>, tensor<1xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    %2 = fp8.amax %1 group = [0] : tensor<64xf32> -> tensor<1xf32>
    fp8.yield %1, %2 : tensor<64xf32>, tensor<1xf32>
  }
  return %y : tensor<64xf32>
}

// -----

func.func @leak_of_residual(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = fp8.step -> (tensor<64xf32>) forward {
    // expected-error @+1 {{'fp8.kernel' op makes 'math.exp#0.0' (256 bytes), which is never freed}}
    %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    // expected-note @+1 {{expected an 'fp8.free' in the backward region, since it is passed on as a residual here}}
    fp8.yield residuals(%a) residuals(tensor<64xf32>)
  } backward (%r: tensor<64xf32>) {
    %d = fp8.kernel loop (%0 = %r : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    fp8.yield %d : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

// A residual argument that stands for an argument of the function.
func.func @free_of_argument(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = fp8.step -> (tensor<64xf32>) forward {
    fp8.yield residuals(%x) residuals(tensor<64xf32>)
  } backward (%r: tensor<64xf32>) {
    %d = fp8.kernel loop (%0 = %r : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    // expected-error @+1 {{'fp8.free' op frees 'arg0' (256 bytes), but it is an argument of the function}}
    fp8.free %r : tensor<64xf32>
    fp8.yield %d : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

// Returned through a view, so it is a result.
func.func @freed_result(%x: tensor<8x8xf32>) -> tensor<64xf32> {
  %y = fp8.kernel loop (%0 = %x : tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %1 = math.exp %0 : tensor<8x8xf32>
    fp8.yield %1 : tensor<8x8xf32>
  }
  %v = fp8.reshape %y : tensor<8x8xf32> -> tensor<64xf32>
  // expected-error @+2 {{'fp8.free' op frees 'math.exp#0.0' (256 bytes), but it is a result of the function}}
  // expected-note @+1 {{freed here}}
  fp8.free %y : tensor<8x8xf32>
  // expected-error @+1 {{'func.return' op uses 'math.exp#0.0' (256 bytes) after it was freed}}
  return %v : tensor<64xf32>
}

// -----

// The result of the opaque op is another name of %a's storage.
func.func @free_of_alias(%x: tensor<64xf32>) {
  // expected-error @+1 {{'fp8.kernel' op makes 'math.exp#0.0' (256 bytes), which is never freed}}
  %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = math.exp %0 : tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  %b = fp8.kernel opaque (%0 = %a : tensor<64xf32>) -> (tensor<64xf32>) {
    %1 = fp8.opaque "in_place"(%0) {aliases = [[0, 0]]} : (tensor<64xf32>) -> tensor<64xf32>
    fp8.yield %1 : tensor<64xf32>
  }
  // expected-error @+1 {{'fp8.free' op expected a storage root, but got a view of 'math.exp#0.0' (256 bytes)}}
  fp8.free %b : tensor<64xf32>
  return
}

// -----

// Passing a freed value on as a residual is a use, and so is what backward does with it.
func.func @residual_freed_in_forward(%x: tensor<64xf32>) -> tensor<64xf32> {
  %y = fp8.step -> (tensor<64xf32>) forward {
    %a = fp8.kernel loop (%0 = %x : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    // expected-error @+2 {{frees 'math.exp#0.0' (256 bytes) in the forward region, but it is kept for backward}}
    // expected-note @+1 {{freed here}}
    fp8.free %a : tensor<64xf32>
    // expected-error @+2 {{uses 'math.exp#0.0' (256 bytes) after it was freed}}
    // expected-note @+1 {{passed on as a residual here}}
    fp8.yield residuals(%a) residuals(tensor<64xf32>)
  } backward (%r: tensor<64xf32>) {
    // expected-error @+1 {{uses 'math.exp#0.0' (256 bytes) after it was freed}}
    %d = fp8.kernel loop (%0 = %r : tensor<64xf32>) -> (tensor<64xf32>) {
      %1 = math.exp %0 : tensor<64xf32>
      fp8.yield %1 : tensor<64xf32>
    }
    fp8.yield %d : tensor<64xf32>
  }
  return %y : tensor<64xf32>
}

// -----

// What stands outside kernels must be of a plan.
func.func @unplanned(%x: tensor<64xf32>) -> tensor<64xf32> {
  // expected-error @+1 {{'math.exp' op expected planned IR, in which only 'fp8.kernel', views, 'fp8.wait' and 'fp8.free' stand outside kernels; run 'fp8-form-kernels' first}}
  %y = math.exp %x : tensor<64xf32>
  return %y : tensor<64xf32>
}

// -----

// expected-error @+1 {{'func.func' op expected a body of one block in planned IR, but got 2}}
func.func @blocks(%x: tensor<64xf32>) -> tensor<64xf32> {
  cf.br ^bb1
^bb1:
  return %x : tensor<64xf32>
}
