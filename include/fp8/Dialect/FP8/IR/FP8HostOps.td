//===- FP8HostOps.td - copies to host memory and back ---*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What waits in host memory between forward and backward. Only planned IR has
// these ops (fp8-offload writes them).
//
//===----------------------------------------------------------------------===//

#ifndef FP8_DIALECT_FP8_IR_FP8HOSTOPS_TD
#define FP8_DIALECT_FP8_IR_FP8HOSTOPS_TD

include "fp8/Dialect/FP8/IR/FP8OpBase.td"

class FP8_HostOp<string mnemonic>
    : FP8_Op<mnemonic, [MemoryEffects<[MemRead<FP8_HostResource>, MemWrite<FP8_HostResource>]>]> {
  let hasVerifier = 1;
}

def FP8_OffloadStartOp : FP8_HostOp<"offload_start"> {
  let summary = "starts to copy a tensor to host memory";
  let description = [{
    Returns at once. The operand is in use from here to the `fp8.wait`, and the result may be read only through it. The
    copy runs beside kernels on a stream of its own, copies to the host one after another. Never pure: an op that looks
    the same is another copy.

    * (C1) the result is the host's of the operand's type;
    * (C2) the token has exactly one use: an `fp8.wait` together with the result, or the `fp8.yield` of its kernel.

    Example:
    ```mlir
    %h, %t = fp8.offload_start %x : tensor<64x32xbf16> -> !fp8.host<tensor<64x32xbf16>>, !fp8.token
    ```
  }];
  let arguments = (ins FP8_StoredTensor:$x);
  let results = (outs FP8_HostType:$result, FP8_TokenType:$token);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result) `,` type($token)";
}

def FP8_PrefetchStartOp : FP8_HostOp<"prefetch_start"> {
  let summary = "starts to copy a tensor back from host memory";
  let description = [{
    Returns at once. The result has its storage from here on and may be read only through the `fp8.wait`. Copies from the
    host run one after another, beside kernels and beside copies to the host.

    * (C1) the operand is the host's of the result's type;
    * (C2) the token has exactly one use: an `fp8.wait` together with the result, or the `fp8.yield` of its kernel.

    Example:
    ```mlir
    %y, %t = fp8.prefetch_start %h : !fp8.host<tensor<64x32xbf16>> -> tensor<64x32xbf16>, !fp8.token
    ```
  }];
  let arguments = (ins FP8_HostType:$x);
  let results = (outs FP8_StoredTensor:$result, FP8_TokenType:$token);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result) `,` type($token)";
}

#endif // FP8_DIALECT_FP8_IR_FP8HOSTOPS_TD
