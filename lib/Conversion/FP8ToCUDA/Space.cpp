//===- Space.cpp ------------------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules are asked by the planner of launches and followed by the emitters:
// what fits here, VectorEvaluator computes.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCUDA/Space.h"

#include "fp8/Conversion/Common/Evaluator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::fp8;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Rows and columns of a shape, leading dimensions merged.
static Space mergeDims(ArrayRef<int64_t> shape) {
  Space merged{1, 1};
  if (shape.empty())
    return merged;
  merged.cols = shape.back();
  for (int64_t dim : shape.drop_back())
    merged.rows *= dim;
  return merged;
}

std::optional<Leaf> mlir::fp8::getLeaf(Value value) {
  int64_t cols = mergeDims(typeOf(value).getShape()).cols;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return Leaf{argument, 0, cols, true};
  Operation *op = value.getDefiningOp();
  if (!isa<ReshapeOp, BitcastOp, SliceOp>(op))
    return std::nullopt;
  std::optional<Leaf> leaf = getLeaf(op->getOperand(0));
  if (!leaf || isa<BitcastOp>(op))
    return leaf;
  if (isa<ReshapeOp>(op)) {
    if (!leaf->dense)
      return std::nullopt;
    leaf->pitch = cols;
    return leaf;
  }
  auto slice = cast<SliceOp>(op);
  if (slice.getOffsets().size() != 2)
    return std::nullopt;
  leaf->offset += slice.getOffsets()[0] * leaf->pitch + slice.getOffsets()[1];
  leaf->dense &= typeOf(slice.getX()).getDimSize(1) == cols;
  return leaf;
}

static std::optional<int64_t> extentAlong(int64_t size, int64_t whole) {
  if (size == 1)
    return 0;
  if (size == whole)
    return 1;
  if (size == llvm::divideCeilSigned(whole, kTile))
    return kTile;
  return std::nullopt;
}

std::optional<Extent> SpaceRules::extentOf(Value value, bool flip) const {
  ArrayRef<int64_t> shape = typeOf(value).getShape();
  Space merged = mergeDims(shape);
  if (flip) {
    if (shape.size() != 2)
      return std::nullopt;
    std::swap(merged.rows, merged.cols);
  }
  std::optional<int64_t> row = extentAlong(merged.rows, space.rows);
  std::optional<int64_t> col = extentAlong(merged.cols, space.cols);
  if (!row || !col || (shape.size() > 2 && row == kTile))
    return std::nullopt;
  return Extent{*row, *col};
}

std::optional<Extent>
SpaceRules::groupExtent(Value value, ArrayRef<int64_t> group, bool flip) const {
  ArrayRef<int64_t> shape = typeOf(value).getShape();
  auto along = [](int64_t entry, int64_t size) -> int64_t {
    return size == 1 || entry == 0 || entry >= size ? 0 : entry;
  };
  if (shape.empty())
    return Extent{0, 0};
  Extent extent{0, along(group.back(), shape.back())};
  if (shape.size() == 2) {
    extent.row = along(group[0], shape[0]);
  } else {
    // Merged dimensions are all kept or all reduced.
    bool ones = true, zeros = true;
    for (auto [entry, size] :
         llvm::zip_equal(group.drop_back(), shape.drop_back())) {
      if (size == 1)
        continue;
      ones &= entry == 1;
      zeros &= entry == 0 || entry >= size;
    }
    if (!ones && !zeros)
      return std::nullopt;
    extent.row = zeros ? 0 : 1;
  }
  if (flip) {
    if (shape.size() != 2)
      return std::nullopt;
    std::swap(extent.row, extent.col);
  }
  return extent;
}

static bool isElementwise(Operation *op) {
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
             arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp, arith::CmpFOp,
             arith::SelectOp, arith::ExtFOp, arith::TruncFOp, math::AbsFOp,
             math::ExpOp, math::LogOp, math::SqrtOp, math::RsqrtOp,
             math::TanhOp, math::ErfOp>(op);
}

/// Whether the elements that belong to eight columns lie next to each other,
/// 16-byte aligned, or are one.
bool SpaceRules::fitsMemory(Value value, bool flip, int64_t offset,
                            int64_t pitch) const {
  std::optional<Extent> extent = extentOf(value, flip);
  if (!extent)
    return false;
  Type element = typeOf(value).getElementType();
  bool byte =
      isa<Float8E4M3FNType, Float8E5M2Type>(element) || element.isInteger(8);
  // Of E5M6 eight columns are 12 bytes, aligned to 4.
  if (isa<E5M6Type>(element))
    return extent->isFull() && !flip && offset % kVector == 0 &&
           pitch % kVector == 0;
  if (!byte && !element.isBF16() && !element.isF32())
    return false;
  if (extent->col != 1)
    return !byte;
  Space merged = mergeDims(typeOf(value).getShape());
  if (flip)
    return merged.cols == 1 && pitch == 1 && offset % kVector == 0;
  return offset % kVector == 0 && (extent->row == 0 || pitch % kVector == 0);
}

bool SpaceRules::computeFits(Value value, bool flip) {
  std::optional<Extent> extent = extentOf(value, flip);
  if (!extent)
    return false;
  if (std::optional<Leaf> leaf = getLeaf(value))
    return fitsMemory(value, flip, leaf->offset, leaf->pitch);
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return isa<FloatType>(typeOf(value).getElementType()) &&
           isa<SplatElementsAttr>(constant.getValue());
  if (isReduction(op)) {
    if (placeOf(op) == ReductionPlace::Local)
      return fits(op->getOperand(0), flip);
    return fitsMemory(value, flip, 0, mergeDims(typeOf(value).getShape()).cols);
  }
  if (isa<CastOp, DequantizeOp>(op)) {
    Value data = op->getOperand(0), scale = op->getOperand(1);
    Value coded = isa<CastOp>(op) ? value : data;
    std::optional<Extent> group =
        groupExtent(coded, getEncoding(coded.getType()).getGroup(), flip);
    return group && extent->isFull() && group == extentOf(scale, flip) &&
           fits(data, flip) && fits(scale, flip);
  }
  if (isa<PermuteOp, TransposeOp>(op)) {
    ArrayRef<int64_t> perm = isa<PermuteOp>(op)
                                 ? cast<PermuteOp>(op).getPerm()
                                 : cast<TransposeOp>(op).getPerm();
    if (llvm::is_sorted(perm))
      return fits(op->getOperand(0), flip);
    return perm.size() == 2 && fits(op->getOperand(0), !flip);
  }
  if (isa<ReshapeOp>(op))
    return !flip && extent == extentOf(op->getOperand(0), false) &&
           fits(op->getOperand(0), false);
  if (isElementwise(op) || isa<ScaleOp, BroadcastOp, AmaxOp, ReduceOp>(op))
    return llvm::all_of(op->getOperands(),
                        [&](Value operand) { return fits(operand, flip); });
  return false;
}

bool SpaceRules::fits(Value value, bool flip) {
  auto key = std::pair(value.getAsOpaquePointer(), flip);
  if (auto it = known.find(key); it != known.end())
    return it->second;
  bool result = computeFits(value, flip);
  known[key] = result;
  return result;
}

std::optional<bool> SpaceRules::flipOf(Value value) {
  if (fits(value, false))
    return false;
  if (fits(value, true))
    return true;
  return std::nullopt;
}

ReductionPlace SpaceRules::placeOf(Operation *reduction) {
  if (auto it = places.find(reduction); it != places.end())
    return it->second;
  auto decide = [&]() {
    Value x = reduction->getOperand(0);
    std::optional<bool> flip = flipOf(x);
    if (!flip || !extentOf(x, *flip)->isFull())
      return ReductionPlace::Outer;
    std::optional<Extent> group =
        groupExtent(x, reductionGroup(reduction), *flip);
    if (!group)
      return ReductionPlace::Outer;
    bool row = *group == Extent{1, 0};
    if (auto reduce = dyn_cast<ReduceOp>(reduction)) {
      bool local = schedule == Schedule::Row && row &&
                   (reduce.getKind() == ReduceKind::Max ||
                    space.cols <= kMaxSummedColumns);
      return local ? ReductionPlace::Local : ReductionPlace::Outer;
    }
    bool grid = *group == Extent{0, 1} || *group == Extent{0, 0};
    bool local = *group == Extent{1, kTile};
    if (schedule == Schedule::Row) {
      local |= row;
    } else {
      grid |= row;
      local |= *group == Extent{kTile, 1} || *group == Extent{kTile, kTile};
    }
    return local  ? ReductionPlace::Local
           : grid ? ReductionPlace::Grid
                  : ReductionPlace::Outer;
  };
  ReductionPlace place = decide();
  places[reduction] = place;
  return place;
}

bool SpaceRules::dependsOnLocal(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isReduction(op))
    return placeOf(op) == ReductionPlace::Local;
  if (auto it = local.find(op); it != local.end())
    return it->second;
  bool depends = llvm::any_of(op->getOperands(), [&](Value operand) {
    return dependsOnLocal(operand);
  });
  local[op] = depends;
  return depends;
}
