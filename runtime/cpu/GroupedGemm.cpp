//===- GroupedGemm.cpp - A product for each group of rows -----------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The offsets are data of the run: they are checked before anything is written,
// so that rows beyond the capacity are an error and never a write.
//
//===----------------------------------------------------------------------===//

#include "fp8rt/CpuGemm.h"

#include <cstring>

using namespace fp8rt;

namespace {

bool checkOffsets(const GroupedGemmProblem &problem, int64_t capacity,
                  std::string &error) {
  const int32_t *offsets = problem.offsets;
  if (offsets[0] != 0) {
    error = "expected group 0 of " + std::to_string(problem.count) +
            " to begin at row 0, but got " + std::to_string(offsets[0]);
    return false;
  }
  for (int64_t g = 0; g < problem.count; ++g) {
    int64_t begin = offsets[g], end = offsets[g + 1];
    std::string expected;
    if (end < begin)
      expected =
          "at row " + std::to_string(begin) + ", where it begins, or behind";
    else if (end > capacity)
      expected = "within the capacity of " + std::to_string(capacity) + " rows";
    else if (end % problem.align != 0)
      expected = "at a multiple of " + std::to_string(problem.align) + " rows";
    if (expected.empty())
      continue;
    error = "expected group " + std::to_string(g) + " of " +
            std::to_string(problem.count) + " to end " + expected +
            ", but got " + std::to_string(end);
    return false;
  }
  return true;
}

void advance(GemmMatrix &matrix, int64_t elements) {
  matrix.data = static_cast<unsigned char *>(matrix.data) +
                elements * static_cast<int64_t>(dtypeBytes(matrix.dtype));
}

/// To the multipliers from row or column `first` on, as `axis` says.
void advance(GemmScale &scale, int axis, int64_t first) {
  if (scale.data && scale.group[axis])
    scale.data += first / scale.group[axis] * scale.strides[axis];
}

/// Sets rows from `first` to `last` of `matrix`, of `columns` columns, to +0.
void clearRows(const GemmMatrix &matrix, int64_t first, int64_t last,
               int64_t columns) {
  size_t bytes = dtypeBytes(matrix.dtype);
  auto *data = static_cast<unsigned char *>(matrix.data);
  for (int64_t i = first; i < last; ++i)
    for (int64_t j = 0; j < columns; ++j)
      std::memset(data + static_cast<size_t>(i * matrix.strides[0] +
                                             j * matrix.strides[1]) *
                             bytes,
                  0, bytes);
}

} // namespace

bool fp8rt::cpuGroupedGemm(const GroupedGemmProblem &problem, void *workspace,
                           CpuIsa isa, std::string &error) {
  const GemmProblem &whole = problem.whole;
  int64_t capacity = problem.ofSum ? whole.k : whole.m;
  if (!checkOffsets(problem, capacity, error))
    return false;
  // A workspace is written in any case.
  std::memset(workspace, 0, 64);
  for (int64_t g = 0; g < problem.count; ++g) {
    int64_t begin = problem.offsets[g], rows = problem.offsets[g + 1] - begin;
    GemmProblem part = whole;
    (problem.ofSum ? part.k : part.m) = rows;
    advance(problem.ofSum ? part.d : part.b, g * problem.stride);
    if (rows == 0) {
      if (problem.ofSum)
        clearRows(part.d, 0, part.m, part.n);
      continue;
    }
    if (problem.ofSum) {
      advance(part.a, begin * part.a.strides[1]);
      advance(part.b, begin * part.b.strides[0]);
      advance(part.scaleA, 1, begin);
      advance(part.scaleB, 0, begin);
    } else {
      advance(part.a, begin * part.a.strides[0]);
      advance(part.d, begin * part.d.strides[0]);
      advance(part.scaleA, 0, begin);
      if (part.scaleB.data)
        part.scaleB.data += g * problem.scaleStride;
    }
    cpuGemm(part, workspace, isa);
  }
  if (!problem.ofSum)
    clearRows(whole.d, problem.offsets[problem.count], whole.m, whole.n);
  return true;
}
