// RUN: fp8-reduce --version | FileCheck %s --check-prefix=VERSION
// VERSION: LLVM version 22
// RUN: fp8-reduce --help | FileCheck %s --check-prefix=HELP
// HELP: USAGE: fp8-reduce [options] <input file>

// The script calls every program with an fp8.opaque interesting; what has nothing to do with it goes.
// RUN: fp8-reduce %s -reduction-tree='traversal-mode=0 test=%S/Inputs/has-opaque.sh' | FileCheck %s --implicit-check-not=math --implicit-check-not=fp8.amax

// CHECK: func.func @f
// CHECK-NEXT: fp8.opaque "kept"
// CHECK-NEXT: return
func.func @f(%x: tensor<64x32xbf16>) {
  %0 = fp8.amax %x group = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
  %1 = math.exp %0 : tensor<64x1xf32>
  fp8.opaque "kept"(%x) {stateful, recompute = "never"} : (tensor<64x32xbf16>) -> ()
  %2 = math.exp %1 : tensor<64x1xf32>
  return
}
func.func @g(%x: tensor<64x32xbf16>) {
  %0 = math.exp %x : tensor<64x32xbf16>
  return
}
