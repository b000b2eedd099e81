//===- Reference.h - the reference interpreter ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs func/fp8/arith/math IR of any phase after fp8-expand-recipes on the
// host, with the numerics of docs/architecture.md and docs/numerics.md to the
// bit, and shares no numeric code with what is compiled.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TARGET_REFERENCE_H
#define FP8_TARGET_REFERENCE_H

#include "fp8/Dialect/FP8/IR/FP8.h"
#include <vector>

namespace mlir::fp8 {

/// A tensor on the host: its elements in row-major order, little endian, whole
/// bytes an element (i1 takes one).
struct HostTensor {
  RankedTensorType type;
  std::vector<uint8_t> bytes;

  /// A tensor of zeros.
  static HostTensor zeros(RankedTensorType type);

  /// The elements of a tensor of bf16, f32 or FP8; nothing of another.
  std::vector<double> toDoubles() const;
};

/// The bytes that HostTensor holds for a type, or nothing for a type that the
/// interpreter does not know (its elements are no bf16, f32, FP8 or integer
/// type of at most 64 bits, or it is too large to address).
std::optional<size_t> getHostBytes(Type type);

/// Fails with an error where the values of `function`, all together and on all
/// of `numRanks` ranks, are more than a host can be expected to hold (32 GiB),
/// or are of types that the interpreter does not know.
LogicalResult checkHostSize(func::FuncOp function, int64_t numRanks = 1);

/// Runs `function` on `arguments`, which have the function's argument types,
/// and returns its results. Arguments marked `fp8.state` are updated in place.
/// Fails with an error at the op that cannot be run: a linear (expand it
/// first), an opaque op, a collective over more than one rank (interpretRanks
/// takes those), a use of storage that was freed, an unknown op.
FailureOr<std::vector<HostTensor>>
interpret(func::FuncOp function, MutableArrayRef<HostTensor> arguments);

/// The same on several ranks at once, as many as `arguments` has entries: the
/// arguments of each rank, and in return the results of each.
FailureOr<std::vector<std::vector<HostTensor>>>
interpretRanks(func::FuncOp function,
               MutableArrayRef<std::vector<HostTensor>> arguments);

/// Runs `function`, which is in a module, once on the inputs of step 0 and
/// microbatch 0 that `seed` gives, and returns the results of each rank. Fails
/// as `interpret` does.
FailureOr<std::vector<std::vector<HostTensor>>>
interpretOnInputs(func::FuncOp function, uint64_t seed);

/// What a reference is made for.
struct ReferenceOptions {
  uint64_t seed = 0;
  int64_t steps = 1;
  int64_t microbatches = 1;
  /// The function to run; empty: the only one, else the first that is not
  /// `end_of_step`.
  std::string function;
};

/// Runs `options.steps` steps of `module` (each so many runs of the function,
/// then `end_of_step` where there is one) on inputs made from the seed, and
/// writes the outputs to `path` in the reference format of docs/artifact.md.
/// `program` is the text that the reference is for; its hash is recorded.
LogicalResult writeReference(ModuleOp module, const ReferenceOptions &options,
                             StringRef program, StringRef path);

} // namespace mlir::fp8

#endif // FP8_TARGET_REFERENCE_H
