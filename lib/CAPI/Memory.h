//===- Memory.h - calls that may run out of memory --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The compiler is built without exceptions; its users' processes go on where
// it cannot.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_LIB_CAPI_MEMORY_H
#define FP8_LIB_CAPI_MEMORY_H

namespace mlir::fp8 {

/// Calls `body(data)`; false where memory ran out in it. What it had allocated
/// is then lost, since nothing in it is destroyed.
bool runWithinMemory(void (*body)(void *), void *data);

} // namespace mlir::fp8

#endif // FP8_LIB_CAPI_MEMORY_H
