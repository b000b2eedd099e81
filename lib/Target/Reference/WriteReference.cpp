//===- WriteReference.cpp ---------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs steps on the inputs of fp8rt/Inputs.h and writes the outputs in the
// reference format of docs/artifact.md.
//
//===----------------------------------------------------------------------===//

#include "fp8/Target/Reference.h"
#include "fp8/Target/Signature.h"

#include "fp8rt/Container.h"
#include "fp8rt/Inputs.h"
#include "fp8rt/Sha256.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <map>

using namespace mlir;
using namespace mlir::fp8;

namespace {

/// The name of an element type in manifests, or nothing.
std::optional<fp8rt::DType> getDType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return std::nullopt;
  if (tensor.getElementType().isInteger(1))
    return fp8rt::DType::I8;
  std::string name;
  llvm::raw_string_ostream(name) << tensor.getElementType();
  return fp8rt::dtypeFromName(name);
}

/// The codes of a tensor of E5M6, two bytes each here, as they lie in memory:
/// two in three bytes.
std::string packE5M6(const HostTensor &tensor) {
  std::string packed;
  for (size_t i = 0; i + 3 < tensor.bytes.size(); i += 4) {
    unsigned low = tensor.bytes[i] | tensor.bytes[i + 1] << 8;
    unsigned high = tensor.bytes[i + 2] | tensor.bytes[i + 3] << 8;
    for (unsigned shift : {0, 8, 16})
      packed += char(((low | high << 12) >> shift) & 0xFF);
  }
  return packed;
}

fp8rt::Role getRole(ArgumentRole role) {
  switch (role) {
  case ArgumentRole::Input:
    return fp8rt::Role::Input;
  case ArgumentRole::Parameter:
    return fp8rt::Role::Parameter;
  case ArgumentRole::Tangent:
    return fp8rt::Role::Tangent;
  case ArgumentRole::State:
    return fp8rt::Role::State;
  case ArgumentRole::Donated:
    return fp8rt::Role::Donated;
  }
  return fp8rt::Role::Input;
}

fp8rt::Init getInit(ArgumentInit init) {
  switch (init) {
  case ArgumentInit::Normal:
    return fp8rt::Init::Normal;
  case ArgumentInit::Zero:
    return fp8rt::Init::Zero;
  case ArgumentInit::One:
    return fp8rt::Init::One;
  case ArgumentInit::Position:
    return fp8rt::Init::Position;
  }
  return fp8rt::Init::Normal;
}

/// What the functions of a module hand to each other on one rank, by name.
class RankMemory {
public:
  /// The arguments of `function` on rank `rank`.
  FailureOr<std::vector<HostTensor>>
  makeArguments(func::FuncOp function, const Signature &signature,
                const ReferenceOptions &options, int64_t rank, uint64_t step,
                uint64_t microbatch);
  /// Keeps what `function` left in its state arguments and its results.
  void keep(func::FuncOp function, const Signature &signature,
            ArrayRef<HostTensor> arguments, ArrayRef<HostTensor> results);

  /// State in the order in which functions first used it.
  std::vector<std::pair<std::string, HostTensor>> state;

private:
  /// What the caller placed first as a result of one function, and whose it
  /// was: an argument of the others, which may write a later result over it.
  std::map<std::string, std::pair<func::FuncOp, HostTensor>> placed;
};

/// The steps of one module on all ranks of its grid.
class StepRunner {
public:
  StepRunner(const ReferenceOptions &options, int64_t numRanks)
      : ranks(numRanks), options(options) {}

  /// Runs `function` once and returns the results of each rank.
  FailureOr<std::vector<std::vector<HostTensor>>>
  run(func::FuncOp function, uint64_t step, uint64_t microbatch);

  std::vector<RankMemory> ranks;

private:
  const ReferenceOptions &options;
};

FailureOr<std::vector<HostTensor>>
RankMemory::makeArguments(func::FuncOp function, const Signature &signature,
                          const ReferenceOptions &options, int64_t rank,
                          uint64_t step, uint64_t microbatch) {
  std::vector<HostTensor> arguments;
  for (auto [index, argument] : llvm::enumerate(signature.arguments)) {
    std::optional<fp8rt::DType> dtype = getDType(argument.type);
    if (!dtype || !getHostBytes(argument.type))
      return function.emitError() << "expected tensors of bf16, f32, f8E4M3FN, "
                                     "f8E5M2, i32 or i1 as arguments, but '"
                                  << argument.name << "' is " << argument.type;
    auto type = cast<RankedTensorType>(argument.type);
    auto known = llvm::find_if(
        state, [&](auto &entry) { return entry.first == argument.name; });
    if (argument.role == ArgumentRole::State && known != state.end()) {
      if (known->second.type != type)
        return function.emitError() << "expected the state '" << argument.name
                                    << "' to have one type, but got "
                                    << known->second.type << " and " << type;
      arguments.push_back(known->second);
      continue;
    }
    auto made = placed.find(argument.name);
    if (made != placed.end() && made->second.first != function &&
        made->second.second.type == type &&
        (argument.role == ArgumentRole::Donated ||
         argument.role == ArgumentRole::Parameter)) {
      arguments.push_back(made->second.second);
      continue;
    }
    HostTensor tensor = HostTensor::zeros(type);
    ShardLayout layout = getShardLayout(function, argument, rank);
    fp8rt::fillShard(tensor.bytes.data(), *dtype, type.getRank(),
                     type.getShape().data(), layout.offset,
                     layout.strides.data(), getInit(argument.init),
                     float(argument.initScale),
                     fp8rt::inputKey(argument.name, getRole(argument.role),
                                     options.seed, step, microbatch));
    if (argument.role == ArgumentRole::State)
      state.push_back({argument.name, tensor});
    arguments.push_back(std::move(tensor));
  }
  return arguments;
}

void RankMemory::keep(func::FuncOp function, const Signature &signature,
                      ArrayRef<HostTensor> arguments,
                      ArrayRef<HostTensor> results) {
  for (auto [index, argument] : llvm::enumerate(signature.arguments))
    if (argument.role == ArgumentRole::State)
      llvm::find_if(state, [&](auto &entry) {
        return entry.first == argument.name;
      })->second = arguments[index];
  for (auto [result, tensor] : llvm::zip_equal(signature.results, results)) {
    auto made = placed.find(result.name);
    if (made != placed.end())
      made->second.second = tensor;
    else if (result.isCallerPlaced)
      placed.insert({result.name, {function, tensor}});
  }
}

FailureOr<std::vector<std::vector<HostTensor>>>
StepRunner::run(func::FuncOp function, uint64_t step, uint64_t microbatch) {
  Signature signature = getSignature(function);
  std::vector<std::vector<HostTensor>> arguments;
  for (auto [rank, memory] : llvm::enumerate(ranks)) {
    FailureOr<std::vector<HostTensor>> own = memory.makeArguments(
        function, signature, options, rank, step, microbatch);
    if (failed(own))
      return failure();
    arguments.push_back(std::move(*own));
  }
  FailureOr<std::vector<std::vector<HostTensor>>> results =
      interpretRanks(function, arguments);
  if (failed(results))
    return failure();
  for (auto [memory, own, made] : llvm::zip_equal(ranks, arguments, *results))
    memory.keep(function, signature, own, made);
  return results;
}

/// The function that a run is of, or null after an error.
func::FuncOp selectFunction(ModuleOp module, StringRef name) {
  func::FuncOp first;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    if (name.empty() ? !runsOnceAStep(function) : function.getName() == name)
      return function;
    first = first ? first : function;
  }
  if (name.empty() && first)
    return first;
  if (name.empty())
    module.emitError()
        << "expected a function with a body to run, but the module has none";
  else
    module.emitError() << "expected a function '" << name
                       << "' to run, but the module has none";
  return {};
}

} // namespace

FailureOr<std::vector<std::vector<HostTensor>>>
mlir::fp8::interpretOnInputs(func::FuncOp function, uint64_t seed) {
  ReferenceOptions options;
  options.seed = seed;
  if (failed(checkHostSize(function)))
    return failure();
  return StepRunner(options, getNumRanks(function->getParentOfType<ModuleOp>()))
      .run(function, 0, 0);
}

LogicalResult mlir::fp8::writeReference(ModuleOp module,
                                        const ReferenceOptions &options,
                                        StringRef program, StringRef path) {
  if (options.steps < 1 || options.microbatches < 1)
    return module.emitError()
           << "expected at least one step and one microbatch, but got "
           << options.steps << " and " << options.microbatches;
  func::FuncOp function = selectFunction(module, options.function);
  if (!function)
    return failure();
  auto beside = [&](const Twine &name) {
    auto found = module.lookupSymbol<func::FuncOp>(name.str());
    return found && found != function && !found.isExternal() ? found
                                                             : func::FuncOp();
  };
  func::FuncOp startOfStep = beside(kStartOfStepName),
               next = beside(function.getName() + kAccumulateSuffix),
               endOfStep = beside(kEndOfStepName);
  for (func::FuncOp used : {function, startOfStep, next, endOfStep})
    if (used && failed(checkHostSize(used, getNumRanks(module))))
      return failure();

  StepRunner runner(options, getNumRanks(module));
  std::vector<std::vector<HostTensor>> results;
  for (int64_t step = 0; step < options.steps; ++step) {
    if (startOfStep && failed(runner.run(startOfStep, step, 0)))
      return failure();
    for (int64_t microbatch = 0; microbatch < options.microbatches;
         ++microbatch) {
      FailureOr<std::vector<std::vector<HostTensor>>> outputs = runner.run(
          microbatch > 0 && next ? next : function, step, microbatch);
      if (failed(outputs))
        return failure();
      results = std::move(*outputs);
    }
    if (endOfStep && failed(runner.run(endOfStep, step, 0)))
      return failure();
  }

  std::vector<std::pair<std::string, const HostTensor *>> outputs;
  Signature signature = getSignature(function);
  for (auto [rank, tensors] : llvm::enumerate(results)) {
    std::string suffix = results.size() == 1 ? "" : "@" + std::to_string(rank);
    for (auto [result, tensor] : llvm::zip_equal(signature.results, tensors))
      outputs.push_back({result.name + suffix, &tensor});
    for (auto &[name, tensor] : runner.ranks[rank].state)
      outputs.push_back({"state:" + name + suffix, &tensor});
  }

  std::string data;
  llvm::json::Array list;
  for (auto &[name, tensor] : outputs) {
    std::optional<fp8rt::DType> dtype = getDType(tensor->type);
    SmallVector<int64_t> shape(tensor->type.getShape());
    std::string packed;
    std::string_view bytes(reinterpret_cast<const char *>(tensor->bytes.data()),
                           tensor->bytes.size());
    if (isa<E5M6Type>(tensor->type.getElementType())) {
      dtype = fp8rt::DType::I8;
      shape.back() = shape.back() / 2 * 3;
      packed = packE5M6(*tensor);
      bytes = packed;
    }
    if (!dtype)
      return function.emitError() << "expected tensors of bf16, f32, f8E4M3FN, "
                                     "f8E5M2, i32, i1 or !fp8.e5m6 as results, "
                                     "but '"
                                  << name << "' is " << tensor->type;
    list.push_back(llvm::json::Object{{"name", name},
                                      {"dtype", fp8rt::dtypeName(*dtype)},
                                      {"shape", llvm::json::Array(shape)},
                                      {"sha256", fp8rt::sha256Hex(bytes)},
                                      {"offset", int64_t(data.size())},
                                      {"bytes", int64_t(bytes.size())}});
    data += bytes;
  }
  llvm::json::Object manifest{{"schema", "fp8opt-reference-1"},
                              {"program", fp8rt::sha256Hex(std::string_view(
                                              program.data(), program.size()))},
                              {"seed", options.seed},
                              {"steps", options.steps},
                              {"microbatches", options.microbatches},
                              {"outputs", std::move(list)}};
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(manifest));
  std::string error;
  if (!fp8rt::writeContainer(path.str(), fp8rt::ContainerKind::Reference,
                             {{"manifest", text}, {"data", data}}, error))
    return module.emitError() << error;
  return success();
}
