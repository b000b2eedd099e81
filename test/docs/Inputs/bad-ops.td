// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that descriptions.py has something to say about.

include "fp8/Dialect/FP8/IR/FP8OpBase.td"

def Amax : FP8_Op<"amax"> {
  let summary = "an example with a word that is wrong";
  let description = [{
    Text.

    * (C1) one;
    * (C2) two.

    Example:
    ```mlir
    %m = fp8.amax %x groups = [1, 0] : tensor<64x32xbf16> -> tensor<64x1xf32>
    ```
  }];
}

def Bare : FP8_Op<"bare">;

def Untested : FP8_Op<"untested"> {
  let summary = "constraints that no test is labelled with";
  let description = [{
    Text.

    * (C1) one;
    * (C3) another.
  }];
}
