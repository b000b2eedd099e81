//===- Backend.h - What executes commands -----------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface between command lists and a device. The runner resolves
// storage; a backend only allocates, launches, multiplies and copies.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_BACKEND_H
#define FP8RT_CORE_BACKEND_H

#include "fp8rt/CpuGemm.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace fp8rt {

/// A device. Functions that can fail return false (or null) and set `error`.
class Backend {
public:
  using Kernel = void *;

  virtual ~Backend() = default;

  /// The name that options and reports use.
  virtual const char *name() const = 0;

  /// The kernel called `symbol`, valid as long as the backend lives.
  virtual Kernel resolve(const std::string &symbol, std::string &error) = 0;

  /// Storage of `bytes` bytes aligned to 256 bytes; dynamic mode only.
  virtual void *allocate(size_t bytes, void *stream) = 0;
  virtual void release(void *pointer, void *stream) = 0;

  virtual bool launch(Kernel kernel, void *const *args, void *stream,
                      std::string &error) = 0;
  virtual bool gemm(const GemmProblem &problem, void *workspace, void *stream,
                    std::string &error) = 0;
  virtual bool copy(void *to, const void *from, size_t bytes, void *stream,
                    std::string &error) = 0;
};

} // namespace fp8rt

#endif // FP8RT_CORE_BACKEND_H
