func.func @refused(%q: tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>) {
  %t = fp8.transpose %q [1, 0] : tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>> -> tensor<256x256xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>
  return
}
