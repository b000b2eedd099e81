# ===- table.py - which emitter an operation has ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The operations of ATen that the dialect can say. An emitter that gives False, and an operation that is not here, become
# an fp8.opaque.
#
#===----------------------------------------------------------------------===//
"""Emitters by the name of the operation."""

from __future__ import annotations

from typing import Dict

from . import collectives, scaled, structured
from . import pointwise as p
from .program import Emitter

EMITTERS: Dict[str, Emitter] = {
    # Elementwise.
    "aten.add.Tensor": p.binary("arith.addf"),
    "aten.add.Scalar": p.binary("arith.addf"),
    "aten.sub.Tensor": p.binary("arith.subf"),
    "aten.sub.Scalar": p.binary("arith.subf"),
    "aten.rsub.Scalar": p.pointwise(lambda body, a, b: body.apply("arith.subf", b, a), 2),
    "aten.mul.Tensor": p.binary("arith.mulf"),
    "aten.mul.Scalar": p.binary("arith.mulf"),
    "aten.div.Tensor": p.binary("arith.divf"),
    "aten.div.Scalar": p.binary("arith.divf"),
    "aten.maximum.default": p.binary("arith.maximumf"),
    "aten.minimum.default": p.binary("arith.minimumf"),
    "aten.clamp.default": p.clamp,
    "aten.clamp_min.default": p.binary("arith.maximumf"),
    "aten.clamp_max.default": p.binary("arith.minimumf"),
    "aten.relu.default": p.pointwise(lambda body, x: body.apply("arith.maximumf", x, 0.0), 1),
    "aten.neg.default": p.unary("arith.negf"),
    "aten.abs.default": p.unary("math.absf"),
    "aten.exp.default": p.unary("math.exp"),
    "aten.log.default": p.unary("math.log"),
    "aten.sqrt.default": p.unary("math.sqrt"),
    "aten.rsqrt.default": p.unary("math.rsqrt"),
    "aten.tanh.default": p.unary("math.tanh"),
    "aten.erf.default": p.unary("math.erf"),
    "aten.reciprocal.default": p.pointwise(lambda body, x: body.apply("arith.divf", 1.0, x), 1),
    "aten.sigmoid.default": p.pointwise(p.sigmoid, 1),
    "aten.silu.default": p.pointwise(p.silu, 1),
    "aten.gelu.default": p.gelu,
    "aten.pow.Tensor_Scalar": p.power,
    "prims.fma.default": p.pointwise(lambda body, a, b, c: body.apply("arith.addf", body.apply("arith.mulf", a, b), c),
                                     3),
    "aten._to_copy.default": p.convert,
    "prims.convert_element_type.default": p.convert,
    "aten.clone.default": p.copy,
    "aten.contiguous.default": p.copy,
    "aten.full.default": p.full,
    "aten.ones.default": p.full,
    "aten.zeros.default": p.full,
    "aten.full_like.default": p.full,
    "aten.ones_like.default": p.full,
    "aten.zeros_like.default": p.full,
    "aten.scalar_tensor.default": p.full,
    # FP8, as `scaled.find_scaling` has found it.
    scaled.AMAX: scaled.amax,
    scaled.SCALE: scaled.scale,
    scaled.CAST: scaled.cast,
    scaled.MATMUL: scaled.matmul,
    # Over dimensions.
    "aten.sum.dim_IntList": structured.reduction("sum"),
    "aten.sum.default": structured.reduction("sum"),
    "aten.mean.dim": structured.reduction("sum", mean=True),
    "aten.mean.default": structured.reduction("sum", mean=True),
    "aten.amax.default": structured.reduction("max"),
    "aten.max.default": structured.reduction("max"),
    "aten.max.dim": structured.maximum_and_index,
    "aten._softmax.default": structured.softmax(logarithm=False),
    "aten._log_softmax.default": structured.softmax(logarithm=True),
    "aten.mm.default": structured.matmul,
    "aten.addmm.default": structured.matmul,
    "aten.bmm.default": structured.batched,
    "aten.cat.default": structured.concatenate,
    "aten.constant_pad_nd.default": structured.padding,
    "aten.slice_backward.default": structured.padding,
    "aten.select_backward.default": structured.padding,
    "aten.slice_scatter.default": structured.written_slice,
    "aten.view.dtype": structured.strided_view,
    # Between ranks.
    "_c10d_functional.all_gather_into_tensor.default": collectives.all_gather,
    "_c10d_functional.reduce_scatter_tensor.default": collectives.reduce_scatter,
    "_c10d_functional.all_reduce.default": collectives.all_reduce,
    "_c10d_functional.all_to_all_single.default": collectives.all_to_all,
}
