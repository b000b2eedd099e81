//===- ManifestCheck.h - Consistency of one function ------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a well-formed manifest must still satisfy before it may run.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CORE_MANIFESTCHECK_H
#define FP8RT_CORE_MANIFESTCHECK_H

#include "Manifest.h"

#include <string>

namespace fp8rt {

/// Checks bounds of buffers and views, types of operands, launch geometries
/// (on a GPU), write permissions, that buffers are used between their alloc and
/// their free, and that collectives name axes of the grid and are waited for.
/// Marks the buffers that results read
/// (`Buffer::isResult`). Sets `error` on failure.
bool checkFunction(Function &function, const Manifest &manifest,
                   std::string &error);

} // namespace fp8rt

#endif // FP8RT_CORE_MANIFESTCHECK_H
