// What cannot be lowered is an error at the op.

// RUN: fp8-opt %s -fp8-lower-to-cpu -split-input-file -verify-diagnostics

func.func @opaque(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  // expected-error@+1 {{a kernel of kind 'opaque' cannot be lowered to the cpu yet}}
  %0 = fp8.kernel opaque (%a = %x : tensor<8xbf16>) -> (tensor<8xbf16>) {
    %o = fp8.opaque "custom"(%a) : (tensor<8xbf16>) -> tensor<8xbf16>
    fp8.yield %o : tensor<8xbf16>
  }
  return %0 : tensor<8xbf16>
}

// -----

func.func @op(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = fp8.kernel loop (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    // expected-error@+1 {{'math.sin' cannot be lowered to the cpu in a loop kernel}}
    %v = math.sin %a : tensor<8xf32>
    fp8.yield %v : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// -----

func.func @type(%x: tensor<8xf64>) -> tensor<8xf64> {
  // expected-error@+1 {{expected a kernel's operand to be a static tensor of bf16, f32, an f8 type, !fp8.e5m6, i1, i8, i16 or i32 on the cpu, but got 'tensor<8xf64>'}}
  %0 = fp8.kernel loop (%a = %x : tensor<8xf64>) -> (tensor<8xf64>) {
    %v = arith.negf %a : tensor<8xf64>
    fp8.yield %v : tensor<8xf64>
  }
  return %0 : tensor<8xf64>
}

// -----

func.func @constant(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = fp8.kernel loop (%a = %x : tensor<2xf32>) -> (tensor<2xf32>) {
    // expected-error@+1 {{expected a constant in a kernel to be a tensor of one repeated bf16, f32 or integer value, but got 'tensor<2xf32>'}}
    %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %v = arith.addf %a, %c : tensor<2xf32>
    fp8.yield %v : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}
