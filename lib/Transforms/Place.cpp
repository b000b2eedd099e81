//===- Place.cpp - fp8-place ------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives every buffer an offset in one arena.
//
//===----------------------------------------------------------------------===//

#include "fp8/Analysis/Packing.h"
#include "fp8/Analysis/PlannedProgram.h"
#include "fp8/Transforms/Passes.h"

namespace mlir::fp8 {
#define GEN_PASS_DEF_FP8PLACEPASS
#include "fp8/Transforms/Passes.h.inc"
} // namespace mlir::fp8

using namespace mlir;
using namespace mlir::fp8;

/// What lies in host memory starts at multiples of this.
static constexpr int64_t kHostAlignment = 256;

namespace {

struct PlacePass : fp8::impl::FP8PlacePassBase<PlacePass> {
  void runOnOperation() override {
    const Target *target = getTargetOf(getOperation());
    if (!target)
      return signalPassFailure();
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal() && failed(place(func, *target)))
        return signalPassFailure();
  }

private:
  static LogicalResult place(func::FuncOp func, const Target &target);
};

LogicalResult PlacePass::place(func::FuncOp func, const Target &target) {
  FailureOr<PlannedProgram> planned = PlannedProgram::read(func, target);
  if (failed(planned))
    return failure();
  // A buffer is taken by the kernel that writes it and given back after the
  // last one that reads it.
  SmallVector<PackItem> items;
  DenseMap<int, int> itemOfRoot;
  std::vector<int> itemOfWorkspace(planned->order.size(), -1);
  for (auto [root, range] : llvm::enumerate(planned->ranges)) {
    if (range.first < 0 || planned->getEntry(root).callerPlaced)
      continue;
    // What is written in place keeps the item of what it is written over.
    if (auto it = itemOfRoot.find(range.predecessor); it != itemOfRoot.end()) {
      items[it->second].upper = range.second + 1;
      itemOfRoot[root] = it->second;
      continue;
    }
    itemOfRoot[root] = items.size();
    items.push_back(
        {range.first, range.second + 1, planned->getEntry(root).bytes});
  }
  for (auto [position, kernel] : llvm::enumerate(planned->kernels.kernels)) {
    if (kernel.workspace == 0)
      continue;
    itemOfWorkspace[position] = items.size();
    items.push_back({static_cast<int64_t>(position),
                     static_cast<int64_t>(position) + 1, kernel.workspace});
  }
  // The greedy orders alone may miss the peak by more than 5%; so many nodes
  // are about a second, as a node takes longer the more items there are.
  constexpr int64_t kMaxNodes = 1'000'000, kMaxWork = 50'000'000;
  PackOptions options;
  options.nodeLimit = std::min<int64_t>(
      kMaxNodes, kMaxWork / std::max<int64_t>(items.size(), 1));
  PackResult packed = pack(items, options);

  OpBuilder builder(func.getContext());
  // All that waits in host memory is there at once, between the regions.
  int64_t hostEnd = 0;
  for (auto [position, kernel] : llvm::enumerate(planned->kernels.kernels)) {
    auto op = dyn_cast<KernelOp>(planned->getOp(position));
    if (!op)
      continue;
    SmallVector<int64_t> offsets;
    for (Value result : op.getResults()) {
      // A token, or a result in the caller's buffer or in an argument.
      int64_t offset = -1;
      if (int64_t bytes = getHostByteSize(result.getType())) {
        offset = hostEnd;
        hostEnd += llvm::alignTo(bytes, kHostAlignment);
      }
      // What lies in a gathered tensor has the offset of all of it.
      for (int output : kernel.outputs) {
        int within = planned->ranges[output].within;
        if (planned->getValue(output) == result)
          if (auto it = itemOfRoot.find(within >= 0 ? within : output);
              it != itemOfRoot.end())
            offset = packed.offsets[it->second];
      }
      offsets.push_back(offset);
    }
    op.setOffsets(offsets);
    if (int item = itemOfWorkspace[position]; item >= 0)
      op.setWorkspaceOffset(packed.offsets[item]);
  }
  func->setAttr(kArenaBytesAttr, builder.getI64IntegerAttr(packed.height));
  if (hostEnd > 0)
    func->setAttr(kHostBytesAttr, builder.getI64IntegerAttr(hostEnd));
  return success();
}

} // namespace
