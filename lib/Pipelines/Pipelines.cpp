//===- Pipelines.cpp - the pipeline fp8-compile -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the passes stands here and nowhere else.
//
//===----------------------------------------------------------------------===//

#include "fp8/Pipelines/Pipelines.h"

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Target/Target.h"
#include "fp8/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace mlir::fp8;

std::optional<Phase> mlir::fp8::parsePhase(StringRef name) {
  return llvm::StringSwitch<std::optional<Phase>>(name)
      .Case("joint", Phase::Joint)
      .Case("planned", Phase::Planned)
      .Case("placed", Phase::Placed)
      .Case("lowered", Phase::Lowered)
      .Default(std::nullopt);
}

std::optional<Phase> mlir::fp8::getPlannedPhase(ModuleOp module) {
  std::optional<Phase> phase;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func->hasAttr(kArenaBytesAttr))
      return Phase::Placed;
    if (func.walk([](KernelOp) { return WalkResult::interrupt(); })
            .wasInterrupted())
      phase = Phase::Planned;
  }
  return phase;
}

static void addPhaseVerifier(OpPassManager &manager, StringRef phase) {
  FP8VerifyPhasePassOptions options;
  options.phase = phase.str();
  manager.addPass(createFP8VerifyPhasePass(options));
}

/// From forward IR to joint IR.
static void addJointPasses(OpPassManager &manager,
                           const CompileOptions &options) {
  FP8SetTargetPassOptions targetOptions;
  targetOptions.target = options.target;
  manager.addPass(createFP8SetTargetPass(targetOptions));
  manager.addPass(createFP8BuildBackwardPass());
  manager.addPass(createFP8ExpandRecipesPass());
  FP8CastBeforeGatherPassOptions gatherOptions;
  gatherOptions.gathers = options.gathers;
  manager.addPass(createFP8CastBeforeGatherPass(gatherOptions));
  manager.addPass(createFP8LegalizeLayoutsPass());
  if (!options.lossy.empty()) {
    FP8KeepLossyPassOptions lossyOptions;
    lossyOptions.values = options.lossy;
    lossyOptions.seed = options.lossySeed;
    manager.addPass(createFP8KeepLossyPass(lossyOptions));
  }
  FP8CastWeightsOncePassOptions castOptions;
  castOptions.weightCasts = options.weightCasts;
  castOptions.microbatches = options.microbatches;
  castOptions.budget = options.budget;
  castOptions.deviceMemory = options.deviceMemory;
  castOptions.fuse = options.fuse;
  // One microbatch casts once either way, but a word that is none is an error.
  if (options.microbatches == 1 &&
      (options.weightCasts == "auto" || options.weightCasts == "step"))
    castOptions.weightCasts = "microbatch";
  manager.addPass(createFP8CastWeightsOncePass(castOptions));
  if (options.microbatches != 1)
    manager.addPass(createFP8AccumulateGradientsPass());
  addPhaseVerifier(manager, "joint");
}

/// From joint IR to planned IR.
static void addPlanningPasses(OpPassManager &manager,
                              const CompileOptions &options) {
  FP8SelectSavedPassOptions selectOptions;
  selectOptions.policy = options.policy;
  selectOptions.budget = options.budget;
  selectOptions.deviceMemory = options.deviceMemory;
  selectOptions.hostMemory = options.hostMemory;
  selectOptions.ops = options.ops;
  selectOptions.fuse = options.fuse;
  selectOptions.pieces = options.pieces;
  selectOptions.overlap = options.overlap;
  manager.addPass(createFP8SelectSavedPass(selectOptions));
  manager.addPass(createFP8SplitRowsPass());
  if (options.split != "none") {
    FP8SplitPassOptions splitOptions;
    splitOptions.apart = options.split;
    manager.addPass(createFP8SplitPass(splitOptions));
  }
  FP8FormKernelsPassOptions formOptions;
  formOptions.fuse = options.fuse;
  manager.addPass(createFP8FormKernelsPass(formOptions));
  manager.addPass(createFP8SchedulePass());
  manager.addPass(createFP8OffloadPass());
  FP8OverlapPassOptions overlapOptions;
  overlapOptions.budget = options.budget;
  overlapOptions.deviceMemory = options.deviceMemory;
  overlapOptions.overlap = options.overlap;
  manager.addPass(createFP8OverlapPass(overlapOptions));
  manager.addPass(createFP8InsertFreesPass());
  manager.addPass(createFP8ReserveWorkspacePass());
}

void mlir::fp8::buildCompilePipeline(OpPassManager &manager,
                                     const CompileOptions &options, Phase last,
                                     std::optional<Phase> done) {
  if (!done) {
    addJointPasses(manager, options);
    if (last == Phase::Joint)
      return;
    addPlanningPasses(manager, options);
  }
  // What comes from a file may have been edited since its passes ran.
  addPhaseVerifier(manager, done == Phase::Placed ? "placed" : "planned");
  manager.addPass(createFP8CheckPlanPass());
  if (last == Phase::Planned)
    return;

  if (done != Phase::Placed) {
    manager.addPass(createFP8PlacePass());
    addPhaseVerifier(manager, "placed");
    manager.addPass(createFP8CheckPlanPass());
  }
  if (last == Phase::Placed)
    return;

  const Target *target = findTarget(options.target);
  if (target && !target->chip.empty()) {
    FP8LowerToCUDAPassOptions lowerOptions;
    lowerOptions.geometry = options.geometry;
    lowerOptions.reportGeometry = options.reportGeometry;
    manager.addPass(createFP8LowerToCUDAPass(lowerOptions));
  } else {
    manager.addPass(createFP8LowerToCPUPass());
  }
}

void mlir::fp8::registerPipelines() {
  PassPipelineRegistration<CompileOptions>(
      "fp8-compile", "plans every function: from forward IR to placed",
      [](OpPassManager &manager, const CompileOptions &options) {
        buildCompilePipeline(manager, options, Phase::Placed);
      });
}
