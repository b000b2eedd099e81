func.func @norm(%x: tensor<256x128xbf16>, %wq: tensor<512x128xbf16> {fp8.parameter}, %wkv: tensor<384x128xbf16> {fp8.parameter}) -> (tensor<256x512xbf16>, tensor<256x384xbf16>) {
  %results:2 = fp8.step -> (tensor<256x512xbf16>, tensor<256x384xbf16>) forward {
    %n = math.tanh %x : tensor<256x128xbf16>
    %q = fp8.linear %n, %wq recipe <rowwise> : tensor<256x128xbf16>, tensor<512x128xbf16> -> tensor<256x512xbf16>
    %kv = fp8.linear %n, %wkv recipe <rowwise> : tensor<256x128xbf16>, tensor<384x128xbf16> -> tensor<256x384xbf16>
    fp8.yield %q, %kv : tensor<256x512xbf16>, tensor<256x384xbf16>
  } backward {
    fp8.yield
  }
  return %results#0, %results#1 : tensor<256x512xbf16>, tensor<256x384xbf16>
}
