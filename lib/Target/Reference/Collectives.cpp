//===- Collectives.cpp - collectives of the reference -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What each rank gets of a collective, from the operands of all of them.
//
//===----------------------------------------------------------------------===//

#include "Elementary.h"
#include "Evaluate.h"

#include <cmath>

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::reference;

namespace {

/// A tensor as blocks around one dimension: `outer` times `length` times
/// `inner` bytes.
struct Blocks {
  int64_t outer = 1, length = 1, inner = 1;

  Blocks(RankedTensorType type, int64_t dim)
      : inner(llvm::divideCeil(type.getElementTypeBitWidth(), 8)) {
    for (auto [index, size] : llvm::enumerate(type.getShape())) {
      if (int64_t(index) < dim)
        outer *= size;
      else if (int64_t(index) > dim)
        inner *= size;
      else
        length = size;
    }
  }
};

/// The part with the number `part` of `parts` equal ones along `dim`.
HostTensor cut(const HostTensor &tensor, int64_t dim, int64_t part,
               int64_t parts) {
  Blocks from(tensor.type, dim);
  SmallVector<int64_t> shape(tensor.type.getShape());
  shape[dim] /= parts;
  HostTensor result = HostTensor::zeros(
      RankedTensorType::get(shape, tensor.type.getElementType()));
  int64_t bytes = shape[dim] * from.inner;
  for (int64_t o = 0; o < from.outer; ++o)
    std::copy_n(tensor.bytes.begin() + o * from.length * from.inner +
                    part * bytes,
                bytes, result.bytes.begin() + o * bytes);
  return result;
}

/// Equal tensors one after another along `dim`, as a tensor of `type`.
HostTensor join(ArrayRef<HostTensor> tensors, int64_t dim,
                RankedTensorType type) {
  HostTensor result = HostTensor::zeros(type);
  Blocks to(type, dim);
  int64_t bytes = to.length / int64_t(tensors.size()) * to.inner;
  for (auto [index, tensor] : llvm::enumerate(tensors))
    for (int64_t o = 0; o < to.outer; ++o)
      std::copy_n(tensor.bytes.begin() + o * bytes, bytes,
                  result.bytes.begin() + o * to.length * to.inner +
                      int64_t(index) * bytes);
  return result;
}

/// The sum, in the order of the tensors, or the maximum.
HostTensor reduce(const Collective &collective, ArrayRef<HostTensor> tensors,
                  RankedTensorType type) {
  std::vector<float> total = readFloats(tensors.front());
  for (const HostTensor &tensor : tensors.drop_front())
    for (auto [sum, value] : llvm::zip_equal(total, readFloats(tensor))) {
      if (collective.reduce == ReduceKind::Max)
        sum = maximumF32(sum, value);
      else if (collective.acc && collective.acc.isBF16())
        sum = roundToBF16(sum + value);
      else
        sum = sum + value;
    }
  for (float &value : total)
    if (std::isnan(value))
      value = std::numeric_limits<float>::quiet_NaN();
  return makeTensor(type, total);
}

} // namespace

HostTensor reference::evaluateCollective(const Collective &collective,
                                         ArrayRef<const HostTensor *> operands,
                                         int64_t member) {
  auto type = cast<RankedTensorType>(collective.result.getType());
  int64_t size = operands.size();
  std::vector<HostTensor> parts;
  for (const HostTensor *operand : operands)
    parts.push_back(collective.split < 0
                        ? *operand
                        : cut(*operand, collective.split, member, size));
  return collective.reduce ? reduce(collective, parts, type)
                           : join(parts, collective.concat, type);
}
