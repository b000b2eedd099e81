//===- FP8SaveForms.cpp - the forms a residual may take ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SaveAlternativesInterface of the ops whose results have more than one form.
//
//===----------------------------------------------------------------------===//

#include "fp8/Dialect/FP8/IR/FP8.h"

using namespace mlir;
using namespace mlir::fp8;

using Forms = SmallVectorImpl<SaveForm>;

static int64_t getElements(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}
static int64_t getBytes(Value value) { return getByteSize(value.getType()); }

void CastOp::getSaveForms(unsigned, Forms &forms) {
  int64_t data = getBytes(getResult()), scale = getBytes(getScale());
  forms.push_back({"as-is", data, true, 0, 0});
  // Moving FP8 codes is exact; they are read and written once.
  forms.push_back({"fp8-transposed+scale", data + scale, true, 0, 2 * data});
  // One multiplication an element.
  forms.push_back({"max-only", scale, true, getElements(getX()),
                   getBytes(getX()) + scale + data});
}

void DequantizeOp::getSaveForms(unsigned, Forms &forms) {
  int64_t value = getBytes(getResult());
  int64_t kept = getBytes(getQ()) + getBytes(getScale());
  // One division a scale and one multiplication an element.
  int64_t flops = getElements(getScale()) + getElements(getQ());
  forms.push_back({"as-is", value, true, 0, 0});
  forms.push_back({"fp8+scale", kept, true, flops, kept + value});
  forms.push_back({"fp8-transposed+scale", kept, true, flops,
                   2 * getBytes(getQ()) + kept + value});
}

void TransposeOp::getSaveForms(unsigned, Forms &forms) {
  int64_t data = getBytes(getResult());
  forms.push_back({"as-is", data, true, 0, 0});
  // Of other types there is no second layout that an op wants.
  TensorEncodingAttr encoding = getEncoding(getResult().getType());
  if (!encoding || !encoding.isScaled())
    return;
  int64_t scales = 4;
  for (int64_t dim :
       getScaleShape(cast<RankedTensorType>(getResult().getType()).getShape(),
                     encoding.getGroup()))
    scales *= dim;
  forms.push_back({"fp8-transposed+scale", data + scales, true, 0, 2 * data});
}
