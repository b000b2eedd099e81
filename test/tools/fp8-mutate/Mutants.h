//===- Mutants.h - damaged programs -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes programs that are wrong in one place, from programs that are right.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TEST_TOOLS_FP8_MUTATE_MUTANTS_H
#define FP8_TEST_TOOLS_FP8_MUTATE_MUTANTS_H

#include "mlir/IR/BuiltinOps.h"

#include <random>
#include <string>

namespace fp8mutate {

/// A program to damage. `text` is as it was read; `module` is its parsed form,
/// null where it is to be damaged as text only.
struct Seed {
  std::string name;
  std::string text;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// A damaged program as text or bytecode, and how it was damaged.
struct Mutant {
  std::string bytes;
  std::string kind;
};

/// Damages `seed`. The same state of `random` gives the same mutant.
Mutant makeMutant(const Seed &seed, std::mt19937_64 &random);

} // namespace fp8mutate

#endif // FP8_TEST_TOOLS_FP8_MUTATE_MUTANTS_H
