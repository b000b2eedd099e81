//===- fp8-pack.cpp - arena packing alone -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads buffers with lifetimes, packs them into an arena of a given capacity
// and writes their offsets. Exit code 1 with an error where that is impossible
// or was not found.
//
//===----------------------------------------------------------------------===//

#include "Csv.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir::fp8;
namespace cl = llvm::cl;

static int fail(const llvm::Twine &message) {
  llvm::errs() << message << '\n';
  return 1;
}

int main(int argc, char **argv) {
  cl::OptionCategory category("fp8-pack options");
  cl::opt<std::string> input(cl::Positional, cl::Required, cl::desc("IN.csv"),
                             cl::cat(category));
  cl::opt<int64_t> capacity("capacity", cl::Required, cl::value_desc("N"),
                            cl::cat(category), cl::desc("bytes of the arena"));
  cl::opt<std::string> output("o", cl::init("-"), cl::value_desc("OUT.csv"),
                              cl::cat(category),
                              cl::desc("where to write the offsets"));
  cl::opt<int64_t> alignment("alignment", cl::init(1), cl::value_desc("N"),
                             cl::cat(category),
                             cl::desc("offsets are multiples of it"));
  cl::opt<int64_t> nodeLimit("node-limit", cl::init(100'000'000),
                             cl::value_desc("N"), cl::cat(category),
                             cl::desc("nodes the exact search may visit"));
  cl::HideUnrelatedOptions(category);
  // LLVM says what is wrong, but not that it is an error.
  if (!cl::ParseCommandLineOptions(
          argc, argv, "fp8-pack: offsets in one arena\n", &llvm::errs()))
    return fail("error: unexpected command line; --help lists the options");

  if (capacity < 0)
    return fail("error: expected a capacity of at least 0, but got " +
                llvm::Twine(capacity));
  if (alignment < 1 || alignment > (int64_t(1) << 20))
    return fail("error: expected an alignment from 1 to 1048576, but got " +
                llvm::Twine(alignment));
  if (nodeLimit < 0)
    return fail("error: expected a node limit of at least 0, but got " +
                llvm::Twine(nodeLimit));
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(input, /*IsText=*/true);
  if (!buffer)
    return fail("error: cannot read '" + input +
                "': " + buffer.getError().message());
  llvm::Expected<PackTable> table = readTable(
      (*buffer)->getBuffer(), input == "-" ? "<stdin>" : input.getValue());
  if (!table)
    return fail(llvm::toString(table.takeError()));

  PackOptions options;
  options.capacity = capacity;
  options.alignment = alignment;
  options.nodeLimit = nodeLimit;
  PackResult result = pack(table->items, options);
  if (result.lowerBound > capacity)
    return fail("error: infeasible: expected a capacity of at least " +
                llvm::Twine(result.lowerBound) + ", but got " +
                llvm::Twine(capacity));
  if (result.height > capacity)
    return fail("error: unknown: no packing within " + llvm::Twine(capacity) +
                " found in " + llvm::Twine(nodeLimit) +
                " nodes; the lowest one found takes " +
                llvm::Twine(result.height) + ", none is below " +
                llvm::Twine(result.lowerBound));

  std::error_code code;
  llvm::ToolOutputFile file(output, code, llvm::sys::fs::OF_None);
  if (code)
    return fail("error: cannot write '" + output + "': " + code.message());
  file.os() << writeTable(*table, result.offsets);
  file.os().flush();
  if (file.os().has_error()) {
    std::string reason = file.os().error().message();
    file.os().clear_error();
    return fail("error: cannot write '" + output + "': " + reason);
  }
  file.keep();
  return 0;
}
