# ===- structured.py - reductions, matrix products and movements of ATen ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What is not elementwise: sums and maxima over dimensions, softmax, products, concatenation and padding.
#
#===----------------------------------------------------------------------===//
"""Emitters of operations over dimensions."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Optional, Sequence

from ..graphs.graph import Node, Ref
from ..tensor_types import TensorType
from ..values import Value
from .pointwise import arithmetic
from .program import ARITHMETIC, ELEMENTS, Home, Importer


def _axes(argument: Any, rank: int) -> List[int]:
    """Dimensions as sorted numbers from 0; all where none are given."""
    if argument is None or argument == []:
        return list(range(rank))
    axes = argument if isinstance(argument, list) else [argument]
    return sorted(axis % rank for axis in axes)


def reduction(kind: str, mean: bool = False) -> Callable[[Importer, Node], bool]:
    """A sum, a mean or a maximum over dimensions: `op(x, dims, keepdim)`."""

    def emit(state: Importer, node: Node) -> bool:
        if not arithmetic(state, node, node.args[:1]) or set(node.kwargs) - {"dtype"}:
            return False
        source = state.tensor(node.args[0].name)
        rank = len(source.shape)
        if rank == 0:
            return False
        axes = _axes(node.args[1] if len(node.args) > 1 else None, rank)
        (name, tensor), = node.outputs
        if state.homes[node.args[0].name].constant is not None:
            return False
        value = state.read(node.args[0])
        f = state.f
        element = "f32" if mean or tensor.dtype == "float32" else "bf16"
        reduced = f.reduce(kind, value, axes, element if kind == "sum" else value.type.element, state.part("reduce"))
        if mean:
            count = math.prod(source.shape[axis] for axis in axes)
            reduced = f.elementwise("arith.divf", reduced,
                                    f.constant(float(count), reduced.type, state.part("count")), name=state.part("mean"))
        if reduced.type.element == "f32" and tensor.dtype == "bfloat16":
            reduced = f.truncf(reduced, state.part("round"))
        elif reduced.type.element == "bf16" and tensor.dtype == "float32":
            reduced = f.extf(reduced, state.part("f32"))
        _define_reduced(state, name, reduced)
        return True

    return emit


def _define_reduced(state: Importer, name: str, value: Value) -> None:
    """`value` has the result's elements in row-major order of its logical shape, with or without the 1s."""
    tensor = state.tensor(name)
    state.named(value, name)
    order = state.order_of(name)
    if order != tuple(range(len(tensor.shape))):
        value = state.f.reshape(value, tensor.shape, state.part("reshape"))
        value = state.f.transpose(value, order, state.part("order"))
    state.define(name, value, order)


def maximum_and_index(state: Importer, node: Node) -> bool:
    """`max.dim`, where nothing reads the indices."""
    if node.outputs[1][0]:
        return False
    values = Node(node.op, node.outputs[:1], node.args, node.kwargs, node.region)
    return reduction("max")(state, values)


def softmax(logarithm: bool) -> Callable[[Importer, Node], bool]:
    """`_softmax(x, dim, half_to_float)` and `_log_softmax`, in f32, rounded once."""

    def emit(state: Importer, node: Node) -> bool:
        if not arithmetic(state, node, node.args[:1]) or state.homes[node.args[0].name].constant is not None:
            return False
        (name, tensor), = node.outputs
        f = state.f
        x = state.read(node.args[0])
        axis = node.args[1] % max(len(tensor.shape), 1)
        if x.type.element == "bf16":
            x = state.inner(f.extf(x, state.part("f32")))
        top = f.reduce("max", x, [axis], None, state.part("max"))
        shifted = state.inner(f.binary("arith.subf", x, _repeat(state, top, x.shape), state.part("shifted")))
        exponential = state.inner(f.elementwise("math.exp", shifted, name=state.part("exp")))
        total = f.reduce("sum", exponential, [axis], None, state.part("sum"))
        if logarithm:
            total = state.inner(f.elementwise("math.log", total, name=state.part("log")))
            value = f.binary("arith.subf", shifted, _repeat(state, total, x.shape), state.part("result"))
        else:
            value = f.binary("arith.divf", exponential, _repeat(state, total, x.shape), state.part("result"))
        if tensor.dtype == "bfloat16":
            value = f.truncf(value, state.part("round"))
        _define_reduced(state, name, value)
        return True

    return emit


def _repeat(state: Importer, value: Value, shape: Sequence[int]) -> Value:
    return state.f.broadcast(value, shape, state.part("broadcast")) if value.shape != tuple(shape) else value


def _matrix(state: Importer, ref: Any) -> Optional[Value]:
    """A matrix operand of bf16 or f32."""
    tensor = state.tensors[ref.name] if isinstance(ref, Ref) else None
    if tensor is None or tensor.dtype not in ARITHMETIC or len(tensor.shape) != 2:
        return None
    return state.read(ref)


def _define_product(state: Importer, name: str, value: Value) -> None:
    """The result of a matrix product; where torch holds it column by column, it is made transposed."""
    state.named(value, name)
    state.define(name, value, state.order_of(name))


def matmul(state: Importer, node: Node) -> bool:
    """`mm(a, b)`; `addmm(bias, a, b)` as the product and a sum."""
    added = node.op.startswith("aten.addmm")
    operands = node.args[1:3] if added else node.args[:2]
    a, b = (_matrix(state, operand) for operand in operands)
    (name, tensor), = node.outputs
    if a is None or b is None or a.type.element != b.type.element or node.kwargs or tensor.dtype not in ARITHMETIC:
        return False
    order = state.order_of(name)
    element = "bf16" if tensor.dtype == "bfloat16" else "f32"
    f = state.f
    if order == (1, 0):  # column by column in memory: the transposed product
        a, b = (f.permute(side, (1, 0), state.part("permute")) for side in (b, a))
    if not added:
        state.define(name, f.matmul(a, b, element, name=name), order)
        return True
    product = f.matmul(a, b, "f32", name=state.part("product"))
    bias = state.read(node.args[0], tensor.shape, order)
    if bias.type.element == "bf16":
        bias = f.extf(bias, state.part("f32"))
    total = f.elementwise("arith.addf", product, bias, name=state.part("sum"))
    if element == "bf16":
        total = f.truncf(total, state.part("round"))
    _define_product(state, name, total)
    return True


def batched(state: Importer, node: Node) -> bool:
    """`bmm` of a batch of one, as a product; larger ones stay whole operations."""
    (name, tensor), = node.outputs
    if tensor.shape[0] != 1 or node.kwargs or state.order_of(name) != (0, 1, 2):
        return False
    values = []
    for ref in node.args[:2]:
        source = state.tensor(ref.name)
        if source.dtype not in ARITHMETIC or source.dtype != tensor.dtype:
            return False
        values.append(state.strided(ref.name, source.shape[1:], source.stride[1:], source.offset))
    element = "bf16" if tensor.dtype == "bfloat16" else "f32"
    value = state.f.matmul(values[0], values[1], element, name=name)
    state.define(name, value, (0, 1, 2))
    return True


def concatenate(state: Importer, node: Node) -> bool:
    """`cat` of a few tensors: each padded with zeros to the whole, and added; exact, but -0 becomes 0."""
    parts = node.args[0]
    (name, tensor), = node.outputs
    if not 1 <= len(parts) <= 4 or not arithmetic(state, node, parts):
        return False
    if any(state.tensor(part.name).dtype != tensor.dtype or not state.tensor(part.name).elements for part in parts):
        return False
    axis = (node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)) % len(tensor.shape)
    order = state.order_of(name)
    shape = tuple(tensor.shape[dim] for dim in order)
    place, start, total = order.index(axis), 0, None
    for part in parts:
        own = state.tensor(part.name)
        value = state.read(part, own.shape, order)
        offsets = [start if dim == place else 0 for dim in range(len(shape))]
        padded = state.inner(state.f.pad(value, offsets, shape, state.part("pad")))
        total = padded if total is None else state.inner(
            state.f.elementwise("arith.addf", total, padded, name=state.part("join")))
        start += own.shape[axis]
    state.named(total, name)
    state.define(name, total, order)
    return True


def padding(state: Importer, node: Node) -> bool:
    """`constant_pad_nd` with zeros, and the adjoints of `slice` and `select`."""
    (name, tensor), = node.outputs
    if not arithmetic(state, node, node.args[:1]):
        return False
    source = state.tensor(node.args[0].name)
    if source.dtype != tensor.dtype or state.homes[node.args[0].name].constant is not None:
        return False
    rank = len(tensor.shape)
    offsets, shape, stride = [0] * rank, list(source.shape), list(source.stride)
    if node.op.startswith("aten.constant_pad_nd"):
        amounts = node.args[1]
        if any(amount < 0 for amount in amounts) or (len(node.args) > 2 and node.args[2] != 0):
            return False
        for index in range(len(amounts) // 2):
            offsets[rank - 1 - index] = amounts[2 * index]
    elif node.op.startswith("aten.slice_backward"):
        _, _, axis, start, _, step = node.args
        if step != 1:
            return False
        offsets[axis % rank] = max(0, start + tensor.shape[axis % rank] if start < 0 else start)
    else:  # select_backward
        _, _, axis, index = node.args
        axis %= rank
        offsets[axis] = index % tensor.shape[axis]
        shape.insert(axis, 1)
        stride.insert(axis, 0)
    order = state.order_of(name)
    value = state.strided(node.args[0].name, [shape[axis] for axis in order], [stride[axis] for axis in order],
                          source.offset)
    padded = state.f.pad(value, [offsets[axis] for axis in order], [tensor.shape[axis] for axis in order], name)
    state.define(name, padded, order)
    return True


def written_slice(state: Importer, node: Node) -> bool:
    """`slice_scatter` into zeros: the adjoint of a slice."""
    base, source = node.args[:2]
    axis, start, _, step = (list(node.args[2:]) + [0, None, None, 1][len(node.args) - 2:])[:4]
    (name, tensor), = node.outputs
    if not arithmetic(state, node, node.args[:2]) or step != 1 or state.homes[base.name].constant != 0.0:
        return False
    if state.tensor(source.name).dtype != tensor.dtype or state.homes[source.name].constant is not None:
        return False
    axis %= len(tensor.shape)
    start = start or 0
    offsets = [0] * len(tensor.shape)
    offsets[axis] = start + tensor.shape[axis] if start < 0 else start
    order = state.order_of(name)
    value = state.read(source, None, order)
    padded = state.f.pad(value, [offsets[dim] for dim in order], [tensor.shape[dim] for dim in order], name)
    state.define(name, padded, order)
    return True


def strided_view(state: Importer, node: Node) -> bool:
    """`view.dtype` between types of equal width."""
    (name, tensor), = node.outputs
    source = node.args[0]
    home = state.homes[source.name]
    if home.value is None:
        return False
    type = TensorType(ELEMENTS[tensor.dtype], home.value.shape)
    if type.bytes != home.value.type.bytes or home.value.type.group is not None:
        return False
    if type == home.value.type:
        value = home.value
    else:
        value = state.f.op("fp8.bitcast", [home.value], [type], value_name=name)[0]
    state.homes[name] = Home(value, tensor.dtype, home.elements)
    return True
