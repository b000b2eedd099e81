//===- Signature.h - what a function takes and gives ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names, roles and initial values of a function's arguments, and the names of
// its results, as they stand in artifacts and references. The one place that
// derives them.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_TARGET_SIGNATURE_H
#define FP8_TARGET_SIGNATURE_H

#include "fp8/Dialect/FP8/IR/FP8.h"

namespace mlir::fp8 {

/// What an argument is to the step. Parameters and state keep their value over
/// steps and microbatches.
enum class ArgumentRole { Input, Parameter, Tangent, State, Donated };

/// How a test run fills an argument.
enum class ArgumentInit { Normal, Zero, One, Position };

/// The spelling in a manifest: "input", "normal" and so on.
StringRef stringifyArgumentRole(ArgumentRole role);
StringRef stringifyArgumentInit(ArgumentInit init);

/// One argument. Its name is that of its NameLoc, else `arg#number`; a name
/// that an earlier argument has gets
/// `#number` appended. In a test run a parameter is normal with the deviation 1
/// / sqrt(last dimension, that of all ranks' parts), a state history (rank 1)
/// zero, a state scale one, a coordinate the rank's, `fp8.rows_per_group` its
/// multiples, anything else normal with the deviation 1.
struct SignatureArgument {
  std::string name;
  Type type;
  ArgumentRole role = ArgumentRole::Input;
  ArgumentInit init = ArgumentInit::Normal;
  double initScale = 1.0;
  /// Per dimension the grid axis along which ranks hold parts of it, or an
  /// empty name; empty where every rank has the same.
  SmallVector<std::string> shard;
};

/// One result. Its name is its result attribute `fp8.name`, else that of the
/// NameLoc of what is returned, else `result#number`; made unique as for
/// arguments.
struct SignatureResult {
  std::string name;
  Type type;
  bool isCallerPlaced = false;
};

struct Signature {
  SmallVector<SignatureArgument> arguments;
  SmallVector<SignatureResult> results;
};

/// The signature of `function`, which may be a declaration.
Signature getSignature(func::FuncOp function);

/// The bytes of what `start_of_step` of `module` keeps for all microbatches of
/// a step; 0 without that function.
int64_t getStepBytes(ModuleOp module);

/// True for the functions of a module that run beside those of microbatches.
bool runsOnceAStep(func::FuncOp function);

/// Which part of an argument a rank holds: where its elements stand in the
/// tensor that all ranks' parts make, as offset and stride per dimension.
struct ShardLayout {
  int64_t offset = 0;
  SmallVector<int64_t> strides;
};
ShardLayout getShardLayout(Operation *op, const SignatureArgument &argument,
                           int64_t rank);

/// Names result `index` of `function`, so that no later pass changes its name.
void setResultName(func::FuncOp function, unsigned index, StringRef name);

} // namespace mlir::fp8

#endif // FP8_TARGET_SIGNATURE_H
