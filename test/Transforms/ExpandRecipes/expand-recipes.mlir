// RUN: fp8-opt %s -split-input-file -fp8-build-backward -fp8-expand-recipes | FileCheck %s
// RUN: fp8-opt %s -split-input-file -fp8-build-backward -fp8-expand-recipes -fp8-expand-recipes | FileCheck %s
// RUN: fp8-opt %s -split-input-file -fp8-build-backward -fp8-expand-recipes -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=LOC

// Rowwise: six casts, each along the dimension its product sums over; torchao's rule; fast accumulation throughout.
// The maxima of x and w are taken in the forward region, those of backward's casts too.

// CHECK-LABEL: func.func @rowwise(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<64x32xbf16>, %[[W:[a-z0-9]+]]: tensor<48x32xbf16> {fp8.parameter}, %[[DY:[a-z0-9]+]]: tensor<64x48xbf16>
// CHECK: forward {
// CHECK-NEXT: %[[UA:.+]] = fp8.amax %[[X]] group = [0, 1] : tensor<64x32xbf16> -> tensor<1x32xf32>
// CHECK-NEXT: %[[US:.+]] = fp8.scale %[[UA]]
// CHECK-NEXT: %[[XA:.+]] = fp8.amax %[[X]] group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
// CHECK-NEXT: %[[XS:.+]] = fp8.scale %[[XA]] format = f8E4M3FN {division = #fp8.division<double>, eps = {{9.99.*E-13|1.0.*E-12}} : f64}
// CHECK-NEXT: %[[XQ:.+]] = fp8.cast %[[X]], %[[XS]] : {{.*}} -> tensor<64x32xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
// CHECK-NEXT: %[[VA:.+]] = fp8.amax %[[W]] group = [0, 1] : tensor<48x32xbf16> -> tensor<1x32xf32>
// CHECK-NEXT: %[[VS:.+]] = fp8.scale %[[VA]]
// CHECK-NEXT: %[[WA:.+]] = fp8.amax %[[W]] group = [1, 0]
// CHECK-NEXT: %[[WS:.+]] = fp8.scale %[[WA]]
// CHECK-NEXT: %[[WQ:.+]] = fp8.cast %[[W]], %[[WS]]
// CHECK-NEXT: %[[WQT:.+]] = fp8.permute %[[WQ]] [1, 0] : {{.*}} -> tensor<32x48xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
// CHECK-NEXT: %[[WST:.+]] = fp8.permute %[[WS]] [1, 0] : tensor<48x1xf32> -> tensor<1x48xf32>
// CHECK-NEXT: %[[Y:.+]] = fp8.matmul %[[XQ]], %[[WQT]] scales(%[[XS]], %[[WST]] : {{.*}}) {fast_accum = true}
// CHECK-NEXT: fp8.yield %[[Y]] residuals(%[[US]], %[[VS]]) :
// CHECK-NEXT: } backward (%[[RUS:.+]]: tensor<1x32xf32>, %[[RVS:.+]]: tensor<1x32xf32>) {
// CHECK-NEXT: %[[DA:.+]] = fp8.amax %[[DY]] group = [1, 0]
// CHECK-NEXT: %[[DS:.+]] = fp8.scale %[[DA]] format = f8E4M3FN
// CHECK-NEXT: %[[DQ:.+]] = fp8.cast %[[DY]], %[[DS]]
// CHECK-NEXT: %[[VQ:.+]] = fp8.cast %[[W]], %[[RVS]] : {{.*}} -> tensor<48x32xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
// CHECK-NEXT: %[[DX:.+]] = fp8.matmul %[[DQ]], %[[VQ]] scales(%[[DS]], %[[RVS]] : {{.*}}) {fast_accum = true}
// CHECK-NEXT: %[[EA:.+]] = fp8.amax %[[DY]] group = [0, 1]
// CHECK-NEXT: %[[ES:.+]] = fp8.scale %[[EA]]
// CHECK-NEXT: %[[EQ:.+]] = fp8.cast %[[DY]], %[[ES]]
// CHECK-NEXT: %[[UQ:.+]] = fp8.cast %[[X]], %[[RUS]]
// CHECK-NEXT: %[[EQT:.+]] = fp8.permute %[[EQ]] [1, 0] : {{.*}} -> tensor<48x64xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
// CHECK-NEXT: %[[EST:.+]] = fp8.permute %[[ES]] [1, 0]
// CHECK-NEXT: %[[DW:.+]] = fp8.matmul %[[EQT]], %[[UQ]] scales(%[[EST]], %[[RUS]] : {{.*}}) {fast_accum = true}
// CHECK-NEXT: fp8.yield %[[DX]], %[[DW]]
// LOC: fp8.cast {{.*}} loc("x.row.e4m3"
// LOC: fp8.cast {{.*}} loc("w.row.e4m3"
// LOC: fp8.cast {{.*}} loc("d_y.row.e4m3"
// LOC: fp8.cast {{.*}} loc("w.col.e4m3"
// LOC: fp8.matmul {{.*}} loc("d_x"
func.func @rowwise(%x: tensor<64x32xbf16> loc("x"), %w: tensor<48x32xbf16> {fp8.parameter} loc("w")) -> tensor<64x48xbf16> {
  %y = fp8.linear %x, %w recipe <rowwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16> loc("y")
  return %y : tensor<64x48xbf16>
}

// -----

// Tensorwise: three casts in all; backward reads those of forward through views, as residuals.

// CHECK-LABEL: func.func @tensorwise(
// CHECK: forward {
// CHECK: %[[XS:.+]] = fp8.scale %{{.+}} format = f8E4M3FN : tensor<1x1xf32>
// CHECK-NEXT: %[[XQ:.+]] = fp8.cast %{{.+}}, %[[XS]]
// CHECK: %[[WS:.+]] = fp8.scale
// CHECK-NEXT: %[[WQ:.+]] = fp8.cast %{{.+}}, %[[WS]]
// CHECK: fp8.matmul {{.*}} {fast_accum = true}
// CHECK: fp8.yield %{{.+}} residuals(%[[XS]], %[[XQ]], %[[WS]], %[[WQ]])
// CHECK: backward (%[[RXS:.+]]: tensor<1x1xf32>, %[[RXQ:.+]]: tensor<{{.*}}>, %[[RWS:.+]]: tensor<1x1xf32>, %[[RWQ:.+]]: tensor<{{.*}}>) {
// CHECK: %[[DS:.+]] = fp8.scale %{{.+}} format = f8E5M2 : tensor<1x1xf32>
// CHECK-NEXT: %[[DQ:.+]] = fp8.cast %{{.+}}, %[[DS]]
// CHECK-NEXT: %[[DX:.+]] = fp8.matmul %[[DQ]], %[[RWQ]] scales(%[[DS]], %[[RWS]] : tensor<1x1xf32>, tensor<1x1xf32>) :
// CHECK-NEXT: %[[DQT:.+]] = fp8.permute %[[DQ]] [1, 0]
// CHECK-NEXT: %[[DW:.+]] = fp8.matmul %[[DQT]], %[[RXQ]] scales(%[[DS]], %[[RXS]] : tensor<1x1xf32>, tensor<1x1xf32>) :
// CHECK-NEXT: fp8.yield %[[DX]], %[[DW]]
func.func @tensorwise(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>) -> tensor<64x48xbf16> {
  %y = fp8.linear %x, %w recipe <tensorwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  return %y : tensor<64x48xbf16>
}

// -----

// 1x128 by 128x128: the weight is cast once and for both products, x and dy once a direction; no fast accumulation.

// CHECK-LABEL: func.func @block(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<256x128xbf16>, %[[W:[a-z0-9]+]]: tensor<384x128xbf16>, %[[DY:[a-z0-9]+]]: tensor<256x384xbf16>
// CHECK: fp8.amax %[[X]] group = [128, 1] : tensor<256x128xbf16> -> tensor<2x128xf32>
// CHECK-NEXT: %[[US:.+]] = fp8.scale
// CHECK: fp8.amax %[[X]] group = [1, 128] : tensor<256x128xbf16> -> tensor<256x1xf32>
// CHECK-NEXT: fp8.scale %{{.+}} format = f8E4M3FN {pow2 = #fp8.pow2<floor>} : tensor<256x1xf32>
// CHECK-NEXT: fp8.cast {{.*}} -> tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [1, 128], pow2>>
// CHECK: fp8.amax %[[W]] group = [128, 128] : tensor<384x128xbf16> -> tensor<3x1xf32>
// CHECK: %[[WQ:.+]] = fp8.cast %[[W]], %[[WS:.+]] :
// CHECK: fp8.permute %[[WS]] [1, 0] : tensor<3x1xf32> -> tensor<1x3xf32>
// CHECK: fp8.matmul
// CHECK-NOT: fast_accum
// CHECK: residuals(%[[US]], %[[WS]], %[[WQ]])
// CHECK: backward
// CHECK: fp8.amax %[[DY]] group = [1, 128] : tensor<256x384xbf16> -> tensor<256x3xf32>
// CHECK-NOT: fp8.amax %[[W]]
// CHECK: fp8.matmul
// CHECK: fp8.amax %[[DY]] group = [128, 1] : tensor<256x384xbf16> -> tensor<2x384xf32>
// CHECK-NOT: fp8.amax
// CHECK: fp8.permute %{{.+}} [1, 0] : {{.*}} -> tensor<384x256xf8E4M3FN, #fp8.tensor<scale = [1, 128], pow2>>
// CHECK: fp8.permute %{{.+}} [1, 0] : tensor<2x384xf32> -> tensor<384x2xf32>
// CHECK: fp8.matmul
func.func @block(%x: tensor<256x128xbf16>, %w: tensor<384x128xbf16>) -> tensor<256x384xbf16> {
  %y = fp8.linear %x, %w recipe <block128> : tensor<256x128xbf16>, tensor<384x128xbf16> -> tensor<256x384xbf16>
  return %y : tensor<256x384xbf16>
}

// -----

// Two linears read one value (case F12): it is cast once a direction, with another power-of-two rule once more.

// CHECK-LABEL: func.func @shared(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<64x32xbf16>
// CHECK: forward {
// CHECK: fp8.amax %[[X]] group = [0, 1]
// CHECK: fp8.amax %[[X]] group = [1, 0]
// CHECK: fp8.cast %[[X]]
// CHECK-NOT: fp8.amax %[[X]]
// CHECK: fp8.cast %[[X]]{{.*}}pow2>>
// CHECK: backward (
// CHECK: fp8.cast %[[X]]
// CHECK: fp8.cast %[[X]]
// CHECK-NOT: fp8.cast %[[X]]
// CHECK: return
func.func @shared(%x: tensor<64x32xbf16>, %w: tensor<48x32xbf16>, %v: tensor<16x32xbf16>, %u: tensor<16x32xbf16>) -> (tensor<64x48xbf16>, tensor<64x16xbf16>, tensor<64x16xbf16>) {
  %y = fp8.linear %x, %w recipe <rowwise> : tensor<64x32xbf16>, tensor<48x32xbf16> -> tensor<64x48xbf16>
  %z = fp8.linear %x, %v recipe <rowwise> : tensor<64x32xbf16>, tensor<16x32xbf16> -> tensor<64x16xbf16>
  %t = fp8.linear %x, %u recipe <rowwise, pow2 = floor> : tensor<64x32xbf16>, tensor<16x32xbf16> -> tensor<64x16xbf16>
  return %y, %z, %t : tensor<64x48xbf16>, tensor<64x16xbf16>, tensor<64x16xbf16>
}

// -----

// Delayed: the scale is the state, the amax is pushed once a role, that of dy in backward.

// CHECK-LABEL: func.func @delayed(
// CHECK-SAME: %[[HX:[a-z0-9]+]]: tensor<4xf32> {fp8.state}, %[[SX:[a-z0-9]+]]: tensor<1x1xf32> {fp8.state}, %[[HW:[a-z0-9]+]]: tensor<4xf32> {fp8.state}, %[[SW:[a-z0-9]+]]: tensor<1x1xf32> {fp8.state}, %[[HD:[a-z0-9]+]]: tensor<4xf32> {fp8.state}, %[[SD:[a-z0-9]+]]: tensor<1x1xf32> {fp8.state}
// CHECK: forward {
// CHECK-NEXT: %[[AX:.+]] = fp8.amax
// CHECK-NEXT: fp8.push_amax %[[AX]], %[[HX]]
// CHECK-NEXT: fp8.cast %{{.+}}, %[[SX]]
// CHECK-NEXT: %[[AW:.+]] = fp8.amax
// CHECK-NEXT: fp8.push_amax %[[AW]], %[[HW]]
// CHECK-NEXT: fp8.cast %{{.+}}, %[[SW]]
// CHECK-NOT: fp8.push_amax
// CHECK: backward
// CHECK: %[[AD:.+]] = fp8.amax
// CHECK-NEXT: fp8.push_amax %[[AD]], %[[HD]]
// CHECK-NEXT: fp8.cast %{{.+}}, %[[SD]] : {{.*}}f8E5M2
// CHECK-NOT: fp8.push_amax
// CHECK: func.func @end_of_step
func.func @delayed(%x: tensor<16x16xbf16>, %w: tensor<16x16xbf16>,
    %hx: tensor<4xf32> {fp8.state}, %sx: tensor<1x1xf32> {fp8.state}, %hw: tensor<4xf32> {fp8.state},
    %sw: tensor<1x1xf32> {fp8.state}, %hd: tensor<4xf32> {fp8.state}, %sd: tensor<1x1xf32> {fp8.state}) -> tensor<16x16xbf16> {
  %y = fp8.linear %x, %w state(%hx, %sx, %hw, %sw, %hd, %sd : tensor<4xf32>, tensor<1x1xf32>, tensor<4xf32>, tensor<1x1xf32>, tensor<4xf32>, tensor<1x1xf32>) recipe <delayed> : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
  return %y : tensor<16x16xbf16>
}
