//===- LowerToCUDA.cpp - fp8-lower-to-cuda ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives every loop and state kernel its launches, and their functions a module.
// Equal kernels share them.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/Common/KernelFunction.h"
#include "fp8/Conversion/FP8ToCUDA/Emit.h"
#include "fp8/Target/Target.h"
#include "fp8/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8LOWERTOCUDAPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

/// Registers, threads and shared memory of a multiprocessor, and
/// multiprocessors of the largest card, from NVIDIA's compute capability tables
/// and data sheets. Only sm_90a was run.
static const Chip kChips[] = {
    {"sm_89", "+ptx81", 142, 65536, 1536, 100 << 10},
    {"sm_90a", "+ptx80", 132, 65536, 2048, 228 << 10},
    {"sm_100", "+ptx86", 148, 65536, 2048, 228 << 10},
    {"sm_120", "+ptx87", 170, 65536, 1536, 100 << 10},
};

const Chip *mlir::fp8::findChip(StringRef name) {
  for (const Chip &chip : kChips)
    if (chip.name == name)
      return &chip;
  return nullptr;
}

std::string mlir::fp8::listChips() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::interleaveComma(kChips, stream,
                        [&](const Chip &chip) { stream << chip.name; });
  return text;
}

namespace {

/// What runs one kernel.
struct Lowered {
  ArrayAttr launches, fills;
  int64_t workspaceBytes = 0;
};

/// The most that a load or store moves.
static constexpr int64_t kVectorBytes = 16;

/// Whether a result is written over an operand, or an operand is state.
static bool hasAliases(KernelOp kernel) {
  std::optional<ArrayRef<int64_t>> inPlace = kernel.getInPlace();
  return kernel.getKind() == KernelKind::State ||
         (inPlace &&
          llvm::any_of(*inPlace, [](int64_t over) { return over >= 0; }));
}

/// What LLVM may take pointer `number` of the kernel to be a multiple of. Slots
/// are multiples of 256, but LLVM widens loads as far as this up to beyond the
/// end of a tensor that is no multiple of it.
static int64_t alignmentOf(KernelOp kernel, unsigned number) {
  unsigned operands = kernel.getNumOperands();
  if (number >= operands + kernel.getNumResults())
    return kVectorBytes; // the workspace
  Value value = number < operands ? kernel.getOperand(number)
                                  : kernel.getResult(number - operands);
  int64_t bytes = getByteSize(value.getType());
  return bytes == 0 ? kVectorBytes : std::min(kVectorBytes, bytes & -bytes);
}

/// Has the pointers to results point to what the kernel makes of them.
static void movePointers(Block &body, Block &entry,
                         MutableArrayRef<Value> pointers) {
  OpBuilder builder(entry.getTerminator());
  Location loc = UnknownLoc::get(builder.getContext());
  for (auto [number, yielded] :
       llvm::enumerate(body.getTerminator()->getOperands())) {
    auto update = yielded.getDefiningOp<UpdateSliceOp>();
    if (!update || getPieceOffset(update) == 0)
      continue;
    Device d(builder, loc);
    Value &pointer = pointers[body.getNumArguments() + number];
    int64_t bits = getElementBits(
        cast<RankedTensorType>(update.getPiece().getType()).getElementType());
    // Of elements that take no whole bytes an even number comes before.
    pointer = d.address(pointer, d.i64(getPieceOffset(update) * bits / 8),
                        builder.getI8Type());
  }
}

struct LowerToCUDAPass : fp8::impl::FP8LowerToCUDAPassBase<LowerToCUDAPass> {
  using FP8LowerToCUDAPassBase::FP8LowerToCUDAPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::string name = chip;
    if (name.empty()) {
      const Target *target = getTargetOf(module);
      if (!target)
        return signalPassFailure();
      name = target->chip;
    }
    const Chip *found = findChip(name);
    if (!found) {
      module.emitError() << "expected a chip to generate code for ("
                         << listChips() << "), but got '" << name << "'";
      return signalPassFailure();
    }
    geometries.emplace(found->name);
    if (!geometry.empty() && !geometries->override(geometry)) {
      module.emitError() << "expected a geometry 'rules', "
                            "'row:VECTORS:BLOCKS:AHEAD' or 'tile:ROWS:BLOCKS', "
                            "but got '"
                         << geometry << "'";
      return signalPassFailure();
    }
    OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(module.getBody());
    Attribute target = NVVM::NVVMTargetAttr::get(&getContext(), /*optLevel=*/3,
                                                 "nvptx64-nvidia-cuda",
                                                 found->name, found->features);
    auto kernels = gpu::GPUModuleOp::create(builder, module.getLoc(), "kernels",
                                            ArrayRef<Attribute>(target));
    if (SymbolTable(module).lookup("kernels") != kernels) {
      kernels.emitError() << "expected no symbol 'kernels' in the program";
      return signalPassFailure();
    }

    SmallVector<KernelOp> work;
    module.walk([&](KernelOp kernel) { work.push_back(kernel); });
    llvm::StringMap<Lowered> known; // looked up only
    for (KernelOp kernel : work) {
      for (auto grouped : kernel.getBody().getOps<GroupedMatmulOp>()) {
        grouped.emitError() << "'fp8.grouped_matmul' cannot be lowered to a "
                               "gpu yet: it runs on the target 'cpu'";
        return signalPassFailure();
      }
      FailureOr<bool> generated = isGenerated(kernel, "a gpu");
      if (failed(generated))
        return signalPassFailure();
      if (!*generated)
        continue;
      std::string structure = getKernelStructure(kernel);
      // What is written over is part of the code, and of the launches' order.
      if (std::optional<ArrayRef<int64_t>> inPlace = kernel.getInPlace())
        for (int64_t over : *inPlace)
          structure += " " + std::to_string(over);
      auto [it, fresh] = known.try_emplace(structure);
      if (fresh &&
          failed(lower(kernel, kernels, *found, known.size() - 1, it->second)))
        return signalPassFailure();
      const Lowered &lowered = it->second;
      if (int64_t(kernel.getWorkspace()) < lowered.workspaceBytes) {
        kernel.emitError() << "expected a workspace of at least "
                           << lowered.workspaceBytes
                           << " bytes for what is gathered, but got "
                           << kernel.getWorkspace()
                           << "; plan with 'fp8-reserve-workspace'";
        return signalPassFailure();
      }
      kernel.setLaunchesAttr(lowered.launches);
      if (lowered.fills)
        kernel.setFillsAttr(lowered.fills);
    }
  }

private:
  std::optional<Geometries> geometries; ///< of the chip

  LogicalResult lower(KernelOp kernel, gpu::GPUModuleOp kernels,
                      const Chip &chip, size_t number, Lowered &lowered) {
    if (failed(checkKernel(kernel, "gpu")))
      return failure();
    SmallVector<Attribute> launches, fills;
    std::string symbol = getKernelSymbol(kernel, number);
    if (kernel.getKind() == KernelKind::State) {
      auto emit = [&](Block &entry, ArrayRef<Value> pointers, SharedMemory &) {
        Block &body = kernel.getBody().front();
        Evaluator evaluator(entry, body, pointers, kernel.getLoc());
        emitStateOps(evaluator, body);
        return Geometry{1, 1, 1};
      };
      FailureOr<Attribute> launch = makeLaunch(kernel, kernels, symbol,
                                               /*workspace=*/false, emit);
      if (failed(launch))
        return failure();
      launches.push_back(*launch);
    } else {
      KernelLaunches plan = planLaunches(kernel);
      lowered.workspaceBytes = plan.workspaceBytes;
      for (auto [i, launch] : llvm::enumerate(plan.launches)) {
        if (launch.items.empty())
          continue;
        auto emit = [&](Block &entry, ArrayRef<Value> pointers,
                        SharedMemory &shared) {
          Block &body = kernel.getBody().front();
          SmallVector<Value> starts(pointers);
          if (launch.schedule != Schedule::Generic)
            movePointers(body, entry, starts);
          LaunchContext context{body,
                                plan,
                                unsigned(i),
                                chip,
                                *geometries,
                                entry,
                                UnknownLoc::get(&getContext()),
                                starts,
                                shared};
          switch (launch.schedule) {
          case Schedule::Row:
            return emitRowLaunch(context);
          case Schedule::Tile:
            return emitTileLaunch(context);
          case Schedule::Generic:
            break;
          }
          return emitGenericLaunch(context);
        };
        std::string name = symbol;
        if (!launches.empty())
          name += "_" + std::to_string(launches.size());
        FailureOr<Attribute> attribute =
            makeLaunch(kernel, kernels, name, plan.workspaceBytes > 0, emit);
        if (failed(attribute))
          return failure();
        launches.push_back(*attribute);
      }
      for (auto [buffer, bytes] : plan.fills)
        fills.push_back(FillAttr::get(&getContext(), buffer, bytes));
    }
    lowered.launches = ArrayAttr::get(&getContext(), launches);
    if (!fills.empty())
      lowered.fills = ArrayAttr::get(&getContext(), fills);
    return success();
  }

  FailureOr<Attribute> makeLaunch(
      KernelOp kernel, gpu::GPUModuleOp kernels, StringRef symbol,
      bool workspace,
      function_ref<Geometry(Block &, ArrayRef<Value>, SharedMemory &)> emit) {
    MLIRContext *context = &getContext();
    OpBuilder builder(context);
    builder.setInsertionPointToEnd(kernels.getBody());
    Location loc = UnknownLoc::get(context);
    unsigned pointers =
        kernel.getNumOperands() + kernel.getNumResults() + workspace;
    SmallVector<Type> types(pointers, LLVM::LLVMPointerType::get(context, 1));
    auto function = LLVM::LLVMFuncOp::create(
        builder, loc, symbol,
        LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types));
    Block *entry = function.addEntryBlock(builder);
    builder.setInsertionPointToEnd(entry);
    LLVM::ReturnOp::create(builder, loc, ValueRange());
    bool aliases = hasAliases(kernel);
    for (unsigned i = 0; i < pointers; ++i) {
      if (!aliases)
        function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                            builder.getUnitAttr());
      if (!aliases && i < kernel.getNumOperands())
        function.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(),
                            builder.getUnitAttr());
      function.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                          builder.getI64IntegerAttr(alignmentOf(kernel, i)));
    }
    SmallVector<Value> arguments(entry->getArguments());
    SharedMemory shared(kernels, symbol);
    Geometry chosen = emit(*entry, arguments, shared);
    if (reportGeometry && !chosen.report.empty())
      kernel.emitRemark() << "geometry of '" << symbol
                          << "': " << chosen.report;
    auto block = int32_t(chosen.block);
    function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                      builder.getUnitAttr());
    function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                      builder.getDenseI32ArrayAttr({block, 1, 1}));
    function->setAttr(
        NVVM::NVVMDialect::getMinctasmAttrName(),
        builder.getI32IntegerAttr(chosen.blocksPerMultiprocessor));
    if (failed(convertToLLVM(function)))
      return failure();
    return Attribute(LaunchAttr::get(context, symbol, {chosen.grid, 1, 1},
                                     {chosen.block, 1, 1},
                                     shared.getDynamicBytes()));
  }
};

} // namespace
