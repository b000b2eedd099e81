// The control of abs_trap.mlir: the same two linears with one scale a tensor. Backward reads each weight's maximum,
// 4 bytes, and never its abs, so the same save list that keeps 134,217,728 bytes a weight there keeps 4 here.

module attributes {fp8.grid = {fsdp = 4 : i64}} {
func.func @abs_trap_tensorwise(
    %x: tensor<1024x16384xbf16> loc("x"),
    %w1_shard: tensor<1024x16384xbf16> {fp8.parameter} loc("w1_shard"),
    %w2_shard: tensor<4096x4096xbf16> {fp8.parameter} loc("w2_shard"),
    %d_z: tensor<1024x16384xbf16> {fp8.tangent} loc("d_z"))
    -> (tensor<1024x16384xbf16>, tensor<1024x16384xbf16>, tensor<4096x16384xbf16>, tensor<16384x4096xbf16>) {
  %z, %d_x, %d_w1, %d_w2 = fp8.step -> (tensor<1024x16384xbf16>, tensor<1024x16384xbf16>, tensor<4096x16384xbf16>, tensor<16384x4096xbf16>) forward {
    // h = x * w1^T
    %w1 = fp8.all_gather %w1_shard axis = "fsdp" dim = 0 : tensor<1024x16384xbf16> -> tensor<4096x16384xbf16> loc("w1")
    %w1_abs = math.absf %w1 : tensor<4096x16384xbf16> loc("w1_abs")
    %w1_max = fp8.reduce max %w1_abs [0, 1] {fp8.checkpoint} : tensor<4096x16384xbf16> -> tensor<1x1xf32> loc("w1_max")
    %w1_scale = fp8.scale %w1_max format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x1xf32> loc("w1_scale")
    %w1_f8 = fp8.cast %w1, %w1_scale : tensor<4096x16384xbf16>, tensor<1x1xf32> -> tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [all, all]>> loc("w1_f8")
    %x_max = fp8.amax %x group = [0, 0] : tensor<1024x16384xbf16> -> tensor<1x1xf32> loc("x_max")
    %x_scale = fp8.scale %x_max format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x1xf32> loc("x_scale")
    %x_f8 = fp8.cast %x, %x_scale : tensor<1024x16384xbf16>, tensor<1x1xf32> -> tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [all, all]>> loc("x_f8")
    %w1_f8_t = fp8.permute %w1_f8 [1, 0] : tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>> loc("w1_f8_t")
    %h = fp8.matmul %x_f8, %w1_f8_t scales(%x_scale, %w1_scale : tensor<1x1xf32>, tensor<1x1xf32>) {fast_accum = true} : tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<1024x4096xbf16> loc("h")

    // y = h * w2^T
    %w2 = fp8.all_gather %w2_shard axis = "fsdp" dim = 0 : tensor<4096x4096xbf16> -> tensor<16384x4096xbf16> loc("w2")
    %w2_abs = math.absf %w2 : tensor<16384x4096xbf16> loc("w2_abs")
    %w2_max = fp8.reduce max %w2_abs [0, 1] {fp8.checkpoint} : tensor<16384x4096xbf16> -> tensor<1x1xf32> loc("w2_max")
    %w2_scale = fp8.scale %w2_max format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x1xf32> loc("w2_scale")
    %w2_f8 = fp8.cast %w2, %w2_scale : tensor<16384x4096xbf16>, tensor<1x1xf32> -> tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>> loc("w2_f8")
    %h_max = fp8.amax %h group = [0, 0] : tensor<1024x4096xbf16> -> tensor<1x1xf32> loc("h_max")
    %h_scale = fp8.scale %h_max format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x1xf32> loc("h_scale")
    %h_f8 = fp8.cast %h, %h_scale : tensor<1024x4096xbf16>, tensor<1x1xf32> -> tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>> loc("h_f8")
    %w2_f8_t = fp8.permute %w2_f8 [1, 0] : tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [all, all]>> loc("w2_f8_t")
    %y_0 = fp8.matmul %h_f8, %w2_f8_t scales(%h_scale, %w2_scale : tensor<1x1xf32>, tensor<1x1xf32>) {fast_accum = true} : tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<1024x16384xbf16> loc("y")

    // The layers behind: 512 MiB at their worst moment, while everything kept of the two linears is alive.
    %z_0 = fp8.opaque "layers_behind"(%y_0) {scratch_bytes = 536870912 : i64} : (tensor<1024x16384xbf16>) -> tensor<1024x16384xbf16> loc("z")
    // Everything that backward reads; a policy makes this list shorter.
    fp8.yield %z_0 residuals(%x_f8, %x_scale, %h_f8, %h_scale, %w1, %w1_max, %w2, %w2_max)
      : tensor<1024x16384xbf16> residuals(tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<1x1xf32>, tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<1x1xf32>, tensor<4096x16384xbf16>, tensor<1x1xf32>, tensor<16384x4096xbf16>, tensor<1x1xf32>)
  } backward (%x_f8_r: tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, %x_scale_r: tensor<1x1xf32>, %h_f8_r: tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, %h_scale_r: tensor<1x1xf32>, %w1_r: tensor<4096x16384xbf16>, %w1_max_r: tensor<1x1xf32>, %w2_r: tensor<16384x4096xbf16>, %w2_max_r: tensor<1x1xf32>) {
    %d_y = fp8.opaque "layers_behind_backward"(%d_z) {scratch_bytes = 536870912 : i64} : (tensor<1024x16384xbf16>) -> tensor<1024x16384xbf16> loc("d_y")
    // d_h = d_y * w2: the weight is cast again, by the scale of the maximum that forward found.
    %d_y_max = fp8.amax %d_y group = [0, 0] : tensor<1024x16384xbf16> -> tensor<1x1xf32> loc("d_y_max")
    %d_y_scale = fp8.scale %d_y_max format = f8E5M2 {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x1xf32> loc("d_y_scale")
    %d_y_f8 = fp8.cast %d_y, %d_y_scale : tensor<1024x16384xbf16>, tensor<1x1xf32> -> tensor<1024x16384xf8E5M2, #fp8.tensor<scale = [all, all]>> loc("d_y_f8")
    %w2_scale_b = fp8.scale %w2_max_r format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x1xf32> loc("w2_scale_b")
    %w2_f8_b = fp8.cast %w2_r, %w2_scale_b : tensor<16384x4096xbf16>, tensor<1x1xf32> -> tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>> loc("w2_f8_b")
    %d_h = fp8.matmul %d_y_f8, %w2_f8_b scales(%d_y_scale, %w2_scale_b : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<1024x16384xf8E5M2, #fp8.tensor<scale = [all, all]>>, tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<1024x4096xbf16> loc("d_h")

    // d_w2 = d_y^T * h
    %d_y_f8_t = fp8.permute %d_y_f8 [1, 0] : tensor<1024x16384xf8E5M2, #fp8.tensor<scale = [all, all]>> -> tensor<16384x1024xf8E5M2, #fp8.tensor<scale = [all, all]>> loc("d_y_f8_t")
    %d_w2_0 = fp8.matmul %d_y_f8_t, %h_f8_r scales(%d_y_scale, %h_scale_r : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<16384x1024xf8E5M2, #fp8.tensor<scale = [all, all]>>, tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<16384x4096xbf16> loc("d_w2")

    // d_x = d_h * w1
    %d_h_max = fp8.amax %d_h group = [0, 0] : tensor<1024x4096xbf16> -> tensor<1x1xf32> loc("d_h_max")
    %d_h_scale = fp8.scale %d_h_max format = f8E5M2 {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x1xf32> loc("d_h_scale")
    %d_h_f8 = fp8.cast %d_h, %d_h_scale : tensor<1024x4096xbf16>, tensor<1x1xf32> -> tensor<1024x4096xf8E5M2, #fp8.tensor<scale = [all, all]>> loc("d_h_f8")
    %w1_scale_b = fp8.scale %w1_max_r format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x1xf32> loc("w1_scale_b")
    %w1_f8_b = fp8.cast %w1_r, %w1_scale_b : tensor<4096x16384xbf16>, tensor<1x1xf32> -> tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [all, all]>> loc("w1_f8_b")
    %d_x_0 = fp8.matmul %d_h_f8, %w1_f8_b scales(%d_h_scale, %w1_scale_b : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<1024x4096xf8E5M2, #fp8.tensor<scale = [all, all]>>, tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<1024x16384xbf16> loc("d_x")

    // d_w1 = d_h^T * x
    %d_h_f8_t = fp8.permute %d_h_f8 [1, 0] : tensor<1024x4096xf8E5M2, #fp8.tensor<scale = [all, all]>> -> tensor<4096x1024xf8E5M2, #fp8.tensor<scale = [all, all]>> loc("d_h_f8_t")
    %d_w1_0 = fp8.matmul %d_h_f8_t, %x_f8_r scales(%d_h_scale, %x_scale_r : tensor<1x1xf32>, tensor<1x1xf32>) : tensor<4096x1024xf8E5M2, #fp8.tensor<scale = [all, all]>>, tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [all, all]>> -> tensor<4096x16384xbf16> loc("d_w1")
    fp8.yield %d_x_0, %d_w1_0, %d_w2_0 : tensor<1024x16384xbf16>, tensor<4096x16384xbf16>, tensor<16384x4096xbf16>
  }
  return %z, %d_x, %d_w1, %d_w2 : tensor<1024x16384xbf16>, tensor<1024x16384xbf16>, tensor<4096x16384xbf16>, tensor<16384x4096xbf16>
}
}
