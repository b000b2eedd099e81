//===- Pipelines.h - the pipeline fp8-compile -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All passes of fp8-opt in their order, up to a phase.
//
//===----------------------------------------------------------------------===//

#ifndef FP8_PIPELINES_PIPELINES_H
#define FP8_PIPELINES_PIPELINES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir::fp8 {

/// The phases a compilation can stop after, in order.
enum class Phase { Joint, Planned, Placed, Lowered };

std::optional<Phase> parsePhase(StringRef name);

/// Options of the pipeline; those of `fp8-select-saved`, `fp8-set-target`
/// and `fp8-lower-to-cuda` under the same names.
struct CompileOptions : PassPipelineOptions<CompileOptions> {
  Option<std::string> target{
      *this, "target", llvm::cl::desc("cpu, h200, h100, b200 or FILE.json"),
      llvm::cl::init("cpu")};
  Option<std::string> policy{
      *this, "policy",
      llvm::cl::desc("save-all, recompute-all, op-list, min-cut or auto"),
      llvm::cl::init("auto")};
  Option<std::string> budget{
      *this, "budget", llvm::cl::desc("limit on peak_bytes, such as 40GiB"),
      llvm::cl::init("")};
  Option<std::string> deviceMemory{
      *this, "device-memory",
      llvm::cl::desc(
          "limit on resident and peak bytes together, such as 80GiB"),
      llvm::cl::init("")};
  Option<std::string> hostMemory{
      *this, "host-memory",
      llvm::cl::desc("host memory that auto may have values wait in between "
                     "forward and backward, such as 64GiB; 0: none do"),
      llvm::cl::init("0")};
  Option<std::string> ops{*this, "ops", llvm::cl::desc("the list of op-list"),
                          llvm::cl::init("")};
  Option<int64_t> pieces{
      *this, "pieces",
      llvm::cl::desc("pieces that every region of independent rows runs in; "
                     "0: as auto chooses"),
      llvm::cl::init(0)};
  Option<std::string> fuse{*this, "fuse", llvm::cl::desc("default or none"),
                           llvm::cl::init("default")};
  Option<std::string> split{
      *this, "split",
      llvm::cl::desc("what is a function of its own: none, backward, or wgrad "
                     "(dgrad and wgrad apart)"),
      llvm::cl::init("none")};
  Option<std::string> lossy{
      *this, "lossy",
      llvm::cl::desc("values that backward reads in a smaller, inexact form, "
                     "as VALUE:1x128, VALUE:e5m2, VALUE:e5m6 or "
                     "VALUE:relayout joined by +"),
      llvm::cl::init("")};
  Option<int64_t> lossySeed{
      *this, "lossy-seed",
      llvm::cl::desc("inputs to measure their gradients' error on"),
      llvm::cl::init(-1)};
  Option<int> microbatches{
      *this, "microbatches",
      llvm::cl::desc("microbatches a step; with more than one, gradients of "
                     "parameters are added in f32"),
      llvm::cl::init(1)};
  Option<std::string> weightCasts{
      *this, "weight-casts",
      llvm::cl::desc("how often weights are cast: step, microbatch or auto"),
      llvm::cl::init("auto")};
  Option<std::string> gathers{
      *this, "gathers",
      llvm::cl::desc("what travels where a gathered tensor is only cast: fp8 "
                     "(cast first, the same bits) or as-written"),
      llvm::cl::init("fp8")};
  Option<std::string> overlap{
      *this, "overlap",
      llvm::cl::desc("default: collectives start early, within the budget; "
                     "none: they run where they are needed"),
      llvm::cl::init("default")};
  Option<std::string> geometry{
      *this, "geometry",
      llvm::cl::desc("launch geometry of GPU kernels, as in fp8-lower-to-cuda"),
      llvm::cl::init("")};
  Option<bool> reportGeometry{
      *this, "report-geometry",
      llvm::cl::desc("a remark for each launch with its geometry"),
      llvm::cl::init(false)};
};

/// The phase whose passes have run on `module` already: `Planned` or `Placed`,
/// or nothing for IR still to be planned.
std::optional<Phase> getPlannedPhase(ModuleOp module);

/// Adds the passes after `done` (none have run where it is empty) up to the end
/// of `last` to `manager`. Planned IR names its target itself, so the options
/// then say nothing.
void buildCompilePipeline(OpPassManager &manager, const CompileOptions &options,
                          Phase last, std::optional<Phase> done = std::nullopt);

/// Registers `fp8-compile`, which runs to `placed`.
void registerPipelines();

} // namespace mlir::fp8

#endif // FP8_PIPELINES_PIPELINES_H
