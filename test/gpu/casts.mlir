// Casts of f32 and bf16 to both FP8 types with a given scale, for casts.py, which runs them on the CPU and on a GPU.
func.func @casts(%x: tensor<2048x4096xf32> {fp8.tangent} loc("x"), %b: tensor<2048x4096xbf16> {fp8.tangent} loc("b"),
                 %s: tensor<1x1xf32> {fp8.tangent} loc("s"))
    -> (tensor<2048x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<2048x4096xf8E5M2, #fp8.tensor<scale = [all, all]>>,
        tensor<2048x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<2048x4096xf8E5M2, #fp8.tensor<scale = [all, all]>>) {
  %0 = fp8.cast %x, %s : tensor<2048x4096xf32>, tensor<1x1xf32> -> tensor<2048x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
  %1 = fp8.cast %x, %s : tensor<2048x4096xf32>, tensor<1x1xf32> -> tensor<2048x4096xf8E5M2, #fp8.tensor<scale = [all, all]>>
  %2 = fp8.cast %b, %s : tensor<2048x4096xbf16>, tensor<1x1xf32> -> tensor<2048x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
  %3 = fp8.cast %b, %s : tensor<2048x4096xbf16>, tensor<1x1xf32> -> tensor<2048x4096xf8E5M2, #fp8.tensor<scale = [all, all]>>
  return %0, %1, %2, %3 : tensor<2048x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<2048x4096xf8E5M2, #fp8.tensor<scale = [all, all]>>, tensor<2048x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<2048x4096xf8E5M2, #fp8.tensor<scale = [all, all]>>
}
