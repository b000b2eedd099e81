// RUN: fp8-opt %s -split-input-file -verify-diagnostics -fp8-build-backward

func.func @no_adjoint(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{expected an op with an adjoint where a gradient passes through, but 'math.cbrt' has none}}
  %y = math.cbrt %x : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// No gradient passes: fine.
func.func @no_adjoint_frozen(%x: tensor<8xf32> {fp8.frozen}, %w: tensor<8xf32>) -> tensor<8xf32> {
  %y = math.cbrt %x : tensor<8xf32>
  %z = arith.addf %y, %w : tensor<8xf32>
  return %z : tensor<8xf32>
}

// -----

func.func @opaque(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{expected an 'adjoint' where a gradient passes through "mystery", but got none}}
  %y = fp8.opaque "mystery"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// expected-error @below {{expected a bf16 or f32 tensor as argument #0 of 'wide' to differentiate by, but got 'tensor<8xf64>'; mark it 'fp8.frozen' to leave it out}}
func.func @wide(%x: tensor<8xf64>) -> tensor<8xf32> {
  %y = arith.truncf %x : tensor<8xf64> to tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// expected-error @below {{expected a straight line to differentiate, but 'blocks' has 2 blocks}}
func.func @blocks(%x: tensor<8xf32>) -> tensor<8xf32> {
  cf.br ^bb1
^bb1:
  return %x : tensor<8xf32>
}

// -----

func.func @regions(%x: tensor<8xf32>, %c: i1) -> tensor<8xf32> {
  // expected-error @below {{expected a straight line of ops to differentiate, but 'scf.if' has regions}}
  %y = scf.if %c -> tensor<8xf32> {
    scf.yield %x : tensor<8xf32>
  } else {
    scf.yield %x : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}

// -----

// expected-error @below {{expected 'callee' to have no callers}}
func.func @callee(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func @caller(%x: tensor<8xi32>, %y: tensor<8xf32>) {
  %0 = call @callee(%y) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @fp8_matmul(%a: tensor<16x16xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, %x: tensor<16x16xbf16>, %s: tensor<1x1xf32> {fp8.frozen}) -> tensor<16x16xbf16> {
  %b = fp8.cast %x, %s : tensor<16x16xbf16>, tensor<1x1xf32> -> tensor<16x16xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
  // expected-error @below {{expected bf16 or f32 operands where a gradient passes through, but got 'f8E4M3FN'; write the product as 'fp8.linear' with a recipe}}
  %y = fp8.matmul %a, %b scales(%s, %s : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<16x16xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<16x16xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<16x16xbf16>
  return %y : tensor<16x16xbf16>
}

// -----

func.func @two_formats(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>, %h: tensor<4xf32> {fp8.state}, %s: tensor<1x1xf32> {fp8.state}) -> tensor<16x16xbf16> {
  // expected-error @below {{expected the scale 'arg#3' to have one history, one format and one power-of-two rule}}
  %y = fp8.linear %x, %w state(%h, %s, %h, %s, %h, %s : tensor<4xf32>, tensor<1x1xf32>, tensor<4xf32>, tensor<1x1xf32>, tensor<4xf32>, tensor<1x1xf32>) recipe <delayed> : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
  return %y : tensor<16x16xbf16>
}
