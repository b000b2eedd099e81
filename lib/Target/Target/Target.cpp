//===- Target.cpp - rates and sizes of the machines we plan for -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of targets, each number with its source.
//
//===----------------------------------------------------------------------===//

#include "fp8/Target/Target.h"

#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8rt/CpuGemm.h"

using namespace mlir;
using namespace mlir::fp8;

static const Target kTargets[] = {
    // One core of an ordinary x86-64 machine; all guesses. The workspace is
    // that of the runtime's matmul, which packs
    // its panels there.
    {.name = "cpu",
     .chip = "",
     .calibrated = false,
     .copyBytesPerSecond = 8e9,
     .flopsF8Tensor = 20e9,
     .flopsF8Row = 20e9,
     .flopsF8Block = 20e9,
     .flopsBF16 = 20e9,
     .flopsF32 = 20e9,
     .linkBytesPerSecond = 4e9,
     .linkLatencySeconds = 10e-6,
     .launchSeconds = 1e-6,
     .matmulWorkspaceBytes = fp8rt::kCpuGemmWorkspaceBytes,
     .kernelRowTile = 128,
     .kernelModel = KernelModel::CacheTiles,
     .contiguousK = false},
    // Measured with PyTorch 2.11 and cuBLASLt 13 on Llama-3-8B sizes (16,384
    // tokens), not by a calibration run of
    // ours: copy, the rowwise, tensorwise and bf16 matmuls 16384x14336x4096,
    // the block matmul 1x128 by 128x128. The
    // link fits both all-gathers over two GPUs that were measured: 64 MiB
    // received at 197 GB/s, 1 GiB at 270 GB/s. The
    // f32 rate (outside tensor cores) and the launch are guesses; the workspace
    // is what cuBLAS asks for on Hopper.
    {.name = "h200",
     .chip = "sm_90a",
     .calibrated = false,
     .copyBytesPerSecond = 4.25e12,
     .flopsF8Tensor = 1460e12,
     .flopsF8Row = 1500e12,
     .flopsF8Block = 1278e12,
     .flopsBF16 = 785e12,
     .flopsF32 = 60e12,
     .linkBytesPerSecond = 276.8e9,
     .linkLatencySeconds = 98e-6,
     .launchSeconds = 3e-6,
     .matmulWorkspaceBytes = 32 * 1024 * 1024,
     .kernelRowTile = 128,
     .kernelModel = KernelModel::ThreadBlocks,
     .contiguousK = true},
};

ArrayRef<Target> mlir::fp8::getTargets() { return kTargets; }

const Target *mlir::fp8::findTarget(StringRef name) {
  for (const Target &target : kTargets)
    if (target.name == name)
      return &target;
  return nullptr;
}

const Target *mlir::fp8::getTargetOf(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  Attribute attribute = module ? module->getAttr(kTargetAttr) : Attribute();
  if (!attribute)
    return findTarget("cpu");
  auto name = dyn_cast<StringAttr>(attribute);
  const Target *target = name ? findTarget(name.getValue()) : nullptr;
  if (!target) {
    InFlightDiagnostic diagnostic =
        module.emitError() << "expected '" << kTargetAttr << "' to be one of ";
    llvm::interleaveComma(getTargets(), diagnostic, [&](const Target &known) {
      diagnostic << '"' << known.name << '"';
    });
    diagnostic << ", but got " << attribute;
  }
  return target;
}

double mlir::fp8::estimateSeconds(const Target &target, const OpCost &cost) {
  if (cost.recompute == Recompute::Free)
    return 0;
  double compute = cost.flopsF8 / target.flopsF8Tensor +
                   cost.flopsF8Row / target.flopsF8Row +
                   cost.flopsF8Block / target.flopsF8Block +
                   cost.flopsBF16 / target.flopsBF16 +
                   cost.flopsF32 / target.flopsF32;
  double memory = (double(cost.bytesRead) + double(cost.bytesWritten)) /
                  target.copyBytesPerSecond;
  double link = cost.bytesSent ? target.linkLatencySeconds +
                                     cost.bytesSent / target.linkBytesPerSecond
                               : 0;
  return std::max(compute, memory) + link + target.launchSeconds;
}
