//===- Csv.h - buffers and offsets as comma-separated values ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The format of the minimalloc benchmark: a header that holds the columns `id`,
// `lower`, `upper` and `size` in any order, then one line a buffer.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TOOLS_FP8_PACK_CSV_H
#define FP8_TOOLS_FP8_PACK_CSV_H

#include "fp8/Analysis/Packing.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace mlir::fp8 {

struct PackTable {
  std::vector<std::string> ids;
  std::vector<PackItem> items;
};

/// Reads a table. `name` is the name of the file for messages. An error holds
/// `name:line: what was expected and what was found`.
llvm::Expected<PackTable> readTable(llvm::StringRef text, llvm::StringRef name);

/// The table with a column `offset` added.
std::string writeTable(const PackTable &table, llvm::ArrayRef<int64_t> offsets);

} // namespace mlir::fp8

#endif // FP8_TOOLS_FP8_PACK_CSV_H
