// RUN: fp8-opt %s -split-input-file -verify-diagnostics -fp8-verify-phase=phase=planned

func.func @bare(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = fp8.step -> (tensor<8xf32>) forward {
    // expected-error@+1 {{expected what executes to be in an 'fp8.kernel'; run 'fp8-form-kernels'}}
    %0 = math.exp %x : tensor<8xf32>
    fp8.yield %0 : tensor<8xf32>
  } backward {
    // expected-error@+1 {{expected what executes to be in an 'fp8.kernel'; run 'fp8-form-kernels'}}
    %1 = math.exp %x : tensor<8xf32>
    fp8.yield
  }
  return %y : tensor<8xf32>
}

// -----

func.func @end_of_step(%h: tensor<16xf32> {fp8.state}, %s: tensor<1x1xf32> {fp8.state}) {
  // expected-error@+1 {{expected what executes to be in an 'fp8.kernel'; run 'fp8-form-kernels'}}
  fp8.update_scale %h, %s format = f8E4M3FN : tensor<16xf32>, tensor<1x1xf32>
  return
}

// -----

// Good: views, barriers, frees and constants stand outside of kernels.
func.func @good(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %y = fp8.step -> (tensor<8x4xf32>) forward {
    %c = arith.constant dense<1.0> : tensor<8x4xf32>
    %p = fp8.permute %x [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
    %0 = fp8.kernel loop (%a = %x : tensor<8x4xf32>) -> (tensor<8x4xf32>) {
      %e = math.exp %a : tensor<8x4xf32>
      fp8.yield %e : tensor<8x4xf32>
    }
    fp8.yield %0 : tensor<8x4xf32>
  } backward {
    %b = fp8.remat_barrier %x id = 0 : tensor<8x4xf32>
    %0 = fp8.kernel loop (%a = %b : tensor<8x4xf32>) -> (tensor<8x4xf32>) {
      %e = math.exp %a : tensor<8x4xf32>
      fp8.yield %e : tensor<8x4xf32>
    }
    fp8.free %0 : tensor<8x4xf32>
    fp8.yield
  }
  return %y : tensor<8x4xf32>
}
