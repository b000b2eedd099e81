// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A pass that descriptions.py has something to say about.

include "mlir/Pass/PassBase.td"

def Bare : Pass<"fp8-bare"> {
  let summary = "a pass without a description";
}
