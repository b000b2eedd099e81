# ===- tensor_types.py - types of values ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The types of values and how they are written in the IR.
#
# ===----------------------------------------------------=== #
"""Types of tensors: element type, static shape and, for FP8 tensors, how they were scaled."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Optional, Sequence, Tuple, Union

__all__ = ["ELEMENT_BYTES", "TensorType", "tensor"]

#: Bytes of an element. Arithmetic is done on bf16 and f32; tensors of the others can be moved, cast and handed to opaque
#: operations.
ELEMENT_BYTES = {"bf16": 2, "f32": 4, "f8E4M3FN": 1, "f8E5M2": 1, "f16": 2, "f64": 8, "i1": 1, "i8": 1, "i16": 2,
                 "i32": 4, "i64": 8}

_FP8 = ("f8E4M3FN", "f8E5M2")


@dataclass(frozen=True)
class TensorType:
    """A ranked tensor with static shape: `element` is an MLIR element type, `shape` counts elements. `group`, of an FP8
    tensor, has the number of neighbours that share a scale along each dimension, 0 for the whole dimension; `pow2`
    promises that every scale is a power of two."""

    element: str
    shape: Tuple[int, ...]
    group: Optional[Tuple[int, ...]] = None
    pow2: bool = False

    def __post_init__(self) -> None:
        if self.element not in ELEMENT_BYTES:
            raise ValueError(f"expected one of {', '.join(ELEMENT_BYTES)}, but got '{self.element}'")
        if any(not isinstance(dim, int) or dim < 1 for dim in self.shape):
            raise ValueError(f"expected dimensions of at least 1, but got {list(self.shape)}")
        if self.group is None and not self.pow2:
            return
        if self.element not in _FP8 or self.group is None:
            raise ValueError(f"expected a group and powers of two on f8E4M3FN or f8E5M2 only, but got '{self.element}'")
        if len(self.group) != len(self.shape) or any(not isinstance(size, int) or size < 0 for size in self.group):
            raise ValueError(f"expected a group of {len(self.shape)} numbers of at least 0, but got {list(self.group)}")

    def with_shape(self, shape: Sequence[int]) -> TensorType:
        """The same type with another shape of the same rank, or of another one where there is no group."""
        return replace(self, shape=tuple(shape))

    def with_element(self, element: str) -> TensorType:
        """An unscaled tensor of the same shape."""
        return TensorType(element, self.shape)

    def permuted(self, perm: Sequence[int]) -> TensorType:
        """The type after a permutation of the dimensions: result dimension i is operand dimension `perm[i]`."""
        if sorted(perm) != list(range(self.rank)):
            raise ValueError(f"expected a permutation of {self.rank} dimensions, but got {list(perm)}")
        return replace(self, shape=tuple(self.shape[axis] for axis in perm),
                       group=self.group and tuple(self.group[axis] for axis in perm))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def bytes(self) -> int:
        """The size of the elements, in bytes."""
        return ELEMENT_BYTES[self.element] * math.prod(self.shape)

    @property
    def scale(self) -> TensorType:
        """The type of the scales of this FP8 tensor: f32, ceil(dim / group) along each dimension."""
        if self.group is None:
            raise ValueError(f"expected a scaled tensor, but got {self}")
        return TensorType("f32", grouped_shape(self.shape, self.group))

    def __str__(self) -> str:
        encoding = ""
        if self.group is not None:
            sizes = ", ".join(str(size) if size else "all" for size in self.group)
            encoding = f", #fp8.tensor<scale = [{sizes}]{', pow2' if self.pow2 else ''}>"
        return f"tensor<{''.join(f'{dim}x' for dim in self.shape)}{self.element}{encoding}>"


def tensor(element: str, *shape: int, group: Optional[Sequence[Union[int, str]]] = None,
           pow2: bool = False) -> TensorType:
    """The type `tensor<shape x element>`. `group`, for FP8 elements, as in `#fp8.tensor<scale = ...>`: a number or
    "all" a dimension."""
    sizes = None if group is None else tuple(0 if size == "all" else size for size in group)
    return TensorType(element, tuple(shape), sizes, pow2)  # type: ignore[arg-type]


def grouped_shape(shape: Sequence[int], group: Sequence[int]) -> Tuple[int, ...]:
    """ceil(dim / group) a dimension, 1 where the group is 0: the shape of scales and maxima."""
    if len(shape) != len(group):
        raise ValueError(f"expected a group of {len(shape)} numbers, but got {list(group)}")
    return tuple(-(-dim // size) if size else 1 for dim, size in zip(shape, group))
