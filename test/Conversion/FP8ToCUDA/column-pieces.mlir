// Kernels of gathers in pieces of columns, emulated: parts of an argument's columns are measured, cast and transposed; results
// are written beside each other.
//
// RUN: fp8-kernel-test --target=h200 %s | FileCheck %s
// CHECK: @column_piece: equal
// CHECK: @column_cast: equal
// CHECK: @columns_into: equal

func.func @column_piece(%x: tensor<256x512xbf16>) -> (tensor<128x256xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x128xf32>) {
  %m = fp8.kernel loop (%a = %x : tensor<256x512xbf16>) -> (tensor<1x128xf32>) {
    %0 = fp8.slice %a [0, 256] : tensor<256x512xbf16> -> tensor<256x128xbf16>
    %1 = fp8.amax %0 group = [0, 1] : tensor<256x128xbf16> -> tensor<1x128xf32>
    fp8.yield %1 : tensor<1x128xf32>
  }
  %k:2 = fp8.kernel loop (%a = %x : tensor<256x512xbf16>, %b = %m : tensor<1x128xf32>) -> (tensor<128x256xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x128xf32>) {
    %0 = fp8.slice %a [0, 256] : tensor<256x512xbf16> -> tensor<256x128xbf16>
    %2 = fp8.scale %b format = f8E4M3FN {eps = 1.0e-12 : f64, division = #fp8.division<double>} : tensor<1x128xf32>
    %3 = fp8.cast %0, %2 : tensor<256x128xbf16>, tensor<1x128xf32> -> tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    %4 = fp8.transpose %3 [1, 0] : tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> -> tensor<128x256xf8E4M3FN, #fp8.tensor<scale = [1, all]>>
    fp8.yield %4, %2 : tensor<128x256xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x128xf32>
  }
  return %k#0, %k#1 : tensor<128x256xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<1x128xf32>
}
func.func @column_cast(%x: tensor<256x512xbf16>, %s: tensor<1x512xf32>) -> tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [all, 1]>> {
  %k = fp8.kernel loop (%a = %x : tensor<256x512xbf16>, %b = %s : tensor<1x512xf32>) -> (tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>) {
    %0 = fp8.slice %a [0, 128] : tensor<256x512xbf16> -> tensor<256x128xbf16>
    %1 = fp8.slice %b [0, 128] : tensor<1x512xf32> -> tensor<1x128xf32>
    %3 = fp8.cast %0, %1 : tensor<256x128xbf16>, tensor<1x128xf32> -> tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
    fp8.yield %3 : tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
  }
  return %k : tensor<256x128xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>
}
func.func @columns_into(%x: tensor<256x128xbf16>, %d: tensor<256x128xbf16>) -> tensor<256x256xbf16> {
  %k = fp8.kernel loop (%a = %x : tensor<256x128xbf16>) -> (tensor<256x256xbf16>) {
    %0 = math.exp %a : tensor<256x128xbf16>
    %1 = fp8.update_slice %0 [0, 0] : tensor<256x128xbf16> -> tensor<256x256xbf16>
    fp8.yield %1 : tensor<256x256xbf16>
  }
  %l = fp8.kernel loop (%a = %d : tensor<256x128xbf16>, %b = %k : tensor<256x256xbf16>) -> (tensor<256x256xbf16>) {
    %0 = math.exp %a : tensor<256x128xbf16>
    %1 = fp8.update_slice %0 [0, 128] into(%b : tensor<256x256xbf16>) : tensor<256x128xbf16> -> tensor<256x256xbf16>
    fp8.yield %1 : tensor<256x256xbf16>
  }
  return %l : tensor<256x256xbf16>
}
