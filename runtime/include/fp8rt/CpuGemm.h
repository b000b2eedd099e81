//===- CpuGemm.h - The matmul of the CPU backend ----------------*- C++ -*-===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A blocked, vectorised matmul whose bits are those of docs/architecture.md,
// "Numbers", for every blocking, instruction set and stride. It allocates
// nothing: panels are packed into a workspace that the plan counts.
//
//===----------------------------------------------------------------------===//

#ifndef FP8RT_CPUGEMM_H
#define FP8RT_CPUGEMM_H

#include "fp8rt/Formats.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace fp8rt {

/// Bytes of workspace every CPU matmul needs, whatever its size.
inline constexpr size_t kCpuGemmWorkspaceBytes = 256 * 1024;

/// The longest group of a scale along k (longer ones must be the whole of k).
inline constexpr int64_t kCpuGemmMaxScaleGroup = 128;

/// A 2-D operand: element (i, j) is `data[i * strides[0] + j * strides[1]]`,
/// strides in elements. Types: bf16, f32, f8E4M3FN, f8E5M2; results bf16, f32.
struct GemmMatrix {
  void *data = nullptr;
  DType dtype = DType::F32;
  int64_t strides[2] = {0, 0};
};

/// The multipliers an operand was scaled by; the element that covers (i, j) is
/// at `(group[0] ? i / group[0] : 0) * strides[0]` plus the same for j. A null
/// `data` means that the operand was not scaled.
struct GemmScale {
  const float *data = nullptr;
  int64_t group[2] = {0, 0};
  int64_t strides[2] = {0, 0};
};

/// d = a * b (+ c): `a` is [m, k], `b` is [k, n], `c` and `d` are [m, n]. A
/// null `c.data` means no accumulator; `c` may be `d`. When both scales have
/// groups along k, the groups are equal.
struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  GemmMatrix a, b, c, d;
  GemmScale scaleA, scaleB;
};

/// Instruction sets with a kernel of their own. All give the same bits.
enum class CpuIsa { Portable, X86V3 };

/// The fastest instruction set of this machine.
CpuIsa bestCpuIsa();

/// Computes `problem`. `workspace` is `kCpuGemmWorkspaceBytes` long and aligned
/// to 64 bytes; at least its first bytes are always written. NaN results are
/// stored as 0x7FC00000 (f32) or 0x7FC0 (bf16).
void cpuGemm(const GemmProblem &problem, void *workspace, CpuIsa isa);

/// A product for each group of rows: group g has the rows from `offsets[g]` to
/// `offsets[g + 1]`.
struct GroupedGemmProblem {
  /// At the capacity. Its `b`, and its `d` where `ofSum` is set, is that of
  /// group 0. No accumulator.
  GemmProblem whole;
  /// `count + 1` of them.
  const int32_t *offsets = nullptr;
  int64_t count = 0;
  /// Groups begin at multiples of so many rows; a multiple of the rows that
  /// share a scale.
  int64_t align = 1;
  /// Whether the rows of k are grouped, and `d` holds one matrix a group; else
  /// those of m are, and `b` does.
  bool ofSum = false;
  /// Elements between these matrices, and between the scales of those of `b`.
  int64_t stride = 0, scaleStride = 0;
};

/// Computes `problem`: +0 in rows behind the last group and for groups without
/// rows of k. Where the offsets are none of groups within the capacity it
/// writes nothing, sets `error` and returns false.
bool cpuGroupedGemm(const GroupedGemmProblem &problem, void *workspace,
                    CpuIsa isa, std::string &error);

} // namespace fp8rt

#endif // FP8RT_CPUGEMM_H
