# ===- builder.py - forward functions as textual IR ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes functions of fp8, arith and math ops as text, with a NameLoc on every value, so that plans name tensors as
# the model does. Pure Python: no MLIR, no NumPy. The compiler is what verifies; the builder only infers result types
# and refuses what it cannot infer.
#
#===----------------------------------------------------------------------===//
"""A small builder of fp8-opt input programs.

    module = Module()
    f = module.function("ffn")
    x = f.argument("x", tensor("bf16", 512, 256))
    w = f.argument("w", tensor("bf16", 1024, 256), "fp8.parameter")
    f.returns(f.linear(x, w, recipe="rowwise", name="y"))
    print(module)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Union

ELEMENT_BYTES = {"bf16": 2, "f32": 4, "f8E4M3FN": 1, "f8E5M2": 1, "i32": 4}

# The state operands of a linear with a `delayed` recipe, in the order of `fp8.linear`.
DELAYED_ROLES = ("x", "w", "dy")


@dataclass(frozen=True)
class TensorType:
    """A ranked tensor with static shape: `element` is an MLIR element type, `shape` counts elements."""

    element: str
    shape: tuple

    def __post_init__(self):
        if self.element not in ELEMENT_BYTES:
            raise ValueError(f"expected one of {', '.join(ELEMENT_BYTES)}, but got '{self.element}'")
        if any(not isinstance(dim, int) or dim < 1 for dim in self.shape):
            raise ValueError(f"expected dimensions of at least 1, but got {list(self.shape)}")

    def with_shape(self, shape: Sequence[int]) -> "TensorType":
        return TensorType(self.element, tuple(shape))

    def with_element(self, element: str) -> "TensorType":
        return TensorType(element, self.shape)

    @property
    def bytes(self) -> int:
        size = ELEMENT_BYTES[self.element]
        for dim in self.shape:
            size *= dim
        return size

    def __str__(self):
        return f"tensor<{''.join(f'{dim}x' for dim in self.shape)}{self.element}>"


def tensor(element: str, *shape: int) -> TensorType:
    """The type `tensor<shape x element>`."""
    return TensorType(element, tuple(shape))


@dataclass(frozen=True, eq=False)
class Value:
    """A value of a function under construction; `name` is its SSA name and its NameLoc."""

    name: str
    type: TensorType

    def __str__(self):
        return f"%{self.name}"


class Function:
    """A forward function. Made by `Module.function`; ended by `returns`."""

    def __init__(self, name: str):
        self.name = name
        self.arguments: List[Value] = []
        self.results: List[Value] = []
        self._argument_text: List[str] = []
        self._result_text: List[str] = []
        self._body: List[str] = []
        self._names = set()

    def argument(self, name: str, type: TensorType, *marks: str) -> Value:
        """Appends an argument. `marks` are unit attributes: `fp8.parameter`, `fp8.state`, `fp8.donated`,
        `fp8.frozen`."""
        value = self._value(name, type)
        attributes = f" {{{', '.join(marks)}}}" if marks else ""
        self._argument_text.append(f"{value}: {type}{attributes} {_loc(value.name)}")
        self.arguments.append(value)
        return value

    def delayed_state(self, name: str, history: int) -> List[Value]:
        """Appends the six state arguments of one linear with a `delayed` recipe: history and scale of x, of w and of
        dy, named `NAME.x_history`, `NAME.x_scale` and so on."""
        state = []
        for role in DELAYED_ROLES:
            state.append(self.argument(f"{name}.{role}_history", tensor("f32", history), "fp8.state"))
            state.append(self.argument(f"{name}.{role}_scale", tensor("f32", 1, 1), "fp8.state"))
        return state

    def returns(self, *results: Value, placement: Optional[str] = None) -> None:
        """Ends the function. `placement` is `arena` or `caller`; None leaves the default."""
        if self.results:
            raise ValueError(f"function '{self.name}' has returned already")
        self.results = list(results)
        attributes = f' {{fp8.placement = "{placement}"}}' if placement else ""
        self._result_text = [f"{value.type}{attributes}" for value in results]
        types = ", ".join(str(value.type) for value in results)
        self._body.append(f"return {_join(results)} : {types}")

    # Ops, in the order of the dialect's reference.

    def linear(self, x: Value, w: Value, recipe: str, state: Sequence[Value] = (), name: str = "linear",
               element: Optional[str] = None) -> Value:
        """`x` [N, K] times the transpose of `w` [M, K], by `recipe` (the text between the angle brackets)."""
        type = TensorType(element or x.type.element, (x.type.shape[0], w.type.shape[0]))
        states = f" state({_join(state)} : {', '.join(str(s.type) for s in state)})" if state else ""
        return self._emit(name, type, f"fp8.linear {x}, {w}{states} recipe<{recipe}> : "
                                      f"{x.type}, {w.type} -> {type}")

    def matmul(self, a: Value, b: Value, element: Optional[str] = None, name: str = "matmul") -> Value:
        """The product of two unscaled matrices (bf16 or f32)."""
        type = TensorType(element or a.type.element, (a.type.shape[0], b.type.shape[1]))
        return self._emit(name, type, f"fp8.matmul {a}, {b} : {a.type}, {b.type} -> {type}")

    def reduce(self, kind: str, x: Value, axes: Sequence[int], element: Optional[str] = None,
               name: str = "reduce") -> Value:
        """Sum or max over `axes`, which become 1."""
        shape = tuple(1 if axis in axes else dim for axis, dim in enumerate(x.type.shape))
        type = TensorType(element or x.type.element, shape)
        return self._emit(name, type, f"fp8.reduce {kind} {x} {_list(axes)} : {x.type} -> {type}")

    def broadcast(self, x: Value, shape: Sequence[int], name: str = "broadcast") -> Value:
        type = x.type.with_shape(shape)
        return self._emit(name, type, f"fp8.broadcast {x} : {x.type} -> {type}")

    def permute(self, x: Value, perm: Sequence[int], name: str = "permute") -> Value:
        type = x.type.with_shape([x.type.shape[axis] for axis in perm])
        return self._emit(name, type, f"fp8.permute {x} {_list(perm)} : {x.type} -> {type}")

    def transpose(self, x: Value, perm: Sequence[int], name: str = "transpose") -> Value:
        type = x.type.with_shape([x.type.shape[axis] for axis in perm])
        return self._emit(name, type, f"fp8.transpose {x} {_list(perm)} : {x.type} -> {type}")

    def slice(self, x: Value, offsets: Sequence[int], shape: Sequence[int], name: str = "slice") -> Value:
        type = x.type.with_shape(shape)
        return self._emit(name, type, f"fp8.slice {x} {_list(offsets)} : {x.type} -> {type}")

    def reshape(self, x: Value, shape: Sequence[int], name: str = "reshape") -> Value:
        type = x.type.with_shape(shape)
        return self._emit(name, type, f"fp8.reshape {x} : {x.type} -> {type}")

    def constant(self, value: float, type: TensorType, name: str = "constant") -> Value:
        """A tensor whose elements are all `value`, which must be exact in the element type."""
        return self._emit(name, type, f"arith.constant dense<{value:e}> : {type}")

    def extf(self, x: Value, name: str = "extf") -> Value:
        type = x.type.with_element("f32")
        return self._emit(name, type, f"arith.extf {x} : {x.type} to {type}")

    def truncf(self, x: Value, name: str = "truncf") -> Value:
        type = x.type.with_element("bf16")
        return self._emit(name, type, f"arith.truncf {x} : {x.type} to {type}")

    def elementwise(self, op: str, *operands: Value, name: Optional[str] = None, checkpoint: bool = False) -> Value:
        """An arith or math op whose operands and result share one type, such as `arith.addf` or `math.exp`.
        `checkpoint` marks the result as what `recompute-all` keeps."""
        type = operands[0].type
        if any(operand.type != type for operand in operands):
            raise ValueError(f"{op}: expected operands of type {type}, but got "
                             f"{', '.join(str(operand.type) for operand in operands)}")
        mark = " {fp8.checkpoint}" if checkpoint else ""
        return self._emit(name or op.split(".")[1], type, f"{op} {_join(operands)}{mark} : {type}")

    def opaque(self, op: str, operands: Sequence[Value], types: Sequence[TensorType], scratch_bytes: int = 0,
               flops: int = 0, adjoint: Optional[Dict[str, object]] = None, name: Optional[str] = None) -> List[Value]:
        """An operation known by its shapes and cost only. `adjoint` declares its backward: `name`, `operands`,
        `results` (indices of what of this op it reads) and optionally `scratch_bytes` and `flops`."""
        attributes = [f"{key} = {value} : i64" for key, value in (("flops", flops), ("scratch_bytes", scratch_bytes))
                      if value]
        if adjoint:
            attributes.append(f"adjoint = {{{', '.join(f'{key} = {_attribute(value)}' for key, value in adjoint.items())}}}")
        if self.results:
            raise ValueError(f"function '{self.name}' has returned already")
        result = self._value(name or op, types[0])
        text = f"{result}{f':{len(types)}' if len(types) > 1 else ''}"
        marks = f" {{{', '.join(attributes)}}}" if attributes else ""
        inputs = ", ".join(str(value.type) for value in operands)
        outputs = ", ".join(map(str, types))
        self._body.append(f'{text} = fp8.opaque "{op}"({_join(operands)}){marks} : ({inputs}) -> '
                          f'{f"({outputs})" if len(types) > 1 else outputs} {_loc(result.name)}')
        if len(types) == 1:
            return [result]
        return [Value(f"{result.name}#{index}", type) for index, type in enumerate(types)]

    def __str__(self):
        if not self.results:
            raise ValueError(f"function '{self.name}' does not return")
        results = ", ".join(self._result_text)
        if len(self.results) > 1 or "{" in results:
            results = f"({results})"
        arguments = ",\n".join(f"    {text}" for text in self._argument_text)
        body = "\n".join(f"  {line}" for line in self._body)
        return f"func.func @{self.name}(\n{arguments}) -> {results} {{\n{body}\n}}"

    def _value(self, name: str, type: TensorType) -> Value:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
            raise ValueError(f"expected a name of letters, digits, '_' and '.', but got '{name}'")
        unique, count = name, 0
        while unique in self._names:
            count += 1
            unique = f"{name}_{count}"
        self._names.add(unique)
        return Value(unique, type)

    def _emit(self, name: str, type: TensorType, text: str) -> Value:
        if self.results:
            raise ValueError(f"function '{self.name}' has returned already")
        value = self._value(name, type)
        self._body.append(f"{value} = {text} {_loc(value.name)}")
        return value


class Module:
    """A sequence of functions, with optional module attributes in MLIR's syntax."""

    def __init__(self, attributes: Optional[Dict[str, str]] = None):
        self.attributes = dict(attributes or {})
        self.functions: List[Function] = []

    def function(self, name: str) -> Function:
        self.functions.append(Function(name))
        return self.functions[-1]

    def __str__(self):
        text = "\n\n".join(str(function) for function in self.functions)
        if not self.attributes:
            return text + "\n"
        attributes = ", ".join(f"{key} = {value}" for key, value in self.attributes.items())
        return f"module attributes {{{attributes}}} {{\n{text}\n}}\n"


def _loc(name: str) -> str:
    return f'loc("{name}")'


def _attribute(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value} : i64" if isinstance(value, int) else str(value)


def _join(values: Sequence[Union[Value, str]]) -> str:
    return ", ".join(str(value) for value in values)


def _list(numbers: Sequence[int]) -> str:
    return f"[{', '.join(str(number) for number in numbers)}]"
