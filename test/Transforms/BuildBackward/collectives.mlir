// The gradient of each collective is the one that undoes it; parts of results have parts of tangents and gradients.
// RUN: fp8-opt %s -split-input-file -fp8-build-backward -verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @gather
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<256x32xbf16> {fp8.tangent}
// CHECK-SAME: tensor<64x32xbf16> {fp8.name = "d_x", fp8.shard = ["tp", ""]})
// CHECK: backward
// CHECK: fp8.reduce_scatter sum %[[DY]] axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>
module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @gather(%x: tensor<64x32xbf16> {fp8.shard = ["tp", ""]} loc("x")) -> tensor<256x32xbf16> {
  %y = fp8.all_gather %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>
  return %y : tensor<256x32xbf16>
}
}

// -----

// CHECK-LABEL: func.func @scatter
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<64x32xbf16> {fp8.shard = ["tp", ""], fp8.tangent}
// CHECK: backward
// CHECK: fp8.all_gather %[[DY]] axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>
module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @scatter(%x: tensor<256x32xbf16>) -> (tensor<64x32xbf16> {fp8.shard = ["tp", ""]}) {
  %y = fp8.reduce_scatter sum %x axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>
  return %y : tensor<64x32xbf16>
}
}

// -----

// CHECK-LABEL: func.func @reduce
// CHECK: backward
// CHECK: fp8.all_reduce sum %{{.*}} axis = "tp" acc = bf16 : tensor<256x32xbf16> -> tensor<256x32xbf16>
module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @reduce(%x: tensor<256x32xbf16>) -> tensor<256x32xbf16> {
  %y = fp8.all_reduce sum %x axis = "tp" acc = bf16 : tensor<256x32xbf16> -> tensor<256x32xbf16>
  return %y : tensor<256x32xbf16>
}
}

// -----

// CHECK-LABEL: func.func @exchange
// CHECK: backward
// CHECK: fp8.all_to_all %{{.*}} axis = "tp" split = 1 concat = 0 : tensor<16x128xbf16> -> tensor<64x32xbf16>
module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @exchange(%x: tensor<64x32xbf16>) -> tensor<16x128xbf16> {
  %y = fp8.all_to_all %x axis = "tp" split = 0 concat = 1 : tensor<64x32xbf16> -> tensor<16x128xbf16>
  return %y : tensor<16x128xbf16>
}
}

// -----

// The halves of a collective have the gradient of the whole.
// CHECK-LABEL: func.func @halves
// CHECK: backward
// CHECK: fp8.reduce_scatter sum %{{.*}} axis = "tp" dim = 0 : tensor<256x32xbf16> -> tensor<64x32xbf16>
module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @halves(%x: tensor<64x32xbf16>) -> tensor<256x32xbf16> {
  %g, %t = fp8.all_gather_start %x axis = "tp" dim = 0 : tensor<64x32xbf16> -> tensor<256x32xbf16>, !fp8.token
  %y = fp8.wait %g, %t : tensor<256x32xbf16>
  return %y : tensor<256x32xbf16>
}
}

// -----

module attributes {fp8.grid = {tp = 4 : i64}} {
func.func @maximum(%x: tensor<256x32xbf16>) -> tensor<256x32xbf16> {
  // expected-error@+1 {{expected a sum where a gradient passes through, but got a max}}
  %y = fp8.all_reduce max %x axis = "tp" : tensor<256x32xbf16> -> tensor<256x32xbf16>
  return %y : tensor<256x32xbf16>
}
}
