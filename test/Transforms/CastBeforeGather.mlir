// What travels where a gathered tensor is only cast.
// RUN: fp8-opt %s -split-input-file -fp8-expand-recipes -fp8-cast-before-gather | FileCheck %s
// RUN: fp8-opt %s -split-input-file -fp8-expand-recipes -fp8-cast-before-gather=gathers=as-written | FileCheck %s --check-prefix=WRITTEN
// RUN: not fp8-opt %s -split-input-file -fp8-cast-before-gather=gathers=no 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: error: expected 'gathers' to be fp8 or as-written, but got 'no'
// WRITTEN-NOT: fp8.all_reduce
// WRITTEN-NOT: fp8.all_gather {{.*}}f8E4M3FN

// One scale a tensor: the maximum of all shards, one reduction of four bytes.
// CHECK-LABEL: func.func @tensorwise
// CHECK: %[[PART:.*]] = fp8.amax %arg0 group = [0, 0] : tensor<64x256xbf16> -> tensor<1x1xf32>
// CHECK: %[[MAX:.*]] = fp8.all_reduce max %[[PART]] axis = "tp" : tensor<1x1xf32> -> tensor<1x1xf32>
// CHECK: %[[SCALE:.*]] = fp8.scale %[[MAX]]
// CHECK: %[[CAST:.*]] = fp8.cast %arg0, %[[SCALE]] : tensor<64x256xbf16>
// CHECK: fp8.all_gather %[[CAST]] axis = "tp" dim = 0 : tensor<64x256xf8E4M3FN, {{.*}}> -> tensor<256x256xf8E4M3FN
// CHECK-NOT: fp8.all_gather
// CHECK: fp8.matmul
module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @tensorwise(%x: tensor<64x256xbf16>, %w: tensor<128x256xbf16>) -> tensor<256x128xbf16> {
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x256xbf16> -> tensor<256x256xbf16>
  %y = fp8.linear %g, %w recipe<tensorwise> : tensor<256x256xbf16>, tensor<128x256xbf16> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}
}

// -----

// 1x128: groups lie within tokens; scales travel beside the data, compact.
// CHECK-LABEL: func.func @block128
// CHECK-NOT: fp8.all_reduce
// CHECK: %[[PART:.*]] = fp8.amax %arg0 group = [1, 128] : tensor<64x256xbf16> -> tensor<64x2xf32>
// CHECK: %[[SCALE:.*]] = fp8.scale %[[PART]]
// CHECK: fp8.all_gather %[[SCALE]] axis = "tp" dim = 0 : tensor<64x2xf32> -> tensor<256x2xf32>
// CHECK: %[[CAST:.*]] = fp8.cast %arg0, %[[SCALE]] : tensor<64x256xbf16>
// CHECK: fp8.all_gather %[[CAST]] axis = "tp" dim = 0 : tensor<64x256xf8E4M3FN
module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @block128(%x: tensor<64x256xbf16>, %w: tensor<128x256xbf16>) -> tensor<256x128xbf16> {
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x256xbf16> -> tensor<256x256xbf16>
  %y = fp8.linear %g, %w recipe<block128> : tensor<256x256xbf16>, tensor<128x256xbf16> -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}
}

// -----

// F9: 64 tokens a rank are no whole block of 128 along the tokens, which wgrad wants: bf16 travels and is cast on arrival,
// for both; nothing that was quantised is dequantised.
// CHECK-LABEL: func.func @straddling
// CHECK: fp8.all_gather %{{.*}} : tensor<64x256xbf16> -> tensor<128x256xbf16>
// CHECK-NOT: fp8.all_gather {{.*}}f8E4M3FN
// CHECK-NOT: fp8.dequantize
module attributes {fp8.grid = {tp = 2 : i64}} {
func.func @straddling(%x: tensor<64x256xbf16>, %w: tensor<128x256xbf16>, %dy: tensor<128x128xbf16>) -> (tensor<128x128xbf16>, tensor<128x256xbf16>) {
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x256xbf16> -> tensor<128x256xbf16>
  %y = fp8.linear %g, %w recipe<block128> : tensor<128x256xbf16>, tensor<128x256xbf16> -> tensor<128x128xbf16>
  %dw = fp8.linear_wgrad %dy, %g recipe<block128> : tensor<128x128xbf16>, tensor<128x256xbf16> -> tensor<128x256xbf16>
  return %y, %dw : tensor<128x128xbf16>, tensor<128x256xbf16>
}
}

// -----

// Something else reads the gathered tensor, so it travels anyway.
// CHECK-LABEL: func.func @read
// CHECK: %[[G:.*]] = fp8.all_gather %arg0 {{.*}}-> tensor<256x256xbf16>
// CHECK-NOT: fp8.all_gather
// CHECK: math.exp %[[G]]
module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @read(%x: tensor<64x256xbf16>, %w: tensor<128x256xbf16>) -> (tensor<256x128xbf16>, tensor<256x256xbf16>) {
  %g = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x256xbf16> -> tensor<256x256xbf16>
  %y = fp8.linear %g, %w recipe<tensorwise> : tensor<256x256xbf16>, tensor<128x256xbf16> -> tensor<256x128xbf16>
  %e = math.exp %g : tensor<256x256xbf16>
  return %y, %e : tensor<256x128xbf16>, tensor<256x256xbf16>
}
}
