//===- Csv.cpp - buffers and offsets as comma-separated values --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every way in which a table can be wrong is an error with its line number.
//
//===----------------------------------------------------------------------===//

#include "Csv.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <array>

using namespace mlir::fp8;

namespace {

constexpr std::array<llvm::StringLiteral, 4> kColumns = {"id", "lower", "upper",
                                                         "size"};
/// Sizes and their sum stay below this, so that sums rounded up to any sensible
/// alignment do not overflow.
constexpr int64_t kMaxBytes = int64_t(1) << 60;

/// A name as it stands in a message: short, and without control characters.
std::string quote(llvm::StringRef field) {
  std::string result = "'";
  for (char c : field.take_front(40))
    result += llvm::isPrint(c) ? c : '?';
  if (field.size() > 40)
    result += "...";
  return result + "'";
}

class Reader {
public:
  Reader(llvm::StringRef text, llvm::StringRef name) : text(text), name(name) {}

  llvm::Expected<PackTable> read() {
    PackTable table;
    llvm::SmallVector<llvm::StringRef> fields;
    if (!nextLine(fields))
      return error("expected a header with the columns id, lower, upper and "
                   "size, but got an empty file");
    std::array<size_t, 4> columns;
    for (auto [index, column] : llvm::enumerate(kColumns)) {
      auto it = llvm::find(fields, column);
      if (it == fields.end())
        return error("expected a column '" + column + "' in the header");
      columns[index] = it - fields.begin();
    }
    const size_t count = fields.size();
    llvm::StringSet<> seen;
    int64_t total = 0;
    while (nextLine(fields)) {
      if (fields.size() != count)
        return error(llvm::formatv("expected {0} fields, but got {1}", count,
                                   fields.size()));
      llvm::StringRef id = fields[columns[0]];
      if (id.empty())
        return error("expected an id, but got an empty field");
      if (!seen.insert(id).second)
        return error("expected ids to be different, but " + quote(id) +
                     " occurs twice");
      std::array<int64_t, 3> numbers;
      for (int i = 0; i < 3; ++i)
        if (fields[columns[i + 1]].getAsInteger(10, numbers[i]))
          return error("expected a whole number of 64 bits in column '" +
                       kColumns[i + 1] + "', but got " +
                       quote(fields[columns[i + 1]]));
      PackItem item{numbers[0], numbers[1], numbers[2]};
      if (item.lower >= item.upper)
        return error(llvm::formatv("expected lower to be below upper, but got "
                                   "{0} and {1}",
                                   item.lower, item.upper));
      if (item.upper - static_cast<__int128>(item.lower) > kMaxBytes)
        return error("expected a lifetime of at most 2^60");
      if (item.size < 0)
        return error(llvm::formatv("expected a size of at least 0, but got {0}",
                                   item.size));
      if (item.size > kMaxBytes - total)
        return error("expected the sizes to add up to at most 2^60 bytes");
      total += item.size;
      table.ids.push_back(id.str());
      table.items.push_back(item);
    }
    return table;
  }

private:
  /// Splits the next line that is not blank; false at the end.
  bool nextLine(llvm::SmallVector<llvm::StringRef> &fields) {
    while (!text.empty()) {
      llvm::StringRef current;
      std::tie(current, text) = text.split('\n');
      ++line;
      if (current.trim().empty())
        continue;
      fields.clear();
      current.split(fields, ',');
      for (llvm::StringRef &field : fields)
        field = field.trim();
      return true;
    }
    return false;
  }

  llvm::Error error(const llvm::Twine &message) const {
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   name + ":" + llvm::Twine(line) +
                                       ": error: " + message);
  }

  llvm::StringRef text;
  llvm::StringRef name;
  int64_t line = 0;
};

} // namespace

llvm::Expected<PackTable> mlir::fp8::readTable(llvm::StringRef text,
                                               llvm::StringRef name) {
  return Reader(text, name).read();
}

std::string mlir::fp8::writeTable(const PackTable &table,
                                  llvm::ArrayRef<int64_t> offsets) {
  std::string result = "id,lower,upper,size,offset\n";
  for (auto [id, item, offset] :
       llvm::zip_equal(table.ids, table.items, offsets))
    result += llvm::formatv("{0},{1},{2},{3},{4}\n", id, item.lower, item.upper,
                            item.size, offset);
  return result;
}
