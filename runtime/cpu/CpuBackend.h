//===- CpuBackend.h - Commands on the host ----------------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs kernels from the artifact's shared object and the blocked matmul.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CPU_CPUBACKEND_H
#define FP8RT_CPU_CPUBACKEND_H

#include "Backend.h"

#include <memory>

namespace fp8rt {

/// Loads the shared object in `library` (the section cpu.so; empty when the
/// artifact has no kernels). Returns null and sets `error` on failure.
std::unique_ptr<Backend> createCpuBackend(std::string_view library,
                                          std::string &error);

} // namespace fp8rt

#endif // FP8RT_CPU_CPUBACKEND_H
