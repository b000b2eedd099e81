//===- VerifyPhase.cpp - fp8-verify-phase -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Refuses, at the border of a phase, what an earlier pass should have removed.
// Types and op verifiers cannot: whether an op may stand somewhere depends on
// the phase, and arith and math verify on scaled tensors too.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8VERIFYPHASEPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

namespace {

enum class Phase { Import, Joint, Planned, Placed };

std::optional<Phase> symbolizePhase(StringRef name) {
  return llvm::StringSwitch<std::optional<Phase>>(name)
      .Case("import", Phase::Import)
      .Case("joint", Phase::Joint)
      .Case("planned", Phase::Planned)
      .Case("placed", Phase::Placed)
      .Default(std::nullopt);
}

bool isEncoded(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getEncoding();
}

bool isF8OrScaled(Type type) {
  TensorEncodingAttr encoding = getEncoding(type);
  return isa<Float8E4M3FNType, Float8E5M2Type>(getElementTypeOrSelf(type)) ||
         (encoding && encoding.isScaled());
}

/// True where a type of an operand or a result of `op` holds.
bool anyType(Operation *op, function_ref<bool(Type)> holds) {
  return llvm::any_of(op->getOperandTypes(), holds) ||
         llvm::any_of(op->getResultTypes(), holds);
}

/// Code generation recurses as deep as a kernel's longest chain of ops; what
/// fp8-form-kernels makes has far fewer ops than this.
constexpr int64_t kMaxOps = 1024;

/// Reports everything that is wrong in a module, not only the first.
class PhaseVerifier {
public:
  PhaseVerifier(ModuleOp module, Phase phase) : module(module), phase(phase) {}

  LogicalResult run() {
    // A leftover of an early phase would be reported once more by each later
    // one, so a phase is looked at only where those before it are clean.
    module.walk<WalkOrder::PreOrder>([&](Operation *op) { verifyImport(op); });
    if (phase >= Phase::Joint && !failed)
      module.walk<WalkOrder::PreOrder>([&](Operation *op) { verifyJoint(op); });
    if (phase >= Phase::Planned && !failed)
      for (auto function : module.getOps<func::FuncOp>())
        verifyProgram(function);
    return failure(failed);
  }

private:
  InFlightDiagnostic emitError(Operation *op) {
    failed = true;
    return op->emitOpError();
  }

  void verifyImport(Operation *op) {
    StringRef dialect = op->getName().getDialectNamespace();
    if (dialect == "tensor" && anyType(op, isEncoded)) {
      emitError(op) << "expected no 'tensor' op on an encoded tensor, which "
                       "loses its encoding; use 'fp8.slice', 'fp8.reshape' or "
                       "'fp8.bitcast'";
      return;
    }
    bool isKnown =
        isa<ModuleOp>(op) ||
        llvm::is_contained(ArrayRef<StringRef>{"fp8", "func", "arith", "math"},
                           dialect);
    if (!isKnown) {
      emitError(op) << "expected ops of the dialects fp8, func, arith and math "
                       "only; declare what is foreign as an 'fp8.opaque'";
      return;
    }
    if ((dialect == "arith" || dialect == "math") &&
        anyType(op, isF8OrScaled)) {
      emitError(op) << "expected no '" << dialect
                    << "' op on an FP8 or a scaled tensor; enter FP8 by "
                       "'fp8.cast' and leave it by 'fp8.dequantize'";
      return;
    }
    auto verifyType = [&](Type type) {
      return verifyTensorType(type, [&] { return emitError(op); });
    };
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      for (Type type : function.getArgumentTypes())
        if (mlir::failed(verifyType(type)))
          return;
      if (!function.isExternal() && !function.getBody().hasOneBlock())
        emitError(op) << "expected a function of one block, but got "
                      << function.getBody().getBlocks().size();
      return;
    }
    for (Type type : op->getResultTypes())
      if (mlir::failed(verifyType(type)))
        return;
  }

  void verifyJoint(Operation *op) {
    if (isa<LinearOp, LinearDgradOp, LinearWgradOp, GroupedLinearOp,
            GroupedLinearDgradOp, GroupedLinearWgradOp>(op))
      emitError(op) << "expected no linear after the import phase; run "
                       "'fp8-expand-recipes'";
    if (!isa<StepOp>(op))
      return;
    for (Operation &other : *op->getBlock())
      if (!isa<StepOp, func::ReturnOp>(other) &&
          !other.hasTrait<OpTrait::ConstantLike>())
        emitError(&other) << "expected only constants beside an 'fp8.step'; "
                             "'fp8-build-backward' moves everything else "
                             "into its regions";
  }

  void verifyProgram(func::FuncOp function) {
    bool hasKernel = false;
    // A step stands directly in its function, so two levels are all there are.
    SmallVector<Block *> blocks;
    for (Block &block : function.getBody()) {
      blocks.push_back(&block);
      for (auto step : block.getOps<StepOp>())
        for (Region &region : step->getRegions())
          blocks.push_back(&region.front());
    }
    for (Block *block : blocks)
      for (Operation &op : *block) {
        if (auto kernel = dyn_cast<KernelOp>(op)) {
          hasKernel = true;
          verifySize(kernel);
          if (phase == Phase::Placed)
            verifyPlaced(kernel);
        } else if (!isa<StepOp, YieldOp, FreeOp, func::ReturnOp>(op) &&
                   !isView(&op) && !op.hasTrait<OpTrait::ConstantLike>()) {
          emitError(&op) << "expected what executes to be in an 'fp8.kernel'; "
                            "run 'fp8-form-kernels'";
        }
      }
    if (phase == Phase::Placed && hasKernel &&
        !function->hasAttr(kArenaBytesAttr))
      emitError(function) << "expected '" << kArenaBytesAttr
                          << "' on a placed function; run 'fp8-place'";
  }

  void verifySize(KernelOp kernel) {
    int64_t ops = 0;
    for (Region &region : kernel->getRegions())
      for (Block &block : region)
        ops += block.getOperations().size();
    if (ops > kMaxOps)
      emitError(kernel) << "expected a kernel of at most " << kMaxOps
                        << " ops, its views and constants included, but got "
                        << ops << "; split it";
  }

  void verifyPlaced(KernelOp kernel) {
    if (kernel.getNumResults() != 0 && !kernel.getOffsets())
      emitError(kernel) << "expected 'offsets' for the results of a placed "
                           "kernel; run 'fp8-place'";
    if (kernel.getWorkspace() > 0 && !kernel.getWorkspaceOffset())
      emitError(kernel) << "expected 'workspace_offset' for the workspace of a "
                           "placed kernel; run 'fp8-place'";
  }

  ModuleOp module;
  Phase phase;
  bool failed = false;
};

struct VerifyPhasePass : fp8::impl::FP8VerifyPhasePassBase<VerifyPhasePass> {
  using FP8VerifyPhasePassBase::FP8VerifyPhasePassBase;

  void runOnOperation() override {
    std::optional<Phase> which = symbolizePhase(phase);
    if (!which) {
      getOperation().emitError() << "expected phase 'import', 'joint', "
                                    "'planned' or 'placed', but got '"
                                 << phase << "'";
      return signalPassFailure();
    }
    if (failed(PhaseVerifier(getOperation(), *which).run()))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
