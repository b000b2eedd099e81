//===- Compiler.h - Runs the compiler beside this tool ----------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fp8-run links no compiler; it starts the fp8-opt in its own directory.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RUN_COMPILER_H
#define FP8RUN_COMPILER_H

#include "Options.h"

namespace fp8run {

/// Compiles `options.input` and sets `artifact` to the bytes of the artifact.
/// On failure returns false; `error` is empty when the compiler has said why.
bool compileArtifact(const Options &options, std::string &artifact,
                     std::string &error);

/// The path of a reference for `options`, made by the compiler unless the cache
/// ($XDG_CACHE_HOME/fp8-opt, else ~/.cache/fp8-opt) has it. Failure as above.
bool cachedReference(const Options &options, std::string &path,
                     std::string &error);

} // namespace fp8run

#endif // FP8RUN_COMPILER_H
