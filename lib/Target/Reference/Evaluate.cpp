//===- Evaluate.cpp - single ops of the reference ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise ops, casts, reductions, matmuls and views, one op at a time and
// every result a tensor of its own.
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"

#include "Elementary.h"
#include "Numeric.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include <bit>
#include <cmath>

using namespace mlir;
using namespace mlir::fp8;
using namespace mlir::fp8::reference;

std::optional<Format> reference::getFormat(Type elementType) {
  if (elementType.isF32())
    return Format::F32;
  if (elementType.isBF16())
    return Format::BF16;
  if (isa<Float8E4M3FNType>(elementType))
    return Format::F8E4M3FN;
  if (isa<Float8E5M2Type>(elementType))
    return Format::F8E5M2;
  if (isa<E5M6Type>(elementType))
    return Format::E5M6;
  return std::nullopt;
}

std::vector<float> reference::readFloats(const HostTensor &tensor) {
  std::vector<float> values(tensor.type.getNumElements());
  decode(*getFormat(tensor.type.getElementType()), tensor.bytes.data(),
         values.data(), values.size());
  return values;
}

std::vector<double> HostTensor::toDoubles() const {
  std::optional<Format> format = getFormat(type.getElementType());
  if (!format)
    return {};
  std::vector<float> values(type.getNumElements());
  decode(*format, bytes.data(), values.data(), values.size());
  return {values.begin(), values.end()};
}

HostTensor reference::makeTensor(RankedTensorType type, ArrayRef<float> values,
                                 bool saturate) {
  HostTensor tensor = HostTensor::zeros(type);
  encode(*getFormat(type.getElementType()), values.data(), tensor.bytes.data(),
         values.size(), saturate);
  return tensor;
}

namespace {

size_t elementBytes(Type type) {
  return llvm::divideCeil(
      getElementBits(cast<RankedTensorType>(type).getElementType()), 8);
}

/// Row-major strides, in elements.
SmallVector<int64_t> stridesOf(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t dim = int64_t(shape.size()) - 2; dim >= 0; --dim)
    strides[dim] = strides[dim + 1] * shape[dim + 1];
  return strides;
}

/// Calls `visit(index, position)` for each index of `shape` in row-major order,
/// where `position` is the dot product of the index and `strides` plus `start`.
template <typename VisitT>
void forEachIndex(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                  int64_t start, VisitT visit) {
  for (int64_t size : shape)
    if (size == 0)
      return;
  SmallVector<int64_t> index(shape.size(), 0);
  int64_t position = start, number = 0;
  while (true) {
    visit(number++, position);
    int64_t dim = int64_t(shape.size()) - 1;
    for (; dim >= 0; --dim) {
      position += strides[dim];
      if (++index[dim] < shape[dim])
        break;
      position -= strides[dim] * shape[dim];
      index[dim] = 0;
    }
    if (dim < 0)
      return;
  }
}

/// Copies elements: result element in row-major order from the operand's
/// `start` plus index times `strides`.
HostTensor gather(const HostTensor &operand, RankedTensorType type,
                  ArrayRef<int64_t> strides, int64_t start = 0) {
  HostTensor result = HostTensor::zeros(type);
  size_t bytes = elementBytes(type);
  forEachIndex(type.getShape(), strides, start, [&](int64_t to, int64_t from) {
    std::memcpy(&result.bytes[to * bytes], &operand.bytes[from * bytes], bytes);
  });
  return result;
}

/// For each element of `shape` in row-major order, the number of its group.
std::vector<int64_t> groupNumbers(ArrayRef<int64_t> shape,
                                  ArrayRef<int64_t> group) {
  SmallVector<int64_t> strides = stridesOf(shape),
                       scaleStrides = stridesOf(getScaleShape(shape, group));
  int64_t count = ShapedType::getNumElements(shape);
  std::vector<int64_t> numbers(count);
  for (int64_t element = 0; element < count; ++element)
    for (auto [dim, size] : llvm::enumerate(shape)) {
      int64_t index = element / strides[dim] % size;
      numbers[element] +=
          (group[dim] ? index / group[dim] : 0) * scaleStrides[dim];
    }
  return numbers;
}

HostTensor evaluateAmax(AmaxOp op, const HostTensor &x) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  std::vector<float> values = readFloats(x),
                     result(type.getNumElements(), 0.0f);
  std::vector<int64_t> groups = groupNumbers(x.type.getShape(), op.getGroup());
  for (auto [value, group] : llvm::zip_equal(values, groups))
    result[group] = maximumF32(result[group], std::fabs(value));
  return makeTensor(type, result);
}

ScaleRule getRule(Type format, double eps, Division division, Pow2 pow2,
                  int64_t margin, NonFinite nonFinite) {
  ScaleRule rule;
  rule.format = *getFormat(format);
  rule.eps = eps;
  rule.isDoubleDivision = division == Division::F64;
  rule.pow2 = pow2 == Pow2::None    ? ScaleRule::NoPow2
              : pow2 == Pow2::Floor ? ScaleRule::Floor
                                    : ScaleRule::Ceil;
  rule.margin = margin;
  rule.isSaturating = nonFinite == NonFinite::Saturate;
  return rule;
}

HostTensor evaluateScale(ScaleOp op, const HostTensor &amax) {
  ScaleRule rule =
      getRule(op.getFormat(), op.getEps().convertToDouble(), op.getDivision(),
              op.getPow2(), op.getMargin(), op.getNonfinite());
  std::vector<float> values = readFloats(amax);
  for (float &value : values)
    value = scaleFromAmax(value, rule);
  return makeTensor(amax.type, values);
}

HostTensor evaluateCast(CastOp op, const HostTensor &x,
                        const HostTensor &scale) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  std::vector<float> values = readFloats(x), scales = readFloats(scale);
  std::vector<int64_t> groups =
      groupNumbers(type.getShape(), getEncoding(type).getGroup());
  for (auto [value, group] : llvm::zip_equal(values, groups))
    value = value * scales[group];
  return makeTensor(type, values, op.getSaturate());
}

HostTensor evaluateDequantize(DequantizeOp op, const HostTensor &q,
                              const HostTensor &scale) {
  std::vector<float> values = readFloats(q), scales = readFloats(scale);
  std::vector<int64_t> groups =
      groupNumbers(q.type.getShape(), getEncoding(q.type).getGroup());
  for (auto [value, group] : llvm::zip_equal(values, groups))
    value = value * (1.0f / scales[group]);
  return makeTensor(cast<RankedTensorType>(op.getResult().getType()), values);
}

HostTensor evaluateReduce(ReduceOp op, const HostTensor &x) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  ArrayRef<int64_t> shape = x.type.getShape();
  SmallVector<int64_t> strides = stridesOf(shape);
  SmallVector<int64_t> keptStrides(strides), reducedShape, reducedStrides;
  for (int64_t axis : op.getAxes()) {
    reducedShape.push_back(shape[axis]);
    reducedStrides.push_back(strides[axis]);
  }
  std::vector<float> values = readFloats(x), result(type.getNumElements());
  forEachIndex(type.getShape(), keptStrides, 0, [&](int64_t to, int64_t start) {
    Sum sum;
    float maximum = -std::numeric_limits<float>::infinity();
    forEachIndex(reducedShape, reducedStrides, start,
                 [&](int64_t, int64_t from) {
                   if (op.getKind() == ReduceKind::Sum)
                     sum.add(values[from]);
                   else
                     maximum = maximumF32(maximum, values[from]);
                 });
    result[to] = op.getKind() == ReduceKind::Sum ? sum.finish() : maximum;
  });
  return makeTensor(type, result);
}

HostTensor evaluateMatmul(MatmulOp op, ArrayRef<const HostTensor *> operands) {
  const HostTensor &a = *operands[0], &b = *operands[1];
  unsigned next = 2;
  std::vector<float> scaleValues[2];
  std::optional<MatmulScale> scales[2];
  for (unsigned side : {0, 1}) {
    if (!(side == 0 ? op.getScaleA() : op.getScaleB()))
      continue;
    const HostTensor &scale = *operands[next++];
    scaleValues[side] = readFloats(scale);
    ArrayRef<int64_t> group = getEncoding(operands[side]->type).getGroup();
    scales[side] = MatmulScale{scaleValues[side].data(), group[0], group[1],
                               scale.type.getDimSize(1)};
  }
  std::vector<float> acc;
  if (op.getAcc())
    acc = readFloats(*operands[next]);
  auto type = cast<RankedTensorType>(op.getResult().getType());
  std::vector<float> result(type.getNumElements());
  matmul(a.type.getDimSize(0), b.type.getDimSize(1), a.type.getDimSize(1),
         readFloats(a).data(), readFloats(b).data(), scales[0], scales[1],
         op.getAcc() ? acc.data() : nullptr, result.data());
  return makeTensor(type, result);
}

/// Copies `x` into `result`, from `offsets` on.
void scatter(const HostTensor &x, ArrayRef<int64_t> offsets,
             HostTensor &result) {
  SmallVector<int64_t> strides = stridesOf(result.type.getShape());
  int64_t start = 0;
  for (auto [offset, stride] : llvm::zip_equal(offsets, strides))
    start += offset * stride;
  size_t bytes = elementBytes(x.type);
  forEachIndex(
      x.type.getShape(), strides, start, [&](int64_t from, int64_t to) {
        std::memcpy(&result.bytes[to * bytes], &x.bytes[from * bytes], bytes);
      });
}

HostTensor evaluatePad(PadOp op, const HostTensor &x) {
  HostTensor result =
      HostTensor::zeros(cast<RankedTensorType>(op.getResult().getType()));
  scatter(x, op.getOffsets(), result);
  return result;
}

HostTensor evaluateUpdate(UpdateSliceOp op,
                          ArrayRef<const HostTensor *> operands) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  HostTensor result = op.getDest() ? *operands[1] : HostTensor::zeros(type);
  // What no piece has written yet is NaN, which no program expects.
  if (!op.getDest())
    llvm::fill(result.bytes, uint8_t(0xFF));
  scatter(*operands[0], op.getOffsets(), result);
  return result;
}

/// The elements in another order of the dimensions.
HostTensor evaluatePermute(const HostTensor &x, ArrayRef<int64_t> perm,
                           Type type) {
  SmallVector<int64_t> old = stridesOf(x.type.getShape()), strides;
  for (int64_t dim : perm)
    strides.push_back(old[dim]);
  return gather(x, cast<RankedTensorType>(type), strides);
}

HostTensor evaluateSlice(SliceOp op, const HostTensor &x) {
  SmallVector<int64_t> strides = stridesOf(x.type.getShape());
  int64_t start = 0;
  for (auto [offset, stride] : llvm::zip_equal(op.getOffsets(), strides))
    start += offset * stride;
  return gather(x, cast<RankedTensorType>(op.getResult().getType()), strides,
                start);
}

HostTensor evaluateBroadcast(BroadcastOp op, const HostTensor &x) {
  SmallVector<int64_t> strides = stridesOf(x.type.getShape());
  for (auto [dim, stride] : llvm::zip_equal(x.type.getShape(), strides))
    if (dim == 1)
      stride = 0;
  return gather(x, cast<RankedTensorType>(op.getResult().getType()), strides);
}

HostTensor evaluateRandom(RandomOp op, ArrayRef<const HostTensor *> operands) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  auto word = [&](unsigned number) {
    uint32_t value;
    std::memcpy(&value, operands[number]->bytes.data(), sizeof(value));
    return value;
  };
  SmallVector<int64_t> strides = op.getWholeStrides();
  int64_t start = 0;
  for (auto [number, dim] : llvm::enumerate(op.getShardedDims()))
    start += int64_t(word(2 + number)) * type.getDimSize(dim) * strides[dim];
  std::vector<float> result(type.getNumElements());
  forEachIndex(type.getShape(), strides, start, [&](int64_t to, int64_t place) {
    result[to] = uniformF32(place, word(1), word(0), uint32_t(op.getStream()));
  });
  return makeTensor(type, result);
}

HostTensor rename(const HostTensor &x, Type type) {
  return {cast<RankedTensorType>(type), x.bytes};
}

/// `function` of each element, in f32, rounded to the result's type.
template <typename FunctionT>
FailureOr<HostTensor> mapElements(Operation *op,
                                  ArrayRef<const HostTensor *> operands,
                                  FunctionT function) {
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  std::vector<std::vector<float>> values;
  for (const HostTensor *operand : operands) {
    std::optional<Format> format = getFormat(operand->type.getElementType());
    if (format != Format::F32 && format != Format::BF16)
      return op->emitError() << "expected bf16 or f32 operands to interpret '"
                             << op->getName() << "', but got " << operand->type;
    values.push_back(readFloats(*operand));
  }
  std::optional<Format> format = getFormat(type.getElementType());
  if (format != Format::F32 && format != Format::BF16)
    return op->emitError() << "expected a bf16 or f32 result to interpret '"
                           << op->getName() << "', but got " << type;
  std::vector<float> result(type.getNumElements());
  for (size_t i = 0; i < result.size(); ++i) {
    if constexpr (std::is_invocable_v<FunctionT, float>)
      result[i] = function(values[0][i]);
    else
      result[i] = function(values[0][i], values[1][i]);
  }
  return makeTensor(type, result);
}

float flipSign(float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 0x80000000u);
}
float clearSign(float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu);
}

bool compare(arith::CmpFPredicate predicate, float a, float b) {
  bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
  case arith::CmpFPredicate::AlwaysFalse:
    return false;
  case arith::CmpFPredicate::OEQ:
    return a == b;
  case arith::CmpFPredicate::OGT:
    return a > b;
  case arith::CmpFPredicate::OGE:
    return a >= b;
  case arith::CmpFPredicate::OLT:
    return a < b;
  case arith::CmpFPredicate::OLE:
    return a <= b;
  case arith::CmpFPredicate::ONE:
    return !unordered && a != b;
  case arith::CmpFPredicate::ORD:
    return !unordered;
  case arith::CmpFPredicate::UEQ:
    return unordered || a == b;
  case arith::CmpFPredicate::UGT:
    return unordered || a > b;
  case arith::CmpFPredicate::UGE:
    return unordered || a >= b;
  case arith::CmpFPredicate::ULT:
    return unordered || a < b;
  case arith::CmpFPredicate::ULE:
    return unordered || a <= b;
  case arith::CmpFPredicate::UNE:
    return a != b;
  case arith::CmpFPredicate::UNO:
    return unordered;
  case arith::CmpFPredicate::AlwaysTrue:
    return true;
  }
  return false;
}

FailureOr<HostTensor> evaluateCompare(arith::CmpFOp op,
                                      ArrayRef<const HostTensor *> operands) {
  for (const HostTensor *operand : operands)
    if (!getFormat(operand->type.getElementType()))
      return op.emitError()
             << "expected bf16 or f32 operands to interpret, but got "
             << operand->type;
  std::vector<float> a = readFloats(*operands[0]), b = readFloats(*operands[1]);
  HostTensor result = HostTensor::zeros(cast<RankedTensorType>(op.getType()));
  for (size_t i = 0; i < a.size(); ++i)
    result.bytes[i] = compare(op.getPredicate(), a[i], b[i]);
  return result;
}

FailureOr<HostTensor> evaluateSelect(arith::SelectOp op,
                                     ArrayRef<const HostTensor *> operands) {
  HostTensor result = *operands[2];
  size_t bytes = elementBytes(result.type);
  const std::vector<uint8_t> &condition = operands[0]->bytes;
  bool isScalar = operands[0]->type.getNumElements() == 1;
  for (int64_t i = 0; i < result.type.getNumElements(); ++i)
    if (condition[isScalar ? 0 : i])
      std::memcpy(&result.bytes[i * bytes], &operands[1]->bytes[i * bytes],
                  bytes);
  return result;
}

FailureOr<HostTensor> evaluateConstant(arith::ConstantOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  auto attribute = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!attribute)
    return op.emitError() << "expected a dense constant to interpret, but got "
                          << op.getValue();
  HostTensor result = HostTensor::zeros(type);
  size_t bytes = elementBytes(type);
  auto store = [&](int64_t index, const APInt &bits) {
    uint64_t value = bits.getZExtValue();
    std::memcpy(&result.bytes[index * bytes], &value, bytes);
  };
  int64_t index = 0;
  if (isa<FloatType>(type.getElementType()))
    for (const APFloat &value : attribute.getValues<APFloat>())
      store(index++, value.bitcastToAPInt());
  else
    for (const APInt &value : attribute.getValues<APInt>())
      store(index++, value);
  return result;
}

} // namespace

FailureOr<HostTensor>
reference::evaluate(Operation *op, ArrayRef<const HostTensor *> operands) {
  using Result = FailureOr<HostTensor>;
  auto unary = [&](float (*function)(float)) -> Result {
    return mapElements(op, operands, function);
  };
  auto x = [&]() -> const HostTensor & { return *operands[0]; };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::ConstantOp constant) {
        return evaluateConstant(constant);
      })
      .Case<arith::AddFOp>([&](Operation *) {
        return mapElements(op, operands,
                           [](float a, float b) { return a + b; });
      })
      .Case<arith::SubFOp>([&](Operation *) {
        return mapElements(op, operands,
                           [](float a, float b) { return a - b; });
      })
      .Case<arith::MulFOp>([&](Operation *) {
        return mapElements(op, operands,
                           [](float a, float b) { return a * b; });
      })
      .Case<arith::DivFOp>([&](Operation *) {
        return mapElements(op, operands,
                           [](float a, float b) { return a / b; });
      })
      .Case<arith::MaximumFOp>(
          [&](Operation *) { return mapElements(op, operands, maximumF32); })
      .Case<arith::MinimumFOp>(
          [&](Operation *) { return mapElements(op, operands, minimumF32); })
      .Case<arith::NegFOp>([&](Operation *) { return unary(flipSign); })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [&](Operation *) { return unary([](float value) { return value; }); })
      .Case<math::AbsFOp>([&](Operation *) { return unary(clearSign); })
      .Case<math::ExpOp>([&](Operation *) { return unary(expF32); })
      .Case<math::LogOp>([&](Operation *) { return unary(logF32); })
      .Case<math::SqrtOp>([&](Operation *) { return unary(sqrtF32); })
      .Case<math::RsqrtOp>([&](Operation *) { return unary(rsqrtF32); })
      .Case<math::TanhOp>([&](Operation *) { return unary(tanhF32); })
      .Case<math::ErfOp>([&](Operation *) { return unary(erfF32); })
      .Case([&](arith::CmpFOp compare) {
        return evaluateCompare(compare, operands);
      })
      .Case([&](arith::SelectOp select) {
        return evaluateSelect(select, operands);
      })
      .Case([&](AmaxOp amax) -> Result { return evaluateAmax(amax, x()); })
      .Case([&](ScaleOp scale) -> Result { return evaluateScale(scale, x()); })
      .Case([&](CastOp cast) -> Result {
        return evaluateCast(cast, x(), *operands[1]);
      })
      .Case([&](DequantizeOp dequantize) -> Result {
        return evaluateDequantize(dequantize, x(), *operands[1]);
      })
      .Case([&](ReduceOp reduce) -> Result {
        return evaluateReduce(reduce, x());
      })
      .Case([&](BroadcastOp broadcast) -> Result {
        return evaluateBroadcast(broadcast, x());
      })
      .Case([&](RandomOp random) -> Result {
        return evaluateRandom(random, operands);
      })
      .Case([&](MatmulOp matmul) -> Result {
        return evaluateMatmul(matmul, operands);
      })
      .Case([&](GroupedMatmulOp grouped) -> Result {
        return evaluateGrouped(grouped, operands);
      })
      .Case([&](PermuteOp permute) -> Result {
        return evaluatePermute(x(), permute.getPerm(), permute.getType());
      })
      .Case([&](TransposeOp move) -> Result {
        return evaluatePermute(x(), move.getPerm(), move.getType());
      })
      .Case([&](SliceOp slice) -> Result { return evaluateSlice(slice, x()); })
      .Case([&](PadOp pad) -> Result { return evaluatePad(pad, x()); })
      .Case([&](UpdateSliceOp update) -> Result {
        return evaluateUpdate(update, operands);
      })
      .Case<ReshapeOp, BitcastOp>([&](Operation *) -> Result {
        return rename(x(), op->getResult(0).getType());
      })
      .Case<LinearOp, LinearDgradOp, LinearWgradOp, GroupedLinearOp,
            GroupedLinearDgradOp, GroupedLinearWgradOp>(
          [&](Operation *) -> Result {
            return op->emitError()
                   << "expected '" << op->getName()
                   << "' to be expanded before it is interpreted; run "
                   << "fp8-expand-recipes";
          })
      .Default([&](Operation *) -> Result {
        return op->emitError()
               << "expected an op with known arithmetic to interpret, but got '"
               << op->getName() << "'";
      });
}

void reference::pushAmax(const HostTensor &amax, HostTensor &history) {
  std::vector<float> values = readFloats(history);
  values[0] = maximumF32(values[0], readFloats(amax)[0]);
  history = makeTensor(history.type, values);
}

void reference::updateScale(UpdateScaleOp op, HostTensor &history,
                            HostTensor &scale) {
  std::vector<float> values = readFloats(history);
  float amax = values[0];
  for (float value : values)
    amax = maximumF32(amax, value);
  if (!(amax <= 0)) {
    ScaleRule rule = getRule(op.getFormat(), 0.0, Division::F32, op.getPow2(),
                             op.getMargin(), NonFinite::Propagate);
    scale = makeTensor(scale.type, {scaleFromAmax(amax, rule)});
  }
  values.insert(values.begin(), 0.0f);
  values.pop_back();
  history = makeTensor(history.type, values);
}
