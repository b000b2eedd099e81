# ===- syntax.py - Python values as MLIR text ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# How attributes, numbers and locations are written, and where in the user's program an op was asked for.
#
# ===------------------------------------------------------=== #
"""Attributes, literals and source locations as MLIR text."""

from __future__ import annotations

import itertools
import math
import pathlib
import struct
import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any, Mapping, Optional, Sequence

from .tensor_types import TensorType

__all__ = ["Attribute", "Location", "caller", "dictionary", "float_literal", "quoted", "to_attribute"]

_PACKAGE = str(pathlib.Path(__file__).resolve().parent)


@dataclass(frozen=True)
class Attribute:
    """An attribute as MLIR writes it, such as `Attribute("#fp8.division<double>")`."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Location:
    """A place in the user's program; line and column count from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{quoted(self.file)}:{self.line}:{self.column}"


def quoted(text: str) -> str:
    """A string literal; every byte that MLIR does not take as it is becomes an escape."""
    parts = []
    for byte in text.encode("utf-8", "surrogateescape"):
        parts.append(chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:02X}")
    return '"' + "".join(parts) + '"'


def float_literal(value: float, element: str = "f64") -> str:
    """A float literal that reads back as `value`, rounded to `element` once."""
    if not math.isfinite(value):
        sign = math.copysign(1.0, value) < 0
        narrow = {"f64": ("d", 16, 0), "f32": ("f", 8, 0), "bf16": ("f", 8, 16), "f16": ("e", 4, 0)}
        if element not in narrow:
            raise ValueError(f"expected a finite number of type {element}, but got {value}")
        code, digits, shift = narrow[element]
        unsigned = {16: "Q", 8: "I", 4: "H"}[digits]
        number = math.nan if math.isnan(value) else (-math.inf if sign else math.inf)
        bits = struct.unpack(f"<{unsigned}", struct.pack(f"<{code}", number))[0] >> shift
        return f"0x{bits:0{digits // (2 if shift else 1)}X}"
    short = f"{value:e}"
    return short if float(short) == value else f"{value:.17e}"


def to_attribute(value: Any) -> str:
    """The attribute that stands for a Python value: bool, int (i64), float (f64), str, TensorType, None (unit), a sequence
    of ints (`array<i64: ...>`), any other sequence (an array), a mapping (a dictionary), or an `Attribute` as it is."""
    if isinstance(value, Attribute):
        return value.text
    if value is None:
        return "unit"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"{float_literal(value)} : f64"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, TensorType):
        return str(value)
    if isinstance(value, Mapping):
        return dictionary(value)
    if isinstance(value, Sequence):
        if value and all(isinstance(entry, int) and not isinstance(entry, bool) for entry in value):
            return f"array<i64: {', '.join(str(entry) for entry in value)}>"
        return f"[{', '.join(to_attribute(entry) for entry in value)}]"
    raise ValueError(f"expected a value that an attribute can hold, but got a {type(value).__name__}")


def dictionary(attributes: Mapping[str, Any]) -> str:
    """`{key = value, ...}`; a unit attribute is its key alone."""
    entries = [key if value is None else f"{key} = {to_attribute(value)}" for key, value in attributes.items()]
    return f"{{{', '.join(entries)}}}"


def caller() -> Optional[Location]:
    """The line outside of this package that the innermost call of the package came from."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    positions = itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    line, _, column, _ = next(positions, (None, None, None, None))
    return Location(frame.f_code.co_filename, line or frame.f_lineno, (column or 0) + 1)


def _is_ours(file: str) -> bool:
    return file.startswith(_PACKAGE) or file.startswith("<frozen")
