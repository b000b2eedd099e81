//===- ByteSize.cpp - byte counts as people write them ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parsing of budgets.
//
//===----------------------------------------------------------------------===//

#include "fp8/Support/ByteSize.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;

std::optional<int64_t> mlir::fp8::parseByteSize(StringRef text) {
  text = text.trim();
  StringRef number =
      text.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
  StringRef unit = text.drop_front(number.size()).trim();
  double factor = llvm::StringSwitch<double>(unit)
                      .Cases({"", "B"}, 1)
                      .Case("KiB", 1024.0)
                      .Case("MiB", 1024.0 * 1024)
                      .Case("GiB", 1024.0 * 1024 * 1024)
                      .Case("TiB", 1024.0 * 1024 * 1024 * 1024)
                      .Case("KB", 1e3)
                      .Case("MB", 1e6)
                      .Case("GB", 1e9)
                      .Case("TB", 1e12)
                      .Default(0);
  if (factor == 0 || number.empty())
    return std::nullopt;
  int64_t whole = 0;
  if (!number.getAsInteger(10, whole)) {
    // Exact for integers, as a budget of exactly the smallest feasible peak
    // must be.
    int64_t bytes = 0;
    if (__builtin_mul_overflow(whole, static_cast<int64_t>(factor), &bytes))
      return std::nullopt;
    return bytes;
  }
  double value = 0;
  if (factor == 1 || number.getAsDouble(value) || value * factor >= 9.2e18)
    return std::nullopt;
  return static_cast<int64_t>(std::floor(value * factor));
}

LogicalResult
mlir::fp8::parseByteOption(StringRef name, StringRef text,
                           std::optional<int64_t> &bytes,
                           function_ref<InFlightDiagnostic()> emitError) {
  if (text.empty())
    return success();
  bytes = parseByteSize(text);
  if (bytes)
    return success();
  return emitError() << "expected '" << name
                     << "' to be bytes such as 40GiB or 1000000, but got '"
                     << text << "'";
}
