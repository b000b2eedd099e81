//===- Nesting.h - how deep a text nests ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's parser calls itself once a level of brackets and once a sign, so a
// text of many would end the process for want of stack. It is refused before.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_INPUT_NESTING_H
#define FP8_INPUT_NESTING_H

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace mlir::fp8 {

/// Levels of brackets, or minus signs in a row, that a text may have. What
/// people and generators write has fewer than 20.
inline constexpr unsigned kDeepestNesting = 500;

/// Where a text nests too deep; line and column count from 1.
struct DeepNesting {
  unsigned line = 0, column = 0;
  std::string message;
};

/// The first place where `text` nests deeper than `kDeepestNesting`, or
/// nothing.
std::optional<DeepNesting> findDeepNesting(llvm::StringRef text);

} // namespace mlir::fp8

#endif // FP8_INPUT_NESTING_H
