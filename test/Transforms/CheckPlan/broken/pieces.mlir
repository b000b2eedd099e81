// Tensors that kernels write piece by piece, read too early or by an old name.
//
// RUN: fp8-opt %s --fp8-check-plan -split-input-file -verify-diagnostics

func.func @good(%x: tensor<32x16xbf16>) -> tensor<64x16xbf16> {
  %a = fp8.kernel loop (%0 = %x : tensor<32x16xbf16>) -> (tensor<64x16xbf16>) {
    %1 = fp8.update_slice %0 [0, 0] : tensor<32x16xbf16> -> tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  %b = fp8.kernel loop (%0 = %x : tensor<32x16xbf16>, %w = %a : tensor<64x16xbf16>) -> (tensor<64x16xbf16>) {
    %1 = fp8.update_slice %0 [32, 0] into(%w : tensor<64x16xbf16>) : tensor<32x16xbf16> -> tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  return %b : tensor<64x16xbf16>
}

// -----

func.func @incomplete(%x: tensor<32x16xbf16>) -> tensor<64x16xbf16> {
  %a = fp8.kernel loop (%0 = %x : tensor<32x16xbf16>) -> (tensor<64x16xbf16>) {
    %1 = fp8.update_slice %0 [0, 0] : tensor<32x16xbf16> -> tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  // expected-error @+1 {{reads 'fp8.update_slice#0.0', of which 512 of 1024 elements are written}}
  %b = fp8.kernel loop (%0 = %a : tensor<64x16xbf16>) -> (tensor<64x16xbf16>) {
    %1 = arith.negf %0 : tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  fp8.free %a : tensor<64x16xbf16>
  return %b : tensor<64x16xbf16>
}

// -----

func.func @returned(%x: tensor<32x16xbf16>) -> tensor<64x16xbf16> {
  %a = fp8.kernel loop (%0 = %x : tensor<32x16xbf16>) -> (tensor<64x16xbf16>) {
    %1 = fp8.update_slice %0 [0, 0] : tensor<32x16xbf16> -> tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  // expected-error @+1 {{reads 'fp8.update_slice#0.0', of which 512 of 1024 elements are written}}
  return %a : tensor<64x16xbf16>
}

// -----

func.func @old_name(%x: tensor<64x16xbf16>) -> (tensor<64x16xbf16>, tensor<64x16xbf16>) {
  %a = fp8.kernel loop (%0 = %x : tensor<64x16xbf16>) -> (tensor<64x16xbf16>) {
    %2 = fp8.slice %0 [0, 0] : tensor<64x16xbf16> -> tensor<32x16xbf16>
    %1 = fp8.update_slice %2 [0, 0] : tensor<32x16xbf16> -> tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  // expected-note @+1 {{written here}}
  %b = fp8.kernel loop (%0 = %x : tensor<64x16xbf16>, %w = %a : tensor<64x16xbf16>) -> (tensor<64x16xbf16>) {
    %2 = fp8.slice %0 [32, 0] : tensor<64x16xbf16> -> tensor<32x16xbf16>
    %1 = fp8.update_slice %2 [32, 0] into(%w : tensor<64x16xbf16>) : tensor<32x16xbf16> -> tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  // expected-error @+1 {{uses 'fp8.update_slice#0.0' by a name from before a piece of it was written}}
  %c = fp8.kernel loop (%0 = %a : tensor<64x16xbf16>) -> (tensor<64x16xbf16>) {
    %1 = arith.negf %0 : tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  return %b, %c : tensor<64x16xbf16>, tensor<64x16xbf16>
}

// -----

func.func @twice(%x: tensor<32x16xbf16>) -> tensor<64x16xbf16> {
  // expected-note @+1 {{written here}}
  %a = fp8.kernel loop (%0 = %x : tensor<32x16xbf16>) -> (tensor<64x16xbf16>) {
    %1 = fp8.update_slice %0 [0, 0] : tensor<32x16xbf16> -> tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  // expected-error @+1 {{writes a piece of 'fp8.update_slice#0.0' over another one}}
  %b = fp8.kernel loop (%0 = %x : tensor<32x16xbf16>, %w = %a : tensor<64x16xbf16>) -> (tensor<64x16xbf16>) {
    %1 = fp8.update_slice %0 [16, 0] into(%w : tensor<64x16xbf16>) : tensor<32x16xbf16> -> tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  return %b : tensor<64x16xbf16>
}

// -----

func.func @read_beside(%x: tensor<64x16xbf16>) -> (tensor<64x16xbf16>, tensor<64x16xbf16>) {
  %a = fp8.kernel loop (%0 = %x : tensor<64x16xbf16>) -> (tensor<64x16xbf16>) {
    %2 = fp8.slice %0 [0, 0] : tensor<64x16xbf16> -> tensor<32x16xbf16>
    %1 = fp8.update_slice %2 [0, 0] : tensor<32x16xbf16> -> tensor<64x16xbf16>
    fp8.yield %1 : tensor<64x16xbf16>
  }
  // expected-error @+1 {{reads 'fp8.update_slice#0.0', of which 512 of 1024 elements are written}}
  %b:2 = fp8.kernel loop (%0 = %x : tensor<64x16xbf16>, %w = %a : tensor<64x16xbf16>, %v = %a : tensor<64x16xbf16>) -> (tensor<64x16xbf16>, tensor<64x16xbf16>) {
    %2 = fp8.slice %0 [32, 0] : tensor<64x16xbf16> -> tensor<32x16xbf16>
    %1 = fp8.update_slice %2 [32, 0] into(%w : tensor<64x16xbf16>) : tensor<32x16xbf16> -> tensor<64x16xbf16>
    %3 = arith.negf %v : tensor<64x16xbf16>
    fp8.yield %1, %3 : tensor<64x16xbf16>, tensor<64x16xbf16>
  }
  return %b#0, %b#1 : tensor<64x16xbf16>, tensor<64x16xbf16>
}
