// Two values wait in pinned host memory between forward and backward, copied beside the kernels (artifacts.sh).
func.func @step(%x: tensor<1024x1024xf32>, %w1: tensor<1024x1024xf32> {fp8.parameter},
    %w2: tensor<1024x1024xf32> {fp8.parameter}, %w3: tensor<1024x1024xf32> {fp8.parameter}) -> tensor<1024x1024xf32> {
  %m = fp8.matmul %x, %w1 : tensor<1024x1024xf32>, tensor<1024x1024xf32> -> tensor<1024x1024xf32>
  %a = math.tanh %m {fp8.policy = "offload"} : tensor<1024x1024xf32>
  %n = fp8.matmul %a, %w2 : tensor<1024x1024xf32>, tensor<1024x1024xf32> -> tensor<1024x1024xf32>
  %b = math.tanh %n {fp8.policy = "offload"} : tensor<1024x1024xf32>
  %o = fp8.matmul %b, %w3 : tensor<1024x1024xf32>, tensor<1024x1024xf32> -> tensor<1024x1024xf32>
  return %o : tensor<1024x1024xf32>
}
