// An update of state that a recomputation repeats, or reads from.
//
// RUN: fp8-opt %s --fp8-check-plan -split-input-file -verify-diagnostics

func.func @push_in_clone(%x: tensor<8x8xf32>, %h: tensor<16xf32> {fp8.state}) -> tensor<8x8xf32> {
  %y = fp8.step -> (tensor<8x8xf32>) forward {
    %m = fp8.kernel loop (%0 = %x : tensor<8x8xf32>) -> (tensor<1x1xf32>) {
      %1 = fp8.amax %0 group = [0, 0] : tensor<8x8xf32> -> tensor<1x1xf32>
      fp8.yield %1 : tensor<1x1xf32>
    }
    fp8.kernel state (%0 = %m : tensor<1x1xf32>, %1 = %h : tensor<16xf32>) {
      // expected-note @+1 {{first pushed here}}
      fp8.push_amax %0, %1 : tensor<1x1xf32>, tensor<16xf32>
      fp8.yield
    }
    fp8.free %m : tensor<1x1xf32>
    fp8.yield
  } backward {
    %b = fp8.remat_barrier %x id = 0 : tensor<8x8xf32>
    %m = fp8.kernel loop (%0 = %b : tensor<8x8xf32>) -> (tensor<1x1xf32>) {
      %1 = fp8.amax %0 group = [0, 0] : tensor<8x8xf32> -> tensor<1x1xf32>
      fp8.yield %1 : tensor<1x1xf32>
    }
    fp8.kernel state (%0 = %m : tensor<1x1xf32>, %1 = %h : tensor<16xf32>) {
      // expected-error @+1 {{'fp8.push_amax' op pushes 'arg1' (64 bytes) again in the backward region; a recomputation must not repeat an update of state}}
      fp8.push_amax %0, %1 : tensor<1x1xf32>, tensor<16xf32>
      fp8.yield
    }
    fp8.free %m : tensor<1x1xf32>
    %d = fp8.kernel loop (%0 = %x : tensor<8x8xf32>) -> (tensor<8x8xf32>) {
      %1 = math.exp %0 : tensor<8x8xf32>
      fp8.yield %1 : tensor<8x8xf32>
    }
    fp8.yield %d : tensor<8x8xf32>
  }
  return %y : tensor<8x8xf32>
}

// -----

func.func @read_after_push(%x: tensor<8x8xf32>, %h: tensor<16xf32> {fp8.state}) -> tensor<16xf32> {
  %y = fp8.step -> (tensor<16xf32>) forward {
    %m = fp8.kernel loop (%0 = %x : tensor<8x8xf32>) -> (tensor<1x1xf32>) {
      %1 = fp8.amax %0 group = [0, 0] : tensor<8x8xf32> -> tensor<1x1xf32>
      fp8.yield %1 : tensor<1x1xf32>
    }
    fp8.kernel state (%0 = %m : tensor<1x1xf32>, %1 = %h : tensor<16xf32>) {
      // expected-note @+1 {{updated here}}
      fp8.push_amax %0, %1 : tensor<1x1xf32>, tensor<16xf32>
      fp8.yield
    }
    fp8.free %m : tensor<1x1xf32>
    fp8.yield
  } backward {
    // expected-error @+1 {{'fp8.remat_barrier' op reads 'arg1' (64 bytes) again for a recomputation, after it was updated}}
    %b = fp8.remat_barrier %h id = 0 : tensor<16xf32>
    %d = fp8.kernel loop (%0 = %b : tensor<16xf32>) -> (tensor<16xf32>) {
      %1 = math.exp %0 : tensor<16xf32>
      fp8.yield %1 : tensor<16xf32>
    }
    fp8.yield %d : tensor<16xf32>
  }
  return %y : tensor<16xf32>
}
