//===- Grouped.cpp - products of groups of rows -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A group at a time: its rows and their multipliers are copied into matrices of
// their own, which are multiplied as any are.
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"

#include "Numeric.h"

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::reference;

namespace {

/// A row-major matrix.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
};

/// Rows and columns of one matrix of `tensor`: those from `row` on and from
/// `column` on.
Matrix cut(const std::vector<float> &values, int64_t start, int64_t width,
           int64_t row, int64_t rows, int64_t column, int64_t columns) {
  Matrix result{rows, columns, {}};
  for (int64_t i = row; i < row + rows; ++i)
    for (int64_t j = column; j < column + columns; ++j)
      result.values.push_back(values[start + i * width + j]);
  return result;
}

/// An operand, as f32, with the multipliers it was cast with.
struct Factor {
  Factor(const HostTensor &tensor, const HostTensor *multipliers)
      : shape(tensor.type.getShape()), values(readFloats(tensor)) {
    if (!multipliers)
      return;
    group = llvm::to_vector(getEncoding(tensor.type).getGroup());
    scaleShape = multipliers->type.getShape();
    scales = readFloats(*multipliers);
  }

  /// The part of matrix `number` from (row, column) on. A part begins where a
  /// group of scales does.
  Matrix part(int64_t number, int64_t row, int64_t rows, int64_t column,
              int64_t columns) const {
    int64_t width = shape.back(), height = shape[shape.size() - 2];
    return cut(values, number * height * width, width, row, rows, column,
               columns);
  }
  /// Its multipliers, in `storage`.
  std::optional<MatmulScale> scalesOf(int64_t number, int64_t row, int64_t rows,
                                      int64_t column, int64_t columns,
                                      Matrix &storage) const {
    if (scales.empty())
      return std::nullopt;
    int64_t rowGroup = group[group.size() - 2], columnGroup = group.back();
    int64_t width = scaleShape.back(),
            height = scaleShape[scaleShape.size() - 2];
    if (group.size() == 3 && group[0] == 0)
      number = 0;
    auto count = [](int64_t size, int64_t group) {
      return group ? llvm::divideCeil(size, group) : 1;
    };
    storage = cut(scales, number * height * width, width,
                  rowGroup ? row / rowGroup : 0, count(rows, rowGroup),
                  columnGroup ? column / columnGroup : 0,
                  count(columns, columnGroup));
    return MatmulScale{storage.values.data(), rowGroup, columnGroup,
                       storage.columns};
  }

  ArrayRef<int64_t> shape, scaleShape;
  std::vector<float> values, scales;
  SmallVector<int64_t> group;
};

/// The offsets of `op`, checked.
FailureOr<std::vector<int32_t>> readOffsets(GroupedMatmulOp op,
                                            const HostTensor &tensor) {
  std::vector<int32_t> offsets(tensor.type.getNumElements());
  std::memcpy(offsets.data(), tensor.bytes.data(), tensor.bytes.size());
  int64_t groups = op.getNumGroups(), align = op.getAlign(),
          capacity = op.getCapacity();
  if (offsets[0] != 0)
    return op.emitError() << "expected group 0 of " << groups
                          << " to begin at row 0, but got " << offsets[0];
  for (int64_t group = 0; group < groups; ++group) {
    int32_t begin = offsets[group], end = offsets[group + 1];
    auto fail = [&] {
      return op.emitError()
             << "expected group " << group << " of " << groups << " to end ";
    };
    if (end < begin)
      return fail() << "at row " << begin
                    << ", where it begins, or behind, but got " << end;
    if (end > capacity)
      return fail() << "within the capacity of " << capacity
                    << " rows, but got " << end;
    if (end % align != 0)
      return fail() << "at a multiple of " << align << " rows, but got " << end;
  }
  return offsets;
}

} // namespace

FailureOr<HostTensor>
reference::evaluateGrouped(GroupedMatmulOp op,
                           ArrayRef<const HostTensor *> operands) {
  FailureOr<std::vector<int32_t>> offsets = readOffsets(op, *operands[2]);
  if (failed(offsets))
    return failure();
  unsigned next = 3;
  const HostTensor *scaleA = op.getScaleA() ? operands[next++] : nullptr;
  const HostTensor *scaleB = op.getScaleB() ? operands[next++] : nullptr;
  Factor a(*operands[0], scaleA), b(*operands[1], scaleB);
  int64_t m = a.shape[0], k = a.shape[1], n = b.shape.back();
  auto type = cast<RankedTensorType>(op.getResult().getType());
  // What no group has rows of stays zero.
  std::vector<float> result(type.getNumElements(), 0.0f);
  bool isSum = op.isSumGrouped();
  for (int64_t group = 0; group < op.getNumGroups(); ++group) {
    int64_t begin = (*offsets)[group], rows = (*offsets)[group + 1] - begin;
    // What of [m, k] times [k, n] the group has.
    int64_t firstM = isSum ? 0 : begin, sizeM = isSum ? m : rows;
    int64_t firstK = isSum ? begin : 0, sizeK = isSum ? rows : k;
    int64_t number = isSum ? 0 : group;
    if (rows == 0)
      continue;
    Matrix storageA, storageB;
    Matrix left = a.part(0, firstM, sizeM, firstK, sizeK);
    Matrix right = b.part(number, firstK, sizeK, 0, n);
    float *target = result.data() + (isSum ? group * m * n : begin * n);
    matmul(sizeM, n, sizeK, left.values.data(), right.values.data(),
           a.scalesOf(0, firstM, sizeM, firstK, sizeK, storageA),
           b.scalesOf(number, firstK, sizeK, 0, n, storageB), nullptr, target);
  }
  return makeTensor(type, result);
}
