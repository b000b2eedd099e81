// The forms a residual may take, with bytes and work as counted by hand beside each.
// RUN: fp8-print-save-forms %s | FileCheck %s --match-full-lines

func.func @f(%x: tensor<256x512xbf16>, %s: tensor<256x1xf32>) {
  // 256 * 512 codes of 1 byte; 256 scales of 4 bytes; x has 262144 bytes.
  // CHECK: fp8.cast as-is: bytes=131072 exact=yes flops=0 moved=0
  // 131072 + 1024; read and written: 2 * 131072.
  // CHECK-NEXT: fp8.cast fp8-transposed+scale: bytes=132096 exact=yes flops=0 moved=262144
  // One product an element; 262144 + 1024 + 131072.
  // CHECK-NEXT: fp8.cast max-only: bytes=1024 exact=yes flops=131072 moved=394240
  %q = fp8.cast %x, %s : tensor<256x512xbf16>, tensor<256x1xf32> -> tensor<256x512xf8E4M3FN, #fp8.tensor<scale = [1, all]>>

  // CHECK-NEXT: fp8.dequantize as-is: bytes=262144 exact=yes flops=0 moved=0
  // 131072 + 1024 kept; 256 divisions and 131072 products; 132096 + 262144 moved.
  // CHECK-NEXT: fp8.dequantize fp8+scale: bytes=132096 exact=yes flops=131328 moved=394240
  // 2 * 131072 more for the transpose.
  // CHECK-NEXT: fp8.dequantize fp8-transposed+scale: bytes=132096 exact=yes flops=131328 moved=656384
  %d = fp8.dequantize %q, %s : tensor<256x512xf8E4M3FN, #fp8.tensor<scale = [1, all]>>, tensor<256x1xf32> -> tensor<256x512xbf16>

  // CHECK-NEXT: fp8.transpose as-is: bytes=131072 exact=yes flops=0 moved=0
  // CHECK-NEXT: fp8.transpose fp8-transposed+scale: bytes=132096 exact=yes flops=0 moved=262144
  %t = fp8.transpose %q [1, 0] : tensor<256x512xf8E4M3FN, #fp8.tensor<scale = [1, all]>> -> tensor<512x256xf8E4M3FN, #fp8.tensor<scale = [all, 1]>>

  // Of bf16 there is one form.
  // CHECK-NEXT: fp8.transpose as-is: bytes=262144 exact=yes flops=0 moved=0
  // CHECK-NOT: {{.}}
  %u = fp8.transpose %x [1, 0] : tensor<256x512xbf16> -> tensor<512x256xbf16>
  return
}
