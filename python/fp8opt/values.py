# ===- values.py - values, ops and regions under construction ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The pieces that builder.py puts programs together from.
#
# ===--------------------------------------------------------------------=== #
"""Values with operators, and the text of ops and regions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set, Union

from .syntax import dictionary
from .tensor_types import TensorType

if TYPE_CHECKING:
    from .builder import Function

__all__ = ["Op", "Region", "Value", "make_id"]


@dataclass(eq=False)
class Op:
    """One op: what stands before its attributes, what after, and where it comes from."""

    head: str
    tail: str
    attributes: Dict[str, Any]
    location: str

    def __str__(self) -> str:
        attributes = dictionary(self.attributes) if self.attributes else ""
        return " ".join(part for part in (self.head, attributes, self.tail, self.location) if part)


@dataclass(eq=False)
class Region:
    """A list of ops; what is made in it can be seen in itself and in the regions below it."""

    name: str
    parent: Optional[Region]
    lines: List[Op] = field(default_factory=list)

    def text(self, depth: int) -> str:
        """The ops, one a line, indented by `depth` levels."""
        return "\n".join("  " * depth + str(op) for op in self.lines)


@dataclass(frozen=True, eq=False)
class Value:
    """A value of a function under construction. `name` is what plans and reports call it.

    `+ - * /`, unary `-` and `abs` work on values of one type, with numbers, and with values whose dimensions of size 1
    are repeated; `@` multiplies matrices; `.T` exchanges the two dimensions of one (a view)."""

    name: str
    type: TensorType
    function: Function = field(repr=False)
    region: Region = field(repr=False)
    id: str
    op: Optional[Op] = field(repr=False)

    @property
    def shape(self) -> tuple:
        """The sizes of the dimensions."""
        return self.type.shape

    @property
    def T(self) -> Value:
        """The matrix with its dimensions exchanged; no byte moves."""
        return self.function.permute(self, [1, 0])

    def __str__(self) -> str:
        return f"%{self.id}"

    def __add__(self, other: Union[Value, float]) -> Value:
        return self.function.binary("arith.addf", self, other)

    def __radd__(self, other: float) -> Value:
        return self.function.binary("arith.addf", other, self)

    def __sub__(self, other: Union[Value, float]) -> Value:
        return self.function.binary("arith.subf", self, other)

    def __rsub__(self, other: float) -> Value:
        return self.function.binary("arith.subf", other, self)

    def __mul__(self, other: Union[Value, float]) -> Value:
        return self.function.binary("arith.mulf", self, other)

    def __rmul__(self, other: float) -> Value:
        return self.function.binary("arith.mulf", other, self)

    def __truediv__(self, other: Union[Value, float]) -> Value:
        return self.function.binary("arith.divf", self, other)

    def __rtruediv__(self, other: float) -> Value:
        return self.function.binary("arith.divf", other, self)

    def __neg__(self) -> Value:
        return self.function.elementwise("arith.negf", self)

    def __abs__(self) -> Value:
        return self.function.elementwise("math.absf", self)

    def __matmul__(self, other: Value) -> Value:
        return self.function.matmul(self, other)


def make_id(name: str, taken: Set[str]) -> str:
    """The name of an SSA value that says `name` as well as MLIR's syntax can, unlike all of `taken`."""
    base = re.sub(r"[^A-Za-z0-9_.]", "_", name)
    if not re.match(r"[A-Za-z_]", base):
        base = f"_{base}"
    identifier, count = base, 0
    while identifier in taken:
        count += 1
        identifier = f"{base}_{count}"
    return identifier
