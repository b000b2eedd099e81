//===- CHeader.c - fp8rt.h is C -------------------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiled as C99; uses one declaration of each kind.
//
//===----------------------------------------------------------------------===//

#include "fp8rt.h"

int fp8rt_c_header(const fp8rt_program *program) {
  fp8rt_function_info info;
  fp8rt_runner_options options = {
      sizeof(options), FP8RT_PLANNED, 0, 0, 0, 0, 0};
  return fp8rt_get_function(program, 0, &info) + (int)options.memory;
}
