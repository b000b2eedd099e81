// Two linears in a row under FSDP, by torchao's rowwise recipe, with the weights' casts written out through abs and
// max. Forward scales each weight by rows, backward by columns, and backward takes its column maxima from the abs
// that forward made: a save list that names `math.absf` (torchtitan's, in its report 820) keeps a bf16 tensor of
// 134,217,728 bytes for each weight, although the weight can be gathered again and abs costs one pass over it.

module attributes {fp8.grid = {fsdp = 4 : i64}} {
func.func @abs_trap(
    %x: tensor<1024x16384xbf16> loc("x"),
    %w1_shard: tensor<1024x16384xbf16> {fp8.parameter} loc("w1_shard"),
    %w2_shard: tensor<4096x4096xbf16> {fp8.parameter} loc("w2_shard"),
    %d_z: tensor<1024x16384xbf16> {fp8.tangent} loc("d_z"))
    -> (tensor<1024x16384xbf16>, tensor<1024x16384xbf16>, tensor<4096x16384xbf16>, tensor<16384x4096xbf16>) {
  %z, %d_x, %d_w1, %d_w2 = fp8.step -> (tensor<1024x16384xbf16>, tensor<1024x16384xbf16>, tensor<4096x16384xbf16>, tensor<16384x4096xbf16>) forward {
    // h = x * w1^T, w1 [4096, 16384] scaled by rows.
    %w1 = fp8.all_gather %w1_shard axis = "fsdp" dim = 0 : tensor<1024x16384xbf16> -> tensor<4096x16384xbf16> loc("w1")
    %w1_abs = math.absf %w1 : tensor<4096x16384xbf16> loc("w1_abs")
    %w1_rowmax = fp8.reduce max %w1_abs [1] : tensor<4096x16384xbf16> -> tensor<4096x1xf32> loc("w1_rowmax")
    %w1_rowscale = fp8.scale %w1_rowmax format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<4096x1xf32> loc("w1_rowscale")
    %w1_row = fp8.cast %w1, %w1_rowscale : tensor<4096x16384xbf16>, tensor<4096x1xf32> -> tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [1, all]>> loc("w1_row")
    %x_rowmax = fp8.amax %x group = [1, 0] : tensor<1024x16384xbf16> -> tensor<1024x1xf32> loc("x_rowmax")
    %x_rowscale = fp8.scale %x_rowmax format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1024x1xf32> loc("x_rowscale")
    %x_row = fp8.cast %x, %x_rowscale : tensor<1024x16384xbf16>, tensor<1024x1xf32> -> tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [1, all]>> loc("x_row")
    %w1_row_t = fp8.permute %w1_row [1, 0] : tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> loc("w1_row_t")
    %w1_rowscale_t = fp8.permute %w1_rowscale [1, 0] : tensor<4096x1xf32> -> tensor<1x4096xf32> loc("w1_rowscale_t")
    %h = fp8.matmul %x_row, %w1_row_t scales(%x_rowscale, %w1_rowscale_t : tensor<1024x1xf32>, tensor<1x4096xf32>) {fast_accum = true} : tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<1024x4096xbf16> loc("h")

    // y = h * w2^T, w2 [16384, 4096] scaled by rows.
    %w2 = fp8.all_gather %w2_shard axis = "fsdp" dim = 0 : tensor<4096x4096xbf16> -> tensor<16384x4096xbf16> loc("w2")
    %w2_abs = math.absf %w2 : tensor<16384x4096xbf16> loc("w2_abs")
    %w2_rowmax = fp8.reduce max %w2_abs [1] : tensor<16384x4096xbf16> -> tensor<16384x1xf32> loc("w2_rowmax")
    %w2_rowscale = fp8.scale %w2_rowmax format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<16384x1xf32> loc("w2_rowscale")
    %w2_row = fp8.cast %w2, %w2_rowscale : tensor<16384x4096xbf16>, tensor<16384x1xf32> -> tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>> loc("w2_row")
    %h_rowmax = fp8.amax %h group = [1, 0] : tensor<1024x4096xbf16> -> tensor<1024x1xf32> loc("h_rowmax")
    %h_rowscale = fp8.scale %h_rowmax format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1024x1xf32> loc("h_rowscale")
    %h_row = fp8.cast %h, %h_rowscale : tensor<1024x4096xbf16>, tensor<1024x1xf32> -> tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>> loc("h_row")
    %w2_row_t = fp8.permute %w2_row [1, 0] : tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> loc("w2_row_t")
    %w2_rowscale_t = fp8.permute %w2_rowscale [1, 0] : tensor<16384x1xf32> -> tensor<1x16384xf32> loc("w2_rowscale_t")
    %y_0 = fp8.matmul %h_row, %w2_row_t scales(%h_rowscale, %w2_rowscale_t : tensor<1024x1xf32>, tensor<1x16384xf32>) {fast_accum = true} : tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<1024x16384xbf16> loc("y")

    // The layers behind: 512 MiB at their worst moment, while everything kept of the two linears is alive.
    %z_0 = fp8.opaque "layers_behind"(%y_0) {scratch_bytes = 536870912 : i64} : (tensor<1024x16384xbf16>) -> tensor<1024x16384xbf16> loc("z")
    // Everything that backward reads; a policy makes this list shorter.
    fp8.yield %z_0 residuals(%h, %w1, %w1_abs, %w2, %w2_abs)
      : tensor<1024x16384xbf16> residuals(tensor<1024x4096xbf16>, tensor<4096x16384xbf16>, tensor<4096x16384xbf16>, tensor<16384x4096xbf16>, tensor<16384x4096xbf16>)
  } backward (%h_r: tensor<1024x4096xbf16>, %w1_r: tensor<4096x16384xbf16>, %w1_abs_r: tensor<4096x16384xbf16>, %w2_r: tensor<16384x4096xbf16>, %w2_abs_r: tensor<16384x4096xbf16>) {
    %d_y = fp8.opaque "layers_behind_backward"(%d_z) {scratch_bytes = 536870912 : i64} : (tensor<1024x16384xbf16>) -> tensor<1024x16384xbf16> loc("d_y")
    // d_h = d_y * w2, w2 scaled by columns: the maxima come from forward's abs.
    %d_y_rowmax = fp8.amax %d_y group = [1, 0] : tensor<1024x16384xbf16> -> tensor<1024x1xf32> loc("d_y_rowmax")
    %d_y_rowscale = fp8.scale %d_y_rowmax format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1024x1xf32> loc("d_y_rowscale")
    %d_y_row = fp8.cast %d_y, %d_y_rowscale : tensor<1024x16384xbf16>, tensor<1024x1xf32> -> tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [1, all]>> loc("d_y_row")
    %w2_colmax = fp8.reduce max %w2_abs_r [0] : tensor<16384x4096xbf16> -> tensor<1x4096xf32> loc("w2_colmax")
    %w2_colscale = fp8.scale %w2_colmax format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x4096xf32> loc("w2_colscale")
    %w2_col = fp8.cast %w2_r, %w2_colscale : tensor<16384x4096xbf16>, tensor<1x4096xf32> -> tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> loc("w2_col")
    %d_h = fp8.matmul %d_y_row, %w2_col scales(%d_y_rowscale, %w2_colscale : tensor<1024x1xf32>, tensor<1x4096xf32>) {fast_accum = true} : tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<1024x4096xbf16> loc("d_h")

    // d_w2 = d_y^T * h, both scaled along the tokens.
    %d_y_colmax = fp8.amax %d_y group = [0, 1] : tensor<1024x16384xbf16> -> tensor<1x16384xf32> loc("d_y_colmax")
    %d_y_colscale = fp8.scale %d_y_colmax format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x16384xf32> loc("d_y_colscale")
    %d_y_col = fp8.cast %d_y, %d_y_colscale : tensor<1024x16384xbf16>, tensor<1x16384xf32> -> tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> loc("d_y_col")
    %h_colmax = fp8.amax %h_r group = [0, 1] : tensor<1024x4096xbf16> -> tensor<1x4096xf32> loc("h_colmax")
    %h_colscale = fp8.scale %h_colmax format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x4096xf32> loc("h_colscale")
    %h_col = fp8.cast %h_r, %h_colscale : tensor<1024x4096xbf16>, tensor<1x4096xf32> -> tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> loc("h_col")
    %d_y_col_t = fp8.permute %d_y_col [1, 0] : tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<16384x1024xf8E4M3FN, #fp8.tensor<scale = [1, all]>> loc("d_y_col_t")
    %d_y_colscale_t = fp8.permute %d_y_colscale [1, 0] : tensor<1x16384xf32> -> tensor<16384x1xf32> loc("d_y_colscale_t")
    %d_w2_0 = fp8.matmul %d_y_col_t, %h_col scales(%d_y_colscale_t, %h_colscale : tensor<16384x1xf32>, tensor<1x4096xf32>) {fast_accum = true} : tensor<16384x1024xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<16384x4096xbf16> loc("d_w2")

    // d_x = d_h * w1, w1 scaled by columns.
    %d_h_rowmax = fp8.amax %d_h group = [1, 0] : tensor<1024x4096xbf16> -> tensor<1024x1xf32> loc("d_h_rowmax")
    %d_h_rowscale = fp8.scale %d_h_rowmax format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1024x1xf32> loc("d_h_rowscale")
    %d_h_row = fp8.cast %d_h, %d_h_rowscale : tensor<1024x4096xbf16>, tensor<1024x1xf32> -> tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>> loc("d_h_row")
    %w1_colmax = fp8.reduce max %w1_abs_r [0] : tensor<4096x16384xbf16> -> tensor<1x16384xf32> loc("w1_colmax")
    %w1_colscale = fp8.scale %w1_colmax format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x16384xf32> loc("w1_colscale")
    %w1_col = fp8.cast %w1_r, %w1_colscale : tensor<4096x16384xbf16>, tensor<1x16384xf32> -> tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> loc("w1_col")
    %d_x_0 = fp8.matmul %d_h_row, %w1_col scales(%d_h_rowscale, %w1_colscale : tensor<1024x1xf32>, tensor<1x16384xf32>) {fast_accum = true} : tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<4096x16384xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<1024x16384xbf16> loc("d_x")

    // d_w1 = d_h^T * x, both scaled along the tokens.
    %d_h_colmax = fp8.amax %d_h group = [0, 1] : tensor<1024x4096xbf16> -> tensor<1x4096xf32> loc("d_h_colmax")
    %d_h_colscale = fp8.scale %d_h_colmax format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x4096xf32> loc("d_h_colscale")
    %d_h_col = fp8.cast %d_h, %d_h_colscale : tensor<1024x4096xbf16>, tensor<1x4096xf32> -> tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> loc("d_h_col")
    %x_colmax = fp8.amax %x group = [0, 1] : tensor<1024x16384xbf16> -> tensor<1x16384xf32> loc("x_colmax")
    %x_colscale = fp8.scale %x_colmax format = f8E4M3FN {division = #fp8.division<double>, eps = 1.0e-12 : f64} : tensor<1x16384xf32> loc("x_colscale")
    %x_col = fp8.cast %x, %x_colscale : tensor<1024x16384xbf16>, tensor<1x16384xf32> -> tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> loc("x_col")
    %d_h_col_t = fp8.permute %d_h_col [1, 0] : tensor<1024x4096xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<4096x1024xf8E4M3FN, #fp8.tensor<scale = [1, all]>> loc("d_h_col_t")
    %d_h_colscale_t = fp8.permute %d_h_colscale [1, 0] : tensor<1x4096xf32> -> tensor<4096x1xf32> loc("d_h_colscale_t")
    %d_w1_0 = fp8.matmul %d_h_col_t, %x_col scales(%d_h_colscale_t, %x_colscale : tensor<4096x1xf32>, tensor<1x16384xf32>) {fast_accum = true} : tensor<4096x1024xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1024x16384xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<4096x16384xbf16> loc("d_w1")
    fp8.yield %d_x_0, %d_w1_0, %d_w2_0 : tensor<1024x16384xbf16>, tensor<4096x16384xbf16>, tensor<16384x4096xbf16>
  }
  return %z, %d_x, %d_w1, %d_w2 : tensor<1024x16384xbf16>, tensor<1024x16384xbf16>, tensor<4096x16384xbf16>, tensor<16384x4096xbf16>
}
}
