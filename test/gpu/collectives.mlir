// Every kind of collective on two GPUs: bytes and sums, along dimensions whose pieces are stretches of memory and along
// others, in one part and in several, and along an axis with one rank. No matmuls: run_ranks.sh expects the CPU's bits.
module attributes {fp8.grid = {one = 1 : i64, tp = 2 : i64}} {
func.func @collectives(%x: tensor<64x48xbf16> {fp8.frozen, fp8.shard = ["tp", ""]}, %y: tensor<64x48xf32> {fp8.frozen, fp8.shard = ["", "tp"]},
                       %large: tensor<3072x1024xf32> {fp8.frozen, fp8.shard = ["tp", ""]})
    -> (tensor<128x48xbf16>, tensor<64x96xbf16>, tensor<32x48xbf16>, tensor<64x24xbf16>, tensor<64x48xf32>,
        tensor<64x48xf32>, tensor<64x48xf32>, tensor<32x48xf32>, tensor<32x96xbf16>, tensor<128x24xf32>,
        tensor<32x96xf32>, tensor<3072x2048xf32>, tensor<3072x1024xf32>, tensor<64x48xf32>, tensor<96x64xf32>) {
  %0 = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x48xbf16> -> tensor<128x48xbf16>
  %1 = fp8.all_gather %x axis = "tp" dim = 1 : tensor<64x48xbf16> -> tensor<64x96xbf16>
  %2 = fp8.reduce_scatter sum %x axis = "tp" dim = 0 : tensor<64x48xbf16> -> tensor<32x48xbf16>
  %3 = fp8.reduce_scatter sum %x axis = "tp" dim = 1 : tensor<64x48xbf16> -> tensor<64x24xbf16>
  %4 = fp8.all_reduce sum %y axis = "tp" : tensor<64x48xf32> -> tensor<64x48xf32>
  %5 = fp8.all_reduce max %y axis = "tp" : tensor<64x48xf32> -> tensor<64x48xf32>
  %6 = fp8.all_reduce sum %y axis = "tp" acc = bf16 : tensor<64x48xf32> -> tensor<64x48xf32>
  %7 = fp8.reduce_scatter max %y axis = "tp" dim = 0 : tensor<64x48xf32> -> tensor<32x48xf32>
  %8 = fp8.all_to_all %x axis = "tp" split = 0 concat = 1 : tensor<64x48xbf16> -> tensor<32x96xbf16>
  %9 = fp8.all_to_all %y axis = "tp" split = 1 concat = 0 : tensor<64x48xf32> -> tensor<128x24xf32>
  %view = fp8.permute %y [1, 0] : tensor<64x48xf32> -> tensor<48x64xf32>
  %gathered = fp8.all_gather %view axis = "tp" dim = 0 : tensor<48x64xf32> -> tensor<96x64xf32>
  %flat = fp8.all_to_all %y axis = "tp" split = 0 concat = 1 : tensor<64x48xf32> -> tensor<32x96xf32>
  %b = fp8.all_gather %large axis = "tp" dim = 1 : tensor<3072x1024xf32> -> tensor<3072x2048xf32>
  %c = fp8.all_reduce max %large axis = "tp" : tensor<3072x1024xf32> -> tensor<3072x1024xf32>
  %d = fp8.all_reduce sum %y axis = "one" : tensor<64x48xf32> -> tensor<64x48xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %flat, %b, %c, %d, %gathered
    : tensor<128x48xbf16>, tensor<64x96xbf16>, tensor<32x48xbf16>, tensor<64x24xbf16>, tensor<64x48xf32>,
      tensor<64x48xf32>, tensor<64x48xf32>, tensor<32x48xf32>, tensor<32x96xbf16>, tensor<128x24xf32>, tensor<32x96xf32>,
      tensor<3072x2048xf32>, tensor<3072x1024xf32>, tensor<64x48xf32>, tensor<96x64xf32>
}
}
