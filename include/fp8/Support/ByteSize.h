//===- ByteSize.h - byte counts as people write them ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `40GiB`, `1.5 GB`, `1048576`.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_SUPPORT_BYTESIZE_H
#define FP8_SUPPORT_BYTESIZE_H

#include "mlir/IR/Diagnostics.h"

#include <optional>

namespace mlir::fp8 {

/// The bytes of `text`: a number, with a fraction only before a unit, and
/// optionally B, KiB, MiB, GiB, TiB (powers of 1024) or KB, MB, GB, TB (powers
/// of 1000). Nothing for anything else, for a negative number and for what does
/// not fit in 63 bits.
std::optional<int64_t> parseByteSize(StringRef text);

/// Reads the text of option `name` of a pass into `bytes`, which an empty text
/// leaves alone. Fails with an error where it is none of the above.
LogicalResult parseByteOption(StringRef name, StringRef text,
                              std::optional<int64_t> &bytes,
                              function_ref<InFlightDiagnostic()> emitError);

} // namespace mlir::fp8

#endif // FP8_SUPPORT_BYTESIZE_H
