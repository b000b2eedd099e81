// Two functions, the second with the larger peak.
func.func @narrow(%x: tensor<16x32xbf16>, %w: tensor<48x32xbf16> {fp8.parameter} loc("narrow.w")) -> tensor<16x48xbf16> {
  %y = fp8.linear %x, %w recipe<rowwise> : tensor<16x32xbf16>, tensor<48x32xbf16> -> tensor<16x48xbf16>
  return %y : tensor<16x48xbf16>
}
func.func @wide(%x: tensor<64x32xbf16>, %w: tensor<128x32xbf16> {fp8.parameter} loc("wide.w"),
                %v: tensor<32x128xbf16> {fp8.parameter} loc("wide.v")) -> tensor<64x32xbf16> {
  %h = fp8.linear %x, %w recipe<rowwise> : tensor<64x32xbf16>, tensor<128x32xbf16> -> tensor<64x128xbf16>
  %n = arith.negf %h : tensor<64x128xbf16>
  %y = fp8.linear %n, %v recipe<rowwise> : tensor<64x128xbf16>, tensor<32x128xbf16> -> tensor<64x32xbf16>
  return %y : tensor<64x32xbf16>
}
