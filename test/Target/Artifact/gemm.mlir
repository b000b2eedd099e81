// Matmuls as commands: strides through views, scales of each kind, accumulators; against the interpreter.

// RUN: fp8-kernel-test %s

// A linear: the weight is stored [out, in]. Its scale is permuted along.
func.func @rowwise(%x: tensor<33x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %sx: tensor<33x1xf32>,
                   %w: tensor<20x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %sw: tensor<20x1xf32>) -> tensor<33x20xbf16> {
  %0 = fp8.kernel matmul (%a = %x : tensor<33x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %sa = %sx : tensor<33x1xf32>,
                          %b = %w : tensor<20x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, %sb = %sw : tensor<20x1xf32>)
      -> (tensor<33x20xbf16>) {
    %t = fp8.permute %b [1, 0] : tensor<20x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<48x20xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    %st = fp8.permute %sb [1, 0] : tensor<20x1xf32> -> tensor<1x20xf32>
    %y = fp8.matmul %a, %t scales(%sa, %st : tensor<33x1xf32>, tensor<1x20xf32>)
      : tensor<33x48xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<48x20xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<33x20xbf16>
    fp8.yield %y : tensor<33x20xbf16>
  }
  return %0 : tensor<33x20xbf16>
}

// Ragged blocks.
func.func @blocks(%x: tensor<30x300xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>, %sx: tensor<30x3xf32>,
                  %w: tensor<200x300xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>, %sw: tensor<2x3xf32>,
                  %c: tensor<30x200xf32>) -> tensor<30x200xf32> {
  %0 = fp8.kernel matmul (%a = %x : tensor<30x300xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>, %sa = %sx : tensor<30x3xf32>,
                          %b = %w : tensor<200x300xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>, %sb = %sw : tensor<2x3xf32>,
                          %acc = %c : tensor<30x200xf32>) -> (tensor<30x200xf32>) {
    %t = fp8.permute %b [1, 0] : tensor<200x300xf8E4M3FN, #fp8.tensor<scale = [128, 128]>> -> tensor<300x200xf8E4M3FN, #fp8.tensor<scale = [128, 128]>>
    %st = fp8.permute %sb [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
    %y = fp8.matmul %a, %t scales(%sa, %st : tensor<30x3xf32>, tensor<3x2xf32>) acc(%acc : tensor<30x200xf32>)
      : tensor<30x300xf8E4M3FN, #fp8.tensor<scale = [1, 128]>>, tensor<300x200xf8E4M3FN, #fp8.tensor<scale = [128, 128]>> -> tensor<30x200xf32>
    fp8.yield %y : tensor<30x200xf32>
  }
  return %0 : tensor<30x200xf32>
}

// A slice of the operand, of a value that another kernel made; the result of the function is a view with an offset.
func.func @views(%x: tensor<40x64xbf16>, %w: tensor<64x24xbf16>) -> tensor<12x40xf32> {
  %n = fp8.kernel loop (%a = %x : tensor<40x64xbf16>) -> (tensor<40x64xbf16>) {
    %0 = arith.negf %a : tensor<40x64xbf16>
    fp8.yield %0 : tensor<40x64xbf16>
  }
  %y = fp8.kernel matmul (%a = %n : tensor<40x64xbf16>, %b = %w : tensor<64x24xbf16>) -> (tensor<40x24xf32>) {
    %s = fp8.slice %a [0, 5] : tensor<40x64xbf16> -> tensor<40x50xbf16>
    %u = fp8.slice %b [3, 0] : tensor<64x24xbf16> -> tensor<50x24xbf16>
    %0 = fp8.matmul %s, %u : tensor<40x50xbf16>, tensor<50x24xbf16> -> tensor<40x24xf32>
    fp8.yield %0 : tensor<40x24xf32>
  }
  %p = fp8.permute %y [1, 0] : tensor<40x24xf32> -> tensor<24x40xf32>
  %q = fp8.slice %p [7, 0] : tensor<24x40xf32> -> tensor<12x40xf32>
  return %q : tensor<12x40xf32>
}
