// A value held on the stack for the passes of one tile is computed again by the loops after the last tile: the
// transpose visits columns, so it cannot run tile by tile, and the tanh in its operand is held for the cast.
//
// RUN: env XDG_CACHE_HOME=%t fp8-run %s --check

func.func @f(%x: tensor<3x5xf32> {fp8.frozen}) -> (tensor<3x5xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<5x3xf32>) {
  %t = math.tanh %x : tensor<3x5xf32>
  %m = fp8.amax %t group = [1, 0] : tensor<3x5xf32> -> tensor<3x1xf32>
  %s = fp8.scale %m format = f8E4M3FN : tensor<3x1xf32>
  %q = fp8.cast %t, %s : tensor<3x5xf32>, tensor<3x1xf32> -> tensor<3x5xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
  %a = math.absf %t : tensor<3x5xf32>
  %r = fp8.transpose %a [1, 0] : tensor<3x5xf32> -> tensor<5x3xf32>
  return %q, %r : tensor<3x5xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<5x3xf32>
}
