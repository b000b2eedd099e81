# ===- pointwise.py - elementwise operations of ATen ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Every operation is computed in f32 where torch does so and rounded once to its result type, as torch's own kernels do.
#
#===----------------------------------------------------------------------===//
"""Emitters of elementwise operations."""

from __future__ import annotations

import struct
from typing import Any, Callable, List, Sequence, Union

from ..graphs.graph import Node, Ref, Special
from ..tensor_types import TensorType
from ..values import Value
from .program import ARITHMETIC, Home, Importer

Operand = Union[Value, float]


class Body:
    """The body of one elementwise node: its operands as f32, in the memory order of the result."""

    def __init__(self, state: Importer, node: Node, arguments: Sequence[Any]):
        self.state, self.f = state, state.f
        (self.result, tensor), = node.outputs
        self.tensor = tensor
        self.order = state.order_of(self.result)
        self.shape = tuple(tensor.shape[axis] for axis in self.order)
        self.type = TensorType("f32", self.shape)
        self.operands: List[Operand] = [self._operand(argument) for argument in arguments]

    def _operand(self, argument: Any) -> Operand:
        if not isinstance(argument, Ref):
            return float(argument)
        return self.wide(self.state.read(argument, self.tensor.shape, self.order))

    def wide(self, value: Value) -> Value:
        """A value as f32."""
        if value.type.element == "f32":
            return value
        return self.state.inner(self.f.extf(value, self.state.part("f32")))

    def apply(self, op: str, *operands: Operand) -> Value:
        """An arith or math op on f32 values and numbers."""
        values = [operand if isinstance(operand, Value) else
                  self.f.constant(operand, self.type, self.state.part("constant")) for operand in operands]
        return self.state.inner(self.f.elementwise(op, *values, name=self.state.part(op.split(".")[1])))

    def finish(self, value: Value) -> bool:
        """Rounds to the result's type and gives the result its name."""
        f, name = self.f, self.result
        if self.tensor.dtype == "bfloat16":
            value = f.truncf(value, name)
        elif value.name != name:
            value = self.state.named(value, name)
        self.state.define(name, value, self.order)
        return True


def arithmetic(state: Importer, node: Node, arguments: Sequence[Any]) -> bool:
    """Whether all operands that are tensors, and the result, are bf16 or f32."""
    if len(node.outputs) != 1 or node.outputs[0][1] is None or node.outputs[0][1].dtype not in ARITHMETIC:
        return False
    for argument in arguments:
        if isinstance(argument, Ref):
            tensor = state.tensors[argument.name]
            if tensor is None or tensor.dtype not in ARITHMETIC:
                return False
        elif not isinstance(argument, (int, float)):
            return False
    return True


def pointwise(build: Callable[..., Value], operands: int) -> Callable[[Importer, Node], bool]:
    """An emitter for a node whose first `operands` arguments are the operands of `build(body, *operands)`."""

    def emit(state: Importer, node: Node) -> bool:
        arguments = node.args[:operands]
        if len(arguments) < operands or not arithmetic(state, node, arguments):
            return False
        alpha = node.kwargs.get("alpha", node.args[operands] if len(node.args) > operands else 1)
        if alpha not in (1, 1.0) or set(node.kwargs) - {"alpha"}:
            return False
        body = Body(state, node, arguments)
        return body.finish(build(body, *body.operands))

    return emit


def single(op: str, operands: int) -> Callable[[Importer, Node], bool]:
    """An emitter for a node that is one arith or math op of its operands. On bf16 alone that op does what torch does: it
    computes in f32 and rounds once."""
    wide = pointwise(lambda body, *values: body.apply(op, *values), operands)

    def emit(state: Importer, node: Node) -> bool:
        arguments = node.args[:operands]
        if not _is_bf16_only(state, node, arguments):
            return wide(state, node)
        (name, tensor), = node.outputs
        order = state.order_of(name)
        type = state.type_of(name)
        values = [state.read(argument, tensor.shape, order) if isinstance(argument, Ref) else
                  state.f.constant(float(argument), type, state.part("constant")) for argument in arguments]
        state.define(name, state.f.elementwise(op, *values, name=name), order)
        return True

    return emit


def _is_bf16_only(state: Importer, node: Node, arguments: Sequence[Any]) -> bool:
    """Whether a node has these arguments and no others, and they and its result are bf16 or numbers of bf16."""
    if len(node.args) != len(arguments) or node.kwargs or not arithmetic(state, node, arguments):
        return False
    return node.outputs[0][1].dtype == "bfloat16" and all(
        state.tensor(argument.name).dtype == "bfloat16" if isinstance(argument, Ref) else _is_bf16(float(argument))
        for argument in arguments)


def _is_bf16(number: float) -> bool:
    """Whether a number is one of bf16."""
    try:
        bits, = struct.unpack("<I", struct.pack("<f", number))
    except OverflowError:
        return False
    return bits & 0xFFFF == 0 and struct.unpack("<f", struct.pack("<I", bits))[0] == number


def binary(op: str) -> Callable[[Importer, Node], bool]:
    return single(op, 2)


def unary(op: str) -> Callable[[Importer, Node], bool]:
    return single(op, 1)


def sigmoid(body: Body, x: Operand) -> Value:
    exponential = body.apply("math.exp", body.apply("arith.negf", x))
    return body.apply("arith.divf", 1.0, body.apply("arith.addf", exponential, 1.0))


def silu(body: Body, x: Operand) -> Value:
    exponential = body.apply("math.exp", body.apply("arith.negf", x))
    return body.apply("arith.divf", x, body.apply("arith.addf", exponential, 1.0))


def power(state: Importer, node: Node) -> bool:
    """`pow` with a small whole exponent, 0.5 or -0.5."""
    exponent = node.args[1]
    if not arithmetic(state, node, node.args[:1]) or exponent not in (1, 2, 3, 4, -1, 0.5, -0.5):
        return False
    body = Body(state, node, node.args[:1])
    x, = body.operands
    if exponent == -1:
        return body.finish(body.apply("arith.divf", 1.0, x))
    if exponent in (0.5, -0.5):
        return body.finish(body.apply("math.sqrt" if exponent > 0 else "math.rsqrt", x))
    if exponent == 1:
        return body.finish(body.apply("arith.mulf", x, 1.0))
    result = body.apply("arith.mulf", x, x)
    if exponent == 4:
        result = body.apply("arith.mulf", result, result)
    elif exponent == 3:
        result = body.apply("arith.mulf", result, x)
    return body.finish(result)


def clamp(state: Importer, node: Node) -> bool:
    low = node.kwargs.get("min", node.args[1] if len(node.args) > 1 else None)
    high = node.kwargs.get("max", node.args[2] if len(node.args) > 2 else None)
    bounds = [bound for bound in (low, high) if bound is not None]
    if not bounds or not arithmetic(state, node, [node.args[0], *bounds]):
        return False
    body = Body(state, node, node.args[:1])
    value, = body.operands
    if low is not None:
        value = body.apply("arith.maximumf", value, body._operand(low))
    if high is not None:
        value = body.apply("arith.minimumf", value, body._operand(high))
    return body.finish(value)


def gelu(state: Importer, node: Node) -> bool:
    if not arithmetic(state, node, node.args[:1]):
        return False
    body = Body(state, node, node.args[:1])
    x, = body.operands
    half = body.apply("arith.mulf", x, 0.5)
    if node.kwargs.get("approximate", "none") == "tanh":
        cube = body.apply("arith.mulf", body.apply("arith.mulf", x, x), x)
        inner = body.apply("arith.addf", x, body.apply("arith.mulf", cube, 0.044715))
        curve = body.apply("math.tanh", body.apply("arith.mulf", inner, 0.7978845608028654))
    else:
        curve = body.apply("math.erf", body.apply("arith.mulf", x, 0.7071067811865476))
    return body.finish(body.apply("arith.mulf", half, body.apply("arith.addf", curve, 1.0)))


def convert(state: Importer, node: Node) -> bool:
    """A change of type between bf16 and f32; a copy that changes nothing but the order in memory."""
    (name, tensor), = node.outputs
    source = node.args[0]
    if not isinstance(source, Ref) or tensor is None:
        return False
    before = state.tensor(source.name)
    if before.dtype == tensor.dtype:
        return copy(state, node)
    if tensor.dtype not in ARITHMETIC or before.dtype not in ARITHMETIC:
        return False
    order = state.order_of(name)
    value = state.read(source, tensor.shape, order)
    made = state.f.extf(value, name) if tensor.dtype == "float32" else state.f.truncf(value, name)
    state.define(name, made, order)
    return True


def copy(state: Importer, node: Node) -> bool:
    """A copy. In a graph without mutations it is its operand where the order in memory stays, else a transposition."""
    (name, tensor), = node.outputs
    source = node.args[0]
    if tensor is None or not isinstance(source, Ref):
        return False
    before = state.tensor(source.name)
    home = state.homes[source.name]
    if home.constant is not None:
        state.homes[name] = home
        return True
    order = state.order_of(name)
    shape = tuple(tensor.shape[axis] for axis in order)
    if state.order_of(source.name) == order and before.elements == home.elements and before.offset == 0:
        state.define_alias(name, source.name)
        return True
    if any(step == 0 and size > 1 for size, step in zip(before.shape, before.stride)):
        if tensor.dtype not in ARITHMETIC:
            return False
        value = state.read(source, tensor.shape, order)
        if value.type.shape != shape:
            return False
        state.define(name, value, order)
        return True
    # Read in the source's own order in memory, and written in the result's.
    value = state.strided(source.name, shape, [before.stride[axis] for axis in order], before.offset)
    state.define(name, state.f.transpose(value, range(len(shape)), name), order)
    return True


def full(state: Importer, node: Node) -> bool:
    """A tensor of one number: a constant, which is no storage."""
    (name, tensor), = node.outputs
    number = 1.0 if "ones" in node.op else 0.0 if "zeros" in node.op else None
    if number is None:
        number = node.args[1] if len(node.args) > 1 else node.kwargs.get("fill_value")
    if "scalar_tensor" in node.op or "fill" in node.op:
        number = node.args[-1] if "fill" in node.op else node.args[0]
    if tensor is None or tensor.dtype not in ARITHMETIC or isinstance(number, (Ref, Special)) or number is None:
        return False
    state.homes[name] = Home(None, tensor.dtype, tensor.elements, float(number))
    return True
