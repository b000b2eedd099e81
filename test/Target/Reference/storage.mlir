// RUN: split-file %s %t
// RUN: %python -c "open('%t/x.bin', 'wb').write(bytes(range(32)))"
// RUN: fp8-interpret %t/planned.mlir --inputs=%t/x.bin --output-folder=%t
// RUN: cmp %t/result0.bin %t/x.bin
// RUN: cmp %t/result1.bin %t/x.bin
// RUN: not fp8-interpret %t/freed.mlir --inputs=%t/x.bin --output-folder=%t 2>&1 | FileCheck %s --check-prefix=FREED
// RUN: not fp8-interpret %t/view.mlir --inputs=%t/x.bin --output-folder=%t 2>&1 | FileCheck %s --check-prefix=VIEW
// RUN: not fp8-interpret %t/twice.mlir --inputs=%t/x.bin --output-folder=%t 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not fp8-interpret %t/linear.mlir --inputs=%t/x.bin,%t/x.bin --output-folder=%t 2>&1 | FileCheck %s --check-prefix=LINEAR
// RUN: not fp8-interpret %t/opaque.mlir --inputs=%t/x.bin --output-folder=%t 2>&1 | FileCheck %s --check-prefix=OPAQUE

// Planned IR runs: kernels, residuals, barriers and frees. What a kernel gives is a buffer of its own, so the free of
// its operand's storage does not touch it.

//--- planned.mlir
func.func @planned(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0, %1 = fp8.step -> (tensor<8xf32>, tensor<8xf32>) forward {
    %a = fp8.kernel loop (%i = %x : tensor<8xf32>) -> (tensor<8xf32>) {
      %n = arith.negf %i : tensor<8xf32>
      fp8.yield %n : tensor<8xf32>
    }
    %b = fp8.kernel loop (%i = %a : tensor<8xf32>) -> (tensor<8xf32>) {
      %n = arith.negf %i : tensor<8xf32>
      fp8.yield %n : tensor<8xf32>
    }
    fp8.yield %b residuals(%a) : tensor<8xf32> residuals(tensor<8xf32>)
  } backward (%r: tensor<8xf32>) {
    %c = fp8.remat_barrier %r after(%x : tensor<8xf32>) id = 0 : tensor<8xf32>
    %d = fp8.kernel loop (%i = %c : tensor<8xf32>) -> (tensor<8xf32>) {
      %n = arith.negf %i : tensor<8xf32>
      fp8.yield %n : tensor<8xf32>
    }
    fp8.free %r : tensor<8xf32>
    fp8.yield %d : tensor<8xf32>
  }
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// FREED: freed.mlir:10:{{.*}}error: reads operand #0 after its storage was freed
// FREED: freed.mlir:9:{{.*}}note: freed here
//--- freed.mlir
func.func @freed(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = fp8.step -> (tensor<8xf32>) forward {
    %a = fp8.kernel loop (%i = %x : tensor<8xf32>) -> (tensor<8xf32>) {
      %n = arith.negf %i : tensor<8xf32>
      fp8.yield %n : tensor<8xf32>
    }
    fp8.yield residuals(%a) residuals(tensor<8xf32>)
  } backward (%r: tensor<8xf32>) {
    fp8.free %r : tensor<8xf32>
    %d = fp8.kernel loop (%i = %r : tensor<8xf32>) -> (tensor<8xf32>) {
      %n = arith.negf %i : tensor<8xf32>
      fp8.yield %n : tensor<8xf32>
    }
    fp8.yield %d : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// A view names the storage of its root.
// VIEW: view.mlir:8:{{.*}}error: reads operand #0 after its storage was freed
//--- view.mlir
func.func @view(%x: tensor<8xf32>) -> tensor<2x4xf32> {
  %a = fp8.kernel loop (%i = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %n = arith.negf %i : tensor<8xf32>
    fp8.yield %n : tensor<8xf32>
  }
  %v = fp8.reshape %a : tensor<8xf32> -> tensor<2x4xf32>
  fp8.free %a : tensor<8xf32>
  return %v : tensor<2x4xf32>
}

// TWICE: twice.mlir:7:{{.*}}error: reads operand #0 after its storage was freed
//--- twice.mlir
func.func @twice(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = fp8.kernel loop (%i = %x : tensor<8xf32>) -> (tensor<8xf32>) {
    %n = arith.negf %i : tensor<8xf32>
    fp8.yield %n : tensor<8xf32>
  }
  fp8.free %a : tensor<8xf32>
  fp8.free %a : tensor<8xf32>
  return %x : tensor<8xf32>
}

// LINEAR: error: expected 'fp8.linear' to be expanded before it is interpreted; run fp8-expand-recipes
//--- linear.mlir
func.func @linear(%x: tensor<4x4xbf16>, %w: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  %y = fp8.linear %x, %w recipe <rowwise> : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xbf16>
  return %y : tensor<4x4xbf16>
}

// OPAQUE: error: expected an op with known arithmetic to interpret, but got 'fp8.opaque'
//--- opaque.mlir
func.func @opaque(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = fp8.opaque "mystery"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
