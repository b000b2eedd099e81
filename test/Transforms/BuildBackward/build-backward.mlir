// RUN: fp8-opt %s -split-input-file -fp8-build-backward | FileCheck %s
// RUN: fp8-opt %s -split-input-file -fp8-build-backward -fp8-build-backward | FileCheck %s
// RUN: fp8-opt %s -split-input-file -fp8-build-backward -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=LOC

// A linear is differentiated as a unit; its input and its weight are no residuals, being arguments.

// CHECK-LABEL: func.func @linear(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<64x32xbf16>, %[[W:[a-z0-9]+]]: tensor<48x32xbf16> {fp8.parameter}, %[[DY:[a-z0-9]+]]: tensor<64x48xbf16> {fp8.tangent})
// CHECK-SAME: -> (tensor<64x48xbf16> {fp8.name = "y"}, tensor<64x32xbf16> {fp8.name = "d_x"}, tensor<48x32xbf16> {fp8.name = "d_w"})
// CHECK: forward {
// CHECK-NEXT: %[[Y:.+]] = fp8.linear %[[X]], %[[W]] recipe
// CHECK-NEXT: fp8.yield %[[Y]] : tensor<64x48xbf16>
// CHECK-NEXT: } backward {
// CHECK-NEXT: %[[DX:.+]] = fp8.linear_dgrad %[[DY]], %[[W]] recipe
// CHECK-NEXT: %[[DW:.+]] = fp8.linear_wgrad %[[DY]], %[[X]] recipe
// CHECK-NEXT: fp8.yield %[[DX]], %[[DW]]
// A gradient is named after its value and lies where the op lies.
// LOC: loc("d_y"
// LOC: fp8.linear_dgrad {{.*}} loc("d_x"(callsite(unknown at "y")))
func.func @linear(%x: tensor<64x32xbf16> loc("x"), %w: tensor<48x32xbf16> {fp8.parameter} loc("w")) -> tensor<64x48xbf16> {
  %y = fp8.linear %x, %w recipe <rowwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16> loc("y")
  return %y : tensor<64x48xbf16>
}

// -----

// Gradients are added in the order of the uses: exp, mulf, then the return.

// CHECK-LABEL: func.func @order(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8xf32>, %[[DA:[a-z0-9]+]]: tensor<8xf32> {fp8.tangent}, %[[DM:[a-z0-9]+]]: tensor<8xf32> {fp8.tangent})
// CHECK: %[[A:.+]] = math.tanh %[[X]]
// CHECK: %[[E:.+]] = math.exp %[[A]]
// CHECK: fp8.yield {{.*}} residuals(%[[A]], %[[E]])
// CHECK: backward (%[[RA:.+]]: tensor<8xf32>, %[[RE:.+]]: tensor<8xf32>) {
// CHECK: %[[DE:.+]] = arith.mulf %[[DM]], %[[RA]]
// CHECK: %[[FROM_MUL:.+]] = arith.mulf %[[DM]], %[[RE]]
// CHECK: %[[FROM_EXP:.+]] = arith.mulf %[[DE]], %[[RE]]
// CHECK: %[[S0:.+]] = arith.addf %[[FROM_EXP]], %[[FROM_MUL]]
// CHECK: %[[S1:.+]] = arith.addf %[[S0]], %[[DA]]
// CHECK: %[[SQUARE:.+]] = arith.mulf %[[RA]], %[[RA]]
// CHECK: %[[SLOPE:.+]] = arith.subf %{{.+}}, %[[SQUARE]]
// CHECK: %[[DX:.+]] = arith.mulf %[[S1]], %[[SLOPE]]
// CHECK: fp8.yield %[[DX]]
func.func @order(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = math.tanh %x : tensor<8xf32>
  %e = math.exp %a : tensor<8xf32>
  %m = arith.mulf %e, %a : tensor<8xf32>
  return %a, %m : tensor<8xf32>, tensor<8xf32>
}

// -----

// A frozen argument keeps nothing alive: no gradient of %w, so %x is not read in backward and nothing of @frozen's
// first product is built.

// CHECK-LABEL: func.func @frozen(
// CHECK-SAME: {fp8.name = "result#0"}, tensor<8xf32> {fp8.name = "d_arg#1"})
// CHECK: fp8.yield %{{.+}} residuals(%[[S:.+]]) : tensor<8xf32> residuals(tensor<8xf32>)
// CHECK: backward (%[[R:.+]]: tensor<8xf32>) {
// CHECK-NEXT: %[[D:.+]] = arith.mulf %{{.+}}, %[[R]]
// CHECK-NEXT: fp8.yield %[[D]] : tensor<8xf32>
func.func @frozen(%x: tensor<8xf32> {fp8.frozen}, %w: tensor<8xf32>) -> tensor<8xf32> {
  %s = math.exp %x : tensor<8xf32>
  %y = arith.mulf %s, %w : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// Two results share a value: both of their gradients reach it, in order. An argument that nothing depends on gets
// zeros. What is not a float tensor has no gradient.

// CHECK-LABEL: func.func @shared(
// CHECK-SAME: %[[D0:[a-z0-9]+]]: tensor<8xf32> {fp8.tangent}, %[[D1:[a-z0-9]+]]: tensor<8xf32> {fp8.tangent})
// CHECK-SAME: {fp8.name = "y"}{{.*}}{fp8.name = "y#1"}
// CHECK: backward
// CHECK-DAG: %[[S:.+]] = arith.addf %[[D0]], %[[D1]]
// CHECK-DAG: %[[N:.+]] = arith.negf %[[S]]
// CHECK-DAG: %[[Z:.+]] = arith.constant dense<0.0{{.*}}> : tensor<4xbf16>
// CHECK: fp8.yield %[[N]], %[[Z]] : tensor<8xf32>, tensor<4xbf16>
func.func @shared(%x: tensor<8xf32>, %unused: tensor<4xbf16>, %i: tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xi32>) {
  %y = arith.negf %x : tensor<8xf32> loc("y")
  return %y, %y, %i : tensor<8xf32>, tensor<8xf32>, tensor<8xi32>
}

// -----

// amax and scale stop the gradient, a cast passes it on; a view that backward reads is cloned and its root kept.

// CHECK-LABEL: func.func @straight_through(
// CHECK: %[[T:.+]] = math.tanh
// CHECK: %[[Q:.+]] = fp8.dequantize
// CHECK: fp8.yield %{{.+}} residuals(%[[T]], %[[Q]]) : tensor<4x8xf32> residuals(tensor<8x4xf32>, tensor<4x8xf32>)
// CHECK: backward (%[[R:.+]]: tensor<8x4xf32>, %{{.+}}: tensor<4x8xf32>) {
// CHECK-NOT: fp8.amax
// CHECK: %[[P:.+]] = fp8.permute %[[R]] [1, 0]
// CHECK: arith.mulf %{{.+}}, %[[P]]
// CHECK: %[[A:.+]] = arith.addf
// CHECK-NEXT: fp8.permute %[[A]] [1, 0]
func.func @straight_through(%x: tensor<8x4xf32>) -> tensor<4x8xf32> {
  %t = math.tanh %x : tensor<8x4xf32>
  %p = fp8.permute %t [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  %m = fp8.amax %p group = [0, 0] : tensor<4x8xf32> -> tensor<1x1xf32>
  %s = fp8.scale %m format = f8E4M3FN : tensor<1x1xf32>
  %q = fp8.cast %p, %s : tensor<4x8xf32>, tensor<1x1xf32> -> tensor<4x8xf8E4M3FN, #fp8.tensor<scale = [all, all]>>
  %d = fp8.dequantize %q, %s : tensor<4x8xf8E4M3FN, #fp8.tensor<scale = [all, all]>>, tensor<1x1xf32> -> tensor<4x8xf32>
  %y = arith.mulf %d, %p : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// The declared adjoint of an opaque takes the operands and results it lists, then the gradients of the results.

// CHECK-LABEL: func.func @opaque(
// CHECK: %[[O:.+]]:2 = fp8.opaque "attention"
// CHECK: backward (%[[R:.+]]: tensor<4xf32>) {
// CHECK: %[[G:.+]]:2 = fp8.opaque "attention_backward"(%{{.*}}, %[[R]], %{{.*}}, %{{.*}}) {flops = 8 : i64} : (tensor<4xbf16>, tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xbf16>)
// CHECK: fp8.yield %[[G]]#0, %[[G]]#1
func.func @opaque(%q: tensor<4xbf16>, %k: tensor<4xbf16>, %mask: tensor<4xi8>) -> tensor<4xbf16> {
  %o, %lse = fp8.opaque "attention"(%q, %k, %mask) {adjoint = {name = "attention_backward", operands = [1], results = [1], flops = 8}}
    : (tensor<4xbf16>, tensor<4xbf16>, tensor<4xi8>) -> (tensor<4xbf16>, tensor<4xf32>)
  return %o : tensor<4xbf16>
}

// -----

// Adjoints of the other ops.

// CHECK-LABEL: func.func @matmul_acc(
// CHECK: backward {
// CHECK: %[[BT:.+]] = fp8.permute %{{.+}} [1, 0] : tensor<8x6xbf16> -> tensor<6x8xbf16>
// CHECK: %[[DA:.+]] = fp8.matmul %[[DY:.+]], %[[BT]] : tensor<4x6xbf16>, tensor<6x8xbf16> -> tensor<4x8xbf16>
// CHECK: %[[AT:.+]] = fp8.permute %{{.+}} [1, 0] : tensor<4x8xbf16> -> tensor<8x4xbf16>
// CHECK: %[[DB:.+]] = fp8.matmul %[[AT]], %[[DY]] : tensor<8x4xbf16>, tensor<4x6xbf16> -> tensor<8x6xbf16>
// CHECK: fp8.yield %[[DA]], %[[DB]], %{{.+}} : tensor<4x8xbf16>, tensor<8x6xbf16>, tensor<4x6xf32>
func.func @matmul_acc(%a: tensor<4x8xbf16>, %b: tensor<8x6xbf16>, %c: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %y = fp8.matmul %a, %b acc(%c : tensor<4x6xf32>) : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// CHECK-LABEL: func.func @reduce_max(
// CHECK: backward (%{{.+}}: tensor<4x1xf32>) {
// CHECK: %[[DY:.+]] = fp8.broadcast %{{.+}} : tensor<4x1xf32> -> tensor<4x6xf32>
// CHECK: %[[M:.+]] = fp8.broadcast %{{.+}} : tensor<4x1xf32> -> tensor<4x6xf32>
// CHECK: %[[E:.+]] = arith.cmpf oeq, %{{.+}}, %[[M]]
// CHECK: arith.select %[[E]], %[[DY]], %{{.+}}
func.func @reduce_max(%x: tensor<4x6xf32>) -> tensor<4x1xf32> {
  %y = fp8.reduce max %x [1] : tensor<4x6xf32> -> tensor<4x1xf32>
  return %y : tensor<4x1xf32>
}

// -----

// A permuted gradient is moved into row-major order before it is reshaped.

// CHECK-LABEL: func.func @reshape(
// CHECK: backward {
// CHECK: %[[T:.+]] = fp8.transpose %{{.+}} [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
// CHECK: fp8.reshape %[[T]] : tensor<6x4xf32> -> tensor<24xf32>
func.func @reshape(%x: tensor<24xf32>) -> tensor<4x6xf32> {
  %r = fp8.reshape %x : tensor<24xf32> -> tensor<6x4xf32>
  %y = fp8.permute %r [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// Delayed scaling: end_of_step updates each scale once, though two linears share the input's.

// CHECK-LABEL: func.func @delayed(
// CHECK: func.func @end_of_step(%[[HX:[a-z0-9]+]]: tensor<4xf32> {fp8.state}, %[[SX:[a-z0-9]+]]: tensor<1x1xf32> {fp8.state},
// CHECK-COUNT-5: fp8.update_scale
// CHECK-NOT: fp8.update_scale
// LOC: func.func @end_of_step(%{{.+}}: tensor<4xf32> {fp8.state} loc("hx"{{.*}}), %{{.+}}: tensor<1x1xf32> {fp8.state} loc("arg#3"
func.func @delayed(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>,
    %hx: tensor<4xf32> {fp8.state} loc("hx"), %sx: tensor<1x1xf32> {fp8.state},
    %hw: tensor<4xf32> {fp8.state}, %sw: tensor<1x1xf32> {fp8.state},
    %hd: tensor<4xf32> {fp8.state}, %sd: tensor<1x1xf32> {fp8.state},
    %hw2: tensor<4xf32> {fp8.state}, %sw2: tensor<1x1xf32> {fp8.state},
    %hd2: tensor<4xf32> {fp8.state}, %sd2: tensor<1x1xf32> {fp8.state}) -> (tensor<16x16xbf16>, tensor<16x16xbf16>) {
  %y = fp8.linear %x, %w state(%hx, %sx, %hw, %sw, %hd, %sd : tensor<4xf32>, tensor<1x1xf32>, tensor<4xf32>, tensor<1x1xf32>, tensor<4xf32>, tensor<1x1xf32>) recipe <delayed> : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
  %z = fp8.linear %x, %w state(%hx, %sx, %hw2, %sw2, %hd2, %sd2 : tensor<4xf32>, tensor<1x1xf32>, tensor<4xf32>, tensor<1x1xf32>, tensor<4xf32>, tensor<1x1xf32>) recipe <delayed> : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
  return %y, %z : tensor<16x16xbf16>, tensor<16x16xbf16>
}

// -----

// The gradient of a reciprocal takes its result twice; that of any other
// quotient divides once more.
// CHECK-LABEL: func.func @quotients
// CHECK: %[[Y:.*]] = arith.divf %{{.*}}, %arg0
// CHECK: %[[Q:.*]] = arith.divf %arg0, %{{.*}}
// CHECK: backward (%[[R:.*]]: tensor<4xf32>
// CHECK-COUNT-1: arith.divf
// CHECK-NOT: arith.divf
func.func @quotients(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %y = arith.divf %one, %x : tensor<4xf32>
  %q = arith.divf %x, %z : tensor<4xf32>
  return %y, %q : tensor<4xf32>, tensor<4xf32>
}
