//===- CudaGemmRules.cpp - Which matmuls cuBLASLt takes -------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules are those that cuBLASLt 13.1 was seen to have on a Hopper GPU;
// what passes them is still asked of the library when a runner is created.
//
//===----------------------------------------------------------------------===//

#include "CudaGemmRules.h"

#include "fp8rt/CudaGemm.h"

#include <algorithm>
#include <array>

using namespace fp8rt;

namespace {

/// Rows of an operand and blocks of the summed axis that one factor covers in
/// the block modes.
constexpr int64_t kBlock = 128;

int64_t ceilDiv(int64_t value, int64_t by) { return (value + by - 1) / by; }
int64_t roundUp(int64_t value, int64_t to) { return ceilDiv(value, to) * to; }

bool isF8(DType type) {
  return type == DType::F8E4M3FN || type == DType::F8E5M2;
}

class Mapper {
public:
  Mapper(const GemmCommand &gemm, CudaGemmLayout &layout, std::string &error)
      : gemm(gemm), layout(layout), error(error) {}

  bool run(uint64_t workspaceBytes) {
    return checkTypes() && mapOperands() && mapResult() && mapScales() &&
           checkSizes() && divideWorkspace(workspaceBytes);
  }

private:
  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }

  bool checkTypes() {
    DType a = gemm.a.dtype, b = gemm.b.dtype;
    std::string types = std::string(dtypeName(a)) + " and " + dtypeName(b);
    if (isF8(a) != isF8(b) || (!isF8(a) && a != b))
      return fail("expected a and b both f8 or of one type, but got " + types);
    if (a == DType::F8E5M2 && b == DType::F8E5M2)
      return fail("cuBLASLt multiplies no f8E5M2 by f8E5M2");
    if (a == DType::F32 && gemm.d.dtype != DType::F32)
      return fail("expected an f32 result of f32 operands, but got " +
                  std::string(dtypeName(gemm.d.dtype)));
    if (gemm.c && gemm.c->dtype != gemm.d.dtype)
      return fail("expected c of the result's type " +
                  std::string(dtypeName(gemm.d.dtype)) + ", but got " +
                  dtypeName(gemm.c->dtype));
    return true;
  }

  /// Maps the operand `name`, `outer` x k, whose strides along the outer and
  /// the summed axis are given. `first`: the operand is cuBLASLt's first.
  bool mapOperand(const char *name, DType type, int64_t outer,
                  int64_t outerStride, int64_t sumStride, bool first,
                  ColumnMajor &out) {
    bool sumContiguous = sumStride == 1 || gemm.k == 1;
    bool outerContiguous = outerStride == 1 || outer == 1;
    if (isF8(type) && !sumContiguous)
      return fail("expected f8 operands contiguous along k, but " +
                  std::string(name) + " has a stride of " +
                  std::to_string(sumStride) + " along k");
    if (!sumContiguous && !outerContiguous)
      return fail("expected " + std::string(name) +
                  " contiguous along one axis, but got the strides " +
                  std::to_string(outerStride) + " and " +
                  std::to_string(sumStride) + " along k");
    // An axis of one element has a free stride.
    if (sumContiguous)
      out = {gemm.k, outer, outer == 1 ? gemm.k : outerStride, first};
    else
      out = {outer, gemm.k, sumStride, !first};
    if (out.leading < out.rows)
      return fail("expected rows of " + std::string(name) +
                  " that do not overlap, but got a stride of " +
                  std::to_string(out.leading) + " for rows of " +
                  std::to_string(out.rows) + " elements");
    if (isF8(type) && out.leading % 16 != 0)
      return fail(
          "expected f8 rows at multiples of 16 elements, but those of " +
          std::string(name) + " are " + std::to_string(out.leading) + " apart");
    return true;
  }

  bool mapOperands() {
    if (!mapOperand("a", gemm.a.dtype, gemm.m, gemm.a.strides[0],
                    gemm.a.strides[1], /*first=*/false, layout.second) ||
        !mapOperand("b", gemm.b.dtype, gemm.n, gemm.b.strides[1],
                    gemm.b.strides[0], /*first=*/true, layout.first))
      return false;
    for (auto [name, operand] :
         {std::pair("a", &gemm.a), std::pair("b", &gemm.b)})
      if (isF8(operand->dtype) && operand->offset % 16 != 0)
        return fail("expected f8 operands at multiples of 16 bytes, but " +
                    std::string(name) + " starts at byte " +
                    std::to_string(operand->offset));
    return true;
  }

  bool mapRowMajor(const char *name, const Operand &operand, ColumnMajor &out) {
    if (operand.strides[1] != 1 && gemm.n != 1)
      return fail("expected a row-major " + std::string(name) +
                  ", but got a stride of " +
                  std::to_string(operand.strides[1]) + " along its rows");
    out = {gemm.n, gemm.m, gemm.m == 1 ? gemm.n : operand.strides[0], false};
    if (out.leading < out.rows)
      return fail("expected rows of " + std::string(name) +
                  " that do not overlap, but got a stride of " +
                  std::to_string(out.leading) + " for rows of " +
                  std::to_string(out.rows) + " elements");
    return true;
  }

  bool mapResult() {
    return mapRowMajor("d", gemm.d, layout.d) &&
           (!gemm.c || mapRowMajor("c", *gemm.c, layout.c));
  }

  /// Maps the scale of the operand `name` with `rows` rows, whose position in
  /// the scale's group and strides is `outerAxis`.
  bool mapScale(const char *name, DType type,
                const std::optional<ScaleOperand> &scale, int64_t rows,
                int outerAxis, FactorLayout &out) {
    out = {};
    if (!scale)
      return true;
    if (!isF8(type))
      return fail("expected no scale of the " + std::string(dtypeName(type)) +
                  " operand " + name);
    int64_t rowGroup = scale->group[outerAxis];
    int64_t sumGroup = scale->group[1 - outerAxis];
    int64_t rowStride = scale->strides[outerAxis];
    int64_t sumStride = scale->strides[1 - outerAxis];
    int64_t sumBlocks = ceilDiv(gemm.k, kBlock);
    if (rowGroup == 0 && sumGroup == 0)
      out = {FactorMode::Scalar, 1, 1, 1, 0, 0, 0, 0};
    else if (rowGroup == 1 && sumGroup == 0)
      out = {FactorMode::OuterVector, 1, rows, rows, 0, rowStride, 0, 0};
    else if (rowGroup == 1 && sumGroup == kBlock)
      out = {FactorMode::Vec128, sumBlocks, rows, roundUp(rows, 4),
             sumStride,          rowStride, 0,    0};
    else if (rowGroup == kBlock && sumGroup == kBlock)
      out = {FactorMode::Block128,
             ceilDiv(rows, kBlock),
             sumBlocks,
             roundUp(sumBlocks, 4),
             rowStride,
             sumStride,
             0,
             0};
    else
      return fail("expected a scale of " + std::string(name) +
                  " for the tensor, for each row, for 1x128 or for 128x128 "
                  "elements, but got one for " +
                  groupText(rowGroup) + " x " + groupText(sumGroup) +
                  " (rows x k)");
    out.bytes = static_cast<uint64_t>(out.slow) *
                static_cast<uint64_t>(out.pitch) * sizeof(float);
    return true;
  }

  static std::string groupText(int64_t group) {
    return group == 0 ? "all" : std::to_string(group);
  }

  bool mapScales() {
    FactorLayout &a = layout.factorsA, &b = layout.factorsB;
    if (!mapScale("a", gemm.a.dtype, gemm.scaleA, gemm.m, 0, a) ||
        !mapScale("b", gemm.b.dtype, gemm.scaleB, gemm.n, 1, b))
      return false;
    using Mode = FactorMode;
    constexpr std::array<std::pair<Mode, Mode>, 8> legal = {
        {{Mode::None, Mode::None},
         {Mode::None, Mode::Scalar},
         {Mode::Scalar, Mode::None},
         {Mode::Scalar, Mode::Scalar},
         {Mode::OuterVector, Mode::OuterVector},
         {Mode::Vec128, Mode::Vec128},
         {Mode::Vec128, Mode::Block128},
         {Mode::Block128, Mode::Vec128}}};
    if (std::find(legal.begin(), legal.end(), std::pair(a.mode, b.mode)) ==
        legal.end())
      return fail("cuBLASLt does not combine a scale of a " +
                  std::string(factorModeName(a.mode)) + " with one of b " +
                  factorModeName(b.mode));
    if (isBlock() && gemm.fastAccum)
      return fail("cuBLASLt has no fast accumulation with scales for blocks");
    return true;
  }

  bool isBlock() const {
    return layout.factorsA.mode == FactorMode::Vec128 ||
           layout.factorsA.mode == FactorMode::Block128;
  }

  bool multiple(const char *size, int64_t value, int64_t of,
                const char *where) {
    if (value % of == 0)
      return true;
    return fail("cuBLASLt takes " + std::string(where) + " only with " + size +
                " a multiple of " + std::to_string(of) + ", but got " +
                std::to_string(value));
  }

  bool checkSizes() {
    if (!isF8(gemm.a.dtype))
      return true;
    if (!multiple("k", gemm.k, 16, "f8 operands"))
      return false;
    if (isBlock())
      return multiple("n", gemm.n, 8, "scales for blocks") &&
             (layout.factorsA.mode != FactorMode::Vec128 ||
              multiple("m", gemm.m, 4, "1x128 scales of a"));
    return gemm.n == 1 || multiple("n", gemm.n, 8, "f8 operands");
  }

  bool divideWorkspace(uint64_t workspaceBytes) {
    uint64_t offset = 0;
    for (FactorLayout *factors : {&layout.factorsA, &layout.factorsB}) {
      factors->offset = offset;
      offset += (factors->bytes + 255) / 256 * 256;
    }
    if (workspaceBytes < offset + kCudaGemmLibraryBytes)
      return fail("expected a workspace of " + std::to_string(offset) +
                  " bytes of factors and " +
                  std::to_string(kCudaGemmLibraryBytes) +
                  " bytes for cuBLASLt at least, but got " +
                  std::to_string(workspaceBytes) + " bytes");
    layout.libraryOffset = offset;
    layout.libraryBytes = workspaceBytes - offset;
    return true;
  }

  const GemmCommand &gemm;
  CudaGemmLayout &layout;
  std::string &error;
};

} // namespace

const char *fp8rt::factorModeName(FactorMode mode) {
  switch (mode) {
  case FactorMode::None:
    return "absent";
  case FactorMode::Scalar:
    return "for the tensor";
  case FactorMode::OuterVector:
    return "for each row";
  case FactorMode::Vec128:
    return "for 1x128 elements";
  case FactorMode::Block128:
    return "for 128x128 elements";
  }
  return "unknown";
}

bool fp8rt::layoutCudaGemm(const GemmCommand &gemm, uint64_t workspaceBytes,
                           CudaGemmLayout &layout, std::string &error) {
  return Mapper(gemm, layout, error).run(workspaceBytes);
}
