//===- PtxEmulator.h - runs PTX on the host ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executes the instructions that our kernels use, thread by thread, so that
// generated code can be compared with the interpreter where there is no GPU. A
// thread runs until it has to meet others: at a barrier all of its block, at a
// shuffle all of its warp. Accesses outside of the buffers given, and accesses
// of two threads to shared memory that no barrier orders, are errors. Values
// of NaNs follow the PTX manual: 0x7FFFFFFF in f32, 0x7FFF in bf16, 0x7F in f8.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TEST_TOOLS_FP8_KERNEL_TEST_PTXEMULATOR_H
#define FP8_TEST_TOOLS_FP8_KERNEL_TEST_PTXEMULATOR_H

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace fp8test {

struct Instruction;

/// The kernels of one PTX module.
class PtxModule {
public:
  PtxModule();
  ~PtxModule();

  /// Reads PTX text. On failure returns false and sets `error`.
  bool parse(const std::string &text, std::string &error);

  /// A buffer that kernels may access.
  struct Buffer {
    uint8_t *data;
    size_t bytes;
  };

  /// Runs `grid` blocks of `block` threads of `kernel`, with so many bytes of
  /// dynamic shared memory; its parameters are the addresses of `arguments`.
  bool launch(const std::string &kernel, int64_t grid, int64_t block,
              int64_t dynamicShared, const std::vector<Buffer> &arguments,
              std::string &error);

  struct Function;

private:
  std::map<std::string, std::unique_ptr<Function>> functions;
  std::set<std::string> dynamicNames; ///< of dynamic shared memory
};

} // namespace fp8test

#endif // FP8_TEST_TOOLS_FP8_KERNEL_TEST_PTXEMULATOR_H
