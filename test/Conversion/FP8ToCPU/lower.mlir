// What the pass makes of kernels: a function in the LLVM dialect for each, equal ones shared.

// RUN: fp8-opt %s -fp8-lower-to-cpu | FileCheck %s

// CHECK-LABEL: func.func @two
func.func @two(%x: tensor<64x48xbf16>, %y: tensor<64x48xbf16>) -> (tensor<64x48xbf16>, tensor<64x48xbf16>, tensor<64x1xf32>) {
  // CHECK: fp8.kernel loop {{.*}}symbol = "k0_addf"
  %0 = fp8.kernel loop (%a = %x : tensor<64x48xbf16>, %b = %y : tensor<64x48xbf16>) -> (tensor<64x48xbf16>) {
    %v = arith.addf %a, %b : tensor<64x48xbf16>
    fp8.yield %v : tensor<64x48xbf16>
  }
  // The same but for its operands and its place.
  // CHECK: fp8.kernel loop {{.*}}offsets = array<i64: 512>, symbol = "k0_addf"
  %1 = fp8.kernel loop (%c = %y : tensor<64x48xbf16>, %d = %0 : tensor<64x48xbf16>) -> (tensor<64x48xbf16>)
      attributes {offsets = array<i64: 512>} {
    %v = arith.addf %c, %d : tensor<64x48xbf16>
    fp8.yield %v : tensor<64x48xbf16>
  }
  // CHECK: fp8.kernel loop {{.*}}symbol = "k1_amax"
  %2 = fp8.kernel loop (%a = %1 : tensor<64x48xbf16>) -> (tensor<64x1xf32>) {
    %v = fp8.amax %a group = [1, 0] : tensor<64x48xbf16> -> tensor<64x1xf32>
    fp8.yield %v : tensor<64x1xf32>
  }
  return %0, %1, %2 : tensor<64x48xbf16>, tensor<64x48xbf16>, tensor<64x1xf32>
}

// Vectors of 16, integer code for bf16, no call and nothing of another dialect.
// CHECK-LABEL: llvm.func @k0_addf(%{{.*}}: !llvm.ptr)
// CHECK-NOT: arith.
// CHECK: llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr -> vector<16xi16>
// CHECK: llvm.fadd %{{.*}}, %{{.*}} : vector<16xf32>
// CHECK-NOT: llvm.call
// CHECK: llvm.store %{{.*}} : vector<16xi16>, !llvm.ptr

// Maxima are taken of integer keys.
// CHECK-LABEL: llvm.func @k1_amax(%{{.*}}: !llvm.ptr)
// CHECK-NOT: scf.
// CHECK: llvm.intr.smax(%{{.*}}) : (vector<16xi32>, vector<16xi32>) -> vector<16xi32>
// CHECK: llvm.intr.vector.reduce.smax
