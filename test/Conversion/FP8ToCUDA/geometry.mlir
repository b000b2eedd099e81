// The launch geometry: measured entries, the rules without them, or one that is given, where a launch can have it.

// RUN: fp8-opt %s --fp8-lower-to-cuda="chip=sm_90a geometry=row:4:2:1 report-geometry=true" 2>&1 | FileCheck %s --check-prefix=GIVEN
// RUN: fp8-opt %s --fp8-lower-to-cuda="chip=sm_90a geometry=row:1:5:1 report-geometry=true" 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: fp8-opt %s --fp8-lower-to-cuda="chip=sm_89 report-geometry=true" 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not fp8-opt %s --fp8-lower-to-cuda="chip=sm_90a geometry=row:1" 2>&1 | FileCheck %s --check-prefix=ERROR

// GIVEN: remark: geometry of '{{.*}}': ROW(4096, 2, 1, 2, 4, 2, 1)
// GIVEN: grid = [264, 1, 1], block = [128, 1, 1], shared = 16384>
// Five blocks of 512 threads are more than a multiprocessor takes.
// RULE: remark: geometry of '{{.*}}': ROW(4096, 2, 1, 2, 2, 3, 2)
// RULE: grid = [396, 1, 1], block = [256, 1, 1], shared = 24576>
// SMALL: remark: geometry of '{{.*}}': ROW(4096, 2, 1, 2, 2, 3, 2)
// ERROR: error: expected a geometry 'rules', 'row:VECTORS:BLOCKS:AHEAD' or 'tile:ROWS:BLOCKS', but got 'row:1'
// Measured for 14336 columns, taken for up to twice as many.
// RUN: fp8-opt %s --fp8-lower-to-cuda="chip=sm_90a report-geometry=true" 2>&1 | FileCheck %s --check-prefix=TUNED
// RUN: fp8-opt %s --fp8-lower-to-cuda="chip=sm_90a geometry=rules report-geometry=true" 2>&1 | FileCheck %s --check-prefix=RULES
// TUNED: ROW(16384, 2, 0, 2, 2, 1, 2)
// RULES: ROW(16384, 2, 0, 2, 2, 1, 1)
func.func @tuned(%x: tensor<4096x16384xbf16>) -> tensor<1x16384xf32> {
  %0 = fp8.kernel loop (%a = %x : tensor<4096x16384xbf16>) -> (tensor<1x16384xf32>) {
    %m = fp8.amax %a group = [0, 1] : tensor<4096x16384xbf16> -> tensor<1x16384xf32>
    fp8.yield %m : tensor<1x16384xf32>
  }
  return %0 : tensor<1x16384xf32>
}

func.func @f(%x: tensor<16384x4096xbf16>) -> (tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x4096xf32>) {
  %0:2 = fp8.kernel loop (%a = %x : tensor<16384x4096xbf16>) -> (tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x4096xf32>) {
    %m = fp8.amax %a group = [1, 0] : tensor<16384x4096xbf16> -> tensor<16384x1xf32>
    %s = fp8.scale %m format = f8E4M3FN : tensor<16384x1xf32>
    %q = fp8.cast %a, %s : tensor<16384x4096xbf16>, tensor<16384x1xf32> -> tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    %cm = fp8.amax %a group = [0, 1] : tensor<16384x4096xbf16> -> tensor<1x4096xf32>
    fp8.yield %q, %cm : tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x4096xf32>
  }
  return %0#0, %0#1 : tensor<16384x4096xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x4096xf32>
}
