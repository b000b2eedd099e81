// Tensors of other ranks than two, and views of more than two dimensions, against the interpreter.

// RUN: fp8-kernel-test %s

func.func @scalar(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = fp8.kernel loop (%a = %x : tensor<f32>, %b = %y : tensor<f32>) -> (tensor<f32>) {
    %v = arith.divf %a, %b : tensor<f32>
    fp8.yield %v : tensor<f32>
  }
  return %0 : tensor<f32>
}

func.func @vector(%x: tensor<1000xbf16>) -> (tensor<1000xbf16>, tensor<1xf32>, tensor<8xf32>, tensor<1xf32>) {
  %0:4 = fp8.kernel loop (%a = %x : tensor<1000xbf16>) -> (tensor<1000xbf16>, tensor<1xf32>, tensor<8xf32>, tensor<1xf32>) {
    %v = math.tanh %a : tensor<1000xbf16>
    %m = fp8.amax %v group = [0] : tensor<1000xbf16> -> tensor<1xf32>
    %g = fp8.amax %v group = [128] : tensor<1000xbf16> -> tensor<8xf32>
    %s = fp8.reduce sum %v [0] : tensor<1000xbf16> -> tensor<1xf32>
    fp8.yield %v, %m, %g, %s : tensor<1000xbf16>, tensor<1xf32>, tensor<8xf32>, tensor<1xf32>
  }
  return %0#0, %0#1, %0#2, %0#3 : tensor<1000xbf16>, tensor<1xf32>, tensor<8xf32>, tensor<1xf32>
}

// Sums over the first, the middle, the last and two dimensions.
func.func @cube(%x: tensor<6x35x50xf32>) -> (tensor<1x35x50xf32>, tensor<6x1x50xf32>, tensor<6x35x1xf32>, tensor<6x1x1xf32>, tensor<1x35x1xf32>, tensor<6x35x50xf32>) {
  %0:6 = fp8.kernel loop (%a = %x : tensor<6x35x50xf32>) -> (tensor<1x35x50xf32>, tensor<6x1x50xf32>, tensor<6x35x1xf32>, tensor<6x1x1xf32>, tensor<1x35x1xf32>, tensor<6x35x50xf32>) {
    %v0 = fp8.reduce sum %a [0] : tensor<6x35x50xf32> -> tensor<1x35x50xf32>
    %v1 = fp8.reduce sum %a [1] : tensor<6x35x50xf32> -> tensor<6x1x50xf32>
    %v2 = fp8.reduce sum %a [2] : tensor<6x35x50xf32> -> tensor<6x35x1xf32>
    %v3 = fp8.reduce sum %a [1, 2] : tensor<6x35x50xf32> -> tensor<6x1x1xf32>
    %v4 = fp8.reduce max %a [0, 2] : tensor<6x35x50xf32> -> tensor<1x35x1xf32>
    %b = fp8.broadcast %v2 : tensor<6x35x1xf32> -> tensor<6x35x50xf32>
    %v5 = arith.subf %a, %b : tensor<6x35x50xf32>
    fp8.yield %v0, %v1, %v2, %v3, %v4, %v5 : tensor<1x35x50xf32>, tensor<6x1x50xf32>, tensor<6x35x1xf32>, tensor<6x1x1xf32>, tensor<1x35x1xf32>, tensor<6x35x50xf32>
  }
  return %0#0, %0#1, %0#2, %0#3, %0#4, %0#5 : tensor<1x35x50xf32>, tensor<6x1x50xf32>, tensor<6x35x1xf32>, tensor<6x1x1xf32>, tensor<1x35x1xf32>, tensor<6x35x50xf32>
}

// Heads of an attention: rows split, dimensions exchanged, and back.
func.func @heads(%x: tensor<24x96xbf16>) -> (tensor<4x24x24xbf16>, tensor<24x96xbf16>, tensor<2304xbf16>) {
  %0:3 = fp8.kernel loop (%a = %x : tensor<24x96xbf16>) -> (tensor<4x24x24xbf16>, tensor<24x96xbf16>, tensor<2304xbf16>) {
    %n = arith.negf %a : tensor<24x96xbf16>
    %r = fp8.reshape %n : tensor<24x96xbf16> -> tensor<24x4x24xbf16>
    %t = fp8.transpose %r [1, 0, 2] : tensor<24x4x24xbf16> -> tensor<4x24x24xbf16>
    %b = fp8.transpose %t [1, 0, 2] : tensor<4x24x24xbf16> -> tensor<24x4x24xbf16>
    %back = fp8.reshape %b : tensor<24x4x24xbf16> -> tensor<24x96xbf16>
    %flat = fp8.reshape %back : tensor<24x96xbf16> -> tensor<2304xbf16>
    fp8.yield %t, %back, %flat : tensor<4x24x24xbf16>, tensor<24x96xbf16>, tensor<2304xbf16>
  }
  return %0#0, %0#1, %0#2 : tensor<4x24x24xbf16>, tensor<24x96xbf16>, tensor<2304xbf16>
}

// Bytes of an f8 tensor, and back.
func.func @bytes(%q: tensor<20x40xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) -> tensor<40x20xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> {
  %0 = fp8.kernel loop (%a = %q : tensor<20x40xf8E4M3FN, #fp8.tensor<scale = [1, all]>>) -> (tensor<40x20xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>) {
    %b = fp8.bitcast %a : tensor<20x40xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<20x40xi8>
    %t = fp8.transpose %b [1, 0] : tensor<20x40xi8> -> tensor<40x20xi8>
    %c = fp8.bitcast %t : tensor<40x20xi8> -> tensor<40x20xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    fp8.yield %c : tensor<40x20xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
  }
  return %0 : tensor<40x20xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
}
