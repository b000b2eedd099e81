// Collectives; a label names the constraint.
// RUN: fp8-opt %s -split-input-file -verify-diagnostics

// all_gather C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected axis 'tp' in the 'fp8.grid' of the module, but got none there}}
  %0 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>
  return
}

// -----

// all_gather C1
module attributes {fp8.grid = {dp = 4}} {
  func.func @f(%x: tensor<64x32xbf16>) {
    // expected-error@+1 {{expected axis 'tp' in the 'fp8.grid' of the module, but got none there}}
    %0 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>
    return
  }
}

// -----

// all_gather C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x32xbf16>) {
    // expected-error@+1 {{expected 'dim' between 0 and 1, but got 2}}
    %0 = fp8.all_gather %x axis = "tp" dim = 2 : tensor<64x32xbf16> -> tensor<256x32xbf16>
    return
  }
}

// -----

// all_gather C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x32xbf16>) {
    // expected-error@+1 {{expected 'dim' between 0 and 1, but got -1}}
    %0 = fp8.all_gather %x axis = "tp" dim = -1 : tensor<64x32xbf16> -> tensor<256x32xbf16>
    return
  }
}

// -----

// all_gather C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x32xbf16>) {
    // expected-error@+1 {{expected 'result' of shape [256, 32], but got [128, 32]}}
    %0 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<128x32xbf16>
    return
  }
}

// -----

// all_gather C2, a product that leaves 64 bits
module attributes {fp8.grid = {tp = 9223372036854775807}} {
  func.func @f(%x: tensor<64x32xbf16>) {
    // expected-error@+1 {{expected a gathered dimension that fits 64 bits, but got 64 times 9223372036854775807}}
    %0 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>
    return
  }
}

// -----

// all_gather C3
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x32xbf16>) {
    // expected-error@+1 {{expected one element type and encoding, but got 'tensor<64x32xbf16>' and 'tensor<256x32xf32>'}}
    %0 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xf32>
    return
  }
}

// -----

// all_gather C3
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) {
    // expected-error@+1 {{expected one element type and encoding, but got}}
    %0 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<256x32xf8E4M3FN>
    return
  }
}

// -----

// all_gather C3, a block that straddles two shards
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<192x32xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>) {
    // expected-error@+1 {{expected a scale group in dim 0 that divides the shard's 192, but got 128}}
    %0 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<192x32xf8E4M3FN, #fp8.tensor<scale = [128, 128]>> -> tensor<768x32xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>
    return
  }
}

// -----

// all_gather C4
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>>) {
    // expected-error@+1 {{expected compact scales, but got}}
    %0 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>> -> tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>>
    return
  }
}

// -----

// all_gather_start C1
func.func @f(%x: tensor<64x32xbf16>) {
  // expected-error@+1 {{expected axis 'tp' in the 'fp8.grid' of the module, but got none there}}
  %0, %t = fp8.all_gather_start %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
  %w = fp8.wait %0, %t : tensor<256x32xbf16>
  return
}

// -----

// all_gather_start C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x32xbf16>) {
    // expected-error@+1 {{expected 'result' of shape [64, 128], but got [256, 32]}}
    %0, %t = fp8.all_gather_start %x axis = "tp" dim = 1 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
    %w = fp8.wait %0, %t : tensor<256x32xbf16>
    return
  }
}

// -----

// all_gather_start C3
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x32xbf16>) {
    // expected-error@+1 {{expected one element type and encoding, but got}}
    %0, %t = fp8.all_gather_start %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xf32>, !fp8.token
    %w = fp8.wait %0, %t : tensor<256x32xf32>
    return
  }
}

// -----

// all_gather_start C4
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>>) {
    // expected-error@+1 {{expected compact scales, but got}}
    %0, %t = fp8.all_gather_start %x axis = "tp" dim = 0 : tensor<64x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>> -> tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>>, !fp8.token
    return
  }
}

// -----

// all_gather_start C5, never waited for
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x32xbf16>) {
    // expected-error@+1 {{expected exactly one use of the token, but got 0}}
    %0, %t = fp8.all_gather_start %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
    return
  }
}

// -----

// all_gather_start C5, waited for twice
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x32xbf16>) {
    // expected-error@+1 {{expected exactly one use of the token, but got 2}}
    %0, %t = fp8.all_gather_start %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
    %w = fp8.wait %0, %t : tensor<256x32xbf16>
    %v = fp8.wait %0, %t : tensor<256x32xbf16>
    return
  }
}

// -----

// all_gather_start C5, handed to something else
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x32xbf16>) -> !fp8.token {
    // expected-error@+1 {{expected the token to be waited for together with the result, but got a use by 'func.return'}}
    %0, %t = fp8.all_gather_start %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
    // expected-note@+1 {{used here}}
    return %t : !fp8.token
  }
}

// -----

// wait C1
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>, %t: !fp8.token) {
    %e = math.exp %x : tensor<256x32xbf16>
    // expected-error@+1 {{expected operand and token from one start op, but got a result of 'math.exp' and an argument as token}}
    %w = fp8.wait %e, %t : tensor<256x32xbf16>
    return
  }
}

// -----

// wait C1, two starts
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<64x32xbf16>) {
    %g, %s = fp8.kernel collective (%a = %x : tensor<64x32xbf16>) -> (tensor<256x32xbf16>, !fp8.token) {
      %r, %u = fp8.all_gather_start %a axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
      fp8.yield %r, %u : tensor<256x32xbf16>, !fp8.token
    }
    %h, %t = fp8.kernel collective (%a = %x : tensor<64x32xbf16>) -> (tensor<256x32xbf16>, !fp8.token) {
      %r, %u = fp8.all_gather_start %a axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
      fp8.yield %r, %u : tensor<256x32xbf16>, !fp8.token
    }
    // expected-error@+1 {{expected operand and token from one start op, but got a result of 'fp8.kernel' and a token of 'fp8.kernel'}}
    %w = fp8.wait %g, %t : tensor<256x32xbf16>
    return
  }
}

// -----

// wait C2
func.func @f(%x: tensor<256x32xbf16>, %t: !fp8.token) {
  // expected-error@+1 {{failed to verify that all of {x, result} have same type}}
  %w = "fp8.wait"(%x, %t) : (tensor<256x32xbf16>, !fp8.token) -> tensor<256x32xf32>
  return
}

// -----

// reduce_scatter C1
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected axis 'dp' in the 'fp8.grid' of the module, but got none there}}
    %0 = fp8.reduce_scatter sum %x axis = "dp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>
    return
  }
}

// -----

// reduce_scatter C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected 'dim' between 0 and 1, but got 2}}
    %0 = fp8.reduce_scatter sum %x axis = "tp" dim = 2 : tensor<256x32xbf16> -> tensor<64x32xbf16>
    return
  }
}

// -----

// reduce_scatter C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected 'x' of shape [512, 32], but got [256, 32]}}
    %0 = fp8.reduce_scatter sum %x axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<128x32xbf16>
    return
  }
}

// -----

// reduce_scatter C3
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected one element type and encoding, but got 'tensor<256x32xbf16>' and 'tensor<64x32xf32>'}}
    %0 = fp8.reduce_scatter sum %x axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xf32>
    return
  }
}

// -----

// reduce_scatter C4
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected 'acc' of f32 or bf16 and only for a sum, but got 'bf16' for a max}}
    %0 = fp8.reduce_scatter max %x axis = "tp" dim = 0 acc = bf16 : tensor<256x32xbf16> -> tensor<64x32xbf16>
    return
  }
}

// -----

// reduce_scatter C4
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected 'acc' of f32 or bf16 and only for a sum, but got 'f16' for a sum}}
    %0 = fp8.reduce_scatter sum %x axis = "tp" dim = 0 acc = f16 : tensor<256x32xbf16> -> tensor<64x32xbf16>
    return
  }
}

// -----

// reduce_scatter_start C1
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected axis 'dp' in the 'fp8.grid' of the module, but got none there}}
    %0, %t = fp8.reduce_scatter_start sum %x axis = "dp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>, !fp8.token
    %w = fp8.wait %0, %t : tensor<64x32xbf16>
    return
  }
}

// -----

// reduce_scatter_start C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected 'dim' between 0 and 1, but got 2}}
    %0, %t = fp8.reduce_scatter_start sum %x axis = "tp" dim = 2 : tensor<256x32xbf16> -> tensor<64x32xbf16>, !fp8.token
    %w = fp8.wait %0, %t : tensor<64x32xbf16>
    return
  }
}

// -----

// reduce_scatter_start C3
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected one element type and encoding, but got 'tensor<256x32xbf16>' and 'tensor<64x32xf32>'}}
    %0, %t = fp8.reduce_scatter_start sum %x axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xf32>, !fp8.token
    %w = fp8.wait %0, %t : tensor<64x32xf32>
    return
  }
}

// -----

// reduce_scatter_start C4
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected 'acc' of f32 or bf16 and only for a sum, but got 'bf16' for a max}}
    %0, %t = fp8.reduce_scatter_start max %x axis = "tp" dim = 0 acc = bf16 : tensor<256x32xbf16> -> tensor<64x32xbf16>, !fp8.token
    %w = fp8.wait %0, %t : tensor<64x32xbf16>
    return
  }
}

// -----

// reduce_scatter_start C5, never waited for
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected exactly one use of the token, but got 0}}
    %0, %t = fp8.reduce_scatter_start sum %x axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>, !fp8.token
    return
  }
}

// -----

// all_reduce C1
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected axis 'dp' in the 'fp8.grid' of the module, but got none there}}
    %0 = fp8.all_reduce sum %x axis = "dp" : tensor<256x32xbf16> -> tensor<256x32xbf16>
    return
  }
}

// -----

// all_reduce C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected operand and result of one type, but got 'tensor<256x32xbf16>' and 'tensor<256x32xf32>'}}
    %0 = fp8.all_reduce sum %x axis = "tp" : tensor<256x32xbf16> -> tensor<256x32xf32>
    return
  }
}

// -----

// all_reduce C3
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected 'acc' of f32 or bf16 and only for a sum, but got 'f32' for a max}}
    %0 = fp8.all_reduce max %x axis = "tp" acc = f32 : tensor<256x32xbf16> -> tensor<256x32xbf16>
    return
  }
}

// -----

// all_reduce_start C1
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected axis 'dp' in the 'fp8.grid' of the module, but got none there}}
    %0, %t = fp8.all_reduce_start sum %x axis = "dp" : tensor<256x32xbf16> -> tensor<256x32xbf16>, !fp8.token
    %w = fp8.wait %0, %t : tensor<256x32xbf16>
    return
  }
}

// -----

// all_reduce_start C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected operand and result of one type, but got 'tensor<256x32xbf16>' and 'tensor<256x32xf32>'}}
    %0, %t = fp8.all_reduce_start sum %x axis = "tp" : tensor<256x32xbf16> -> tensor<256x32xf32>, !fp8.token
    %w = fp8.wait %0, %t : tensor<256x32xf32>
    return
  }
}

// -----

// all_reduce_start C3
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected 'acc' of f32 or bf16 and only for a sum, but got 'f32' for a max}}
    %0, %t = fp8.all_reduce_start max %x axis = "tp" acc = f32 : tensor<256x32xbf16> -> tensor<256x32xbf16>, !fp8.token
    %w = fp8.wait %0, %t : tensor<256x32xbf16>
    return
  }
}

// -----

// all_reduce_start C4, never waited for
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected exactly one use of the token, but got 0}}
    %0, %t = fp8.all_reduce_start sum %x axis = "tp" : tensor<256x32xbf16> -> tensor<256x32xbf16>, !fp8.token
    return
  }
}

// -----

// all_to_all C1
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected axis 'dp' in the 'fp8.grid' of the module, but got none there}}
    %0 = fp8.all_to_all %x axis = "dp" split = 0 concat = 1 : tensor<256x32xbf16> -> tensor<64x128xbf16>
    return
  }
}

// -----

// all_to_all C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected 'split' between 0 and 1, but got 2}}
    %0 = fp8.all_to_all %x axis = "tp" split = 2 concat = 1 : tensor<256x32xbf16> -> tensor<64x128xbf16>
    return
  }
}

// -----

// all_to_all C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected 'concat' between 0 and 1, but got -1}}
    %0 = fp8.all_to_all %x axis = "tp" split = 0 concat = -1 : tensor<256x32xbf16> -> tensor<64x128xbf16>
    return
  }
}

// -----

// all_to_all C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<254x32xbf16>) {
    // expected-error@+1 {{expected dim 0 of the operand to be a multiple of the 4 ranks, but got 254}}
    %0 = fp8.all_to_all %x axis = "tp" split = 0 concat = 1 : tensor<254x32xbf16> -> tensor<64x128xbf16>
    return
  }
}

// -----

// all_to_all C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected 'result' of shape [64, 128], but got [128, 64]}}
    %0 = fp8.all_to_all %x axis = "tp" split = 0 concat = 1 : tensor<256x32xbf16> -> tensor<128x64xbf16>
    return
  }
}

// -----

// all_to_all C3
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected one element type and encoding, but got}}
    %0 = fp8.all_to_all %x axis = "tp" split = 0 concat = 1 : tensor<256x32xbf16> -> tensor<64x128xf32>
    return
  }
}

// -----

// all_to_all C3
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>) {
    // expected-error@+1 {{expected a scale group in dim 0 that divides the piece's 64, but got 128}}
    %0 = fp8.all_to_all %x axis = "tp" split = 0 concat = 1 : tensor<256x32xf8E4M3FN, #fp8.tensor<scale = [128, 128]>> -> tensor<64x128xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>
    return
  }
}

// -----

// all_to_all C4
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>>) {
    // expected-error@+1 {{expected compact scales, but got}}
    %0 = fp8.all_to_all %x axis = "tp" split = 0 concat = 1 : tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>> -> tensor<64x512xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>>
    return
  }
}

// -----

// all_to_all_start C1
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected axis 'dp' in the 'fp8.grid' of the module, but got none there}}
    %0, %t = fp8.all_to_all_start %x axis = "dp" split = 0 concat = 1 : tensor<256x32xbf16> -> tensor<64x128xbf16>, !fp8.token
    %w = fp8.wait %0, %t : tensor<64x128xbf16>
    return
  }
}

// -----

// all_to_all_start C2
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected 'split' between 0 and 1, but got 2}}
    %0, %t = fp8.all_to_all_start %x axis = "tp" split = 2 concat = 1 : tensor<256x32xbf16> -> tensor<64x128xbf16>, !fp8.token
    %w = fp8.wait %0, %t : tensor<64x128xbf16>
    return
  }
}

// -----

// all_to_all_start C3
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected one element type and encoding, but got}}
    %0, %t = fp8.all_to_all_start %x axis = "tp" split = 0 concat = 1 : tensor<256x32xbf16> -> tensor<64x128xf32>, !fp8.token
    %w = fp8.wait %0, %t : tensor<64x128xf32>
    return
  }
}

// -----

// all_to_all_start C4
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>>) {
    // expected-error@+1 {{expected compact scales, but got}}
    %0, %t = fp8.all_to_all_start %x axis = "tp" split = 0 concat = 1 : tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>> -> tensor<64x512xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>>, !fp8.token
    %w = fp8.wait %0, %t : tensor<64x512xf8E4M3FN, #fp8.tensor<scale = [1, 128], layout = gemm_ready>>
    return
  }
}

// -----

// all_to_all_start C5, never waited for
module attributes {fp8.grid = {tp = 4}} {
  func.func @f(%x: tensor<256x32xbf16>) {
    // expected-error@+1 {{expected exactly one use of the token, but got 0}}
    %0, %t = fp8.all_to_all_start %x axis = "tp" split = 0 concat = 1 : tensor<256x32xbf16> -> tensor<64x128xbf16>, !fp8.token
    return
  }
}
